"""Transactions that are committed for the owner of the registry only: the fence of all writes.

A daemon that has lost its instance lock may not know it yet, or may have been frozen. Each of its
transactions ends with a look at the owner, under a lock of that row until the commit. A daemon that
becomes the owner updates the row, and so waits for transactions that have looked before.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.statements import statement

OTHER_DAEMON_HINT = (
    "stop that one, or give this one its own database or schema in COCOSEARCH_DATABASE_URL"
)


class LockHeld(StoreUnavailable):
    """Another daemon uses the registry."""


@asynccontextmanager
async def owned_transaction(connection: Connection, owner: str) -> AsyncIterator[None]:
    """Open a transaction. Raises `LockHeld`, and commits nothing, if the registry has another owner.

    The owner is read last: its row is locked after all others, and for a moment only. An `owner` of
    "" stands for any: see `Database.owner`.
    """
    async with connection.transaction():
        yield
        await check_owner(connection, owner)


@asynccontextmanager
async def write_transaction(db: Database) -> AsyncIterator[Connection]:
    """Open an `owned_transaction` on a connection of its own. Raises as `Database.connection` too."""
    async with db.connection() as connection, owned_transaction(connection, db.owner):
        yield connection


async def check_owner(connection: Connection, owner: str) -> None:
    """Raise `LockHeld` if the registry has another owner; "" stands for any.

    Within a transaction, the owner stays the same until its end.
    """
    if not owner:
        return
    row = await fetch_row(connection, statement("lock_owner"), {})
    if row is None or row[0] != owner:
        raise LockHeld("another cocosearchd uses this database now", OTHER_DAEMON_HINT)
