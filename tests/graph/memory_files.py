"""Files of a code graph written by hand, for tests of what is computed from them.

`MemoryFiles` implements the port `CodeFiles` over values, so that a test states the facts that
matter to it and no language's syntax. Tests of the real store are beside `code_graph`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from cocosearchd.graph.code_files import CodeFile, NameFiles, NameGraph
from cocosearchd.languages.code_facts import TOP_LEVEL, CodeFacts, Import, Use
from cocosearchd.languages.name_hashes import hash_name
from cocosearchd.model import Symbol


class MemoryFiles:
    """Files by path. `loads` counts the files that were loaded."""

    def __init__(self, files: Iterable[CodeFile]) -> None:
        self.files = {file.path: file for file in files}
        self.loads = 0

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        """Return files by path."""
        files = {path: self.files[path] for path in paths if path in self.files}
        self.loads += len(files)
        return files

    def files_defining(self, name: str) -> Sequence[str]:
        """Return the files that define a name."""
        return self._paths(lambda file: name in defined_names(file))

    def files_using(self, name: str) -> Sequence[str]:
        """Return the files that use or import a name."""
        return self._paths(lambda file: name in used_names(file))

    def has_path(self, path: str) -> bool:
        """Return True for a file."""
        return path in self.files

    def paths_ending(self, suffix: str) -> Sequence[str]:
        """Return the paths with a suffix."""
        return self._paths(lambda file: f"/{file.path}".endswith(f"/{suffix}"))

    def paths_in(self, directory: str) -> Sequence[str]:
        """Return the paths directly in a directory."""
        return self._paths(lambda file: file.path.rpartition("/")[0] == directory)

    def paths(self) -> Sequence[str]:
        """Return all paths."""
        return sorted(self.files)

    def name_graph(self) -> NameGraph:
        """Return the names of all files."""
        paths = self.paths()
        files = [self.files[path] for path in paths]
        return NameGraph(
            paths,
            _name_files([defined_names(file) for file in files]),
            _name_files([used_names(file) for file in files]),
        )

    def _paths(self, passes: Callable[[CodeFile], bool]) -> Sequence[str]:
        return sorted(path for path, file in self.files.items() if passes(file))


def defined_names(file: CodeFile) -> set[str]:
    """Return the names of the symbols of a file."""
    return {symbol.name for symbol in file.symbols}


def used_names(file: CodeFile) -> set[str]:
    """Return the names that a file uses or imports, with the last parts of its modules."""
    parts = {
        part
        for item in file.facts.imports
        for part in item.module.replace("::", "/").replace(".", "/").split("/")[-2:]
    }
    imported = {item.name for item in file.facts.imports} | parts
    return {use.name for use in file.facts.uses} | imported - {"", "*"}


def _name_files(names_of_files: Sequence[set[str]]) -> NameFiles:
    pairs = sorted(
        (hash_name(name), position)
        for position, names in enumerate(names_of_files)
        for name in names
    )
    hashes, starts = np.unique(np.array([pair[0] for pair in pairs], np.uint32), return_index=True)
    return NameFiles(
        hashes,
        np.append(starts, len(pairs)).astype(np.int64),
        np.array([pair[1] for pair in pairs], np.uint32),
    )


def code_file(
    path: str,
    symbols: Sequence[Symbol] = (),
    uses: Sequence[Use] = (),
    imports: Sequence[Import] = (),
    language: str = "python",
) -> CodeFile:
    """Make a file."""
    return CodeFile(path, language, symbols, CodeFacts("", imports, uses, ()))


def symbol(
    name: str, lines: tuple[int, int], parent: str | None = None, kind: str = "function"
) -> Symbol:
    """Make a definition; bytes are ten times the lines."""
    return Symbol(
        kind=kind,
        name=name,
        qualified_name=f"{parent}.{name}" if parent else name,
        signature=f"def {name}()",
        parent=parent,
        start_byte=lines[0] * 10,
        end_byte=lines[1] * 10 + 9,
        start_line=lines[0],
        end_line=lines[1],
    )


def call(name: str, line: int, position: int = TOP_LEVEL) -> Use:
    """Make a call of a name in a definition."""
    return Use("call", name, "", is_local=False, line=line, column=1, symbol=position)


def module_import(module: str, line: int = 1) -> Import:
    """Make an import of a module."""
    return Import(module, "", module.rpartition(".")[2], line)
