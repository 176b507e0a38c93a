"""The port of the structure of code: impact of changes, dependencies, outlines and maps.

The rule of `protocol` holds: a new field always has a default. Standard library only.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from cocosearch_ipc.graph_protocol import GraphReply, GraphRequest, GraphSymbol
from cocosearch_ipc.graph_vocabulary import Confidence, Direction

ChangeKind = Literal["added", "modified", "deleted", "untracked"]

IMPACT_DEPTH = 3
MAP_TOKENS = 2_000
OUTLINE_TOKENS = 4_000
MAX_TOKENS = 100_000
MAX_LEVEL = 20


@dataclass(frozen=True, slots=True)
class ImpactRequest(GraphRequest):
    """Find the definitions that a change of `target` affects: its direct and indirect users.

    `target` is a name, a location or a file; a class counts with its members, a file with all its
    definitions. Uses are followed backwards `depth` times, at most 1,000. `GraphRequest` describes
    the other parameters.
    """

    target: str
    depth: int = IMPACT_DEPTH


@dataclass(frozen=True, slots=True)
class AffectedEntry:
    """An affected definition, or the affected code of a file outside of all definitions.

    The definition uses `via`, a qualified name or a path, at `line` and `column` of its file. With
    `broken`, `via` no longer exists. With the reason "overrides", the definition overrides `via`.
    `distance` is 1 for direct users. `confidence` is the lowest one of all uses from the target to
    here. `reason` and `explanation` say why this counts as a use.
    """

    symbol: GraphSymbol
    distance: int
    confidence: Confidence
    reason: str
    explanation: str
    via: str
    line: int
    column: int
    is_test: bool = False
    broken: bool = False


@dataclass(frozen=True, slots=True)
class ImpactReply(GraphReply):
    """The code that a change of `definitions` affects, by distance, confidence and location, tests last.

    `distances` maps each distance to its number of entries on all pages. `test_files` are the files
    with affected tests, at most 200, the nearest first; `total_test_files` counts all of them.
    """

    definitions: tuple[GraphSymbol, ...] = ()
    affected: tuple[AffectedEntry, ...] = ()
    total: int = 0
    total_files: int = 0
    distances: dict[str, int] = field(default_factory=dict)
    test_files: tuple[str, ...] = ()
    total_test_files: int = 0


@dataclass(frozen=True, slots=True)
class ChangesRequest(GraphRequest):
    """Find the definitions that a change touches, what it affects, and the tests to run.

    `revisions` is a commit or a range such as `main..HEAD` or `main...topic`. A commit is compared
    with the files as they are now. `target` restricts the changes to a file or a directory. The
    other parameters are those of `impact`.
    """

    revisions: str = "HEAD"
    depth: int = IMPACT_DEPTH


@dataclass(frozen=True, slots=True)
class RemovedSymbol:
    """A definition that a changed file no longer has, as it was; with kind "file", a removed file.

    `uses` counts the locations that still use it. `moved_to` is the definition that replaces it: with
    another name in the same file, or with the same name in another changed file.
    """

    symbol: GraphSymbol
    uses: int = 0
    moved_to: GraphSymbol | None = None


@dataclass(frozen=True, slots=True)
class ChangedSignature:
    """A definition with a changed signature: its uses may have to change."""

    symbol: GraphSymbol
    earlier: str = ""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A changed file with its innermost changed definitions, at most 100.

    A symbol of kind "file" represents lines outside of all definitions. Files that no longer exist,
    or are not indexed, have no symbols. `removed` and `signatures` have at most 100 entries;
    `removed_count` and `signature_count` count all.
    """

    path: str
    kind: ChangeKind
    symbols: tuple[GraphSymbol, ...] = ()
    symbol_count: int = 0
    removed: tuple[RemovedSymbol, ...] = ()
    removed_count: int = 0
    signatures: tuple[ChangedSignature, ...] = ()
    signature_count: int = 0


@dataclass(frozen=True, slots=True)
class ChangesReply(GraphReply):
    """Changed files by path, at most `limit` of `total_changed`, and what all of them affect.

    `base` and `head` are ids of commits; if `head` is None, `base` is compared with the files now.
    The other fields are those of `ImpactReply`.
    """

    base: str = ""
    head: str | None = None
    changed: tuple[ChangedFile, ...] = ()
    total_changed: int = 0
    affected: tuple[AffectedEntry, ...] = ()
    total: int = 0
    total_files: int = 0
    distances: dict[str, int] = field(default_factory=dict)
    test_files: tuple[str, ...] = ()
    total_test_files: int = 0


