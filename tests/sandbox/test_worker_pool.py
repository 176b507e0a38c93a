"""A pool keeps a process warm, replaces ended ones, and lets no request wait behind one that never
ends.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from cocosearchd.sandbox import worker_pool
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerUnavailable
from tests.sandbox.support import COMMAND
from tests.waiting import until

pytestmark = pytest.mark.anyio

LIMITS = ResourceLimits(address_space_bytes=256 << 20, request_cpu_s=2)


@asynccontextmanager
async def pool_of(
    size: PoolSize, command: Sequence[str] = COMMAND, code: str = ""
) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool("test", command, code or installed_code_digest(), LIMITS, size)
    children = {process.pid for process in psutil.Process().children()}
    try:
        yield pool
    finally:
        await pool.aclose()
        assert not pool.pids
        assert {process.pid for process in psutil.Process().children()} <= children


async def test_nothing_is_started_for_nothing() -> None:
    async with pool_of(PoolSize(max_processes=2)) as pool:
        pool.warm_up()
        await asyncio.sleep(0.1)
        assert not pool.pids


async def test_a_warm_process_is_there_before_the_first_request_and_stays() -> None:
    # a request that is slow on a busy machine starts no spare, which would end the first process
    size = PoolSize(max_processes=2, warm=1, idle_s=0.1, spare_after_s=3600.0)
    async with pool_of(size) as pool:
        pool.warm_up()
        await until(lambda: bool(pool._idle))
        (pid,) = pool.pids
        for number in range(5):
            assert await pool.request(b"ab%d" % number, 50.0) == b"%dba" % number
        await asyncio.sleep(0.5)
        assert pool.pids == [pid]


async def test_requests_wait_for_processes_that_start_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_pool, "LONG_START_S", 3600.0)  # a busy machine takes seconds
    async with pool_of(PoolSize(max_processes=4, warm=2, spare_after_s=3600.0)) as pool:
        pool.warm_up()
        answers = await asyncio.gather(*(pool.request(b"ab", 20.0) for _ in range(2)))
        assert answers == [b"ba", b"ba"]
        assert len(pool.pids) == 2
        more = [asyncio.create_task(pool.request(b"eval time.sleep(1.0)", 20.0)) for _ in range(3)]
        await until(lambda: len(pool.pids) == 3)
        await asyncio.gather(*more)


HANGS_ONCE = """
import pathlib, sys, time
mark = pathlib.Path(sys.argv.pop(1))
if not mark.exists():
    mark.touch()
    time.sleep(60)
"""


async def test_a_process_that_hangs_as_it_starts_delays_a_request_for_seconds_only(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "mark"
    command = [*COMMAND[:-1], HANGS_ONCE + COMMAND[-1], str(mark)]
    async with pool_of(PoolSize(max_processes=2, warm=1), command) as pool:
        pool.warm_up()
        await until(mark.exists)
        assert await pool.request(b"ab", 20.0) == b"ba"
        assert len(pool.pids) == 2, "the one that hangs still starts"


async def test_idle_processes_end() -> None:
    async with pool_of(PoolSize(max_processes=3, idle_s=0.2)) as pool:
        requests = [
            asyncio.create_task(pool.request(b"eval time.sleep(2.0)", 20.0)) for _ in range(3)
        ]
        await until(lambda: len(pool.pids) == 3)
        await asyncio.gather(*requests)
        await until(lambda: not pool.pids)
        assert await pool.request(b"ab", 50.0) == b"ba"


async def test_a_request_that_never_ends_delays_no_other() -> None:
    async with pool_of(PoolSize(max_processes=2, warm=1, spare_after_s=0.02)) as pool:
        pool.warm_up()
        await until(lambda: bool(pool._idle))
        stalled = asyncio.create_task(pool.request(b"sleep", 50.0))
        await until(lambda: any(process._requests for process in pool._lifetimes))
        await until(lambda: bool(pool._idle))  # a spare, for whoever comes next
        assert await pool.request(b"ab", 50.0) == b"ba"
        assert not stalled.done()
        stalled.cancel()
        with pytest.raises(WorkerLost, match=r"no answer within 0\.5 s"):
            await pool.request(b"sleep", 0.5)
        assert await pool.request(b"ab", 50.0) == b"ba"


@pytest.mark.parametrize("harm", [b"abort", b"cpu", b"memory"])
async def test_a_request_that_ends_a_process_is_not_repeated(
    harm: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The next request has a process that is ready already."""
    async with pool_of(PoolSize(max_processes=1, warm=1)) as pool:
        with pytest.raises(WorkerLost) as lost:
            await pool.request(harm, 50.0)
        assert lost.value.certain
        await until(lambda: bool(pool._idle))
        assert await pool.request(b"ab", 50.0) == b"ba"
    assert [record.getMessage() for record in caplog.records] == ["worker_process_ended"]


