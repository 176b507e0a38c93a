"""One database for all tests of a module that only read."""

from collections.abc import AsyncIterator
from itertools import count

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cocosearchd.settings import DatabaseSettings
from cocosearchd.store.pool import Database

NUMBERS = count(1)


@pytest.fixture(scope="module")
async def module_db(server: str, template: str) -> AsyncIterator[Database]:
    """As the fixture `db`, but for a whole module."""
    name = f"module_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        copy = "create database {} template {} strategy file_copy"
        connection.execute(sql.SQL(copy).format(sql.Identifier(name), sql.Identifier(template)))
    settings = DatabaseSettings(pool_min=1, pool_max=8)
    async with Database.open(make_conninfo(server, dbname=name), settings) as database:
        yield database
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
