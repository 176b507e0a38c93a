"""One daemon uses a registry at a time, which a lock in the database sees to.

Two of them would index the same roots into the same tables, each as the disk looks from where it
runs, and neither would hear of what the other writes. The lock belongs to a session, so that
nothing is left of a daemon that was killed.
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

ACQUIRE_TIMEOUT_S = 5.0  # for the session of a daemon that has just ended
CHECK_INTERVAL_S, RETRY_INTERVAL_S = 10.0, 1.0


class LockHeld(StoreUnavailable):
    """Another daemon uses the registry."""


async def hold_instance_lock(db: Database, *, task_status: TaskStatus[None]) -> None:
    """Be the only daemon of this registry until cancelled; `task_status` is told when it is so.

    A session that is lost is replaced. Raises `LockHeld` when another daemon uses the registry, be
    it at the start or after that; before there was a session, any `StoreUnavailable`.
    """
    name, told, lost = f"cocosearchd-{secrets.token_hex(8)}", False, False
    while True:
        try:
            async with db.session({}) as connection:
                await _take(connection, name)
                if not told:
                    task_status.started()
                elif lost:
                    log.info("instance_lock_reacquired")
                told, lost = True, False
                await _until_lost(connection)
        except StoreUnavailable as error:
            if isinstance(error, LockHeld) or not told:
                raise
            if not lost:  # once, however long the server is away
                log.warning("instance_lock_lost", extra={"error": error.message})
            lost = True
            await anyio.sleep(RETRY_INTERVAL_S)


async def _until_lost(connection: Connection) -> None:
    while True:
        await anyio.sleep(CHECK_INTERVAL_S)
        with connection.answer_timeout(LIVENESS_TIMEOUT_S):
            await connection.execute("select 1")


async def _take(connection: Connection, name: str) -> None:
    """Returns when the lock is held. Raises `LockHeld`."""
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
            # the server has not heard yet that a session is lost
            ours = row is not None and row[0] == name
            if row and not ours and anyio.current_time() >= end:
                raise LockHeld(
                    f"another cocosearchd, from {row[1]}, uses this database",
                    "stop that one, or give this one a database or a schema of its own in COCOSEARCH_DATABASE_URL",
                )
            await anyio.sleep(RETRY_INTERVAL_S if ours else RETRY_INTERVAL_S / 10)


async def lock_key(connection: Connection) -> int:
    """Of the registry, which need not be there yet. Positive, as the halves by which PostgreSQL
    shows a lock are.
    """
    row = await (await connection.execute(statement("registry_schema"))).fetchone()
    schema = row[0] if row and row[0] else ""
    return int.from_bytes(hashlib.blake2b(schema.encode(), digest_size=7).digest())
