"""Transactions that read in batches, with work on each batch before the next."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cocosearchd.store.connection.database import Connection
from cocosearchd.store.connection.statements import statement


@asynccontextmanager
async def reading_transaction(connection: Connection) -> AsyncIterator[None]:
    """Open a transaction that may pause for ten minutes, in place of `IDLE_TRANSACTION_S`.

    The work between two batches, such as a segment of the lexical index, may take a minute on a busy
    machine. A reader that is stopped for longer holds up only changes of the tables that it reads.
    """
    async with connection.transaction():
        await connection.execute(statement("set_reading_pause"))
        yield
