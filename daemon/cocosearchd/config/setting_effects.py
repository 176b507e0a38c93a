"""The settings that a project may have, and those that count without a restart of the daemon."""

# The settings that may stand in a project's file; every other one is the daemon's.
PROJECT_SETTINGS = frozenset(
    {
        "indexing.chunker",
        "indexing.chunk_size",
        "indexing.chunk_overlap",
        "indexing.include",
        "indexing.exclude",
        "indexing.extend_include",
        "indexing.extend_exclude",
        "indexing.respect_gitignore",
        "search.profile",
        "search.engine",
        "search.limit",
        "search.reranker",
    }
)
# Settings that running indexes follow without a restart.
APPLIED_WHILE_RUNNING = PROJECT_SETTINGS | {
    "indexing.index_secrets",
    "indexing.max_file_bytes",
    "indexing.queries_dir",
}
# Settings of searches that are read only at the start of the daemon; it follows the others.
READ_AT_START = frozenset({"search.cache_bytes", "search.cache_ttl_s", "search.weights_file"})


def needs_restart(key: str) -> bool:
    """Return whether a running daemon goes on with the earlier value of a setting."""
    is_applied = key.startswith(("search.", "log.")) or key in APPLIED_WHILE_RUNNING
    return key in READ_AT_START or not is_applied
