"""Follows imports between the files of an index, in both directions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.structure.package_names import package_name
from cocosearchd.languages.code_facts import Import

# Limit of files that may import one file: files that mention its stem or its directory.
MAX_CANDIDATES = 5_000
LOADED_AT_ONCE = 500  # files
CHECKED_IMPORTS = 64  # imports of a file between two checks of the time


class ImportResolver(Protocol):
    """Finds the files that an import means."""

    def imported_files(self, file: CodeFile, item: Import) -> Sequence[str]:
        """Return the paths of indexed files; empty if the import is external."""


@dataclass(frozen=True, slots=True, order=True)
class FileEdge:
    """A file (`source`) that imports another (`target`), with the line of the first import."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class FileImports:
    """The imports of a file: edges to other files, and packages outside of the index."""

    edges: tuple[FileEdge, ...] = ()  # by target
    packages: tuple[str, ...] = ()  # sorted


@dataclass(frozen=True, slots=True)
class Importers:
    """The files that import a file. `complete` is False if there were too many candidates."""

    edges: tuple[FileEdge, ...]  # by source
    complete: bool


class ImportGraph:
    """Imports of files at one moment. Create one per question: it caches resolved imports."""

    def __init__(self, files: CodeFiles, resolver: ImportResolver) -> None:
        self._files = files
        self._resolver = resolver
        self._imports: dict[str, FileImports] = {}

    def imports(self, path: str) -> FileImports:
        """Return the imports of a file; empty if it is not indexed."""
        self.resolve([path])
        return self._imports[path]

    def resolved(self, paths: Iterable[str]) -> list[FileImports]:
        """Return the imports of the given files, if they are already resolved."""
        return [self._imports[path] for path in paths if path in self._imports]

    def resolve(self, paths: Iterable[str]) -> None:
        """Resolve the imports of files. One call for many files costs less than many calls."""
        missing = [path for path in dict.fromkeys(paths) if path not in self._imports]
        for first in range(0, len(missing), LOADED_AT_ONCE):
            batch = missing[first : first + LOADED_AT_ONCE]
            loaded = self._files.load(batch)
            for path in batch:
                file = loaded.get(path)
                self._imports[path] = self._resolve(file) if file is not None else FileImports()

    def importers(self, path: str) -> Importers:
        """Return the files that import a file."""
        candidates = self._candidates(path)
        checked = candidates[:MAX_CANDIDATES]
        self.resolve(checked)
        edges = (
            edge for source in checked for edge in self.imports(source).edges if edge.target == path
        )
        return Importers(tuple(edges), len(checked) == len(candidates))

    def _candidates(self, path: str) -> list[str]:
        """Return the files that mention a file's stem or its directory.

        The directory may be a package.
        """
        file_path = PurePosixPath(path)
        names = {file_path.name.partition(".")[0], file_path.stem, file_path.parent.name} - {""}
        sources = {source for name in names for source in self._files.files_using(name)}
        return sorted(sources - {path})

    def _resolve(self, file: CodeFile) -> FileImports:
        lines = dict[str, int]()
        packages = set[str]()
        for number, item in enumerate(file.facts.imports):
            if number % CHECKED_IMPORTS == 0:
                self._files.load(())  # raises `LimitReached` if the time is over
            targets = [] if is_own_name(item) else self._resolver.imported_files(file, item)
            for target in targets:
                lines.setdefault(target, item.line)
            if not targets:
                packages.add(package_name(file.language, item.module))
        edges = tuple(sorted(_edges(file.path, lines)))
        return FileImports(edges, tuple(sorted(packages - {""})))


def is_own_name(item: Import) -> bool:
    """Return True for an export of a name of the file itself: it imports nothing."""
    return item.exported and not item.module


def _edges(source: str, lines: dict[str, int]) -> Iterator[FileEdge]:
    return (FileEdge(source, target, line) for target, line in lines.items() if target != source)
