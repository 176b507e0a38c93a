"""The port for everything except search: files, languages, settings, models, changes, unsaved text.

The rule of `protocol` holds: a new field always has a default. Standard library only.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Protocol

from cocosearch_ipc.protocol import AsOf, Empty, SearchReply, SearchResult

# Lines, or files, of one reply of `grep`, over RPC and MCP. The command line asks for full pages.
GREP_LIMIT = 100
GREP_MAX_LIMIT = 1000  # encoding more would hold the daemon's event loop
GREP_MAX_CONTEXT = 20  # lines around a match
GREP_MAX_SHOWN = (
    5000  # lines of one reply, with those around matches: a page may have fewer matches
)


@dataclass(frozen=True, slots=True)
class ListFilesRequest:
    """List indexed files below `under` that match the glob `pattern`, sorted by index and path.

    The files belong to one index, or to all indexes of a topic; both narrow each other. `under` is
    relative to the root; "" means all files. If the root has no such files, `under` is read as an
    absolute path or relative to `cwd`. A page has at most `limit` files and about `budget_tokens`
    tokens.
    """

    index: str | None = None
    cwd: str | None = None
    topic: str | None = None
    under: str = ""
    pattern: str | None = None
    limit: int = 100
    cursor: str | None = None  # the cursor of the previous page
    # None: the configured timeout; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One indexed file."""

    index: str
    path: str
    language: str
    chunks: int


@dataclass(frozen=True, slots=True)
class ListFilesReply:
    """A page of files. `cursor` continues the list; it is None on the last page.

    `as_of` is the clock of one index. If the reply is not `fresh`, it may lack files that are on
    disk, and name files that are gone.
    """

    files: tuple[FileEntry, ...]
    cursor: str | None = None
    fresh: bool = False
    stale_reason: str | None = None
    as_of: AsOf | None = None
    pending: tuple[str, ...] = ()
    stale_code: str | None = None  # a reason of docs/design/freshness.md
    total: int = 0  # files on all pages


@dataclass(frozen=True, slots=True)
class GetFileRequest:
    """Read a file of an index, or the lines `start_line` to `end_line` (1-based, inclusive).

    Without lines, the reply is the complete file as it is. `path` is relative to the root, as in
    results, or to `cwd`, or absolute. If no index is named and none contains `cwd`, the file may be
    in any index. With `budget_tokens` (at most 100,000), the reply ends after the last line that
    fits, or within the first line.
    """

    path: str
    index: str | None = None
    cwd: str | None = None
    topic: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    session: str | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class GetFileReply:
    """The content of a file: from disk if `fresh`, else as indexed, with `…` for unknown lines."""

    index: str
    path: str
    language: str
    content: str
    start_line: int
    end_line: int
    total_lines: int
    fresh: bool
    stale_reason: str | None = None
    overlay: bool = False  # content is the session's unsaved text
    stale_code: str | None = None  # a reason of docs/design/freshness.md


@dataclass(frozen=True, slots=True)
class FindRelatedRequest:
    """Find code in other files that resembles the definition at `line` (1-based) of `path`.

    `path` has the forms of `GetFileRequest.path`. The results have about `budget_tokens` tokens.
    """

    path: str
    line: int
    index: str | None = None
    cwd: str | None = None
    limit: int = 10
    session: str | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class GrepRequest:
    """Find the lines that match `pattern`, an RE2 expression, in the indexed files.

    A pattern has at most 10,000 characters and matches within one line. `under` is a file or
    directory: relative to the root, else to `cwd`, or absolute. Indexes are chosen as for `search`.
    `mode` is lines, counts or files. At most `limit` lines (or files) are returned, and about
    `budget_tokens` tokens, and with their `context` at most 5,000 lines; `cursor` continues an
    earlier reply.
    """

    pattern: str
    index: str | None = None
    indexes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    all_indexes: bool = False
    cwd: str | None = None
    under: str = ""
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()
    fixed: bool = False  # the pattern is plain text, not an expression
    ignore_case: bool = False
    whole_words: bool = False
    mode: str = "lines"
    context: int = 0  # lines around each match
    limit: int = GREP_LIMIT  # at most `GREP_MAX_LIMIT`
    budget_tokens: int | None = None
    cursor: str | None = None
    # None: the configured timeout; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None
    session: str | None = None  # its unsaved text is searched instead of the content on disk


