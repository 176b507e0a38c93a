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
    """Find what a change of `target` affects: all that uses it, directly or through others.

    `target` is a name, a location or a file; a class counts with its members, a file with all its
    definitions. Uses are followed backwards `depth` times, at most 1,000. The other parameters are
    those of all questions about the code graph.
    """

    target: str
    depth: int = IMPACT_DEPTH


@dataclass(frozen=True, slots=True)
class AffectedEntry:
    """A definition that is affected, or the code of a file outside of all definitions.

    It uses `via`, a qualified name or a path, at `line` and `column` of its file; with `broken`,
    that is gone, and with the reason "overrides", it overrides that. `distance` is 1 for direct
    users. `confidence` is the weakest on the way; `reason` and `explanation` say why the use is
    taken for one.
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
    """All that a change of `definitions` affects, by distance, confidence and location, tests last.

    `distances` counts all pages, by distance. `test_files` are the files with affected tests, at
    most 200, the nearest first; `total_test_files` counts them all.
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

    `revisions` is a commit, which is compared with the files as they are now, or a range such as
    `main..HEAD` or `main...topic`. The other parameters are those of `impact`; `target` restricts
    the changes to a file or a directory.
    """

    revisions: str = "HEAD"
    depth: int = IMPACT_DEPTH


@dataclass(frozen=True, slots=True)
class RemovedSymbol:
    """A definition that is gone from a changed file, as it was; of kind "file", the file itself.

    `uses` counts the locations that still use it. `moved_to` is what it is now: renamed in its
    file, or with its name in another changed file.
    """

    symbol: GraphSymbol
    uses: int = 0
    moved_to: GraphSymbol | None = None


@dataclass(frozen=True, slots=True)
class ChangedSignature:
    """A definition with another signature than before: the uses of it may have to change."""

    symbol: GraphSymbol
    earlier: str = ""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A changed file with its changed definitions, at most 100; the innermost ones are named.

    A symbol of kind "file" stands for lines outside of all definitions. Files that are gone, or not
    indexed, have none. `removed` and `signatures` are at most 100, of `removed_count` and
    `signature_count`.
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

    `base` and `head` are ids of commits; without `head`, the files as they are now were compared.
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

    `target` is a file or a directory; none is the whole index. Of a directory, the modules in it
    are compared: its files and directories, or with `level` 2 those one level deeper. The other
    parameters are those of all questions about the code graph.
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
    """`source` imports `target`: at `line`, between files; in `count` pairs of files."""

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

    `imports` and `importers` are what the target reaches in that direction, by depth and path; of a
    directory, `modules` are its own. `edges` connect them. `cycles` are sets of files or modules
    that import each other in a circle, the largest first.
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


@dataclass(frozen=True, slots=True)
class OutlineRequest(GraphRequest):
    """Outline a file: its definitions; or a directory: its files with their outer definitions.

    `target` is a file or a directory; none is the whole index. `depth` is the number of levels of
    definitions, 0 for all. The answer has about `budget_tokens` tokens.
    """

    depth: int = 0


@dataclass(frozen=True, slots=True)
class OutlineSymbol:
    """A definition: lines from 1, inclusive. `depth` counts the definitions around it."""

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
    """Files by path. `omitted_files` counts those that did not fit."""

    files: tuple[OutlineFile, ...] = ()
    omitted_files: int = 0


@dataclass(frozen=True, slots=True)
class MapRequest(GraphRequest):
    """Map an index: its central definitions, by PageRank over uses, in `budget_tokens` tokens.

    `target`, a file or a directory, or `query`, a question as for `search`, move the center of the
    map there.
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
    """Files with central definitions, the most central first, of `total_files` in the index."""

    files: tuple[MapFile, ...] = ()
    total_files: int = 0
    tokens: int = 0  # estimated


class StructureEngine(Protocol):
    """The daemon's methods about the structure of code, offered as in `methods.METHODS`."""

    async def impact(self, request: ImpactRequest) -> ImpactReply:
        """Return what a change of a definition or a file affects, with the tests among it."""

    async def changes(self, request: ChangesRequest) -> ChangesReply:
        """Return the definitions that a change touches, what it affects, and the tests to run."""

    async def dependencies(self, request: DependenciesRequest) -> DependenciesReply:
        """Return what files or modules import, what imports them, and cycles."""

    async def outline(self, request: OutlineRequest) -> OutlineReply:
        """Return the definitions of a file, or the files of a directory with theirs."""

    async def map(self, request: MapRequest) -> MapReply:
        """Return the central definitions of an index within a budget of tokens."""
