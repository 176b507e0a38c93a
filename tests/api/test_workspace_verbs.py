"""Whoever follows indexes costs nothing while nothing happens."""

import asyncio
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api.workspace_verbs import LOOK_S, WorkspaceVerbs
from cocosearchd.config.settings import Settings
from cocosearchd.indexes.commit_feed import ChangeNotifier, CommitFeed
from cocosearchd.indexes.config_sync import RunningIndex
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.model import Clock, Commit, Freshness
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import drop_index
from tests.search.corpus import new_corpus


class Still(IndexLookup):
    """`IndexRegistry` without any index: what runs them has no part in this."""

    def __init__(self) -> None:
        super().__init__()
        self.bell, self.feed = ChangeNotifier(), CommitFeed()

    def running(self, name: str, index: RunningIndex) -> None:
        self._running[name] = index

    def commits(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[Commit]]:
        return self.feed.follow()


class Counted(WorkspaceVerbs):
    looks = 0

    def _seen(self) -> dict[str, w.WatchEvent]:
        self.looks += 1
        return super()._seen()


async def test_a_client_that_listens_costs_nothing_while_nothing_happens() -> None:
    indexes, nothing = Still(), cast(Any, None)
    workspace = Counted(nothing, cast(IndexRegistry, indexes), nothing, nothing, nothing)

    async def listen() -> None:
        async with aclosing(workspace.watch(w.WatchRequest(lifecycle=True))) as events:
            async for event in events:
                raise AssertionError(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.sleep(LOOK_S * 1.5)  # it may begin with a second look
        at_rest = workspace.looks
        await anyio.sleep(LOOK_S * 2.5)
        assert workspace.looks == at_rest
        indexes.bell.ring()
        await anyio.sleep(LOOK_S / 4)
        assert workspace.looks == at_rest + 1
        await anyio.sleep(LOOK_S * 2.5)
        assert workspace.looks == at_rest + 2, "what settles after it was rung for is seen as well"
        tasks.cancel_scope.cancel()


async def test_a_bell_that_rang_before_somebody_listened_is_heard() -> None:
    bell = ChangeNotifier()
    heard = bell.rung
    bell.ring()
    with anyio.fail_after(1):
        heard = await bell.wait(heard)
    with anyio.move_on_after(0.05) as none:
        await bell.wait(heard)
    assert none.cancelled_caught


class Busy(Still):
    """`IndexRegistry` whose settings have just changed: to follow them takes as long as `s`."""

    s = 0.0

    async def refresh(self, index: RunningIndex) -> None:
        await anyio.sleep(self.s)


class Asked:
    """A root that only notes how long it may wait."""

    presence = SimpleNamespace(silent=None)

    def __init__(self) -> None:
        self.may_wait_s = list[float]()

    async def sync(self, timeout_s: float) -> Freshness:
        self.may_wait_s.append(timeout_s)
        return self.freshness()

    def freshness(self) -> Freshness:
        return Freshness(False, Clock("", 0))


async def test_settings_and_changes_share_the_patience_of_a_question() -> None:
    indexes, nothing, root = Busy(), cast(Any, None), Asked()
    workspace = WorkspaceVerbs(nothing, cast(IndexRegistry, indexes), Settings(), nothing, nothing)
    index = cast(RunningIndex, SimpleNamespace(root=root, refusal=None))
    until = workspace._until(400)
    indexes.s = 0.1
    # as the settings are asked for again by a question that needs them before
    await workspace._freshness(index, until)
    await workspace._freshness(index, until)
    assert root.may_wait_s[0] <= 0.3
    assert root.may_wait_s[1] <= 0.2
    indexes.s = 60.0
    assert "its settings have changed" in ((await workspace._freshness(index, until)).reason or "")
    assert len(root.may_wait_s) == 2
    assert workspace._until(0) is None


async def test_an_index_that_goes_while_a_commit_is_told_ends_no_subscription(
    db: Database, tmp_path: Path
) -> None:
    indexes, nothing = Still(), cast(Any, None)
    workspace = WorkspaceVerbs(db, cast(IndexRegistry, indexes), nothing, nothing, nothing)
    corpora = [
        await new_corpus(db, tmp_path / name, {"a.py": "x = 1\n"}, name=name)
        for name in ("gone", "kept")
    ]
    root = SimpleNamespace(clock=lambda: Clock("", 0), status=lambda: SimpleNamespace(state="live"))
    for corpus in corpora:
        indexes.running(
            corpus.record.name, cast(RunningIndex, SimpleNamespace(record=corpus.record, root=root))
        )
    await drop_index(db, corpora[0].record)
    async with aclosing(workspace.watch(w.WatchRequest())) as events:
        waiting = asyncio.ensure_future(anext(events))
        await anyio.wait_all_tasks_blocked()
        for corpus in corpora:
            indexes.feed.tell(Commit(corpus.record.name, 1, ("a.py",)))
        with anyio.fail_after(10):
            assert (await waiting).index == "kept"