@dataclass(frozen=True, slots=True)
class DependenciesRequest(GraphRequest):
    """Find what a file imports and what imports it, to a depth of at most 1,000, with cycles.

    `target` is a file or a directory; "" means the whole index. For a directory, the answer is about
    its modules: its files and directories, or with `level` 2 those one level deeper. `GraphRequest`
    describes the other parameters.
    """

    direction: Direction = "both"
    depth: int = 1
    level: int = 1


@dataclass(frozen=True, slots=True)
class DependencyNode:
    """A file or a module. `depth` is the number of imports from the target.

    `files` counts the files of a module that were read.
    """

    path: str
    depth: int = 0
    files: int = 1


@dataclass(frozen=True, slots=True)
class DependencyEdge:
    """`source` imports `target`. `line` is set for files, `count` is the number of file pairs."""

    source: str
    target: str
    line: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class PackageUse:
    """A package outside of the index, and the number of files that import it."""

    name: str
    files: int


@dataclass(frozen=True, slots=True)
class DependenciesReply(GraphReply):
    """Imports of a file, or between modules. `kind` is "file" or "directory".

    `imports` and `importers` are the nodes that are reachable from the target in that direction, by
    depth and path. For a directory, `modules` are the modules in it. `edges` connect the nodes.
    `cycles` are sets of files or modules that import each other in a circle, the largest first.
    """

    kind: str = "file"
    target: str = ""
    modules: tuple[DependencyNode, ...] = ()
    imports: tuple[DependencyNode, ...] = ()
    importers: tuple[DependencyNode, ...] = ()
    edges: tuple[DependencyEdge, ...] = ()
    packages: tuple[PackageUse, ...] = ()
    cycles: tuple[tuple[str, ...], ...] = ()
    total_imports: int = 0
    total_importers: int = 0
    direction: Direction = "both"  # as in the request: the other direction was not counted


@dataclass(frozen=True, slots=True)
class OutlineRequest(GraphRequest):
    """Outline a file: its definitions; or a directory: its files with their outer definitions.

    `target` is a file or a directory; "" means the whole index. `depth` is the number of levels of
    definitions, 0 for all. The answer has about `budget_tokens` tokens.
    """

    depth: int = 0


@dataclass(frozen=True, slots=True)
class OutlineSymbol:
    """A definition. Lines are from 1, inclusive. `depth` counts the definitions around it."""

    kind: str
    name: str  # qualified
    signature: str
    start_line: int
    end_line: int
    depth: int


@dataclass(frozen=True, slots=True)
class OutlineFile:
    """A file of an outline. `omitted` counts the definitions that did not fit."""

    path: str
    language: str
    symbols: tuple[OutlineSymbol, ...] = ()
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class OutlineReply(GraphReply):
    """Files by path, at most 2,000. `omitted_files` counts the files that did not fit."""

    files: tuple[OutlineFile, ...] = ()
    omitted_files: int = 0


@dataclass(frozen=True, slots=True)
class MapRequest(GraphRequest):
    """Map an index: its central definitions, by PageRank over uses, in `budget_tokens` tokens.

    `target` (a file or a directory) or `query` (as for `search`) centers the map on that part of the
    code.
    """

    query: str = ""


@dataclass(frozen=True, slots=True)
class MapFile:
    """A file of a map: its central definitions. `rank` is its share of all rank, 0 to 1."""

    path: str
    language: str
    rank: float
    symbols: tuple[OutlineSymbol, ...] = ()


@dataclass(frozen=True, slots=True)
class MapReply(GraphReply):
    """Files with central definitions, the most central first. The index has `total_files` files."""

    files: tuple[MapFile, ...] = ()
    total_files: int = 0
    tokens: int = 0  # estimated


class StructureEngine(Protocol):
    """The daemon's methods about the structure of code, offered as in `methods.METHODS`."""

    async def impact(self, request: ImpactRequest) -> ImpactReply:
        """Return the code that a change of a definition or a file affects, including tests."""

    async def changes(self, request: ChangesRequest) -> ChangesReply:
        """Return the definitions that a change touches, what it affects, and the tests to run."""

    async def dependencies(self, request: DependenciesRequest) -> DependenciesReply:
        """Return what files or modules import, what imports them, and cycles."""

    async def outline(self, request: OutlineRequest) -> OutlineReply:
        """Return the definitions of a file, or of each file of a directory."""

    async def map(self, request: MapRequest) -> MapReply:
        """Return the central definitions of an index within a budget of tokens."""
