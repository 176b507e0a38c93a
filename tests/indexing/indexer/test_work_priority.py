"""Saved files go before bulk work. The tests compare the order, not times."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.index_queue import BULK_BATCHES, BULK_FILES
from cocosearchd.indexing.indexer import work_priority as work_priority_module
from cocosearchd.indexing.indexer.index_threads import BULK_THREADS, IndexThreads
from cocosearchd.indexing.indexer.work_priority import MAX_PAUSE_S, WorkPriority
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.model import Commit
from cocosearchd.store.connection.database import Database
from tests.embedding.ollama_server import Script, ollama_server
from tests.indexing.conftest import python
from tests.indexing.support import Change, Source, new_record, running

pytestmark = pytest.mark.anyio


async def test_a_save_waits_for_no_bulk_work(db: Database, root: Path, spec: IndexerSpec) -> None:
    """Bulk batches that never end fill their window; the save is committed and settled all the
    same.
    """
    record, source = await new_record(db, root), Source()
    bulk = [f"bulk/{number}.py" for number in range(BULK_FILES * BULK_BATCHES * 2)]
    (root / "bulk").mkdir()
    for number, path in enumerate(bulk):
        (root / path).write_text(python(f"bulk{number}", number))
    go_on, filled, stuck = asyncio.Event(), asyncio.Event(), list[Commit]()

    async def on_commit(commit: Commit) -> None:
        if commit.paths[0] in bulk:
            stuck.append(commit)
            if len(stuck) == BULK_BATCHES:
                filled.set()
            await go_on.wait()

    updater = Updater(spec, on_commit)
    await updater.add(record, source)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        source.give(Change(tuple(bulk)))
        with anyio.fail_after(60):
            await filled.wait()
            assert source.waiting == 1  # the window is full: the rest is not even asked for
            await source.overtake(Change(("lib/retry.py",), urgent=True))
        assert [batch.paths for batch, _ in source.settled] == [("lib/retry.py",)]
        go_on.set()
        assert await source.idle() == {}
        tasks.cancel_scope.cancel()


async def test_saves_during_a_first_indexing_are_in_before_its_end(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    many = [f"many/{number}.py" for number in range(300)]
    async with running(db, record, root, spec) as bench:
        bench.write({path: python(f"many{number}", number) for number, path in enumerate(many)})
        assert await bench.feed("README.md") == {}  # the child is up
        bench.source.give(Change(tuple(many)))
        behind = list[int]()
        for number in range(5):
            bench.write({"saved.py": python(f"saved{number}", number)})
            commit_count = len(bench.commits)
            await bench.source.overtake(Change(("saved.py",), urgent=True))
            after = [commit.paths for commit in bench.commits[commit_count:]]
            behind.append(after.index(("saved.py",)))
        assert bench.source.waiting, "the first indexing was over too early to show anything"
        assert max(behind) <= BULK_BATCHES + 1, behind  # what was under way, and hardly more
        assert await bench.source.idle() == {}
        assert set(await bench.stored()) >= {*many, "saved.py"}


async def test_bulk_work_that_stands_still_leaves_room_for_a_save(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    """All files that bulk work may have in flight wait for vectors; the save, which needs
    none, is committed.
    """
    bulk = [f"bulk/{number}.py" for number in range(BULK_FILES * BULK_BATCHES)]
    script = Script(dimension=16)
    with ollama_server(script) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url)
        record = await new_record(db, root, embedder=settings)
        async with running(db, record, root, replace(spec, embedder=settings)) as bench:
            bench.write({path: python(f"bulk{number}", number) for number, path in enumerate(bulk)})
            bench.write({"saved.py": ""})
            assert await bench.feed("README.md") == {}
            script.delay_s, request_count = 120.0, len(script.requests)
            bench.source.give(Change(tuple(bulk)))
            with anyio.fail_after(60):
                while len(script.requests) == request_count:  # noqa: ASYNC110 - the server runs in a thread
                    await anyio.sleep(0.01)
                await bench.source.overtake(Change(("saved.py",), urgent=True))
            assert [batch.paths for batch, _ in bench.source.settled] == [("saved.py",)]


async def test_bulk_work_pauses_for_what_is_urgent_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work_priority, order = WorkPriority(), list[str]()

    async def bulk(name: str) -> None:
        async with work_priority.slot(urgent=False):
            order.append(name)

    async with anyio.create_task_group() as tasks:
        async with work_priority.slot(urgent=True):
            tasks.start_soon(bulk, "waits")
            await anyio.sleep(MAX_PAUSE_S / 5)
            order.append("urgent")
        await anyio.lowlevel.checkpoint()
    assert order == ["urgent", "waits"]
    async with work_priority.slot(urgent=True):
        await bulk("in spite of it")
        monkeypatch.setattr(work_priority_module, "MAX_PAUSE_S", 30.0)
        with anyio.fail_after(60):  # once is enough, for tasks and threads
            await bulk("at once")
            await asyncio.to_thread(work_priority.pause_thread)
    assert order[-2:] == ["in spite of it", "at once"]


async def test_threads_of_bulk_work_pause_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_priority_module, "MAX_PAUSE_S", 10.0)  # however late this test goes on
    work_priority, order = WorkPriority(), list[str]()

    def bulk() -> None:
        work_priority.pause_thread()
        order.append("bulk")

    async with work_priority.slot(urgent=True):
        working = asyncio.create_task(asyncio.to_thread(bulk))
        await anyio.sleep(MAX_PAUSE_S / 5)
        order.append("urgent")
    await working
    assert order == ["urgent", "bulk"]


def named(*kinds: str) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(kinds)}


async def test_threads_end_with_their_index() -> None:
    previous_threads, threads = named("bulk"), IndexThreads(WorkPriority())  # which may end soon
    together = threading.Barrier(BULK_THREADS)  # one that has ended would take the next call
    await asyncio.gather(
        *(
            threads.run_in_thread(lambda: together.wait(20), urgent=False)
            for _ in range(2 * BULK_THREADS)
        )
    )
    assert len(named("bulk") - previous_threads) == BULK_THREADS
    threads.close()
    await until(lambda: named("bulk") <= previous_threads)


async def test_an_index_at_rest_has_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty indexes that were all worked on some time would keep hundreds of them, each with its
    parsers.
    """
    monkeypatch.setattr("cocosearchd.indexing.indexer.index_threads.THREADS_IDLE_S", 0.05)
    previous_threads, threads, release = (
        named("bulk", "edits"),
        IndexThreads(WorkPriority()),
        threading.Event(),
    )
    for _ in range(2):  # and works again
        working = asyncio.create_task(threads.run_in_thread(release.wait, urgent=True))
        await asyncio.gather(
            *(
                threads.run_in_thread(lambda: time.sleep(0.01), urgent=urgent)
                for urgent in (False, True) * 3
            )
        )
        await anyio.sleep(0.3)
        assert named("bulk", "edits") - previous_threads, "one is at work"
        release.set()
        assert await working
        await until(lambda: named("bulk", "edits") <= previous_threads)
        release.clear()
    threads.close()


async def until(true: Callable[[], bool]) -> None:
    end = anyio.current_time() + 30
    while not true():
        assert anyio.current_time() < end
        await anyio.sleep(0.01)