@dataclass(frozen=True, slots=True)
class GrepLine:
    """A matching line. Its number, and the column of the match in characters, are from 1.

    `symbol_name` is the innermost definition around it. A line of more than 400 characters is cut
    around the match. The lines before and after it match nothing.
    """

    line: int
    column: int
    text: str
    symbol_type: str | None = None
    symbol_name: str | None = None
    lines_before: tuple[str, ...] = ()
    lines_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GrepFile:
    """A file with `count` matching lines. In mode files, counting ends at the first match."""

    index: str
    path: str
    language: str
    count: int
    lines: tuple[GrepLine, ...] = ()
    # the file has changed since it was indexed: this is the content now, and its symbols are unknown
    changed: bool = False
    overlay: bool = False  # this is the session's unsaved text


@dataclass(frozen=True, slots=True)
class GrepReply:
    """Matches by index and path, with the counts of all matches from `cursor` on.

    `searched_files` counts the files in scope. `complete` is False if some of them could not be
    searched; `notes` say why. `cursor` continues the reply; it is None at the end. `roots` has the
    root directory of each index, by name.
    """

    files: tuple[GrepFile, ...]
    total_lines: int  # in mode files: the number of files
    total_files: int
    searched_files: int
    complete: bool
    fresh: bool
    stale_reason: str | None
    as_of: AsOf | None
    indexes: tuple[str, ...]
    cursor: str | None = None
    pending: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)
    stale_code: str | None = None  # a reason of docs/design/freshness.md
    roots: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LanguageEntry:
    """A language: how its files are recognised, and whether symbols and context are extracted.

    Files of a dialect (`kind_of` is not empty) are recognised by path and content. A filter by a
    language includes its dialects.
    """

    name: str
    extensions: tuple[str, ...]
    chunking: str  # tree-sitter, handler, grammar, text
    symbols: bool
    context: bool
    file_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    kind_of: tuple[str, ...] = ()  # the languages that include it


@dataclass(frozen=True, slots=True)
class LanguagesReply:
    """All supported languages and their dialects, sorted by name."""

    languages: tuple[LanguageEntry, ...]


@dataclass(frozen=True, slots=True)
class LocateRequest:
    """Absolute directories, the most relevant first."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LocateReply:
    """The index whose root contains `path`, the first directory that is in any index.

    All fields are None if no index contains any of the directories.
    """

    index: str | None = None
    root: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """Subscribe to the changes of one index, or of all indexes if none is named.

    With `lifecycle`, events other than commits are sent too.

    With `query`, an event has only new results of this query in changed files. Filters are written
    inside the query; `limit` is the number of results that are compared. Results that exist at the
    start are not new.

    `since` is a clock from an answer or an event. With it, the changes after this clock are sent
    first, for the index that is named or contains `cwd`, else for every index. An index may not know
    the clock: the clock is too old, or of another index, or of another run of the daemon. Then the
    daemon sends an event `missed`, and the client must check everything. It sends this event also
    for an index that was deleted and created again.
    """

    index: str | None = None
    lifecycle: bool = False
    query: str | None = None
    limit: int | None = None
    # None: a default that keeps unrelated results from matching
    min_evidence: float | None = None
    min_score: float | None = None  # the earlier name of `min_evidence`
    all_chunks: bool = False
    since: AsOf | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A committed batch of an index. With `lifecycle`, also an added, removed or changed index.

    A change of state is sent within a second. The stream ends for a client that reads too slowly;
    the client can subscribe again.
    """

    index: str
    as_of: AsOf
    generation: int
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    state: str = ""
    kind: str = "commit"  # commit, added, removed, state, matches, missed
    matches: tuple[SearchResult, ...] = ()  # new results of a saved query


