"""A bounded cache of unpacked files of the code graph, by path and generation. For any thread."""

from collections import OrderedDict
from threading import Lock

from cocosearchd.graph.code_files import CodeFile

# The limit of one index: some 1,100 files of 120 uses. A file that is there saves a millisecond.
MAX_BYTES = 48 << 20
# Measured with `tracemalloc` on unpacked files, strings and all names in order included.
_FILE_BYTES = 3_000
_SYMBOL_BYTES = 900
_FACT_BYTES = 170
_PRECISE_BYTES = 200


class CodeFileCache:
    """The files used last, at the generation at which each was read."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._files: OrderedDict[str, tuple[int, CodeFile, int]] = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0  # estimated

    def get(self, path: str, generation: int) -> CodeFile | None:
        """Return a file as it was at a generation; None if it is not cached."""
        with self._lock:
            entry = self._files.get(path)
            if entry is None or entry[0] != generation:
                return None
            self._files.move_to_end(path)
            return entry[1]

    def put(self, file: CodeFile, generation: int) -> None:
        """Store a file in place of an earlier generation; the files used longest ago go."""
        size = estimate_bytes(file)
        with self._lock:
            self._remove(file.path)
            self._files[file.path] = generation, file, size
            self.nbytes += size
            while self.nbytes > self._max_bytes:
                self._remove(next(iter(self._files)))

    def clear(self) -> None:
        """Drop all files."""
        with self._lock:
            for path in list(self._files):
                self._remove(path)

    def _remove(self, path: str) -> None:
        entry = self._files.pop(path, None)
        if entry is not None:
            self.nbytes -= entry[2]
            entry[1].derived.clear()


def estimate_bytes(file: CodeFile) -> int:
    """Estimate the memory of an unpacked file."""
    facts = file.facts
    count = len(facts.imports) + len(facts.uses) + len(facts.bindings)
    precise = _PRECISE_BYTES * len(file.precise_uses or ())
    return _FILE_BYTES + _SYMBOL_BYTES * len(file.symbols) + _FACT_BYTES * count + precise
