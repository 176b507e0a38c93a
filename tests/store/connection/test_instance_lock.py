"""One daemon uses a registry at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import CocoSearchError
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection import instance_lock
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.instance_lock import InstanceLock
from cocosearchd.store.connection.owned_transaction import LockHeld, check_owner
from cocosearchd.store.connection.statements import compose, statement
from cocosearchd.store.index_records import read_generation
from cocosearchd.store.lineage import LINEAGE, read_timeline
from tests.store.support import file_write, new_index

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
async def held(db: Database) -> AsyncIterator[InstanceLock]:
    """Hold the lock meanwhile, and wait until it is free: the server releases it a moment after its
    session was closed, and the tests try for a moment only.
    """
    lock = InstanceLock(db)
    async with anyio.create_task_group() as tasks:
        await tasks.start(lock.hold)
        yield lock
        tasks.cancel_scope.cancel()
    with anyio.fail_after(60):
        async with db.connection() as connection:
            key = await instance_lock.lock_key(connection)
            while await instance_lock._read_holder(connection, key) is not None:  # noqa: ASYNC110
                await anyio.sleep(0.01)


async def end_session(db: Database) -> None:
    """End the one session that holds a lock."""
    (holder,) = await holders(db)
    async with db.connection() as connection:
        await connection.execute("select pg_terminate_backend(%s::integer)", (holder,))


async def refused(db: Database) -> bool:
    try:
        async with held(db):
            return False
    except ExceptionGroup as group:
        return group.subgroup(LockHeld) is not None


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
        await end_session(db)
        with anyio.fail_after(60):
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
        with anyio.fail_after(60):
            while not said(caplog):  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.02)
        await anyio.sleep(1)  # ten times as long as until the next try
        assert said(caplog) == ["instance_lock_lost"]
        await connections(outside, dsn, allowed=True)
        with anyio.fail_after(60):
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
    assert ended.group_contains(LockHeld)


async def away_while_another_comes(db: Database) -> None:
    async with held(db), db.session({}) as connection:
        key, (pid,) = await instance_lock.lock_key(connection), await holders(db)
        await connection.execute(
            "select pg_terminate_backend(%s::integer), pg_advisory_lock(%s)", (pid, key)
        )
        await anyio.sleep(20)


async def test_a_lost_session_is_noticed_at_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_lock, "CHECK_INTERVAL_S", 3600.0)
    monkeypatch.setattr(instance_lock, "ACQUIRE_TIMEOUT_S", 3600.0)
    async with held(db) as lock, db.session({}) as other_session:
        key = await instance_lock.lock_key(other_session)
        assert lock.is_held
        # asked for, and so granted before the daemon can ask again
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other_session.execute, "select pg_advisory_lock(%s)", (key,))
            await until_lock_is_asked_for(db)
            await end_session(db)
        await until_held(lock, expected=False)
        await other_session.execute("select pg_advisory_unlock(%s)", (key,))
        await until_held(lock, expected=True)


async def until_lock_is_asked_for(db: Database) -> None:
    query = """
        select exists (select from pg_locks l join pg_database d on d.oid = l.database
            where locktype = 'advisory' and not granted and datname = current_database())
    """
    with anyio.fail_after(60):
        async with db.connection() as connection:
            while await (await connection.execute(query)).fetchone() != (True,):  # noqa: ASYNC110
                await anyio.sleep(0.01)


async def until_held(lock: InstanceLock, *, expected: bool) -> None:
    with anyio.fail_after(60):
        while lock.is_held != expected:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.01)


async def test_an_error_of_the_session_ends_no_daemon(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator may cancel its statement, for example."""
    until_lost = instance_lock._until_lost
    errors = iter([CocoSearchError("the database took too long")])

    async def fail_once(connection: Connection) -> None:
        for error in errors:
            raise error
        await until_lost(connection)

    monkeypatch.setattr(instance_lock, "_until_lost", fail_once)
    async with held(db) as lock:
        with anyio.fail_after(60):
            while next(errors, None) is not None or not lock.is_held:  # noqa: ASYNC110
                await anyio.sleep(0.01)


async def claim_and_end(dsn: str) -> None:
    """Be another daemon, which becomes the owner and ends."""
    async with open_again(dsn) as other_db, held(other_db) as lock:
        await lock.claim()


@asynccontextmanager
async def open_again(dsn: str) -> AsyncIterator[Database]:
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=2)) as database:
        yield database


