"""The port of the code graph: definitions, uses, callers and callees of symbols.

The rule of `protocol` holds: a new field always has a default. Standard library only.
"""

from dataclasses import dataclass, field
from typing import Protocol

from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearch_ipc.protocol import AsOf

GRAPH_LIMIT = 100  # default number of entries of a reply
GRAPH_MAX_LIMIT = 1000  # encoding more would hold the daemon's event loop
MAX_DEPTH = 1000


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """The parameters that questions about the code graph share.

    `target` is a name (`retry`, `Client.retry`, `net.client.Client.retry`; underscores before a
    name may be left out), a location (`path:line` or `path:line:column`, from 1), or a path. A path is
    relative to the root, as in results, or to `cwd`, or absolute. The request uses one index: the
    named index, else the index that contains `cwd` or the path, else the only index. `languages`,
    `paths` and `not_paths` restrict the files of the answer. A reply has at most `limit` entries and
    about `budget_tokens` tokens; `cursor` continues an earlier reply.
    """

    target: str = ""
    index: str | None = None
    cwd: str | None = None
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()
    min_confidence: Confidence = "possible"  # uses of less confidence are left out
    limit: int = GRAPH_LIMIT  # at most `GRAPH_MAX_LIMIT`
    cursor: str | None = None
    budget_tokens: int | None = None
    # None: the configured timeout; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None
    session: str | None = None  # its unsaved text counts instead of the content on disk


@dataclass(frozen=True, slots=True)
class GraphReply:
    """The fields that answers about the code graph share.

    `complete` is False if the time limit, or a limit that is not in the request, cut the answer;
    `notes` say what is missing. `cursor` continues the reply; it is None at the end.
    """

    index: str
    fresh: bool
    stale_reason: str | None
    as_of: AsOf | None
    complete: bool = True
    cursor: str | None = None
    notes: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)
    stale_code: str | None = None  # a reason of docs/design/freshness.md


