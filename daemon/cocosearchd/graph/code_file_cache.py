"""Bounded caches of files of the code graph, unpacked and packed. Thread-safe."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.store.file_facts import StoredCode

# Limits of one index: some 3,000 unpacked files with 290 uses each, and 9,000 packed files. A
# cached unpacked file saves a fifth of a millisecond; a cached packed file saves a round trip to
# the store.
MAX_UNPACKED_BYTES = 120 << 20
MAX_PACKED_BYTES = 24 << 20
# Measured with `tracemalloc` on unpacked files, including strings and arranged names.
_FILE_BYTES = 7_000
_SYMBOL_BYTES = 1_000
_FACT_BYTES = 20
_PRECISE_BYTES = 200
_ROW_BYTES = 600  # overhead of a packed file

# Share of a cache for values that were used again.
_USED_SHARE = 0.75

V = TypeVar("V")


class _CachedValue(NamedTuple, Generic[V]):
    """A cached value of a file."""

    generation: int
    value: V
    size: int  # bytes, estimated


class _Segment(Generic[V]):
    """Values of files by path, the least recently used first."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, _CachedValue[V]] = OrderedDict()
        self.nbytes = 0

    def add(self, path: str, entry: _CachedValue[V]) -> None:
        """Add a value as the most recently used one."""
        self.entries[path] = entry
        self.nbytes += entry.size

    def remove(self, path: str) -> None:
        """Remove the value of a file, if there is one."""
        entry = self.entries.pop(path, None)
        if entry is not None:
            self.nbytes -= entry.size

    def pop_oldest(self) -> tuple[str, _CachedValue[V]]:
        """Remove and return the least recently used value."""
        path, entry = self.entries.popitem(last=False)
        self.nbytes -= entry.size
        return path, entry


class FileCache(Generic[V]):
    """A bounded cache of one value per file, each with the generation of the file.

    A question about a central definition reads several times as many files as fit. With plain LRU it
    would evict all files and find none of them the next time. Therefore the cache is a segmented
    LRU: once it is full, a new file only replaces other new files, until it is used again.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used = _Segment[V]()  # values that were used again, or that came while there was room
        self._new = _Segment[V]()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """The estimated memory."""
        return self._used.nbytes + self._new.nbytes

    def __contains__(self, path: str) -> bool:
        return path in self._used.entries or path in self._new.entries

    def get(self, path: str, generation: int) -> V | None:
        """Return the value of a file at a generation; None if it is not cached."""
        with self._lock:
            entry = self._used.entries.get(path) or self._new.entries.get(path)
            if entry is None or entry.generation != generation:
                return None
            if path in self._used.entries:
                self._used.entries.move_to_end(path)
            else:
                self._promote(path, entry)
            return entry.value

    def _promote(self, path: str, entry: _CachedValue[V]) -> None:
        """Move a new value, which is used again, to the used ones."""
        self._new.remove(path)
        self._used.add(path, entry)
        while self._used.nbytes > self._max_bytes * _USED_SHARE:
            self._new.add(*self._used.pop_oldest())

    def put(self, path: str, generation: int, value: V, size: int) -> None:
        """Store a value; it replaces the value of an earlier generation.

        Evict new values that were not used again, the oldest first.
        """
        with self._lock:
            self._remove(path)
            has_room = self._used.nbytes + size <= self._max_bytes * _USED_SHARE
            (self._used if has_room else self._new).add(path, _CachedValue(generation, value, size))
            while self.nbytes > self._max_bytes:
                (self._new if self._new.entries else self._used).pop_oldest()

    def clear(self) -> None:
        """Drop all files."""
        with self._lock:
            for path in [*self._used.entries, *self._new.entries]:
                self._remove(path)

    def _remove(self, path: str) -> None:
        self._used.remove(path)
        self._new.remove(path)


class CodeFileCache:
    """The cache of unpacked files, and a larger cache of packed files."""

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
