"""The port of the code graph: the files of one index at one moment, with symbols and facts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearch_ipc.graph_vocabulary import CONFIDENCES, Confidence
from cocosearchd.languages.code_facts import CodeFacts, Import, Use
from cocosearchd.model import Symbol

T = TypeVar("T")

# The position that stands for the whole file (as a module) instead of a symbol.
WHOLE_FILE = -1

# Confidences as numbers; the strongest is 0.
WEAKNESS: Mapping[Confidence, int] = {name: number for number, name in enumerate(CONFIDENCES)}


class PreciseTarget(NamedTuple):
    """A definition in a precise index. It is valid as long as its file has this content."""

    path: str
    content_hash: bytes
    name: str  # qualified
    start_line: int


# The meanings of uses in a precise index, by line and column (from 1). A use without targets means
# a variable or something else that is no symbol.
PreciseUses = Mapping[tuple[int, int], Sequence[PreciseTarget]]


class DerivedValues:
    """Values derived from one file, computed at first use and cached with the file. Thread-safe.

    They refer to a copy of the file, never to the file itself: such a cycle would keep thousands of
    files in memory until a full garbage collection, which would block all threads for seconds.
    """

    def __init__(self) -> None:
        self._values: dict[Callable[[CodeFile], Any], Any] = {}

    def get(self, make: Callable[["CodeFile"], T], file: "CodeFile") -> T:
        """Return the value that `make` computes from the file."""
        values = self._values
        if make not in values:
            values[make] = make(file.copy_without_values())
        value: T = values[make]
        return value


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of an index. Facts name symbols by their position in `symbols`."""

    path: str  # relative to the root
    language: str
    symbols: Sequence[Symbol]  # outer before inner, by position
    facts: CodeFacts
    content_hash: bytes = b""  # as in `model.FileRecord`; empty for unsaved text
    precise_uses: PreciseUses | None = None  # None if there is no precise index
    derived: DerivedValues = field(default_factory=DerivedValues, compare=False, repr=False)

    def copy_without_values(self) -> "CodeFile":
        """Return a copy that shares symbols and facts, without the derived values."""
        return CodeFile(
            self.path,
            self.language,
            self.symbols,
            self.facts,
            self.content_hash,
            self.precise_uses,
        )


class DefinitionKey(NamedTuple):
    """The key of a definition: a symbol of a file, by position, or a whole file."""

    path: str
    position: int  # in `CodeFile.symbols`, or `WHOLE_FILE`


@dataclass(frozen=True, slots=True)
class Resolution:
    """The definitions that a use may mean, best first; empty if they are outside of the index."""

    definitions: tuple[DefinitionKey, ...]
    confidence: Confidence
    reason: str  # a code of `resolution.reasons`


class ResolvedUse(NamedTuple):
    """A use, its file, and the definitions that it may mean."""

    file: CodeFile
    use: Use
    resolution: Resolution


class ResolvedImport(NamedTuple):
    """An import, its file, and the definitions that it may mean."""

    file: CodeFile
    item: Import
    resolution: Resolution


@dataclass(frozen=True, slots=True)
class NameFiles:
    """The files of each name.

    The files of `names[i]` are `files[starts[i]:starts[i + 1]]`, ascending.

    Names are ascending hashes from `languages.name_hashes`. Two names may have the same hash, so
    check the name in the loaded file. Files are positions in `NameGraph.paths`.
    """

    names: NDArray[np.uint32]  # (names,)
    starts: NDArray[np.int64]  # (names + 1,)
    files: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class NameGraph:
    """The names that all files define and use, as arrays. Uses are not resolved."""

    paths: Sequence[str]
    definitions: NameFiles
    uses: NameFiles


class CodeFiles(Protocol):
    """The files of one index at one moment, with the unsaved texts of one client.

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
        """Return the names that all files define and use. The result is shared: do not modify it."""
