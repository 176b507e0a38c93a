"""The port between front ends and daemon: requests, replies, errors and `Engine`. Standard library
only.

JSON-RPC and MCP call the same methods of `Engine`; the daemon implements it. A new field always has
a default, so that an older client and a newer daemon (and the other way round) understand each
other.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

PROTOCOL_VERSION = 1
MAX_LINE_BYTES = 4 << 20  # of one message of MCP through the stdio bridge

# Error codes. -32768..-32000 are JSON-RPC's own; ours are stable and documented.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNAVAILABLE = -32001
NOT_FOUND = -32002
CONFLICT = -32003
REFUSED = -32004
MISMATCH = -32005
TIMED_OUT = -32006


class Failure(Exception):
    """An error a person can act on: one sentence, what to do next, and a stable code."""

    code = INTERNAL_ERROR

    def __init__(self, message: str, hint: str = "", *, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What to find and where. With no index, topic or `all_indexes` named, `cwd` decides (nearest
    root wins).

    A question has at most 10,000 characters, and 200 filters (languages, paths, symbol types and
    names, phrases) of at most 4,096 characters: what is larger is refused.
    """

    query: str
    index: str | None = None
    indexes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    all_indexes: bool = False
    cwd: str | None = None  # absolute
    limit: int | None = None  # None: the configured one
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()
    symbol_types: tuple[str, ...] = ()
    symbol_name: str | None = None
    profile: str | None = None  # None: the configured one
    use_hybrid: bool | None = None
    reranker: str | None = None
    min_score: float = 0.0
    all_chunks: bool = False
    lines_before: int | None = None  # None: smart context (the enclosing definition)
    lines_after: int | None = None
    smart_context: bool = True
    budget_chars: int | None = None
    # None: the configured one; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None
    use_cache: bool = True
    explain: bool = False
    why_not: str | None = None  # a path as a hit would have it, or absolute, or as seen from `cwd`
    linked: bool = True  # a question to one index is put to those that it links as well
    # as estimated, for a language model; with a line for each result that says where
    budget_tokens: int | None = None
    # of overlay.open: its unsaved text is searched in place of what is on disk
    session: str | None = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """The clock an answer is from. Compare `seq` within one `epoch` only."""

    epoch: str
    seq: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One hit. `path` is relative to the root; lines are 1-based and inclusive; bytes are
    half-open.
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
    # the file has changed since: content is what was indexed, not what is on disk
    stale: bool = False
    overlay: bool = False  # content is the session's unsaved text