async def test_somebody_elses_kill_costs_no_answer() -> None:
    async with pool_of(PoolSize(max_processes=1)) as pool:
        request = asyncio.create_task(pool.request(b"eval [time.sleep(0.5), 7][1]", 50.0))
        await until(lambda: any(process._requests for process in pool._lifetimes))
        os.kill(pool.pids[0], signal.SIGKILL)
        assert await request == b"7"


async def test_a_request_waits_for_another_process_if_one_is_killed_while_it_starts() -> None:
    command = [*COMMAND[:-1], f"import time; time.sleep(1.0)\n{COMMAND[-1]}"]  # a slow start
    async with pool_of(PoolSize(max_processes=2), command) as pool:
        requests = [asyncio.create_task(pool.request(b"a%d" % n, 20.0)) for n in range(2)]
        await until(lambda: len(pool.pids) == 2)
        starting = [process for process in pool._lifetimes if not process.ready]
        os.kill(starting[0].process.pid, signal.SIGKILL)
        assert await asyncio.gather(*requests) == [b"0a", b"1a"]


async def test_a_warm_process_that_dies_while_idle_is_replaced() -> None:
    async with pool_of(PoolSize(max_processes=1, warm=1)) as pool:
        pool.warm_up()
        await until(lambda: bool(pool._idle))
        (pid,) = pool.pids
        os.kill(pid, signal.SIGKILL)
        await until(lambda: bool(pool._idle) and pool.pids != [pid])


@pytest.mark.parametrize("most", [1, 2])
async def test_a_renewed_pool_has_other_processes_and_lets_requests_end(most: int) -> None:
    async with pool_of(PoolSize(max_processes=most, warm=1)) as pool:
        pool.warm_up()
        await until(lambda: bool(pool._idle))
        (previous_pid,) = pool.pids
        await pool.replace_idle()
        assert await pool.request(b"ab", 50.0) == b"ba"
        await until(lambda: bool(pool._idle))
        assert previous_pid not in pool.pids
        busy = asyncio.create_task(pool.request(b"eval [time.sleep(0.5), 7][1]", 50.0))
        await asyncio.sleep(0.2)
        await pool.replace_idle()
        assert await busy == b"7"


async def test_a_caller_that_goes_away_leaves_no_process_at_work() -> None:
    async with pool_of(PoolSize(max_processes=1)) as pool:
        with anyio.move_on_after(0.5):
            await pool.request(b"sleep", 20.0)
        assert await pool.request(b"ab", 50.0) == b"ba"


async def test_a_process_that_cannot_be_started_is_reported() -> None:
    for command in (("/nonexistent",), (sys.executable, "-c", "")):
        async with pool_of(PoolSize(max_processes=1, warm=1), command) as pool:
            pool.warm_up()
            with pytest.raises(WorkerUnavailable, match="cannot be started") as unavailable:
                await pool.request(b"ab", 50.0)
            assert unavailable.value.hint.startswith("free memory")


async def test_after_an_upgrade_a_restart_is_advised_and_no_more_memory() -> None:
    async with pool_of(PoolSize(max_processes=1), code="another version") as pool:
        with pytest.raises(WorkerUnavailable, match="the installed code is not") as unavailable:
            await pool.request(b"ab", 50.0)
    assert unavailable.value.hint == "run `cocosearchctl restart`"
