"""Files of a directory as a `CodeFiles` in memory: parsed in this process, without a database"""

import os
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

from cocosearchd.graph.code_files import CodeFile, NameGraph
from cocosearchd.languages import detect
from cocosearchd.languages.code_facts import CodeFacts
from cocosearchd.languages.parse import parse

_SKIPPED_FOLDERS = frozenset({".git", "node_modules"})
_MAX_BYTES = 1 << 20
# Files that name their directory as a module.
_INDEX_STEMS = ("index", "__init__", "mod")


class ParsedFiles:
    """The port `CodeFiles` over files in memory."""

    def __init__(self, files: Iterable[CodeFile], other_paths: Iterable[str] = ()) -> None:
        self._files = {file.path: file for file in files}
        self._paths = sorted({*self._files, *other_paths})
        self._path_set = frozenset(self._paths)
        self._defining: dict[str, set[str]] = defaultdict(set)
        self._using: dict[str, set[str]] = defaultdict(set)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._by_directory: dict[str, list[str]] = defaultdict(list)
        for path in self._paths:
            directory, _, name = path.rpartition("/")
            self._by_name[name].append(path)
            self._by_directory[directory].append(path)
        for file in self._files.values():
            for symbol in file.symbols:
                self._defining[symbol.name].add(file.path)
            for used_name in names_used(file.facts):
                self._using[used_name].add(file.path)

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        """Return files by path; paths that are not indexed are left out."""
        return {path: self._files[path] for path in paths if path in self._files}

    def files_defining(self, name: str) -> Sequence[str]:
        """Return the paths of files that define a symbol with this unqualified name, sorted."""
        return sorted(self._defining.get(name, ()))

    def files_using(self, name: str) -> Sequence[str]:
        """Return the paths of files that use, import or export this unqualified name, sorted."""
        return sorted(self._using.get(name, ()))

    def has_path(self, path: str) -> bool:
        """Return True if a file with this path is indexed."""
        return path in self._path_set

    def paths_ending(self, suffix: str) -> Sequence[str]:
        """Return the paths that are `suffix` or end with "/" and `suffix`, sorted."""
        paths = self._by_name.get(suffix.rpartition("/")[2], ())
        return [path for path in paths if path == suffix or path.endswith(f"/{suffix}")]

    def paths_in(self, directory: str) -> Sequence[str]:
        """Return the paths of the files directly in a directory ("" is the root), sorted."""
        return self._by_directory.get(directory, ())

    def paths(self) -> Sequence[str]:
        """Return the paths of all indexed files, sorted."""
        return self._paths

    def name_graph(self) -> NameGraph:
        """Raise: resolution needs no name graph."""
        raise NotImplementedError


def names_used(facts: CodeFacts) -> set[str]:
    """Return the names by which `files_using` finds a file, as `fact_table.names` does."""
    names = {use.name for use in facts.uses}
    for item in facts.imports:
        names |= {item.name, item.local}
        parts = item.module.replace("::", "/").replace("\\", "/").split("/")
        dotted = parts[-1].split(".")
        is_file = len(dotted) > 1 and dotted[-1] in ("js", "ts", "mjs", "cjs", "jsx", "tsx", "h")
        parts[-1:] = dotted[:-1] if is_file else dotted
        while parts and parts[-1] in _INDEX_STEMS:
            parts.pop()
        names.update(parts[-2:])
    return names - {""}


def read_texts(root: Path) -> dict[str, str]:
    """Return the texts of a directory's files by path, without binaries and installed packages."""
    texts: dict[str, str] = {}
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        for name in names:
            path = Path(directory, name)
            if path.is_file() and path.stat().st_size <= _MAX_BYTES:
                data = path.read_bytes()
                if b"\0" not in data:
                    texts[path.relative_to(root).as_posix()] = data.decode("utf-8", "replace")
    return texts


def parse_texts(texts: Mapping[str, str], languages: Container[str]) -> ParsedFiles:
    """Parse the files of some languages; the others are paths alone."""
    files = []
    for path, text in texts.items():
        data = text.encode()
        language = detect.detect(path, data[: detect.HEAD_BYTES])
        if language in languages:
            parsed = parse(path, data, language=language)
            files.append(CodeFile(path, language, parsed.symbols, parsed.facts))
    return ParsedFiles(files, texts)
