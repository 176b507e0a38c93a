"""Distributed schemas of a Citus cluster, in place of databases of their own: see `make cluster`.

With `COCOSEARCH_TEST_CITUS`, the DSN of a superuser on the coordinator, every test that asks for a
database gets a schema there.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import migrate_registry

CITUS_VARIABLE = "COCOSEARCH_TEST_CITUS"
HOME_VARIABLE = "COCOSEARCH_TEST_CITUS_HOME"  # the directory of the nodes, if they may be killed
CITUS = os.environ.get(CITUS_VARIABLE, "")
WITHOUT_CITUS = "COCOSEARCH_TEST_CITUS names no cluster: see `make cluster`"
NUMBERS = count(1)


class SchemaPool:
    """Schemas on a cluster. `database` lends one to a test."""

    def __init__(self, coordinator: str) -> None:
        self._coordinator = coordinator

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The DSN of an empty, migrated schema."""
        with distributed_schema(self._coordinator) as dsn:
            # Not in this thread, which may have an event loop.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, migrate(dsn)).result()
            yield dsn


@contextlib.contextmanager
def distributed_schema(coordinator: str) -> Iterator[str]:
    """The DSN of a new schema without tables, which is dropped at the end."""
    schema = f"test_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(coordinator, autocommit=True) as connection:
        connection.execute("set citus.enable_schema_based_sharding = on")
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    try:
        yield make_conninfo(coordinator, options=f"-csearch_path={schema},public")
    finally:
        with psycopg.connect(coordinator, autocommit=True) as connection:
            connection.execute("set client_min_messages = error")
            connection.execute(
                sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema))
            )


async def migrate(dsn: str) -> None:
    """Create the registry."""
    settings = DatabaseSettings(url=dsn, pool_min=1, pool_max=1)
    async with Database.open(dsn, settings) as database:
        await migrate_registry(database)
