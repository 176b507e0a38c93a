"""A server that does not answer: all of its processes are stopped, as in a dropped network."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.database import CHECKOUT_TIMEOUT_S, Database
from cocosearchd.store.connection.migrate import schema_change
from cocosearchd.store.server.embedded import EmbeddedPostgres
from tests.clusters import copy_cluster
from tests.conftest import QUICK
from tests.daemon import freezing_with_children
from tests.machine_speed import FairClock
from tests.waiting import until

TIMEOUT_MS, LIVENESS_S = 800, 1.5
LIMIT_S = 60.0  # of what never ends in a defect
Freeze = Callable[[], contextlib.AbstractContextManager[None]]


@pytest.fixture(scope="module")
def own_server(public_state: Path, cluster: Path) -> Iterator[EmbeddedPostgres]:
    """A server that no other test uses."""
    copy_cluster(cluster, public_state / "freezes")
    postgres = EmbeddedPostgres(public_state / "freezes", QUICK)
    postgres.ensure()
    yield postgres
    postgres.stop()


@pytest.fixture
def frozen(own_server: EmbeddedPostgres) -> Freeze:
    """Stops the server and all of its processes for a while."""

    def freeze() -> contextlib.AbstractContextManager[None]:
        return freezing_with_children(psutil.Process(own_server.pids()[0]))

    return freeze


@pytest.fixture
async def patient(
    own_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Database]:
    """Patience as in the product, but shorter."""
    monkeypatch.setattr(
        "cocosearchd.store.connection.liveness_check.LIVENESS_TIMEOUT_S", LIVENESS_S
    )
    monkeypatch.setattr("cocosearchd.store.connection.database.LIVENESS_TIMEOUT_S", LIVENESS_S)
    settings = DatabaseSettings(pool_min=2, pool_max=3, statement_timeout_ms=TIMEOUT_MS)
    async with Database.open(own_server.dsn, settings) as db:
        yield db


async def gives_up(*works: Coroutine[Any, Any, Any]) -> None:
    """Each within its deadline, and in one sentence that says what is wrong and what to do."""
    with FairClock() as clock:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*map(ends_in_a_sentence, works))
    assert clock.fair_s < 2 * (LIVENESS_S + TIMEOUT_MS / 1000)


async def ends_in_a_sentence(work: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises(StoreUnavailable, match="is there, and answers nothing") as caught:
        await work
    assert "look at its processes" in caught.value.hint


async def sessions(db: Database) -> int:
    """Return the number of our sessions on the server, after some time to notice ended ones."""
    text = "select count(*) from pg_stat_activity where application_name = 'cocosearchd'"
    count, end = 0, time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        async with db.connection() as connection:
            row = await (await connection.execute(text)).fetchone()
        assert row
        count = int(row[0])
        if count <= 3:
            break
        await asyncio.sleep(0.05)
    return count


async def until_asleep(db: Database) -> None:
    """Wait until a statement sleeps, however long a busy machine takes to begin it."""
    text = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    async with asyncio.timeout(LIMIT_S), db.connection() as connection:
        while await (await connection.execute(text)).fetchone() == (0,):  # noqa: ASYNC110 - no event here
            await asyncio.sleep(0.01)


async def execute(db: Database, text: str) -> None:
    async with db.connection() as connection:
        await connection.execute(text)


async def test_questions_to_a_frozen_server_fail_and_a_thawed_one_is_used_at_once(
    patient: Database, frozen: Freeze
) -> None:
    await asyncio.gather(*(patient.ping() for _ in range(3)))
    handles = psutil.Process().num_fds()
    for _ in range(2):
        with frozen():
            await gives_up(patient.ping())
            await gives_up(*(patient.ping() for _ in range(8)))
        with FairClock() as clock:
            await patient.ping()
        assert clock.fair_s < CHECKOUT_TIMEOUT_S / 2, "the time of the server itself is in it"
        await asyncio.gather(*(patient.ping() for _ in range(8)))
    assert await sessions(patient) <= 3
    # the pool closes connections by itself, some time after they broke
    await until(lambda: psutil.Process().num_fds() <= handles)


async def test_a_statement_that_is_never_answered_ends(patient: Database, frozen: Freeze) -> None:
    async def ask_while_frozen() -> None:
        async with patient.connection() as connection:
            with frozen():
                await connection.execute("select 1")

    await gives_up(ask_while_frozen())
    await patient.ping()


async def test_a_change_that_is_never_answered_did_not_happen(
    patient: Database, frozen: Freeze
) -> None:
    await execute(patient, "create table if not exists half_done (number int4)")

    async def change() -> None:
        async with patient.connection() as connection, connection.transaction():
            await connection.execute("insert into half_done values (1)")
            with frozen():
                await connection.execute("insert into half_done values (2)")

    await gives_up(change())
    for _ in range(6):
        async with patient.connection() as connection:
            assert await (await connection.execute("select * from half_done")).fetchall() == []


async def test_a_cancelled_caller_does_not_wait_for_a_frozen_server(
    patient: Database, frozen: Freeze
) -> None:
    """The driver asks the server to end the statement, and would wait ten seconds for an answer."""

    async def change() -> None:
        async with schema_change(patient) as connection:
            await connection.execute("select pg_sleep(60)")

    work = asyncio.create_task(change())
    await until_asleep(patient)
    with frozen():
        work.cancel()
        with FairClock() as clock:
            done, _ = await asyncio.wait({work}, timeout=LIMIT_S)
    assert done
    assert clock.fair_s < 5 * LIVENESS_S, "the driver's own limit is longer"
    assert work.cancelled()
    await patient.ping()


async def test_a_pause_of_everybody_is_no_silence(patient: Database, frozen: Freeze) -> None:
    """A container that is paused, a machine that slept: nobody could have answered in that time."""

    begun = asyncio.Event()

    async def work() -> None:
        async with patient.connection() as connection:
            # the server's own timer does not stand still
            await connection.execute("set statement_timeout = 0")
            begun.set()
            await connection.execute("select pg_sleep(0.3)")
            await connection.execute("reset statement_timeout")

    task = asyncio.create_task(work())
    await begun.wait()
    with frozen():
        time.sleep(LIVENESS_S + TIMEOUT_MS / 1000 + 0.5)  # noqa: ASYNC251 - the loop is to stand still
    await task


async def test_slow_statements_are_given_their_time(patient: Database) -> None:
    """Where the server itself has no limit, as in changes of tables."""
    async with schema_change(patient) as connection:
        await connection.execute("select pg_sleep(%s)", (TIMEOUT_MS / 1000 + LIVENESS_S + 0.2,))
