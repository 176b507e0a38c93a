"""A bounded LRU cache on disk (SQLite): computed values by key.

A lost or unreadable file costs only the time to compute its values again.
"""

import asyncio
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

DAY_S = 86_400
SHRINK_TO = 0.8  # share of the allowed bytes that stays after the file has exceeded them
FLUSH_S = 0.5  # a kill loses the values of this time
# A larger log of SQLite is emptied after a flush if nothing else has to be written: SQLite itself
# keeps about four MiB for the next values.
LOG_BYTES = 1 << 20
# WAL: readers do not wait. Without a sync a power failure may lose a commit, but never tears one.
# Values are stored in order of arrival, with a separate index of the keys. Keys are digests: in the
# order of keys each value would write a page of its own, for four times the CPU (measured). Files of
# earlier versions stay in the order of keys.
_SETUP = """
pragma journal_mode = wal;
pragma synchronous = normal;
pragma journal_size_limit = 67108864;
create table if not exists kept (
    key blob primary key,
    used integer not null, -- day, for the choice of evictions
    value blob not null
);
"""
# A file of a version that cached only vectors.
_VECTORS_TABLE = "select 1 from sqlite_master where name = 'vectors'"
_RENAME = "begin; alter table vectors rename to kept; alter table kept rename column vector to value; commit;"
_AT_ONCE = 32  # keys of one statement, padded with nulls: a null equals no key
_SELECT = f"select key, used, value from kept where key in ({', '.join('?' * _AT_ONCE)})"  # noqa: S608 - no values
# Errors of a damaged or foreign file, in contrast to a full disk or a lock of another process.
_DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_ERROR,
}
_MAPPED = "pragma mmap_size = 268435456"  # bytes of address space: mapped pages are not copied