@dataclass(frozen=True, slots=True)
class SearchReply:
    """An answer and how far it can be trusted. One of `index` and `indexes` is set."""

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
    # what a person should know: a leg that is down, an unknown filter value
    notes: tuple[str, ...] = ()
    explain: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class IndexCodebaseRequest:
    """Watch `path` (absolute) and index it. Idempotent: the same path again changes nothing."""

    path: str
    name: str | None = None
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Names one index; None means the one that `cwd` lies in, else the only one."""

    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """As `IndexRequest`, and whether to list the files that did not parse or were skipped."""

    index: str | None = None
    cwd: str | None = None
    include_failures: bool = False
    # None: the configured one; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Wait until every change made before now is searchable: in one index, or in all with none
    named or around.
    """

    index: str | None = None
    cwd: str | None = None
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """A moment of an index's work. `total` is None until the first scan has ended.

    `done` and `total` count all files in scope, `skipped` those of them that hold nothing to be
    searched.
    """

    index: str
    state: str  # cold, scanning, indexing, live, lost, root_missing, degraded, failed, refused
    done: int
    total: int | None
    chunks: int
    failed: int
    reason: str | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that could not be indexed yet. `retry_in_s` is None when it waits for a change."""

    path: str
    error: str
    tries: int
    retry_in_s: float | None


@dataclass(frozen=True, slots=True)
class ExcludedFile:
    """A file in scope that is not searched, or as plain text only.

    `reason` is a code; `sentence` names path, cause and remedy for people.
    """

    path: str
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """One index, as `list` and `status` show it. `files` can be searched; those that are skipped
    are counted apart.
    """

    name: str
    root: str
    topics: tuple[str, ...]
    state: str
    files: int
    chunks: int
    pending: int
    generation: int
    as_of: AsOf | None
    reason: str | None = None
    failed: tuple[FailedFile, ...] = ()  # at most 200, those that failed first
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> files that are not searched
    watcher: str = ""  # which hints backend, and why not a better one
    # directories (with a `/`) and files that may not be read, at most 20
    unreadable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what a person should know of its settings and rows
    linked: tuple[str, ...] = ()  # indexes that a question to this one is put to as well
    failed_count: int = 0
    # some of `skipped`, at most 20; those of a fault in the file first
    excluded: tuple[ExcludedFile, ...] = ()
    # Some of `files` that ended or stalled their parser, at most 20: they are searched as plain
    # text.
    unparsed: tuple[ExcludedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexCodebaseReply:
    """`created` is False when the root was already an index."""

    index: str
    root: str
    created: bool
    progress: IndexProgress
    notes: tuple[str, ...] = ()  # of its settings


@dataclass(frozen=True, slots=True)
class IndexesReply:
    """All indexes, by name."""

    indexes: tuple[IndexStatus, ...]


@dataclass(frozen=True, slots=True)
class StatsReply:
    """Counts of one index. Sizes are bytes."""

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
    notes: tuple[str, ...] = ()  # what a person should know of its settings and rows
    fresh: bool = False
    stale_reason: str | None = None
    as_of: AsOf | None = None
    pending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusReply:
    """The daemon as a whole. Sizes are bytes."""

    version: str
    protocol: int
    pid: int
    uptime_s: float
    # url, sse_url, page_url; nothing where it is off; `error` where its port is taken
    mcp: dict[str, str]
    store: dict[str, Any]
    embedder: dict[str, Any]
    worker: dict[str, Any]
    cache: dict[str, int]
    rss_bytes: dict[str, int]  # daemon, worker, analysis, postgres, total
    indexes: tuple[IndexStatus, ...]
    warnings: tuple[str, ...] = ()
    # count; of the last ones p50_ms, p95_ms, recent_ms
    queries: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClearReply:
    """What is gone. The root's files are untouched."""

    index: str
    files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class SyncReply:
    """Whether the index is known to equal the disk as it was when the request came.

    Of several, `index` is one that is not fresh, if there is one; `indexes` are all of them.
    `refused` are those that cannot be searched as they are, however long one waits, each with why
    and what would help.
    """

    index: str
    fresh: bool
    as_of: AsOf
    reason: str | None = None
    pending: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShutdownReply:
    """The daemon has begun to stop."""

    pid: int


@dataclass(frozen=True, slots=True)
class Empty:
    """A request without parameters."""


class Engine(Protocol):
    """The daemon's verbs. Each raises `Failure` with a hint; none blocks the event loop."""

    async def search(self, request: SearchRequest) -> SearchReply:
        """Ranked chunks, with freshness."""

    async def index_codebase(self, request: IndexCodebaseRequest) -> IndexCodebaseReply:
        """Add a root; returns at once, the work goes on."""

    def follow(self, request: IndexRequest) -> AsyncGenerator[IndexProgress, None]:
        """Progress of one index, a few times a second, ending when it is searchable and nothing is
        pending.
        """

    async def list_indexes(self, request: Empty) -> IndexesReply:
        """All indexes."""

    async def index_stats(self, request: StatsRequest) -> StatsReply:
        """Counts, languages, parse health."""

    async def clear_index(self, request: IndexRequest) -> ClearReply:
        """Forget an index and its root."""

    async def reindex(self, request: IndexRequest) -> IndexProgress:
        """Index every file of a root again, with the embedder and settings of now."""

    async def sync(self, request: SyncRequest) -> SyncReply:
        """Wait for pending changes."""

    async def status(self, request: Empty) -> StatusReply:
        """The daemon."""

    async def shutdown(self, request: Empty) -> ShutdownReply:
        """Stop cleanly; returns before the stop."""
