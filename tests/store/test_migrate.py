"""Migrations: the sum of them is the schema; they run once, under a lock, and never backwards."""

import asyncio
from pathlib import Path

import pytest

from cocosearchd.errors import StoreUnavailable
from cocosearchd.settings import DatabaseSettings
from cocosearchd.store import statements
from cocosearchd.store.migrate import migrate_registry
from cocosearchd.store.pool import Database
from cocosearchd.store.statements import compose
from tests.store.support import new_index

SCHEMA = Path(statements.__file__).parent / "schema"
CATALOGUE = """
select c.relname, c.relkind, c.reloptions,
    (select array_agg(row(attnum, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
        attcollation, replace(pg_get_expr(adbin, adrelid), 'other.', ''))::text order by attnum)
     from pg_attribute a left join pg_attrdef on adrelid = attrelid and adnum = attnum
     where attrelid = c.oid and attnum > 0 and not attisdropped),
    (select array_agg(pg_get_constraintdef(k.oid) order by conname) from pg_constraint k where conrelid = c.oid),
    pg_get_indexdef(c.oid)
from pg_class c
where relnamespace = %s::regnamespace and relkind in ('r', 'i', 'S')
    and not exists (select from pg_depend where objid = c.oid and deptype = 'e')
order by relname
"""


async def catalogue(db: Database, schema: str = "public") -> list[tuple[object, ...]]:
    async with db.connection() as connection:
        rows = await (await connection.execute(CATALOGUE, (schema,))).fetchall()
    return [(*columns, definition and definition.replace(f"{schema}.", "")) for *columns, definition in rows]


async def test_schema_files_equal_the_sum_of_migrations(db: Database) -> None:
    record = await new_index(db)
    async with db.connection() as connection, connection.transaction():
        await connection.execute("create schema other; set local search_path = other, public")
        await connection.execute(compose((SCHEMA / "registry.sql").read_text()))
        await connection.execute(compose((SCHEMA / "index.sql").read_text(), record))
    migrated = await catalogue(db)
    assert len(migrated) > 10
    assert await catalogue(db, "other") == migrated


async def test_racing_daemons_migrate_once(server: str, dsn: str) -> None:
    settings = DatabaseSettings(pool_min=4, pool_max=4)
    async with Database.open(dsn, settings) as db:
        async with db.connection() as connection:
            await connection.execute("drop table cocosearch_registry, cocosearch_indexes")
        await asyncio.gather(*(migrate_registry(db) for _ in range(4)))
        async with db.connection() as connection:
            rows = await (await connection.execute("select version from cocosearch_registry")).fetchall()
    assert rows == [(1,)]


async def test_a_newer_schema_is_refused(db: Database) -> None:
    async with db.connection() as connection:
        await connection.execute("update cocosearch_registry set version = 99")
    with pytest.raises(StoreUnavailable, match="made by a newer cocosearchd") as caught:
        await migrate_registry(db)
    assert "upgrade" in caught.value.hint


async def test_tables_of_an_index_catch_up(db: Database) -> None:
    """As after an upgrade: the registry says that an index lacks its migrations."""
    record = await new_index(db)
    before = await catalogue(db)
    async with db.connection() as connection:
        await connection.execute(compose("drop table {chunks}, {files}, {parses}", record))
        await connection.execute("update cocosearch_indexes set version = 0")
    await migrate_registry(db)
    assert await catalogue(db) == before
