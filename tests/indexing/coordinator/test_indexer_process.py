"""The end of an indexer process, also while a remaining worker process keeps its files open."""

import os
import signal
from pathlib import Path

import anyio
import psutil
import pytest

from cocosearchd.indexing.coordinator import indexer_liveness, indexer_process
from cocosearchd.indexing.coordinator.indexer_liveness import IndexerLiveness
from cocosearchd.indexing.coordinator.indexer_process import IndexerProcess, start_indexer
from cocosearchd.indexing.indexer_messages import IndexerSpec
from tests.waiting import until

pytestmark = pytest.mark.anyio


def group_of(indexer: IndexerProcess) -> set[int]:
    """Return the processes that run in the group of an indexer."""
    return {pid for pid in psutil.pids() if _lives_in_group(pid, indexer.pid)}


def _lives_in_group(pid: int, group: int) -> bool:
    """Return whether a process is of a group; False also for one that ends at this moment."""
    try:
        return os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


async def until_it_has_left_a_child(indexer: IndexerProcess) -> None:
    await until(lambda: indexer.has_ended and bool(group_of(indexer)))


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Run on both event loops: the daemon has uvloop, which lacks some of asyncio's options."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(autouse=True)
def leaves_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.setattr(indexer_process, "MODULE", "tests.indexing.coordinator.leaves_a_child")
    monkeypatch.setattr(indexer_liveness, "PING_EVERY_S", 0.1)


async def test_a_child_that_is_left_does_not_keep_the_link_open(spec: IndexerSpec) -> None:
    async with start_indexer(spec) as indexer:
        await until_it_has_left_a_child(indexer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(IndexerLiveness(indexer, stall_s=60.0).watch)
            with anyio.fail_after(60):
                await indexer.link.listen()
            tasks.cancel_scope.cancel()
        await until(lambda: not group_of(indexer))
    assert indexer.process.returncode == -signal.SIGKILL
    assert not indexer.ended_by_itself


async def test_the_end_does_not_wait_for_a_child_that_is_left(spec: IndexerSpec) -> None:
    with anyio.fail_after(indexer_process.STOP_S + 60):
        async with start_indexer(spec) as indexer:
            await until_it_has_left_a_child(indexer)
    await until(lambda: not group_of(indexer))
