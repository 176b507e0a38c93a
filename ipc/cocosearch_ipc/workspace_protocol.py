"""The port beside search: files, languages, changes as they come. Standard library only.

The same rules as in `protocol`: a new field always has a default.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

from cocosearch_ipc.protocol import AsOf, Empty, SearchReply, SearchResult


@dataclass(frozen=True, slots=True)
class ListFilesRequest:
    """Indexed files below `under` (relative to the root, "" is all) that match `pattern` (a glob),
    by index and path.

    Of one index, or of all of a topic. Where there are none, `under` may be absolute, or as seen
    from `cwd`.
    """

    index: str | None = None
    cwd: str | None = None
    topic: str | None = None
    under: str = ""
    pattern: str | None = None
    limit: int = 100
    cursor: str | None = None  # that of the page before
    # None: the configured one; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One indexed file."""

    index: str
    path: str
    language: str
    chunks: int


@dataclass(frozen=True, slots=True)
class ListFilesReply:
    """A page of files; `cursor` continues the list, None at its end. `as_of` is that of one index.

    Where it is not `fresh`, files may be missing that are on disk, and others be named that are
    gone.
    """

    files: tuple[FileEntry, ...]
    cursor: str | None = None
    fresh: bool = False
    stale_reason: str | None = None
    as_of: AsOf | None = None
    pending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GetFileRequest:
    """A file of an index. Lines are 1-based and inclusive; with neither first nor last, all of it
    as it is.

    `path` is what a hit has, or absolute, or as seen from `cwd`. With no index named or around
    `cwd`, it may be in any.
    """

    path: str
    index: str | None = None
    cwd: str | None = None
    topic: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class GetFileReply:
    """What is on disk, when `fresh`; else what was indexed, with a line `…` where nothing is
    known.
    """

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


@dataclass(frozen=True, slots=True)
class FindRelatedRequest:
    """Code in other files that resembles the definition at `path` (as for a file), line `line`
    (1-based).
    """

    path: str
    line: int
    index: str | None = None
    cwd: str | None = None
    limit: int = 10
    session: str | None = None


@dataclass(frozen=True, slots=True)
class LanguageEntry:
    """What is known about a language: how it is recognised, and whether symbols and context are
    taken from it.
    """

    name: str
    extensions: tuple[str, ...]
    chunking: str  # tree-sitter, handler, plain
    symbols: bool
    context: bool
    file_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LanguagesReply:
    """Every supported language, by name."""

    languages: tuple[LanguageEntry, ...]


@dataclass(frozen=True, slots=True)
class LocateRequest:
    """Absolute directories, the one most meant first."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LocateReply:
    """The index whose root holds `path`, the first of the directories that is held by any; else all
    empty.
    """

    index: str | None = None
    root: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """Changes of one index, or of all with no index named. `lifecycle` asks for more than commits.

    `query`: only what this question would show in the files that changed, and has not shown before.
    Filters stand in the question; `limit` is how many results it is compared by. What is there at
    the start counts as shown.

    `since`: first what has changed after a clock that an answer or an event had, in the index that
    is named, or is around `cwd`; with neither in each. An index that knows nothing of that clock
    (too old, of another index or another run of the daemon) gives an event `missed`: then look at
    everything. So does one that was cleared and made again.
    """

    index: str | None = None
    lifecycle: bool = False
    query: str | None = None
    limit: int | None = None
    # None: so that what has nothing to do with the question is no match
    min_score: float | None = None
    all_chunks: bool = False
    since: AsOf | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A committed batch of an index. The stream ends for a client that does not keep up: subscribe
    again.

    With `lifecycle` also an index that was added or removed, or whose state has changed, within a
    second of it.
    """

    index: str
    as_of: AsOf
    generation: int
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    state: str = ""
    kind: str = "commit"  # commit, added, removed, state, matches, missed
    matches: tuple[SearchResult, ...] = ()  # of a saved query


@dataclass(frozen=True, slots=True)
class OverlaySession:
    """Names a session in other calls. It is a secret: who knows it sees the unsaved text."""

    session: str


@dataclass(frozen=True, slots=True)
class OverlayPutRequest:
    """The unsaved `text` of a file: an absolute path, or one relative to the root as results have
    it.
    """

    session: str
    path: str
    text: str
    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class OverlayClearRequest:
    """Forget the unsaved text of a file, or, without a path, all of the session."""

    session: str
    path: str | None = None
    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class OverlayReply:
    """What the session holds now; `index`, `path` and `chunks` are those of the file, if one was
    named.
    """

    files: int
    bytes: int
    index: str | None = None
    path: str | None = None
    chunks: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """The settings that hold for an index, or without one around `cwd` and none named, those of the
    daemon.
    """

    index: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting: its value, the layer that it comes from, and the file and line, variable or option
    there.
    """

    key: str
    value: Any
    layer: str  # default, config file, project, .env, environment, command line
    place: str = ""


@dataclass(frozen=True, slots=True)
class ConfigReply:
    """Every setting. Passwords are left out. `notes` are about files that are not followed as they
    are.
    """

    values: tuple[ConfigValue, ...]
    index: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that could make vectors, or a provider that has none. `detail`: where it is, or what
    to do.
    """

    provider: str
    model: str
    state: str  # in use, available, unreachable, not installed, not configured
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What an index was made by; `following` is the model that it is being made anew with."""

    index: str
    provider: str
    model: str
    dimension: int
    fingerprint: str  # SHA-256 of all that changes a vector
    configured: bool  # whether that is the embedder of the settings
    following: str | None = None


@dataclass(frozen=True, slots=True)
class ModelsReply:
    """`configured` is the embedder of the settings: provider, model, dimension, digest and whether
    it is up.
    """

    configured: dict[str, Any]
    models: tuple[ModelEntry, ...]
    indexes: tuple[ModelUse, ...] = ()


class WorkspaceEngine(Protocol):
    """What an engine may have beside `Engine`. Front ends offer the verbs that `methods.METHODS`
    has a row for.
    """

    async def list_files(self, request: ListFilesRequest) -> ListFilesReply:
        """Indexed files, page by page."""

    async def get_file(self, request: GetFileRequest) -> GetFileReply:
        """A file or some of its lines. Refuses paths outside of the root and what the scope leaves
        out.
        """

    async def find_related(self, request: FindRelatedRequest) -> SearchReply:
        """Code like the definition at a line."""

    async def config(self, request: ConfigRequest) -> ConfigReply:
        """The settings that hold, each with where it comes from."""

    async def languages(self, request: Empty) -> LanguagesReply:
        """What is supported."""

    async def models(self, request: Empty) -> ModelsReply:
        """Which embedding models could be used, and the one of each index. Asks the servers."""

    async def locate(self, request: LocateRequest) -> LocateReply:
        """Which index some directories are in, without waiting for anything."""

    def watch(self, request: WatchRequest) -> AsyncGenerator[WatchEvent, None]:
        """Committed batches, as they come, until the client goes."""

    def overlay_open(self, request: Empty) -> AsyncGenerator[OverlaySession, None]:
        """A session for unsaved text, named in the first value. It ends, with all its text, with
        this call: stream it.

        Other calls that name the session are answered as if the text were saved; no other client
        is.
        """

    async def overlay_put(self, request: OverlayPutRequest) -> OverlayReply:
        """Hold the unsaved text of a file. It is searchable when this returns. At most 200 files,
        32 MiB in all.

        Refused, with the rule, for what would not be indexed if it were saved; what was held of the
        file before stays.
        """

    async def overlay_clear(self, request: OverlayClearRequest) -> OverlayReply:
        """What is on disk counts again. To be called when the file is saved or closed."""
