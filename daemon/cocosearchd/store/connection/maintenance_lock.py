"""Locks a kind of maintenance of an index for a session, so that one caller is at work at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg.pq import TransactionStatus

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Connection, fetch_row
from cocosearchd.store.connection.statements import statement


@asynccontextmanager
async def try_maintenance_lock(
    connection: Connection, record: IndexRecord, kind: str
) -> AsyncIterator[bool]:
    """Lock the maintenance of `kind` ("vectors" or "words"); yield False while another has the lock.

    The lock is released at the end, also after an error: the server would release it a moment after
    the session ends, and until then the next caller would find it taken.
    """
    row = await fetch_row(connection, statement(f"lock_{kind}_maintenance", record))
    if not row or not row[0]:
        yield False
        return
    try:
        yield True
    finally:
        # Another state means that the connection broke, or that a statement was cancelled.
        if connection.info.transaction_status is TransactionStatus.IDLE:
            await connection.execute(statement(f"unlock_{kind}_maintenance", record))
