"""Upgrades the registry and the tables of each index to the newest schema, under a lock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg.errors
from psycopg import sql

from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.owned_transaction import owned_transaction
from cocosearchd.store.connection.statements import (
    compose,
    migrations,
    newest_schema,
    split_statements,
    statement,
    table_names,
)
from cocosearchd.store.connection.table_locks import lock_tables

# A minute for queries that hold the tables (`begin_schema_change`), and one for the change itself.
CHANGE_S = 120.0
_STORAGE = " set storage "


async def migrate_registry(db: Database) -> None:
    """Create or upgrade the registry, then the tables of every index in it.

    Missing tables are created directly from the newest schema, without earlier migrations.

    The registry and each index have a transaction of their own: a server with 50 connections had
    locks for 8,000 tables and not for 10,000, and an index has five tables with their keys.
    Idempotent; racing daemons take turns. Raises `StoreUnavailable` if a newer version has upgraded
    the database.
    """
    async with schema_change(db, answer_timeout_s=None) as connection:
        await _upgrade_registry(connection)
        outdated = await _outdated_indexes(connection)
    for record in outdated:
        async with schema_change(db, answer_timeout_s=None) as connection:
            await upgrade_tables(connection, record)


async def _upgrade_registry(connection: Connection) -> None:
    version = 0
    if await _fetch_int(connection, "registry_exists"):
        version = await _fetch_int(connection, "registry_version")
    pending = _pending("registry", version)
    if pending and version:
        await lock_tables(connection, table_names())
    for text in pending:
        await _apply(connection, text)
    await connection.execute(
        statement("set_registry_version"), {"version": len(migrations("registry"))}
    )


async def _outdated_indexes(connection: Connection) -> tuple[IndexRecord, ...]:
    """List the indexes whose tables are of another version than the newest."""
    values = {"version": len(migrations("index"))}
    rows = await (await connection.execute(statement("outdated_indexes"), values)).fetchall()
    numbers = {row[0] for row in rows}
    return tuple(
        record for record in await registered_indexes(connection) if record.number in numbers
    )


@asynccontextmanager
async def schema_change(
    db: Database, answer_timeout_s: float | None = CHANGE_S
) -> AsyncIterator[Connection]:
    """Open a transaction that may create or drop tables: one at a time in the whole database.

    `answer_timeout_s` bounds each statement, in place of the server's statement_timeout: see
    `MonitoredConnection`. Raises as `owned_transaction` does.
    """
    async with db.connection() as connection:
        with connection.answer_timeout(answer_timeout_s):
            async with owned_transaction(connection, db.owner):
                await connection.execute(statement("begin_schema_change"))
                await connection.execute(statement("lock_schema"))
                yield connection


async def registered_indexes(
    connection: Connection, name: str | None = None, role: str | None = None, schema: str = ""
) -> tuple[IndexRecord, ...]:
    """List the registered indexes by number: all, the one of a `name`, or those of a `role`.

    With `schema`, list those of another daemon: `@` and the schema follow each of their names.
    """
    rows = await (
        await connection.execute(statement("indexes", schema=schema), {"name": name, "role": role})
    ).fetchall()
    return tuple(
        IndexRecord(
            number=number,
            name=f"{name}@{schema}" if schema else name,
            slug=slug,
            root=root,
            topics=tuple(topics),
            dimension=dimension,
            identity=IndexIdentity(tuple(sorted(embedder.items())), chunker, header),
            generation=generation,
            shaping_settings=tuple(sorted(shaping_settings.items())),
            schema=schema,
        )
        for number, name, slug, root, topics, dimension, embedder, chunker, header, generation, shaping_settings in rows
    )


async def upgrade_tables(connection: Connection, record: IndexRecord) -> None:
    """Apply the migrations that the tables of `record` lack; an index that is gone has no tables."""
    cursor = await connection.execute(statement("index_version", record))
    row = await cursor.fetchone()
    if row is None:
        return
    pending = _pending("index", row[0])
    if pending and row[0]:
        await lock_tables(connection, table_names(record))
    for text in pending:
        await _apply(connection, text, record)
    version = {"version": len(migrations("index"))}
    await connection.execute(statement("set_index_version", record), version)


async def _apply(connection: Connection, text: str, record: IndexRecord | None = None) -> None:
    """Apply a migration, one statement at a time: a distributed schema of Citus takes no more.

    Such a schema does not support storage settings either. They only save time, so they are left out.
    """
    for part in split_statements(text):
        if _STORAGE in part:
            with suppress(psycopg.errors.FeatureNotSupported):
                async with connection.transaction():
                    await connection.execute(compose(part, record))
        else:
            await connection.execute(compose(part, record))


async def drop_tables(connection: Connection, record: IndexRecord) -> None:
    """Drop the tables of `record` and reset their schema version."""
    schema = sql.Identifier(await fetch_schema(connection))
    await connection.execute(statement("drop_index_tables", record, own_schema=schema))
    await connection.execute(statement("set_index_version", record), {"version": 0})


async def fetch_schema(connection: Connection) -> str:
    """Return the schema of the registry, which need not exist yet; "" without any schema."""
    row = await fetch_row(connection, statement("registry_schema"))
    return str(row[0]) if row and row[0] else ""


def _pending(family: str, version: int) -> tuple[str, ...]:
    texts = migrations(family)
    if version > len(texts):
        raise StoreUnavailable(
            f"the database was made by a newer cocosearchd "
            f"(schema {version}, this one knows {len(texts)})",
            "upgrade cocosearchd, or use another database",
        )
    # A distributed schema refuses statements of early migrations, such as to rename a constraint.
    return texts[version:] if version else (newest_schema(family),)


async def _fetch_int(connection: Connection, name: str) -> int:
    row = await fetch_row(connection, statement(name))
    return int(row[0]) if row else 0
