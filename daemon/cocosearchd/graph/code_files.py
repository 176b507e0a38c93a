"""The port of the code graph: files of one index with their symbols and facts, as of one moment."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearch_ipc.graph_vocabulary import CONFIDENCES, Confidence
from cocosearchd.languages.code_facts import CodeFacts, Import, Use
from cocosearchd.model import Symbol

T = TypeVar("T")

# The file itself, as a module, in place of a symbol.
WHOLE_FILE = -1

# The confidence of a resolution; `resolution.reasons` says which rule gives which.
# The strongest is 0.
WEAKNESS: Mapping[Confidence, int] = {name: number for number, name in enumerate(CONFIDENCES)}


class PreciseTarget(NamedTuple):
    """A definition as a precise index has it: valid while its file has this content."""

    path: str
    content_hash: bytes
    name: str  # qualified
    start_line: int


# The meanings of uses by line and column, from 1, as a precise index has them. Without targets a
# use means a variable or something else that is no symbol.
PreciseUses = Mapping[tuple[int, int], Sequence[PreciseTarget]]


class DerivedValues:
    """Values that are made of one file at first use, and stay with it. For any thread."""

    def __init__(self) -> None:
        self._values: dict[Callable[[CodeFile], Any], Any] = {}

    def get(self, make: Callable[["CodeFile"], T], file: "CodeFile") -> T:
        """Return what `make` makes of the file."""
        values = self._values
        if make not in values:
            values[make] = make(file)
        value: T = values[make]
        return value

    def clear(self) -> None:
        """Drop all values: they may refer to the file, which then stays in memory for long."""
        self._values = {}


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of an index. Facts name symbols by their position in `symbols`."""

    path: str  # relative to the root
    language: str
    symbols: Sequence[Symbol]  # outer before inner, by position
    facts: CodeFacts
    content_hash: bytes = b""  # as `model.FileRecord` has it; empty for unsaved text
    precise_uses: PreciseUses | None = None  # None: there is no precise index
    derived: DerivedValues = field(default_factory=DerivedValues, compare=False, repr=False)


class DefinitionKey(NamedTuple):
    """The key of a definition: a symbol of a file by its position, or a file as a whole."""

    path: str
    position: int  # in `CodeFile.symbols`, or `WHOLE_FILE`


@dataclass(frozen=True, slots=True)
class Resolution:
    """The definitions that a use may mean, best first; none if it leaves the index."""

    definitions: tuple[DefinitionKey, ...]
    confidence: Confidence
    reason: str  # a code of `resolution.reasons`


class ResolvedUse(NamedTuple):
    """A use, the file that it is in, and the definitions that it may mean."""

    file: CodeFile
    use: Use
    resolution: Resolution


class ResolvedImport(NamedTuple):
    """An import, the file that it is in, and the definitions that it may mean."""

    file: CodeFile
    item: Import
    resolution: Resolution


@dataclass(frozen=True, slots=True)
class NameFiles:
    """The files of each name: those of `names[i]` are `files[starts[i]:starts[i + 1]]`, ascending.

    Names are ascending hashes, as `languages.name_hashes` makes them; two names may share one, so
    check it in the loaded file. Files are positions in `NameGraph.paths`.
    """

    names: NDArray[np.uint32]  # (names,)
    starts: NDArray[np.int64]  # (names + 1,)
    files: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class NameGraph:
    """The names that all files define and use, as arrays, without what each use means."""

    paths: Sequence[str]
    definitions: NameFiles
    uses: NameFiles


class CodeFiles(Protocol):
    """Files of one index, as of one moment, with the unsaved text of one client.

    All methods are synchronous and may wait for PostgreSQL: call them in a thread.
    """

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        """Return files by path; paths that are not indexed are left out.

        One call with many paths costs less than many calls.
        """

    def files_defining(self, name: str) -> Sequence[str]:
        """Return the paths of files that define a symbol with this unqualified name, sorted."""

    def files_using(self, name: str) -> Sequence[str]:
        """Return the paths of files that use, import or export this unqualified name, sorted."""

    def has_path(self, path: str) -> bool:
        """Return True if a file with this path is indexed."""

    def paths_ending(self, suffix: str) -> Sequence[str]:
        """Return the paths that are `suffix` or end with "/" and `suffix`, sorted."""

    def paths_in(self, directory: str) -> Sequence[str]:
        """Return the paths of the files directly in a directory ("" is the root), sorted."""

    def paths(self) -> Sequence[str]:
        """Return the paths of all indexed files, sorted."""

    def name_graph(self) -> NameGraph:
        """Return the names that all files define and use; the result is shared: do not write."""
