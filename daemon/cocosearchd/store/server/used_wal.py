"""Frees the used write-ahead log of bulk work, by a checkpoint as soon as writes have ended.

The log of a first index is larger than its rows. PostgreSQL frees the log at its next checkpoint. By
itself it makes one only after `checkpoint_timeout` or `max_wal_size` (see `embedded.DEFAULTS`).
"""

import os
import time
from pathlib import Path

import psycopg

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.statements import statement

# To free less is not worth it: after a checkpoint, PostgreSQL writes changed pages in full.
FREED_BYTES = 4 << 20
QUIET_S = 20.0  # without a write: a checkpoint during bulk work would only cost time
CONNECT_TIMEOUT_S = 5


class UsedWal:
    """The write-ahead log of one embedded server. For one thread at a time."""

    def __init__(self, data: Path, superuser_dsn: str) -> None:
        """`data` is the server's data directory. Only a superuser may order a checkpoint."""
        self._segments = data / "pg_wal"
        self._superuser_dsn = superuser_dsn
        self._retained = 0  # bytes that the last checkpoint did not free

    def free(self) -> int:
        """Order a checkpoint if that frees much, and return the bytes that it freed.

        Blocks while the server writes its pages. Raises `StoreUnavailable`.
        """
        size, written_at = self._state()
        self._retained = min(self._retained, size)
        if size - self._retained < FREED_BYTES or time.time() - written_at < QUIET_S:
            return 0
        self._order_checkpoint()
        self._retained, _ = self._state()
        return size - self._retained

    def _order_checkpoint(self) -> None:
        try:
            with psycopg.connect(
                self._superuser_dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
            ) as connection:
                connection.execute(statement("checkpoint"))
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"PostgreSQL made no checkpoint: {type(error).__name__}",
                "see postgres.log in the state directory",
            ) from error

    def _state(self) -> tuple[int, float]:
        """Return the bytes of all segments, and when one was last written (seconds, Unix time)."""
        size, written_at = 0, 0.0
        with os.scandir(self._segments) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # the server has removed it meanwhile
                    continue
                if entry.is_file(follow_symlinks=False):
                    size += status.st_size
                    written_at = max(written_at, status.st_mtime)
        return size, written_at