@dataclass(frozen=True, slots=True)
class OverlaySession:
    """The name of a session, for other calls. The name is secret: it gives access to the text."""

    session: str


@dataclass(frozen=True, slots=True)
class OverlayPutRequest:
    """The unsaved `text` of a file. `path` is absolute, or relative to the root as in results."""

    session: str
    path: str
    text: str
    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class OverlayClearRequest:
    """Forget the unsaved text of one file, or of the whole session if no path is given."""

    session: str
    path: str | None = None
    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class OverlayReply:
    """The size of a session.

    `index`, `path` and `chunks` belong to the file of the request, if any.
    """

    files: int
    bytes: int
    index: str | None = None
    path: str | None = None
    chunks: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """Select the settings of an index.

    If no index is named and none contains `cwd`, the settings of the daemon are selected.
    """

    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting: its value, its layer, and its place (file and line, variable or option)."""

    key: str
    value: Any
    layer: str  # default, config file, project, .env, environment, command line
    place: str = ""


@dataclass(frozen=True, slots=True)
class ConfigReply:
    """All settings, without passwords. `notes` warns about ignored parts of files."""

    values: tuple[ConfigValue, ...]
    index: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """An available model, or a provider without models. `detail` is the address or the fix."""

    provider: str
    model: str
    state: str  # in use, available, unreachable, not installed, not configured
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The model that built an index. `following` is the model of a replacement in progress."""

    index: str
    provider: str
    model: str
    dimension: int
    fingerprint: str  # SHA-256 of everything that changes a vector
    configured: bool  # the model is the embedder of the settings
    following: str | None = None


@dataclass(frozen=True, slots=True)
class ModelsReply:
    """Available models. `configured` describes the embedder of the settings.

    Its keys are provider, model, dimension, digest and state.
    """

    configured: dict[str, Any]
    models: tuple[ModelEntry, ...]
    indexes: tuple[ModelUse, ...] = ()


class WorkspaceEngine(Protocol):
    """Further methods of the daemon. Front ends offer the methods in `methods.METHODS`."""

    async def list_files(self, request: ListFilesRequest) -> ListFilesReply:
        """Return a page of indexed files."""

    async def get_file(self, request: GetFileRequest) -> GetFileReply:
        """Return a file, or some of its lines. Refuse paths outside the root or the scope."""

    async def find_related(self, request: FindRelatedRequest) -> SearchReply:
        """Return code similar to the definition at a line."""

    async def grep(self, request: GrepRequest) -> GrepReply:
        """Return the lines that match a pattern, read from disk for this answer."""

    async def config(self, request: ConfigRequest) -> ConfigReply:
        """Return all settings in effect, each with its source."""

    async def languages(self, request: Empty) -> LanguagesReply:
        """Return the supported languages."""

    async def models(self, request: Empty) -> ModelsReply:
        """Return the available embedding models and each index's model. Queries the servers."""

    async def locate(self, request: LocateRequest) -> LocateReply:
        """Return the index that contains one of the directories, without waiting."""

    def watch(self, request: WatchRequest) -> AsyncGenerator[WatchEvent, None]:
        """Yield committed batches until the client disconnects."""

    def overlay_open(self, request: Empty) -> AsyncGenerator[OverlaySession, None]:
        """Open a session for unsaved text; the first value names it.

        The session and all its text end with this call, so stream the call. Only calls that name
        the session treat the text as if it were saved.
        """

    async def overlay_put(self, request: OverlayPutRequest) -> OverlayReply:
        """Store the unsaved text of a file. The text is searchable when the call returns.

        A session holds at most 200 files and 32 MiB. If a rule excludes the saved file from the
        index, the text is refused with this rule, and the previous text stays.
        """

    async def overlay_clear(self, request: OverlayClearRequest) -> OverlayReply:
        """Search the content on disk again. Call this when the file is saved or closed."""
