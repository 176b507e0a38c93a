"""Locks tables for a change of the schema, so that no transaction waits for it in vain.

Reads and writes lock the tables that they use in orders of their own, and keep them until they end. A
change that waited for a table while it held another would make such a transaction wait for it, and
each for the other: PostgreSQL ends one of two that do so for `deadlock_timeout`, a second by default.
"""

import time
from collections.abc import Sequence

import anyio
import psycopg.errors
from psycopg import sql

from cocosearchd.store.connection.liveness_check import MonitoredConnection
from cocosearchd.store.connection.statements import statement

PAUSE_S = 0.1  # between two tries: others may read and write
LIMIT_S = 60.0  # the lock_timeout of a schema change


async def lock_tables(connection: MonitoredConnection, names: Sequence[str]) -> None:
    """Lock the tables of these names in the daemon's schema against all use, within a schema change.

    Those that are not there are left out. All are locked, or none while this waits. Raises
    `LockNotAvailable` after `LIMIT_S`.
    """
    cursor = await connection.execute(statement("own_tables"), {"names": list(names)})
    tables = await cursor.fetchall()
    if not tables:
        return
    relations = sql.SQL(", ").join(sql.Identifier(schema, name) for schema, name in tables)
    end = time.monotonic() + LIMIT_S
    while not await _try_lock(connection, relations):
        if time.monotonic() >= end:
            raise psycopg.errors.LockNotAvailable("the tables are in use")
        await anyio.sleep(PAUSE_S)
    # In place of the short lock_timeout of the try.
    await connection.execute(statement("begin_schema_change"))


async def _try_lock(connection: MonitoredConnection, relations: sql.Composed) -> bool:
    """Lock tables; return False, and lock none of them, if one is in use for a fifth of a second."""
    try:
        async with connection.transaction():
            await connection.execute(statement("shorten_lock_timeout"))
            await connection.execute(statement("lock_tables", relations=relations))
    except psycopg.errors.LockNotAvailable:
        return False
    return True