class DiskCache:
    """Values by key. `get` sees a `put` at once; `flush` writes it to disk. Thread-safe."""

    def __init__(self, path: Path, limit_bytes: int, *, compress: bool = False) -> None:
        """Open or create the file. Raises `sqlite3.Error` or `OSError`.

        With `compress`, values are compressed on disk: they take a third of their size.
        """
        self._path = path
        self._limit = limit_bytes
        self._compress = compress
        self._fresh: dict[bytes, bytes] = {}
        self._flushing: Mapping[bytes, bytes] = {}
        self._touched: set[bytes] = set()
        self._lock = threading.Lock()  # for `_fresh`, `_flushing` and `_touched`
        self._reading = threading.Lock()
        self._damaged = False
        self._soon: asyncio.Task[None] | None = None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._writer = self._open(path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._writer = self._recreate()
        self._reader = _reader(path)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of the keys that are cached."""
        values = {
            key: value for key in keys if (value := self._fresh.get(key) or self._flushing.get(key))
        }
        return values | self._read_stored([key for key in keys if key not in values])

    def put(self, values: Iterable[tuple[bytes, bytes]]) -> None:
        """Add values, none of them empty."""
        with self._lock:
            self._fresh.update(values)

    def flush_soon(self) -> None:
        """Write new values after `FLUSH_S` in a thread; the event loop must call `aclose`."""
        if self._soon is None and self._fresh:
            self._soon = asyncio.create_task(self._flush_soon())

    async def aclose(self) -> None:
        """Write new values, and close."""
        while self._soon is not None:
            await self._soon
        await asyncio.to_thread(self.close)

    def flush(self) -> None:
        """Write new values and evict the excess. Blocking; one caller at a time."""
        with self._lock:
            self._flushing = self._fresh
            self._fresh = {}
            touched = self._touched
            self._touched = set()
        today = _today()
        try:
            if self._damaged:
                self._replace_file()
            with self._writer:
                self._writer.executemany(
                    "insert or replace into kept values (?, ?, ?)",
                    ((key, today, self._pack(value)) for key, value in self._flushing.items()),
                )
                self._writer.executemany(
                    "update kept set used = ? where key = ?", ((today, k) for k in touched)
                )
            self._shrink()
            self._empty_log()
        # a full disk, for example: the values are computed again when they are needed
        except (sqlite3.Error, OSError) as error:
            self._damaged |= _is_damage(error)
            log.warning("cache_not_written", extra={"path": str(self._path), "error": str(error)})
        self._flushing = {}

    def close(self) -> None:
        """Write new values and close, without an event loop."""
        self.flush()
        self._reader.close()
        self._writer.close()

    def used_bytes(self) -> int:
        """Return bytes in use in the file, without its free pages."""
        pages, free, size = (
            self._writer.execute(f"pragma {name}").fetchone()[0] for name in _SIZES
        )
        return int((pages - free) * size)

    async def _flush_soon(self) -> None:
        await asyncio.sleep(FLUSH_S)
        try:
            await asyncio.to_thread(self.flush)
        except RuntimeError as error:  # no thread can be started: the values wait
            log.warning("cache_not_written", extra={"path": str(self._path), "error": str(error)})
        self._soon = asyncio.create_task(self._flush_soon()) if self._fresh else None

    def _read_stored(self, keys: list[bytes]) -> dict[bytes, bytes]:
        values: dict[bytes, bytes] = {}
        outdated: set[bytes] = set()
        today = _today()
        try:
            for first in range(0, len(keys), _AT_ONCE):
                batch = keys[first : first + _AT_ONCE]
                with self._reading:
                    rows = self._reader.execute(
                        _SELECT, [*batch, *[None] * (_AT_ONCE - len(batch))]
                    ).fetchall()
                values |= {key: value for key, _, raw in rows if (value := self._unpack(raw))}
                outdated |= {key for key, used, _ in rows if used != today}
        except sqlite3.Error as error:
            if not self._damaged:  # damage is logged once, and the next flush replaces the file
                log.warning("cache_not_read", extra={"path": str(self._path), "error": str(error)})
            self._damaged |= _is_damage(error)
        with self._lock:
            self._touched |= outdated
        return values

    def _pack(self, value: bytes) -> bytes:
        return zlib.compress(value, level=1) if self._compress else value

    def _unpack(self, raw: bytes) -> bytes | None:
        """Return a stored value; None for a value from before values were compressed."""
        try:
            return zlib.decompress(raw) if self._compress else raw
        except zlib.error:
            return None

    def _empty_log(self) -> None:
        log_path = Path(f"{self._path}-wal")
        if not self._fresh and log_path.exists() and log_path.stat().st_size > LOG_BYTES:
            self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()

    def _shrink(self) -> None:
        used = self.used_bytes()
        if used <= self._limit:
            return
        (count,) = self._writer.execute("select count(*) from kept").fetchone()
        evictions = int(count * (1 - self._limit * SHRINK_TO / used))
        with self._writer:
            self._writer.execute(
                "delete from kept where key in (select key from kept order by used limit ?)",
                (evictions,),
            )

    def _replace_file(self) -> None:
        """Replace a damaged file: otherwise reads fail, even after a restart."""
        writer = self._recreate()
        reader = _reader(self._path)
        self._damaged = False
        with self._reading:
            old_connections = (self._writer, self._reader)
            self._writer = writer
            self._reader = reader
        for connection in old_connections:
            connection.close()

    def _recreate(self) -> sqlite3.Connection:
        log.warning("cache_unreadable", extra={"path": str(self._path)})
        remove_file(self._path)
        return self._open(self._path)

    def _open(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
        try:
            if connection.execute(_VECTORS_TABLE).fetchone():
                connection.executescript(_RENAME)
            connection.executescript(_SETUP)
            connection.execute("select key, used, value from kept limit 1").fetchone()
        except sqlite3.Error:
            connection.close()
            raise
        return connection


_SIZES = ("page_count", "freelist_count", "page_size")


def remove_file(path: Path) -> None:
    """Remove the file of a cache that is not open, if it exists."""
    for part in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        part.unlink(missing_ok=True)


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
