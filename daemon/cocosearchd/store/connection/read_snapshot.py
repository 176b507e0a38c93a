"""Reads one state of the database several times, whatever is committed in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.reading_transaction import reading_transaction
from cocosearchd.store.connection.statements import statement


class ReadSnapshot(Database):
    """A database that reads on one connection, in one transaction.

    Concurrent reads wait for each other.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend the connection to one read at a time."""
        async with self._lock:
            yield self._connection

    @asynccontextmanager
    async def long_connection(self) -> AsyncIterator[Connection]:
        """Lend the same connection: it is held already."""
        async with self.connection() as connection:
            yield connection


@asynccontextmanager
async def open_snapshot(db: Database) -> AsyncIterator[ReadSnapshot]:
    """Open the present state of `db`, for any function that reads.

    Raises as `Database.connection` does.
    """
    async with db.connection() as connection, reading_transaction(connection):
        await connection.execute(statement("set_one_snapshot"))
        yield ReadSnapshot(connection)
