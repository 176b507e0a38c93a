"""The port between front ends and daemon: requests, replies and `Engine`.

JSON-RPC and MCP call the same methods of `Engine`; the daemon implements it. A new field always has
a default, so that clients and daemons of different versions understand each other. Standard library
only.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

PROTOCOL_VERSION = 1
MAX_LINE_BYTES = 4 << 20  # limit of one MCP message through the stdio bridge


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search: the query, its scope and its filters.

    Without words, a filter on symbols lists each symbol once, with its own lines and signature. With
    a name filter, symbols with exactly this name come first; otherwise the order is by path.

    If neither an index, a topic nor `all_indexes` is given, `cwd` selects the index with the nearest
    root around it. Names of indexes, topics, and `index:` and `topic:` inside the query narrow each
    other; `all_indexes` has an effect only without them. A query has at most 200,000 characters and
    200 filters (languages, paths, symbol types and names, phrases) of at most 4,096 characters each;
    larger queries are refused.

    A query of several lines, or of at least 300 characters, is treated as a report: a bug report, a
    log, a stack trace. In a long query of several lines, only the first line may be filters, if it
    has nothing else; in one of a single line, filters are at its ends. Quotation marks in a report
    make no phrases. With `budget_tokens`, and if the request asks for no lines around results, the
    answer to a report has much code of the first files, including their other places. The rest has
    only locations: `content` is "". All searched indexes share one budget.
    """

    query: str
    index: str | None = None
    indexes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    all_indexes: bool = False
    cwd: str | None = None  # absolute
    limit: int | None = None  # None: the configured limit
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()
    symbol_types: tuple[str, ...] = ()
    symbol_name: str | None = None
    profile: str | None = None  # None: the configured profile
    use_hybrid: bool | None = None
    reranker: str | None = None
    min_score: float = 0.0  # the earlier name of `min_relevance`
    all_chunks: bool = False
    lines_before: int | None = None  # None: smart context (the enclosing definition)
    lines_after: int | None = None
    smart_context: bool = True
    budget_chars: int | None = None
    # None: the configured timeout; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None
    use_cache: bool = True
    explain: bool = False
    why_not: str | None = (
        None  # a path relative to the root, as in results, or to `cwd`, or absolute
    )
    linked: bool = True  # a query of one index also searches the indexes it links to
    # estimated, for a language model; includes one line of location per result
    budget_tokens: int | None = None
    # 0 to 1: the minimum probability that a result answers the query
    min_relevance: float = 0.0
    # 0 to 1: 1 for a chunk with every word of the query, otherwise its cosine similarity
    min_evidence: float = 0.0
    collapse: bool = True  # show only one of several similar files
    # from overlay.open: its unsaved text is searched instead of the content on disk
    session: str | None = None
    cursor: str | None = None  # of the previous page of a list of symbols


@dataclass(frozen=True, slots=True)
class AsOf:
    """The clock of an answer. Compare `seq` only within one `epoch`."""

    epoch: str
    seq: int


