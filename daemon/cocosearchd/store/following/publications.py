"""Publications: a daemon tells followers the moment at which an index was known to equal its disk.

A follower asks with `ask_owner`, which gives the moment of the question. The owner reads a moment of
its own, compares the index with its disk, and publishes the outcome. A publication answers a question
whose moment came before the owner's. Moments are compared by the database's count of transactions,
which never repeats, and by its clock, because the count begins anew in a restored database.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.instance_lock import fetch_quoted_schema, schema_key
from cocosearchd.store.connection.liveness_check import LIVENESS_TIMEOUT_S
from cocosearchd.store.connection.owned_transaction import write_transaction
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.following.followed_registry import quote_schema

LIVENESS_INTERVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of a database: the number of a transaction, and the time of its clock."""

    transaction: int
    time: datetime

    def is_before(self, moment: "Moment") -> bool:
        """Return True if this moment certainly came before the given one."""
        return self.transaction < moment.transaction and self.time <= moment.time


@dataclass(frozen=True, slots=True)
class Publication:
    """The owner's knowledge of an index at a moment; `generation` has all changes before `begun`.

    `stale_code` and `stale_reason` say why the index may differ from its disk; None: it is equal.
    `clean_age_s` is the time since the index was last known to be equal; None: it never was.
    """

    begun: Moment
    generation: int
    stale_code: str | None
    stale_reason: str | None
    clean_age_s: float | None = None


class OwnerChannel:
    """The channel of notifications to the daemon that owns a schema."""

    def __init__(self, schema: str) -> None:
        """`schema` is as SQL writes it."""
        self._key = schema_key(schema)
        self.name = f"cocosearch_{self._key:x}"

    async def ask(self, db: Database, record: IndexRecord) -> Moment:
        """Ask the owner about an index; returns the moment of the question."""
        values = {"channel": self.name, "question": str(record.number)}
        async with db.connection() as connection:
            row = await fetch_row(connection, statement("ask_owner"), values)
        assert row, "an expression has a row"
        return Moment(row[0], row[1])

    async def is_owned(self, db: Database) -> bool:
        """Return True if a daemon owns the schema now."""
        async with db.connection() as connection:
            row = await fetch_row(connection, statement("is_owned"), {"key": self._key})
        return bool(row and row[0])


async def owner_channel(db: Database, schema: str = "") -> OwnerChannel:
    """Return the channel of a schema, "" for that of the daemon's own registry."""
    async with db.connection() as connection:
        if schema:
            return OwnerChannel(await quote_schema(connection, schema))
        return OwnerChannel(await fetch_quoted_schema(connection))


async def read_publication(db: Database, record: IndexRecord) -> Publication | None:
    """Read the last publication of an index."""
    publications = await _read(db, record.schema, record.number)
    return publications.get(record.number)


async def read_publications(db: Database, schema: str) -> dict[int, Publication]:
    """Read the last publication of each index of a schema, by number."""
    return await _read(db, schema, None)


async def _read(db: Database, schema: str, number: int | None) -> dict[int, Publication]:
    async with db.connection() as connection:
        query = statement("publications", schema=schema)
        rows = await (await connection.execute(query, {"number": number})).fetchall()
    return {
        index: Publication(
            begun=Moment(transaction, begun),
            generation=generation,
            stale_code=code,
            stale_reason=reason,
            clean_age_s=age_s,
        )
        for index, transaction, begun, generation, code, reason, age_s in rows
    }


async def read_moment(db: Database) -> Moment:
    """Read the present moment."""
    async with db.connection() as connection:
        row = await fetch_row(connection, statement("moment"))
    assert row, "an expression has a row"
    return Moment(row[0], row[1])


async def publish(
    db: Database, record: IndexRecord, begun: Moment, stale: tuple[str, str] | None
) -> None:
    """Publish that an index equals its disk, or a code and a sentence with the reason why it may not.

    To publish equality, all changes before `begun` must be committed.
    """
    code, reason = stale or (None, None)
    values = {
        "transaction": begun.transaction,
        "begun": begun.time,
        "stale_code": code,
        "stale_reason": reason,
    }
    query = statement("publish", record)
    async with write_transaction(db) as connection:
        await connection.execute(statement("set_quick_commit"))
        await connection.execute(query, values)


async def set_host(db: Database, host: str) -> None:
    """Store the host of the daemon that owns the registry."""
    async with write_transaction(db) as connection:
        await connection.execute(statement("set_host"), {"host": host})


@asynccontextmanager
async def open_questions(db: Database) -> AsyncIterator[AsyncIterator[int]]:
    """Listen on a separate connection to the questions of followers, which are index numbers.

    Raises `StoreUnavailable`.
    """
    channel = await owner_channel(db)
    async with db.session({}) as connection:
        await connection.execute(statement("listen", channel=sql.Identifier(channel.name)))
        yield _receive(connection)


async def _receive(connection: Connection) -> AsyncIterator[int]:
    """Yield the index number of each question; check in between that the server answers."""
    while True:
        async for notification in connection.notifies(timeout=LIVENESS_INTERVAL_S):
            if notification.payload.isdecimal():
                yield int(notification.payload)
        with connection.answer_timeout(LIVENESS_TIMEOUT_S):
            await connection.execute("select 1")