@dataclass(frozen=True, slots=True)
class GraphSymbol:
    """A definition, or a file as a whole: kind "file", with its path as name.

    `name` is the qualified name. Lines are from 1, inclusive; 0 for a file.
    """

    path: str
    language: str
    kind: str
    name: str
    start_line: int
    end_line: int
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A use of a definition: line and column are from 1, in characters.

    `kind` is call, type, inherit, name or import. `symbol_name` is the innermost definition around
    the use. `reason` is a code for why this counts as a use; `explanation` is the same as a sentence.
    """

    line: int
    column: int
    text: str  # of the line; "" if the file has changed since it was indexed
    kind: str
    confidence: Confidence
    reason: str
    explanation: str
    symbol_type: str | None = None
    symbol_name: str | None = None


@dataclass(frozen=True, slots=True)
class ReferenceFile:
    """A file with `count` references. Some of them may be on other pages."""

    path: str
    language: str
    count: int
    references: tuple[Reference, ...] = ()
    changed: bool = False  # the file has changed since it was indexed
    overlay: bool = False  # this is the session's unsaved text


@dataclass(frozen=True, slots=True)
class DefinitionRequest(GraphRequest):
    """Find the definition of a name, or of the name at a location; re-exports are followed.

    `target`, a name or a location, and the other parameters are those of all questions about the
    code graph. For a line without a column, every name that is used on it is resolved.
    """

    target: str


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """A name and its possible definitions, best first.

    There are no definitions if they belong to another project. If the target is a location, `line` and
    `column` are the position of the name, from 1; if the target is a name, they are 0.
    """

    name: str
    line: int
    column: int
    definitions: tuple[GraphSymbol, ...]
    confidence: Confidence
    reason: str
    explanation: str


@dataclass(frozen=True, slots=True)
class DefinitionReply(GraphReply):
    """The definitions of a name, or of each name at a location. `path` is the file of the location."""

    path: str = ""
    names: tuple[ResolvedName, ...] = ()


@dataclass(frozen=True, slots=True)
class ReferencesRequest(GraphRequest):
    """Find all uses of a definition, or the files that import a file.

    `target`, a name, a location or a path, and the other parameters are those of all questions
    about the code graph. `kinds` are some of call, type, inherit, name and import; none of them
    means all. With `count_all`, all files are read, also those behind a full page.
    """

    target: str
    kinds: tuple[str, ...] = ()
    count_all: bool = False


@dataclass(frozen=True, slots=True)
class ReferencesReply(GraphReply):
    """The uses of `definitions`, by path and line, tests last.

    The counts include all files up to the end of the page, and some later ones. `counts` maps each
    confidence to its number of uses. `unread_files` is the number of later files that contain the
    name and were not read: they may have more uses. It is 0 on the last page.
    """

    definitions: tuple[GraphSymbol, ...] = ()
    files: tuple[ReferenceFile, ...] = ()
    total: int = 0
    total_files: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    unread_files: int = 0


@dataclass(frozen=True, slots=True)
class CallsRequest(GraphRequest):
    """Find the callers of a function, or what it calls, to a depth of at most 1,000.

    `target`, a name or a location, and the other parameters are those of all questions about the
    code graph.
    """

    target: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class CallSite:
    """The location of a call in the caller's file. Line and column are from 1, in characters."""

    path: str
    line: int
    column: int
    text: str  # of the line; "" if the file has changed since it was indexed


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A node of a call tree: a symbol that calls its parent, or is called by it.

    Positions count the entries of all pages, from 0. `parent` is the position of the parent, -1
    for the target. `site_count` is the number of call sites; `sites` has the first of them.
    `repeats` is the position of the first entry of this symbol, which has its children; -1 means
    that this is the first entry.
    """

    symbol: GraphSymbol
    position: int
    depth: int
    parent: int
    confidence: Confidence
    reason: str
    explanation: str
    sites: tuple[CallSite, ...] = ()
    site_count: int = 0
    repeats: int = -1
    is_cycle: bool = False  # the symbol is an ancestor of itself


@dataclass(frozen=True, slots=True)
class CallsReply(GraphReply):
    """A call tree as a list: each entry comes after its parent.

    `external` are called names that are defined outside of the index, at most 50.
    """

    definitions: tuple[GraphSymbol, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    total: int = 0
    external: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScipRequest:
    """Import a SCIP index, made by the language's own indexer, or remove all imported uses.

    `path` is the absolute path of the SCIP index. The request uses the named index, else the index
    that contains `cwd`, else the only index. The imported uses of a file are valid until the file
    changes. A file that is not in this SCIP index keeps the uses of an earlier import.
    """

    path: str = ""
    remove: bool = False
    index: str | None = None
    cwd: str | None = None
    # None: the configured timeout; 0: do not wait for pending changes
    sync_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ScipReply:
    """The number of files with imported uses, and the number of these uses, which are certain.

    `skipped` counts documents by reason: "not_indexed", or "changed" after the SCIP index was made.
    `removed` is the number of files whose precise uses were removed.
    """

    index: str
    files: int = 0
    uses: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    removed: int = 0


class GraphEngine(Protocol):
    """The daemon's methods about the code graph. Front ends offer those in `methods.METHODS`."""

    async def definition(self, request: DefinitionRequest) -> DefinitionReply:
        """Return the definition of a name, or of the name at a location."""

    async def references(self, request: ReferencesRequest) -> ReferencesReply:
        """Return all uses of a definition, as of this moment, with their number."""

    async def callers(self, request: CallsRequest) -> CallsReply:
        """Return the functions that call a function, and their callers, up to a depth."""

    async def callees(self, request: CallsRequest) -> CallsReply:
        """Return the functions that a function calls, and the functions that these call, up to a depth."""

    async def scip(self, request: ScipRequest) -> ScipReply:
        """Import a SCIP index, or remove it. Its uses are certain until their file changes."""
