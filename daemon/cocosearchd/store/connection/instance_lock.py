"""Lets a single daemon use a registry at a time, by a lock in the database.

Two daemons would index the same roots into the same tables, each with its own view of the disk, and
neither would learn what the other writes. The lock belongs to a session, so it ends when its daemon
is killed.
"""

import hashlib
import logging
import secrets

import anyio
from anyio.abc import TaskStatus

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.liveness_check import LIVENESS_TIMEOUT_S
from cocosearchd.store.connection.statements import statement

log = logging.getLogger(__name__)

ACQUIRE_TIMEOUT_S = 5.0  # time for the session of a daemon that has just ended
CHECK_INTERVAL_S = 10.0
RETRY_INTERVAL_S = 1.0


class LockHeld(StoreUnavailable):
    """Another daemon uses the registry."""


async def hold_instance_lock(db: Database, *, task_status: TaskStatus[None]) -> None:
    """Hold the lock of the registry until cancelled; `task_status` is started once it is held.

    A lost session is replaced. Raises `LockHeld` if another daemon uses the registry, at the start
    or later. Raises any other `StoreUnavailable` only before the first session.
    """
    name = f"cocosearchd-{secrets.token_hex(8)}"
    started = False
    lost = False
    while True:
        try:
            async with db.session({}) as connection:
                await _acquire(connection, name)
                if not started:
                    task_status.started()
                elif lost:
                    log.info("instance_lock_reacquired")
                started = True
                lost = False
                await _until_lost(connection)
        except StoreUnavailable as error:
            if isinstance(error, LockHeld) or not started:
                raise
            if not lost:  # log once, however long the server is away
                log.warning("instance_lock_lost", extra={"error": error.message})
            lost = True
            await anyio.sleep(RETRY_INTERVAL_S)


async def _until_lost(connection: Connection) -> None:
    while True:
        await anyio.sleep(CHECK_INTERVAL_S)
        with connection.answer_timeout(LIVENESS_TIMEOUT_S):
            await connection.execute("select 1")


async def _acquire(connection: Connection, name: str) -> None:
    """Wait until the lock is held. Raises `LockHeld`."""
    with connection.answer_timeout(LIVENESS_TIMEOUT_S):
        await connection.execute(statement("name_session"), {"name": name})
        key = await lock_key(connection)
        end = anyio.current_time() + ACQUIRE_TIMEOUT_S
        while True:
            row = await (
                await connection.execute(statement("try_instance_lock"), {"key": key})
            ).fetchone()
            if row and row[0]:
                return
            row = await (
                await connection.execute(statement("instance_lock_holder"), {"key": key})
            ).fetchone()
            # our own lost session, which the server has not noticed yet
            ours = row is not None and row[0] == name
            if row and not ours and anyio.current_time() >= end:
                raise LockHeld(
                    f"another cocosearchd, from {row[1]}, uses this database",
                    "stop that one, or give this one its own database or schema in "
                    "COCOSEARCH_DATABASE_URL",
                )
            await anyio.sleep(RETRY_INTERVAL_S if ours else RETRY_INTERVAL_S / 10)


async def lock_key(connection: Connection) -> int:
    """Derive the key of the lock from the schema of the registry, which need not exist yet.

    The key is positive, like the two halves in which PostgreSQL shows a lock.
    """
    return schema_key(await own_schema(connection))


async def own_schema(connection: Connection) -> str:
    """Read the schema of the registry as SQL writes it, "" if there is none to create one in."""
    row = await (await connection.execute(statement("registry_schema"))).fetchone()
    return row[1] if row and row[1] else ""


def schema_key(schema: str) -> int:
    """Derive the key of the lock from a schema as SQL writes it."""
    return int.from_bytes(hashlib.blake2b(schema.encode(), digest_size=7).digest())