async def test_commits_count_for_the_owner_alone(db: Database, dsn: str) -> None:
    record = await new_index(db)
    async with open_again(dsn) as first_db:
        async with held(first_db) as lock:
            await lock.claim()
        await replace_file(first_db, record, file_write("a.py", "one: 1"))
        generation = await read_generation(db, record)
        await claim_and_end(dsn)
        with pytest.raises(LockHeld):
            await replace_file(first_db, record, file_write("a.py", "two: 2"))
        assert await read_generation(db, record) == generation


async def test_a_daemon_without_the_lock_becomes_no_owner(db: Database, dsn: str) -> None:
    """It may have lost the lock between its start and this step: the owner would be refused."""
    record = await new_index(db)
    async with open_again(dsn) as owner_db, held(owner_db) as lock:
        await lock.claim()
        with pytest.raises(LockHeld):
            await InstanceLock(db).claim()
        await replace_file(owner_db, record, file_write("a.py", "one: 1"))


async def test_a_new_owner_waits_for_commits_under_way(db: Database, dsn: str) -> None:
    """A commit after that would be missing in what the new owner has read."""
    record = await new_index(db)
    async with open_again(dsn) as first_db:
        async with held(first_db) as lock:
            await lock.claim()
        async with (
            anyio.create_task_group() as tasks,
            first_db.connection() as connection,
            connection.transaction(),
        ):
            await connection.execute(statement("set_topics", record), {"topics": ["late"]})
            await check_owner(connection, first_db.owner)
            tasks.start_soon(claim_and_end, dsn)
            await anyio.sleep(0.5)
            assert await read_owner(db) == first_db.owner
        assert await read_owner(db) != first_db.owner


async def read_owner(db: Database) -> str:
    async with db.connection() as connection:
        row = await fetch_row(connection, compose("select owner from {registry}"), {})
    assert row
    return str(row[0])


async def test_a_daemon_ends_if_another_one_was_the_owner_meanwhile(db: Database) -> None:
    """That one may have written what the memory of this one does not know."""

    async def lose_to_another() -> None:
        async with held(db) as lock:
            await lock.claim()
            async with db.connection() as connection:
                await connection.execute(statement("claim_registry"), {"owner": "another"})
            await end_session(db)
            await anyio.sleep(20)

    with pytest.raises(ExceptionGroup) as ended:
        await lose_to_another()
    assert ended.group_contains(LockHeld)


async def test_rows_are_compared_before_the_lock_counts_as_held_again(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover or restored storage ends each session, and may lose commits."""
    timelines = iter(["1", "1", "1", "2"])
    calls = list[tuple[bool, bool]]()

    async def read_next(connection: Connection) -> str:
        assert len(await read_timeline(connection)) == 8
        return next(timelines)

    async def record_call(*, is_other_timeline: bool) -> None:
        calls.append((is_other_timeline, lock.is_held))

    monkeypatch.setattr(instance_lock, "read_timeline", read_next)
    async with held(db) as lock:
        await lock.claim()
        lock.on_held_again = record_call
        for count in (1, 2):
            await end_session(db)
            with anyio.fail_after(60):
                while len(calls) < count:  # noqa: ASYNC110 - nothing tells of it
                    await anyio.sleep(0.01)
            await until_held(lock, expected=True)
    assert calls == [(False, False), (True, False)]


@pytest.mark.parametrize(
    ("timelines", "lineages"),
    [
        (("1", "1", "2", "2"), [0, 0, 1, 1]),
        (("", "1", "", "1"), [0, 0, 0, 0]),  # a server that shows none
        (("1", "", "2"), [0, 0, 1]),
    ],
)
async def test_a_failover_that_no_daemon_has_seen_begins_another_lineage(
    db: Database,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    timelines: tuple[str, ...],
    lineages: list[int],
) -> None:
    """Followers, and files on disk, may have commits that are lost; indexes that are lost, too."""
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "one: 1"))
    generations = list[tuple[int, int]]()
    for number, timeline in enumerate(timelines):

        async def read(_: Connection, timeline: str = timeline) -> str:
            return timeline

        monkeypatch.setattr(instance_lock, "read_timeline", read)
        await claim_and_end(dsn)
        later = await new_index(db, f"later{number}", str(number).encode())
        generations.append((await read_generation(db, record), later.generation))
    assert [(old // LINEAGE, new // LINEAGE) for old, new in generations] == [
        (lineage, lineage and lineage + 1) for lineage in lineages
    ]


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
