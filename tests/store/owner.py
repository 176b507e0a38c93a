"""The daemon of another schema, as far as its database is concerned."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import sql
from psycopg.conninfo import make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import migrate_registry
from tests.schemas import CITUS


@asynccontextmanager
async def open_schema(dsn: str, db: Database, schema: str) -> AsyncIterator[Database]:
    """Open a schema of its own, with a registry in it beside that of `db`."""
    name = sql.Identifier(schema)
    async with db.connection() as connection:
        if CITUS:
            await connection.execute("set citus.enable_schema_based_sharding = on")
            await connection.execute(sql.SQL("drop schema if exists {} cascade").format(name))
        await connection.execute(sql.SQL("create schema {}").format(name))
    path = name.as_string().replace(" ", "\\ ")
    owner_dsn = make_conninfo(dsn, options=f"-c search_path={path},public")
    async with Database.open(owner_dsn, DatabaseSettings(pool_min=1, pool_max=4)) as database:
        await migrate_registry(database)
        yield database
