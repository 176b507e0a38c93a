"""One daemon uses a registry at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cocosearchd.store.connection import instance_lock
from cocosearchd.store.connection.database import Database

pytestmark = pytest.mark.anyio
HOLDERS = (
    "select pid from pg_stat_activity"
    " where application_name like 'cocosearchd-%' and datname = current_database()"
)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACQUIRE_TIMEOUT_S", "CHECK_INTERVAL_S", "RETRY_INTERVAL_S"):
        monkeypatch.setattr(instance_lock, name, 0.1)


@asynccontextmanager
async def held(db: Database) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(instance_lock.hold_instance_lock, db)
        yield
        tasks.cancel_scope.cancel()


async def refused(db: Database) -> bool:
    try:
        async with held(db):
            return False
    except ExceptionGroup as group:
        return group.subgroup(instance_lock.LockHeld) is not None


async def holders(db: Database) -> list[int]:
    async with db.connection() as connection:
        return [row[0] for row in await (await connection.execute(HOLDERS)).fetchall()]


async def test_a_second_one_is_refused_until_the_first_has_gone(db: Database) -> None:
    async with held(db):
        assert await refused(db)
    assert not await refused(db)


async def test_a_session_that_is_lost_is_replaced(db: Database) -> None:
    async with held(db):
        (previous_holder,) = await holders(db)
        async with db.connection() as connection:
            await connection.execute("select pg_terminate_backend(%s::integer)", (previous_holder,))
        with anyio.fail_after(20):
            while (now := await holders(db)) in ([], [previous_holder]):  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.02)
        assert len(now) == 1
        assert await refused(db)


async def test_a_server_that_is_away_for_long_is_said_once(
    db: Database, dsn: str, server: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", instance_lock.__name__)
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as outside, held(db):
        (previous_holder,) = await holders(db)
        await connections(outside, dsn, allowed=False)
        await outside.execute("select pg_terminate_backend(%s::integer)", (previous_holder,))
        await anyio.sleep(1)  # ten times as long as until the next try
        assert said(caplog) == ["instance_lock_lost"]
        await connections(outside, dsn, allowed=True)
        with anyio.fail_after(20):
            while len(said(caplog)) < 2:  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.02)
        assert said(caplog) == ["instance_lock_lost", "instance_lock_reacquired"]
        assert await refused(db)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Here, beside what the pool says of its connections."""
    return [record.message for record in caplog.records if record.name == instance_lock.__name__]


async def connections(outside: psycopg.AsyncConnection, dsn: str, *, allowed: bool) -> None:
    database = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    await outside.execute(
        sql.SQL("alter database {} allow_connections {}").format(database, sql.Literal(allowed))
    )


async def test_a_daemon_that_lost_its_lock_to_another_ends(db: Database) -> None:
    """Else both would write."""
    with pytest.raises(ExceptionGroup) as ended:
        await away_while_another_comes(db)
    assert ended.group_contains(instance_lock.LockHeld)


async def away_while_another_comes(db: Database) -> None:
    async with held(db), db.session({}) as connection:
        key, (pid,) = await instance_lock.lock_key(connection), await holders(db)
        await connection.execute(
            "select pg_terminate_backend(%s::integer), pg_advisory_lock(%s)", (pid, key)
        )
        await anyio.sleep(20)


async def test_registries_in_other_schemas_are_others(db: Database) -> None:
    async with db.connection() as connection:
        await connection.execute("create schema other")
    async with (
        held(db),
        db.session({"search_path": "other"}) as elsewhere,
        db.session({}) as first_session,
    ):
        assert await instance_lock.lock_key(elsewhere) != await instance_lock.lock_key(
            first_session
        )
