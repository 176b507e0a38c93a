"""The files of an index at one moment; unsaved texts replace stored files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from cocosearchd.graph.code_file_cache import CodeFileCache
from cocosearchd.graph.code_files import CodeFile, NameGraph
from cocosearchd.graph.name_table import NameTable
from cocosearchd.graph.scip import precise_uses
from cocosearchd.graph.use_cache import UseCache
from cocosearchd.languages import symbol_table
from cocosearchd.languages.code_facts import NO_FACTS, CodeFacts
from cocosearchd.languages.references import fact_table
from cocosearchd.store.file_facts import StoredCode, StoredNames

# Files per query: their packed code is some two megabytes.
BATCH_FILES = 500
# Resolution reads one file after another, mostly from one directory. Therefore a query for few
# files also reads other files of their directories, up to this many files in total.
_READ_AHEAD = 64
_UNSAVED = -1  # generation of unsaved text

ReadCode = Callable[[Sequence[str]], Sequence[StoredCode]]


class FilesChanged(Exception):
    """Stored files differ from the name table: the question must be asked again."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(paths)
        super().__init__(f"{len(self.paths)} files changed, such as {self.paths[:1]}")


@dataclass(frozen=True, slots=True)
class UnsavedFile:
    """An unsaved text in the code graph, as its file would be stored."""

    file: CodeFile
    name_hashes: bytes  # packed by `languages.name_hashes`


class CodeFilesView:
    """The port `CodeFiles` over a name table, for one question in one thread.

    Each stored file must have the generation that the table has. Therefore all files are from the
    moment of the table.
    """

    def __init__(
        self,
        table: NameTable,
        read: ReadCode,
        cache: CodeFileCache,
        unsaved: Sequence[UnsavedFile] = (),
        uses: UseCache | None = None,
    ) -> None:
        """`read` may wait for the store. `uses` caches resolved uses of this table."""
        self._unsaved = {overlay.file.path: overlay.file for overlay in unsaved}
        names = [
            StoredNames(overlay.file.path, _UNSAVED, overlay.name_hashes) for overlay in unsaved
        ]
        self._table = table.replace(self._unsaved, names) if names else table
        self._read = read
        self._cache = cache
        # with unsaved texts, uses in other files may have other meanings
        self.use_cache = UseCache() if uses is None or unsaved else uses

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        """See `CodeFiles`. Raises `FilesChanged`, and the errors of the store."""
        files = dict[str, CodeFile]()
        missing = dict[str, int]()
        for path in dict.fromkeys(paths):
            generation = self._table.generation_of(path)
            if generation is None:
                continue
            file = self._unsaved.get(path) or self._cache.get(path, generation)
            if file is None:
                missing[path] = generation
            else:
                files[path] = file
        unread = list(missing)
        for first in range(0, len(unread), BATCH_FILES):
            batch = unread[first : first + BATCH_FILES]
            files |= self._load_stored({path: missing[path] for path in batch})
        self.use_cache.note_loaded(files.values())
        return files

    def _load_stored(self, generations: Mapping[str, int]) -> dict[str, CodeFile]:
        rows = self._find_rows(generations)
        changed = [
            path
            for path, generation in generations.items()
            if path not in rows or rows[path].generation != generation
        ]
        if changed:
            raise FilesChanged(changed)
        files = {path: unpack_file(rows[path]) for path in generations}
        for path, file in files.items():
            self._cache.put(file, generations[path])
        return files

    def _find_rows(self, generations: Mapping[str, int]) -> dict[str, StoredCode]:
        """Return packed files: from the cache if their generation is right, else from the store."""
        rows = dict[str, StoredCode]()
        for path, generation in generations.items():
            row = self._cache.get_packed(path, generation)
            if row is not None:
                rows[path] = row
        unread = [path for path in generations if path not in rows]
        return rows | self._read_rows(unread) if unread else rows

    def _read_rows(self, paths: Sequence[str]) -> dict[str, StoredCode]:
        """Read files from the store; cache them with other files of their directories."""
        rows = {row.path: row for row in self._read([*paths, *self._read_ahead(paths)])}
        for row in rows.values():
            self._cache.put_packed(row)
        return rows

    def _read_ahead(self, paths: Sequence[str]) -> Sequence[str]:
        room = _READ_AHEAD - len(paths)
        if room <= 0:
            return ()
        directories = dict.fromkeys(path.rpartition("/")[0] for path in paths)
        neighbours = (
            path
            for directory in directories
            for path in self._table.paths_in(directory)
            if path not in self._cache and path not in paths and path not in self._unsaved
        )
        return list(islice(neighbours, room))

    def files_defining(self, name: str) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._table.files_defining(name)

    def files_using(self, name: str) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._table.files_using(name)

    def has_path(self, path: str) -> bool:
        """See `CodeFiles`."""
        return self._table.generation_of(path) is not None

    def paths_ending(self, suffix: str) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._table.paths_ending(suffix)

    def paths_in(self, directory: str) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._table.paths_in(directory)

    def paths(self) -> Sequence[str]:
        """See `CodeFiles`."""
        return self._table.paths()

    def name_graph(self) -> NameGraph:
        """See `CodeFiles`."""
        return self._table.name_graph()


def unpack_file(row: StoredCode) -> CodeFile:
    """Unpack a stored file. Parts that cannot be unpacked count as unknown."""
    symbols = symbol_table.unpack(row.symbols) or ()
    return CodeFile(
        row.path,
        row.language,
        symbols,
        unpack_facts(row.facts, len(symbols)),
        row.content_hash,
        precise_uses.unpack(row.precise_uses),
    )


def unpack_facts(packed: bytes | None, symbol_count: int) -> CodeFacts:
    """Unpack the facts of a file with `symbol_count` symbols; no facts if they cannot be unpacked."""
    return fact_table.unpack(packed or b"", symbol_count) or NO_FACTS
