"""Several reads of one state of the database, whatever is committed between them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cocosearchd.store.connection.database import Connection, Database


class ReadSnapshot(Database):
    """A database that reads all on one connection, in one transaction. Reads asked side by side
    wait for each other.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._turn = connection, asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """The one connection, for one read at a time."""
        async with self._turn:
            yield self._connection


@asynccontextmanager
async def open_snapshot(db: Database) -> AsyncIterator[ReadSnapshot]:
    """What `db` is at this moment, to be read with any function that reads. Raises as
    `Database.connection` does.
    """
    async with db.connection() as connection, connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        yield ReadSnapshot(connection)
