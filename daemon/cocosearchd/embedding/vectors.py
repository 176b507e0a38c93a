"""Vectors by the text they were made of, in one SQLite file for each embedder: what was computed once is not again.

Shared by all indexes: branches, worktrees and copies of a project hold the same texts. It is never the truth: a file
that is lost, or that SQLite cannot read, costs time. Bounded in bytes; what was not asked for longest goes first.
"""

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

DAY_S = 86_400
KEPT_SHARE = 0.8  # of the bytes allowed, after there were more
# WAL: readers do not wait. Without a sync a commit may be lost with the power, never torn.
_SETUP = """
pragma journal_mode = wal;
pragma synchronous = normal;
pragma journal_size_limit = 67108864;
create table if not exists vectors (
    key blob primary key,
    used integer not null, -- day, for the choice of what goes
    vector blob not null   -- float16
) without rowid;
"""

Half = NDArray[np.float16]


def key_of(text: str) -> bytes:
    """Of a text as it is embedded."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class VectorStore:
    """Vectors of one embedder. `put` is seen by `get` at once, and is on disk after `flush`."""

    def __init__(self, path: Path, dimension: int, limit_bytes: int) -> None:
        """Opens or makes the file; raises `sqlite3.Error` or `OSError` where that is not possible."""
        self._dimension, self._limit = dimension, limit_bytes
        self._fresh: dict[bytes, bytes] = {}
        self._flushing: Mapping[bytes, bytes] = {}
        self._touched: set[bytes] = set()
        self._lock = threading.Lock()  # of these two, while they change hands
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._writer = self._opened(path)
        except sqlite3.DatabaseError:
            log.warning("vectors_unreadable", extra={"path": str(path)})
            for part in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                part.unlink(missing_ok=True)
            self._writer = self._opened(path)
        self._reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Half]:
        """The known ones, each of shape (dimension,)."""
        raw = {key: value for key in keys if (value := self._fresh.get(key) or self._flushing.get(key))}
        raw |= self._stored([key for key in keys if key not in raw])
        size = self._dimension * 2
        return {key: np.frombuffer(value, np.float16) for key, value in raw.items() if len(value) == size}

    def put(self, vectors: Iterable[tuple[bytes, Half]]) -> None:
        """Keep vectors of shape (dimension,)."""
        with self._lock:
            self._fresh.update((key, vector.astype(np.float16).tobytes()) for key, vector in vectors)

    @property
    def waiting(self) -> bool:
        """Whether `flush` has something to do."""
        return bool(self._fresh)

    def flush(self) -> None:
        """Write what was put, and let go of what is too much. Blocking; one at a time, in any thread."""
        with self._lock:
            self._flushing, self._fresh = self._fresh, {}
            touched, self._touched = self._touched, set()
        today = _today()
        try:
            with self._writer:
                self._writer.executemany(
                    "insert or replace into vectors values (?, ?, ?)",
                    ((key, today, value) for key, value in self._flushing.items()),
                )
                self._writer.executemany("update vectors set used = ? where key = ?", ((today, k) for k in touched))
            self._shrink()
        except sqlite3.Error as error:  # a full disk, say: they are computed again when they are needed again
            log.warning("vectors_not_kept", extra={"error": str(error)})
        self._flushing = {}

    def close(self) -> None:
        """Write what was put, and close."""
        self.flush()
        self._reader.close()
        self._writer.close()

    def used_bytes(self) -> int:
        """Of the file, without what is free in it."""
        pages, free, size = (self._writer.execute(f"pragma {what}").fetchone()[0] for what in _SIZES)
        return int((pages - free) * size)

    def _stored(self, keys: list[bytes]) -> dict[bytes, bytes]:
        found, old, today = dict[bytes, bytes](), set[bytes](), _today()
        try:
            for key in keys:
                row = self._reader.execute("select used, vector from vectors where key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = row[1]
                    if row[0] != today:
                        old.add(key)
        except sqlite3.Error as error:
            log.warning("vectors_not_read", extra={"error": str(error)})
        with self._lock:
            self._touched |= old
        return found

    def _shrink(self) -> None:
        used = self.used_bytes()
        if used <= self._limit:
            return
        (count,) = self._writer.execute("select count(*) from vectors").fetchone()
        going = int(count * (1 - self._limit * KEPT_SHARE / used))
        with self._writer:
            self._writer.execute(
                "delete from vectors where key in (select key from vectors order by used limit ?)", (going,)
            )

    def _opened(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
        try:
            connection.executescript(_SETUP)
            connection.execute("select key, used, vector from vectors limit 1").fetchone()
        except sqlite3.Error:
            connection.close()
            raise
        return connection


_SIZES = ("page_count", "freelist_count", "page_size")


def _today() -> int:
    return int(time.time()) // DAY_S