@dataclass(frozen=True, slots=True)
class Place:
    """Another matching place of a result's file, as indexed.

    `line` is the line to open, and `text` is that line. `similar_lines` are the first lines of
    nearly equal places that are not listed. `content` has all lines of the place in an answer to a
    report within `budget_tokens`; else it is "".
    """

    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None
    relevance: float
    line: int
    text: str
    similar_lines: tuple[int, ...] = ()
    content: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result: the best place of a file. Lines are 1-based and inclusive, bytes half-open.

    `path` is relative to the root. `relevance`, 0 to 1, is the estimated probability that the place
    answers the query; the scale is the same for all indexes and profiles. `line` is the line to
    open. `also` are the other matching places of the file, best first.
    """

    index: str
    path: str
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    language: str
    score: float
    match_type: Literal["semantic", "keyword", "both"]
    block_type: str
    hierarchy: str
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None
    content: str
    context_before: str
    context_after: str
    # the file has changed since it was indexed: content is the indexed text, not that on disk
    stale: bool = False
    overlay: bool = False  # content is the session's unsaved text
    relevance: float = 0.0
    line: int = 0
    also: tuple[Place, ...] = ()
    # similar files that are not listed themselves: translations, copies, versions; at most 20
    similar_paths: tuple[str, ...] = ()
    similar: int = 0  # the number of these files
    # first lines of nearly equal places of this file that are not listed themselves
    similar_lines: tuple[int, ...] = ()
    symbol_parent: str | None = None  # of a listed symbol: the definition around it
    # Files that belong to this file: the source of a header, the header of a source, the
    # implementation of an interface; if the query asks for tests, also the tests of the file.
    counterparts: tuple[str, ...] = ()
    # Lines of this file that frames of a stack trace in the query name, innermost first, at most
    # five: by path and line, or by function. The line may be that of the function, if the trace is of another version.
    frame_lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchReply:
    """An answer and its freshness. Either `index` or `indexes` is set.

    If the answer is not fresh, `stale_code` is the reason (docs/design/freshness.md lists all).
    """

    query: str
    results: tuple[SearchResult, ...]
    fresh: bool
    stale_reason: str | None
    as_of: AsOf | None
    cache: Literal["miss", "exact", "semantic"]
    timings_ms: dict[str, float]
    index: str | None = None
    indexes: tuple[str, ...] | None = None
    pending: tuple[str, ...] = ()
    # warnings for people: a retriever that is down, an unknown filter value
    notes: tuple[str, ...] = ()
    explain: dict[str, Any] | None = None
    weak: bool = False  # no result is likely to answer the query
    listing: bool = False  # a list of symbols: the content of a result is its signature
    cursor: str | None = None  # continues a list of symbols; None at its end
    stale_code: str | None = None  # a reason of docs/design/freshness.md
    omitted: int = 0  # results that did not fit into the budget


@dataclass(frozen=True, slots=True)
class IndexCodebaseRequest:
    """Watch and index the absolute `path`. Idempotent: a repeated call changes nothing.

    Without `follow_links`, a path through a symbolic link is refused.
    """

    path: str
    name: str | None = None
    topics: tuple[str, ...] = ()
    follow_links: bool = True


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Select one index. None means the index that contains `cwd`, else the only index."""

    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """Select one index as `IndexRequest` does.

    `include_failures` lists unparsed and skipped files, at most 200 of them.
    """

    index: str | None = None
    cwd: str | None = None
    include_failures: bool = False
    # None: the configured timeout; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Wait until all earlier changes are searchable.

    If no index is named or contains `cwd`, wait for all indexes.
    """

    index: str | None = None
    cwd: str | None = None
    timeout_ms: int = 30_000


# The state of the root of an index; "refused": the index was not started.
IndexState = Literal[
    "cold",
    "scanning",
    "indexing",
    "live",
    "git_batch",
    "lost",
    "root_missing",
    "degraded",
    "failed",
    "refused",
]
# An index in one of these states changes only from outside.
STATES_AT_REST = frozenset[IndexState]({"live", "degraded", "root_missing", "failed", "refused"})
SCANNED_STATES = frozenset[IndexState]({"live", "degraded"})  # the files are known
UNSCANNED_STATES = frozenset[IndexState]({"cold", "scanning"})
# In these states, a person must act. The value is the severity.
TROUBLED_STATES: Mapping[IndexState, Literal["warn", "fail"]] = {
    "failed": "fail",
    "root_missing": "fail",
    "lost": "fail",
    "degraded": "warn",
}


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The progress of an index. `total` is None until the first scan has ended.

    `done` and `total` count all files in scope; `skipped` counts those of them without searchable
    content.
    """

    index: str
    state: IndexState
    done: int
    total: int | None
    chunks: int
    failed: int
    reason: str | None = None
    skipped: int = 0
    notes: tuple[str, ...] = ()  # warnings for people: why nothing is searchable


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that is not indexed yet. `retry_in_s` is None if it is retried only after a change."""

    path: str
    error: str
    tries: int
    retry_in_s: float | None


@dataclass(frozen=True, slots=True)
class ExcludedFile:
    """A file in scope that is not searched, or only as plain text.

    `reason` is a code; `sentence` names the path, the cause and the fix for people.
    """

    path: str
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The status of one index, as in `list` and `status`.

    `files` counts searchable files; `skipped` files are counted separately.
    """

    name: str
    root: str
    topics: tuple[str, ...]
    state: IndexState
    files: int
    chunks: int
    pending: int
    generation: int
    as_of: AsOf | None
    reason: str | None = None
    failed: tuple[FailedFile, ...] = ()  # at most 200, the earliest failures first
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> number of skipped files
    watcher: str = ""  # the watching backend, and why no better one is used
    # unreadable directories (with a `/`) and files, at most 20
    unreadable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # warnings for people about settings and rows
    linked: tuple[str, ...] = ()  # indexes that a query of this index also searches
    failed_count: int = 0
    # examples of `skipped`, at most 20; files with a fault first
    excluded: tuple[ExcludedFile, ...] = ()
    # Examples of `files` that crashed or stalled their parser, at most 20: they are searched as
    # plain text.
    unparsed: tuple[ExcludedFile, ...] = ()
    # Files with uses from a SCIP index, and how many of them have changed since. See `scip`.
    precise_files: int = 0
    changed_precise_files: int = 0
    # The schema and the host of the daemon that owns a followed index; "" for an own index. The
    # `root` of a followed index begins with the host and a colon.
    schema: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class IndexCodebaseReply:
    """The index of a root. `created` is False if the root already had an index."""

    index: str
    root: str
    created: bool
    progress: IndexProgress
    notes: tuple[str, ...] = ()  # warnings about its settings


