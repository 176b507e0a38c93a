"""The code files of one moment, but with an earlier version of one file.

Questions about removed definitions use them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cocosearchd.graph.code_files import CodeFile, CodeFiles, NameGraph


@dataclass(frozen=True)
class EarlierFile:
    """An earlier version of a file, with the names that this version uses, imports or exports."""

    file: CodeFile
    used_names: frozenset[str]

    @cached_property
    def defined_names(self) -> frozenset[str]:
        """The unqualified names of its symbols."""
        return frozenset(symbol.name for symbol in self.file.symbols)


class EarlierFiles:
    """The port `CodeFiles` with an earlier version of one file, which may be gone now."""

    def __init__(self, files: CodeFiles, earlier: EarlierFile) -> None:
        self._files = files
        self._earlier = earlier
        self._path = earlier.file.path

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        """See `CodeFiles`."""
        requested = list(paths)
        files = dict(self._files.load([path for path in requested if path != self._path]))
        if self._path in requested:
            files[self._path] = self._earlier.file
        return files

    def files_defining(self, name: str) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._correct_paths(
            self._files.files_defining(name), name in self._earlier.defined_names
        )

    def files_using(self, name: str) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._correct_paths(self._files.files_using(name), name in self._earlier.used_names)

    def has_path(self, path: str) -> bool:
        """See `CodeFiles`."""
        return path == self._path or self._files.has_path(path)

    def paths_ending(self, suffix: str) -> Sequence[str]:
        """See `CodeFiles`."""
        has_end = f"/{self._path}".endswith(f"/{suffix}")
        return self._correct_paths(self._files.paths_ending(suffix), has_end)

    def paths_in(self, directory: str) -> Sequence[str]:
        """See `CodeFiles`."""
        is_inside = self._path.rpartition("/")[0] == directory
        return self._correct_paths(self._files.paths_in(directory), is_inside)

    def paths(self) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._correct_paths(self._files.paths(), has_path=True)

    def name_graph(self) -> NameGraph:
        """See `CodeFiles`. The result is for the present files."""
        return self._files.name_graph()

    def _correct_paths(self, paths: Sequence[str], has_path: bool) -> Sequence[str]:
        """Return sorted paths with or without the path of the earlier version."""
        if has_path == (self._path in paths):
            return paths
        return sorted({*paths, self._path} if has_path else {*paths} - {self._path})
