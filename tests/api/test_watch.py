"""Subscriptions: they cost nothing at rest, and survive the end of an index."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api.saved_queries import MIN_EVIDENCE
from cocosearchd.api.verbs.watch import RECHECK_S, WatchVerbs, make_search_request
from cocosearchd.indexes.change_notifier import ChangeNotifier
from cocosearchd.indexes.commit_feed import CommitFeed
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import Clock, Commit
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import drop_index
from tests.search.corpus import new_corpus
from tests.waiting import until


class FakeRegistry:
    """`IndexRegistry` that runs nothing: its lookup, its feed and its notifier."""

    def __init__(self) -> None:
        self.running: dict[str, RunningIndex] = {}
        self.lookup = IndexLookup(self.running)
        self.notifier = ChangeNotifier()
        self.commits = CommitFeed()


class CountingVerbs(WatchVerbs):
    looks = 0

    def _states(self) -> dict[str, w.WatchEvent]:
        self.looks += 1
        return super()._states()


def verbs(db: Database | None, indexes: FakeRegistry) -> CountingVerbs:
    nothing = cast(Any, None)
    return CountingVerbs(cast(Database, db), cast(IndexRegistry, indexes), nothing)


async def test_a_client_that_listens_costs_nothing_while_nothing_happens() -> None:
    indexes = FakeRegistry()
    watch_verbs = verbs(None, indexes)

    async def listen() -> None:
        async with aclosing(watch_verbs.watch(w.WatchRequest(lifecycle=True))) as events:
            async for event in events:
                raise AssertionError(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await until(lambda: watch_verbs.looks > 0)
        await anyio.sleep(RECHECK_S * 1.5)  # it may begin with a second look
        at_rest = watch_verbs.looks
        await anyio.sleep(RECHECK_S * 2.5)
        assert watch_verbs.looks == at_rest
        indexes.notifier.notify()
        with anyio.fail_after(60):  # a state that settles after the notification is seen as well
            while watch_verbs.looks < at_rest + 2:  # noqa: ASYNC110 - a look has no event
                await anyio.sleep(RECHECK_S / 10)
        await anyio.sleep(RECHECK_S * 2.5)
        assert watch_verbs.looks == at_rest + 2
        tasks.cancel_scope.cancel()


async def test_a_notification_before_the_wait_ends_it() -> None:
    notifier = ChangeNotifier()
    version = notifier.version
    notifier.notify()
    with anyio.fail_after(60):
        version = await notifier.wait(version)
    with anyio.move_on_after(0.05) as scope:
        await notifier.wait(version)
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("watch_request", "expected"),
    [
        (w.WatchRequest(query="x"), MIN_EVIDENCE),
        (w.WatchRequest(query="x", min_evidence=0.0), 0.0),
        (w.WatchRequest(query="x", min_score=0.0), 0.0),
        (w.WatchRequest(query="x", min_evidence=0.5, min_score=0.1), 0.5),
    ],
)
def test_evidence_has_a_default_and_an_earlier_name(
    watch_request: w.WatchRequest, expected: float
) -> None:
    assert make_search_request(watch_request).min_evidence == expected


async def test_an_index_that_goes_while_a_commit_is_told_ends_no_subscription(
    db: Database, tmp_path: Path
) -> None:
    indexes = FakeRegistry()
    watch_verbs = verbs(db, indexes)
    corpora = [
        await new_corpus(db, tmp_path / name, {"a.py": "x = 1\n"}, name=name)
        for name in ("gone", "kept")
    ]
    root = SimpleNamespace(clock=lambda: Clock("", 0), status=lambda: SimpleNamespace(state="live"))
    for corpus in corpora:
        index = SimpleNamespace(record=corpus.record, root=root)
        indexes.running[corpus.record.name] = cast(RunningIndex, index)
    await drop_index(db, corpora[0].record)
    async with aclosing(watch_verbs.watch(w.WatchRequest())) as events:
        waiting = asyncio.ensure_future(anext(events))
        await anyio.wait_all_tasks_blocked()
        for corpus in corpora:
            indexes.commits.publish(Commit(corpus.record.name, 1, ("a.py",)))
        with anyio.fail_after(60):
            assert (await waiting).index == "kept"