@dataclass(frozen=True, slots=True)
class IndexesReply:
    """All indexes, sorted by name."""

    indexes: tuple[IndexStatus, ...]


@dataclass(frozen=True, slots=True)
class StatsReply:
    """The counts of one index. Sizes are bytes."""

    index: str
    root: str
    files: int
    chunks: int
    symbols: int
    size_bytes: int
    languages: dict[str, dict[str, int]]  # language -> {files, chunks}
    parse_health: dict[str, dict[str, int]]  # language -> {ok, partial, error, no_grammar}
    skipped: dict[str, int]
    last_change: str | None  # ISO 8601, UTC
    embedder: dict[str, str]
    generation: int
    failures: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()  # warnings for people about settings and rows
    fresh: bool = False
    stale_reason: str | None = None
    as_of: AsOf | None = None
    pending: tuple[str, ...] = ()
    stale_code: str | None = None  # a reason of docs/design/freshness.md
    failure_count: int = 0  # all unparsed and skipped files, listed or not


@dataclass(frozen=True, slots=True)
class StatusReply:
    """The status of the daemon. Sizes are bytes."""

    version: str
    protocol: int
    pid: int
    uptime_s: float
    # url, sse_url, page_url; empty if the listener is off; `error` if its port is taken
    mcp: dict[str, str]
    store: dict[str, Any]
    embedder: dict[str, Any]
    worker: dict[str, Any]
    cache: dict[str, int]
    rss_bytes: dict[str, int]  # daemon, worker, analysis, postgres, total
    indexes: tuple[IndexStatus, ...]
    warnings: tuple[str, ...] = ()
    # count of all queries; p50_ms, p95_ms and recent_ms of the latest queries
    queries: dict[str, Any] = field(default_factory=dict)
    # seconds used by the same parts as in `rss_bytes`, with ended processes
    cpu_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClearReply:
    """The counts of a deleted index. The root's files are untouched."""

    index: str
    files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class SyncReply:
    """The result of `sync`: `fresh` if the index equalled the disk when the request arrived.

    For several indexes, `indexes` names all of them, and `index` names one that is not fresh, if
    any. Some indexes cannot be searched, regardless of the timeout; `refused` maps each of them to
    the reason and the fix.
    """

    index: str
    fresh: bool
    as_of: AsOf
    reason: str | None = None
    pending: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    stale_code: str | None = None  # a reason of docs/design/freshness.md


@dataclass(frozen=True, slots=True)
class ShutdownReply:
    """Confirms that the daemon has begun to stop."""

    pid: int


@dataclass(frozen=True, slots=True)
class Empty:
    """A request without parameters."""


class Engine(Protocol):
    """The methods of the daemon. Each raises `Failure` with a hint; none blocks the event loop."""

    async def search(self, request: SearchRequest) -> SearchReply:
        """Return ranked chunks with their freshness."""

    async def index_codebase(self, request: IndexCodebaseRequest) -> IndexCodebaseReply:
        """Add a root. Return at once; indexing continues."""

    def report_progress(self, request: IndexRequest) -> AsyncGenerator[IndexProgress, None]:
        """Yield the progress of one index a few times per second.

        The stream ends when the index is searchable and nothing is pending.
        """

    async def list_indexes(self, request: Empty) -> IndexesReply:
        """Return all indexes."""

    async def index_stats(self, request: StatsRequest) -> StatsReply:
        """Return counts, languages and parse health of one index."""

    async def clear_index(self, request: IndexRequest) -> ClearReply:
        """Delete an index and stop watching its root."""

    async def reindex(self, request: IndexRequest) -> IndexProgress:
        """Index every file of a root again with the current embedder and settings."""

    async def sync(self, request: SyncRequest) -> SyncReply:
        """Wait for pending changes."""

    async def status(self, request: Empty) -> StatusReply:
        """Return the status of the daemon."""

    async def shutdown(self, request: Empty) -> ShutdownReply:
        """Begin a clean stop. Return before the daemon has stopped."""
