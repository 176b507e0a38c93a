"""What was computed once, by key, in a SQLite file: bounded in bytes, what was not asked for
longest goes first.

Never the truth: a file that is lost, or that SQLite cannot read, costs time.
"""

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

DAY_S = 86_400
KEPT_SHARE = 0.8  # of the bytes allowed, after there were more
FLUSH_S = 0.5  # what a kill may lose
# WAL: readers do not wait. Without a sync a commit may be lost with the power, never torn. Values
# are in the order in which they came, beside an index of the keys: in the order of keys, which are
# digests, each value would write a page of its own, for four times the CPU (measured). Files of
# versions before go on like that.
_SETUP = """
pragma journal_mode = wal;
pragma synchronous = normal;
pragma journal_size_limit = 67108864;
create table if not exists kept (
    key blob primary key,
    used integer not null, -- day, for the choice of what goes
    value blob not null
);
"""
# A file of a version that kept nothing but vectors.
_FORMER = "select 1 from sqlite_master where name = 'vectors'"
_RENAME = "begin; alter table vectors rename to kept; alter table kept rename column vector to value; commit;"
_AT_ONCE = 32  # keys of one statement, filled up with nulls, which equal nothing
_SELECT = f"select key, used, value from kept where key in ({', '.join('?' * _AT_ONCE)})"  # noqa: S608 - no values
# What says that the file is no store of ours: not a disk that is full, or another process in it.
_DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_ERROR,
}
_MAPPED = "pragma mmap_size = 268435456"  # bytes of address space: what is mapped is not copied


class DiskCache:
    """Values by keys. `put` is seen by `get` at once, and is on disk after `flush`. For any
    thread.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """Opens or makes the file; raises `sqlite3.Error` or `OSError` where that is not
        possible.
        """
        self._path, self._limit = path, limit_bytes
        self._fresh: dict[bytes, bytes] = {}
        self._flushing: Mapping[bytes, bytes] = {}
        self._touched: set[bytes] = set()
        self._lock = threading.Lock()  # of these, while they change hands
        self._reading = threading.Lock()
        self._damaged = False
        self._soon: asyncio.Task[None] | None = None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._writer = self._opened(path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._writer = self._made_anew()
        self._reader = _reader(path)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The known ones."""
        found = {
            key: value for key in keys if (value := self._fresh.get(key) or self._flushing.get(key))
        }
        return found | self._stored([key for key in keys if key not in found])

    def put(self, values: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep values, none of them empty."""
        with self._lock:
            self._fresh.update(values)

    def flush_soon(self) -> None:
        """Write what was put, in a while and in a thread. For the event loop that will call
        `aclose`.
        """
        if self._soon is None and self._fresh:
            self._soon = asyncio.create_task(self._flush_soon())

    async def aclose(self) -> None:
        """Write what was put, and close."""
        while self._soon is not None:
            await self._soon
        await asyncio.to_thread(self.close)

    def flush(self) -> None:
        """Write what was put, and let go of what is too much. Blocking; one at a time."""
        with self._lock:
            self._flushing, self._fresh = self._fresh, {}
            touched, self._touched = self._touched, set()
        today = _today()
        try:
            if self._damaged:
                self._begin_anew()
            with self._writer:
                self._writer.executemany(
                    "insert or replace into kept values (?, ?, ?)",
                    ((key, today, value) for key, value in self._flushing.items()),
                )
                self._writer.executemany(
                    "update kept set used = ? where key = ?", ((today, k) for k in touched)
                )
            self._shrink()
        # a full disk, say: it is computed again when it is needed again
        except (sqlite3.Error, OSError) as error:
            self._damaged |= _is_damage(error)
            log.warning("not_kept", extra={"path": str(self._path), "error": str(error)})
        self._flushing = {}

    def close(self) -> None:
        """As `aclose`, without an event loop."""
        self.flush()
        self._reader.close()
        self._writer.close()

    def used_bytes(self) -> int:
        """Of the file, without what is free in it."""
        pages, free, size = (
            self._writer.execute(f"pragma {what}").fetchone()[0] for what in _SIZES
        )
        return int((pages - free) * size)

    async def _flush_soon(self) -> None:
        await asyncio.sleep(FLUSH_S)
        await asyncio.to_thread(self.flush)
        self._soon = asyncio.create_task(self._flush_soon()) if self._fresh else None

    def _stored(self, keys: list[bytes]) -> dict[bytes, bytes]:
        found, old, today = dict[bytes, bytes](), set[bytes](), _today()
        try:
            for first in range(0, len(keys), _AT_ONCE):
                asked = keys[first : first + _AT_ONCE]
                with self._reading:
                    rows = self._reader.execute(
                        _SELECT, [*asked, *[None] * (_AT_ONCE - len(asked))]
                    ).fetchall()
                found |= {key: value for key, _, value in rows}
                old |= {key for key, used, _ in rows if used != today}
        except sqlite3.Error as error:
            if not self._damaged:  # else that was said, and it is begun anew with the next values
                log.warning("kept_not_read", extra={"path": str(self._path), "error": str(error)})
            self._damaged |= _is_damage(error)
        with self._lock:
            self._touched |= old
        return found

    def _shrink(self) -> None:
        used = self.used_bytes()
        if used <= self._limit:
            return
        (count,) = self._writer.execute("select count(*) from kept").fetchone()
        going = int(count * (1 - self._limit * KEPT_SHARE / used))
        with self._writer:
            self._writer.execute(
                "delete from kept where key in (select key from kept order by used limit ?)",
                (going,),
            )

    def _begin_anew(self) -> None:
        """In place of a file of which SQLite could not read a part: each question would fail, also
        after a restart.
        """
        writer, reader = self._made_anew(), _reader(self._path)
        self._damaged = False
        with self._reading:
            former, self._writer, self._reader = (self._writer, self._reader), writer, reader
        for connection in former:
            connection.close()

    def _made_anew(self) -> sqlite3.Connection:
        log.warning("kept_unreadable", extra={"path": str(self._path)})
        for part in (self._path, Path(f"{self._path}-wal"), Path(f"{self._path}-shm")):
            part.unlink(missing_ok=True)
        return self._opened(self._path)

    def _opened(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
        try:
            if connection.execute(_FORMER).fetchone():
                connection.executescript(_RENAME)
            connection.executescript(_SETUP)
            connection.execute("select key, used, value from kept limit 1").fetchone()
        except sqlite3.Error:
            connection.close()
            raise
        return connection


_SIZES = ("page_count", "freelist_count", "page_size")


def _reader(path: Path) -> sqlite3.Connection:
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute(_MAPPED)
    return reader


def _is_damage(error: Exception) -> bool:
    return (
        isinstance(error, sqlite3.Error)
        and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
    )


def _today() -> int:
    return int(time.time()) // DAY_S
