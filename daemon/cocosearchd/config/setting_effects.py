"""Settings that a project may have, and settings that take effect without a restart."""

# The settings that a project's file may have. All others belong to the daemon.
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
        "search.history",
    }
)
# Settings that running indexes follow without a restart.
APPLIED_WHILE_RUNNING = PROJECT_SETTINGS | {
    "indexing.index_secrets",
    "indexing.max_file_bytes",
    "indexing.queries_dir",
}
# Settings of searches that are read only at the start; the daemon follows changes of the others.
READ_AT_START = frozenset({"search.cache_bytes", "search.cache_ttl_s", "search.weights_file"})


def needs_restart(key: str) -> bool:
    """Return whether a change of a setting takes effect only after a restart of the daemon."""
    is_applied = key.startswith(("search.", "log.")) or key in APPLIED_WHILE_RUNNING
    return key in READ_AT_START or not is_applied
