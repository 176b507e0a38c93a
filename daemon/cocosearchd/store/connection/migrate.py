"""Brings the registry and the tables of each index to the newest schema, under an advisory lock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.statements import compose, migrations, statement

# a minute for questions that hold the tables (`begin_schema_change`), and one for the change itself
CHANGE_S = 120.0


async def migrate_registry(db: Database) -> None:
    """Create or upgrade the registry, then the tables of every index in it.

    Idempotent; daemons that race take turns. Raises `StoreUnavailable` if a newer version was here.
    """
    async with schema_change(db, answer_timeout_s=None) as connection:
        version = 0
        if await _one(connection, "registry_exists"):
            version = await _one(connection, "registry_version")
        for text in _pending("registry", version):
            await connection.execute(compose(text))
        await connection.execute(
            statement("set_registry_version"), {"version": len(migrations("registry"))}
        )
        for record in await registered_indexes(connection):
            await upgrade_tables(connection, record)


@asynccontextmanager
async def schema_change(
    db: Database, answer_timeout_s: float | None = CHANGE_S
) -> AsyncIterator[Connection]:
    """A transaction in which tables are made or dropped: one at a time in the whole database, and
    with time to wait.

    `answer_timeout_s` bounds each statement, in place of a timeout of the server: see
    `MonitoredConnection`.
    """
    async with db.connection() as connection:
        with connection.answer_timeout(answer_timeout_s):
            async with connection.transaction():
                await connection.execute(statement("begin_schema_change"))
                await connection.execute(statement("lock_schema"))
                yield connection


async def registered_indexes(
    connection: Connection, name: str | None = None, role: str | None = None
) -> tuple[IndexRecord, ...]:
    """The indexes in the registry, by number; with a `name`, the one that has it or none; or those
    of a `standing`.
    """
    rows = await (
        await connection.execute(statement("indexes"), {"name": name, "standing": role})
    ).fetchall()
    return tuple(
        IndexRecord(
            number=number,
            name=name,
            slug=slug,
            root=root,
            topics=tuple(topics),
            dimension=dimension,
            identity=IndexIdentity(tuple(sorted(embedder.items())), chunker, header),
            generation=generation,
            made_with=tuple(sorted(made_with.items())),
        )
        for number, name, slug, root, topics, dimension, embedder, chunker, header, generation, made_with in rows
    )


async def upgrade_tables(connection: Connection, record: IndexRecord) -> None:
    """Apply the migrations that the tables of `record` lack."""
    cursor = await connection.execute(statement("index_version"), {"number": record.number})
    row = await cursor.fetchone()
    assert row, f"index {record.name} is not in the registry"
    for text in _pending("index", row[0]):
        await connection.execute(compose(text, record))
    version = {"number": record.number, "version": len(migrations("index"))}
    await connection.execute(statement("set_index_version"), version)


async def drop_tables(connection: Connection, record: IndexRecord) -> None:
    """Drop the tables of `record` and forget which migrations they had."""
    await connection.execute(statement("drop_index_tables", record))
    await connection.execute(
        statement("set_index_version"), {"number": record.number, "version": 0}
    )


def _pending(family: str, version: int) -> tuple[str, ...]:
    known = migrations(family)
    if version > len(known):
        raise StoreUnavailable(
            f"the database was made by a newer cocosearchd (schema {version}, this one knows {len(known)})",
            "upgrade cocosearchd, or use another database",
        )
    return known[version:]


async def _one(connection: Connection, name: str) -> int:
    row = await (await connection.execute(statement(name))).fetchone()
    return int(row[0]) if row else 0
