"""Bounded caches of files of the code graph, unpacked and packed. Thread-safe."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.store.file_facts import StoredCode

# Limits of one index: some 1,000 unpacked files with 290 uses each, and 9,000 packed files. A
# cached unpacked file saves a fifth of a millisecond; a cached packed file saves a round trip to
# the store.
MAX_UNPACKED_BYTES = 40 << 20
MAX_PACKED_BYTES = 24 << 20
# Measured with `tracemalloc` on unpacked files, including strings and arranged names.
_FILE_BYTES = 7_000
_SYMBOL_BYTES = 1_000
_FACT_BYTES = 20
_PRECISE_BYTES = 200
_ROW_BYTES = 600  # overhead of a packed file

V = TypeVar("V")


class FileCache(Generic[V]):
    """An LRU cache of one value per file, each with the generation of the file."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[int, V, int]] = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0  # estimated

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def get(self, path: str, generation: int) -> V | None:
        """Return the value of a file at a generation; None if it is not cached."""
        with self._lock:
            entry = self._entries.get(path)
            if entry is None or entry[0] != generation:
                return None
            self._entries.move_to_end(path)
            return entry[1]

    def put(self, path: str, generation: int, value: V, size: int) -> None:
        """Store a value; it replaces the value of an earlier generation.

        Evict least recently used values.
        """
        with self._lock:
            self._remove(path)
            self._entries[path] = generation, value, size
            self.nbytes += size
            while self.nbytes > self._max_bytes:
                self._remove(next(iter(self._entries)))

    def clear(self) -> None:
        """Drop all files."""
        with self._lock:
            for path in list(self._entries):
                self._remove(path)

    def _remove(self, path: str) -> None:
        entry = self._entries.pop(path, None)
        if entry is not None:
            self.nbytes -= entry[2]


class CodeFileCache:
    """The least-recently-used cache of unpacked files, and a larger cache of packed files."""

    def __init__(
        self, max_bytes: int = MAX_UNPACKED_BYTES, max_packed_bytes: int = MAX_PACKED_BYTES
    ) -> None:
        self._files = FileCache[CodeFile](max_bytes)
        self._rows = FileCache[StoredCode](max_packed_bytes)

    @property
    def nbytes(self) -> int:
        """The estimated memory of all files."""
        return self._files.nbytes + self._rows.nbytes

    def __contains__(self, path: str) -> bool:
        """Return True if a file is cached at any generation."""
        return path in self._files or path in self._rows

    def get(self, path: str, generation: int) -> CodeFile | None:
        """Return a file as it was at a generation; None if it is not cached unpacked."""
        return self._files.get(path, generation)

    def get_packed(self, path: str, generation: int) -> StoredCode | None:
        """Return a packed file as it was at a generation; None if it is not cached packed."""
        return self._rows.get(path, generation)

    def put(self, file: CodeFile, generation: int) -> None:
        """Store an unpacked file; it replaces an earlier generation."""
        self._files.put(file.path, generation, file, estimate_bytes(file))

    def put_packed(self, row: StoredCode) -> None:
        """Store a packed file; it replaces an earlier generation."""
        size = _ROW_BYTES + len(row.symbols) + len(row.facts) + len(row.precise_uses)
        self._rows.put(row.path, row.generation, row, size)

    def clear(self) -> None:
        """Drop all files."""
        self._files.clear()
        self._rows.clear()


def estimate_bytes(file: CodeFile) -> int:
    """Estimate the memory of an unpacked file."""
    facts = file.facts
    count = len(facts.imports) + len(facts.uses) + len(facts.bindings)
    precise = _PRECISE_BYTES * len(file.precise_uses or ())
    return _FILE_BYTES + _SYMBOL_BYTES * len(file.symbols) + _FACT_BYTES * count + precise
