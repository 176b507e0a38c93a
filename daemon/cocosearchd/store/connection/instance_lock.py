"""Lets a single daemon use a registry at a time, by a lock in the database.

Two daemons would index the same roots into the same tables, each with its own view of the disk, and
neither would learn what the other writes. The lock belongs to a session, so it ends when its daemon
is killed. It also ends when PostgreSQL restarts, and another daemon may then be faster. Therefore the
registry names its owner, and takes commits of that owner only: see `owned_transaction`.
"""

import hashlib
import logging
import secrets
from typing import Protocol

import anyio
from anyio.abc import TaskStatus

from cocosearchd.errors import CocoSearchError
from cocosearchd.runtime.ticks import seconds_to_tick
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.liveness_check import LIVENESS_TIMEOUT_S
from cocosearchd.store.connection.migrate import schema_change
from cocosearchd.store.connection.owned_transaction import (
    OTHER_DAEMON_HINT,
    LockHeld,
    owned_transaction,
)
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.lineage import note_timeline, read_timeline

log = logging.getLogger(__name__)

ACQUIRE_TIMEOUT_S = 5.0  # time for the session of a daemon that has just ended
CHECK_INTERVAL_S = 10.0  # between two checks of a connection whose end is no event
RETRY_INTERVAL_S = 1.0


class OnHeldAgain(Protocol):
    """Brings what was derived from the rows in line with those that the server has now."""

    async def __call__(self, *, is_other_timeline: bool) -> None:
        """Compare; on another timeline of the log, commits are lost even if none seems to be."""


class InstanceLock:
    """The lock of a registry, for one daemon.

    `owner` is the name of this daemon in the registry. `is_held` is False before the lock is held,
    and from the end of its session until it is held again. A failover, or storage that is restored,
    ends each session: `on_held_again` runs before the lock counts as held again.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.owner = f"cocosearchd-{secrets.token_hex(8)}"
        self.is_held = False
        self._is_claimed = False
        self._timeline = ""
        self.on_held_again: OnHeldAgain | None = None

    async def hold(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the lock until cancelled; `task_status` is started once it is held.

        A lost session is replaced. Raises `LockHeld` when another daemon uses the registry, at the
        start or later; before the first session, any `CocoSearchError`.
        """
        is_started = False
        is_lost = False
        while True:
            try:
                async with self._db.session({}) as connection:
                    await self._acquire_again(connection)
                    if not is_started:
                        task_status.started()
                    elif is_lost:
                        log.info("instance_lock_reacquired")
                    is_started = True
                    is_lost = False
                    await _until_lost(connection)
            except CocoSearchError as error:
                self.is_held = False
                if isinstance(error, LockHeld) or not is_started:
                    raise
                if is_lost:
                    await anyio.sleep(RETRY_INTERVAL_S)
                else:  # log once, however long the server is away
                    log.warning("instance_lock_lost", extra={"error": error.message})
                is_lost = True

    async def claim(self) -> None:
        """Make this daemon the owner of the registry, which exists by now.

        The commits of another owner are refused from then on, and those under way have ended: the
        row of the owner is locked until then. Raises `LockHeld`, also if the lock was just lost: the
        owner may not be a daemon that does not know of the one with the lock.
        """
        async with schema_change(self._db, answer_timeout_s=None) as connection:
            await note_timeline(connection, await read_timeline(connection))
            await connection.execute(statement("claim_registry"), {"owner": self.owner})
            holder = await _read_holder(connection, await lock_key(connection))
            if holder is None or holder[0] != self.owner:
                raise LockHeld("another cocosearchd may use this database now", OTHER_DAEMON_HINT)
        self._db.owner = self.owner
        self._is_claimed = True

    async def _acquire_again(self, connection: Connection) -> None:
        """Wait until the lock is held. Raises `LockHeld`, also if another daemon had it meanwhile.

        That one may have written what the memory of this one does not know.
        """
        await _acquire(connection, self.owner)
        timeline = await read_timeline(connection)
        if self._is_claimed:
            async with owned_transaction(connection, self.owner):
                await note_timeline(connection, timeline)
        if self._is_claimed and self.on_held_again is not None:
            await self.on_held_again(is_other_timeline=timeline != self._timeline)
        self._timeline = timeline
        self.is_held = True


async def _until_lost(connection: Connection) -> None:
    """Wait until the session has ended, and raise its error."""
    while True:
        with anyio.move_on_after(seconds_to_tick(CHECK_INTERVAL_S)):
            # the end of a session can be read at once; so can messages of a server that goes on
            await anyio.wait_readable(connection.fileno())
        with connection.answer_timeout(LIVENESS_TIMEOUT_S):
            await connection.execute("select 1")


async def _acquire(connection: Connection, name: str) -> None:
    """Wait until the lock is held. Raises `LockHeld`."""
    with connection.answer_timeout(LIVENESS_TIMEOUT_S):
        await connection.execute(statement("name_session"), {"name": name})
        key = await lock_key(connection)
        end = anyio.current_time() + ACQUIRE_TIMEOUT_S
        while True:
            row = await fetch_row(connection, statement("try_instance_lock"), {"key": key})
            if row and row[0]:
                return
            holder = await _read_holder(connection, key)
            # our own lost session, which the server has not noticed yet
            ours = holder is not None and holder[0] == name
            if holder and not ours and anyio.current_time() >= end:
                message = f"another cocosearchd, from {holder[1]}, uses this database"
                raise LockHeld(message, OTHER_DAEMON_HINT)
            await anyio.sleep(RETRY_INTERVAL_S if ours else RETRY_INTERVAL_S / 10)


async def _read_holder(connection: Connection, key: int) -> tuple[str, str] | None:
    """Read the name of the session that holds a lock, and its address; None without one."""
    row = await fetch_row(connection, statement("instance_lock_holder"), {"key": key})
    return None if row is None else (row[0], row[1])


async def lock_key(connection: Connection) -> int:
    """Derive the key of the lock from the schema of the registry, which need not exist yet.

    The key is positive, like the two halves in which PostgreSQL shows a lock.
    """
    return schema_key(await fetch_quoted_schema(connection))


async def fetch_quoted_schema(connection: Connection) -> str:
    """Return the schema of the registry as SQL writes it; "" without any schema."""
    row = await fetch_row(connection, statement("registry_schema"))
    return row[1] if row and row[1] else ""


def schema_key(schema: str) -> int:
    """Derive the key of the lock from a schema as SQL writes it."""
    return int.from_bytes(hashlib.blake2b(schema.encode(), digest_size=7).digest())
