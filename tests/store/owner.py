"""The daemon of another schema, as far as its database goes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import sql
from psycopg.conninfo import make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.store.connection.database import Database

TABLES = ("registry", "indexes", "precise_uses", "publications")


@asynccontextmanager
async def open_schema(dsn: str, db: Database, schema: str) -> AsyncIterator[Database]:
    """Open a schema of its own, with a registry in it beside the one in `public`."""
    name = sql.Identifier(schema)
    async with db.connection() as connection:
        await connection.execute(sql.SQL("create schema {}").format(name))
        for table in TABLES:
            await connection.execute(
                sql.SQL("create table {} (like {} including all)").format(
                    sql.Identifier(schema, f"cocosearch_{table}"),
                    sql.Identifier("public", f"cocosearch_{table}"),
                )
            )
        await connection.execute(
            sql.SQL(
                "insert into {} (version) select version from public.cocosearch_registry"
            ).format(sql.Identifier(schema, "cocosearch_registry"))
        )
    path = name.as_string().replace(" ", "\\ ")
    owner_dsn = make_conninfo(dsn, options=f"-c search_path={path},public")
    async with Database.open(owner_dsn, DatabaseSettings(pool_min=1, pool_max=4)) as database:
        yield database
