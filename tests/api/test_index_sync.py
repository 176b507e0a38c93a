"""Waiting for indexes: one deadline bounds settings and changes together."""

from types import SimpleNamespace
from typing import cast

import anyio

from cocosearchd.api.index_sync import CHECKED_TOGETHER, IndexSync
from cocosearchd.config.settings import SearchSettings
from cocosearchd.freshness import Freshness, stale_reason
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import Clock


class ForgottenMappings:
    """`MappedFiles` after a rest: nothing is known at once before `refresh`."""

    is_listed = False

    async def refresh(self) -> None:
        self.is_listed = True


class SlowRegistry:
    """`IndexRegistry` whose settings have just changed: replacement them takes `delay_s` seconds."""

    delay_s = 0.0

    def __init__(self) -> None:
        self.mapped_files = ForgottenMappings()

    async def refresh(self, index: RunningIndex) -> None:
        await anyio.sleep(self.delay_s)


class RecordingRoot:
    """A root that only records the timeouts of its callers."""

    availability = SimpleNamespace(unresponsive=None)

    def __init__(self) -> None:
        self.timeouts_s: list[float] = []

    async def sync(self, timeout_s: float) -> Freshness:
        self.timeouts_s.append(timeout_s)
        return self.freshness()

    def freshness(self) -> Freshness:
        return Freshness(Clock("", 0), stale_reason("not_compared"))


def sync_over(
    indexes: SlowRegistry, pause_reason: str | None = None, *, is_owner: bool = True
) -> IndexSync:
    return IndexSync(
        cast(IndexRegistry, indexes), SearchSettings(), lambda: pause_reason, lambda: is_owner
    )


def index_of(root: RecordingRoot, at_once: Freshness | None = None) -> RunningIndex:
    """`at_once` is what is known of the index without waiting."""
    return cast(
        RunningIndex,
        SimpleNamespace(
            root=root,
            own_root=root,
            record=SimpleNamespace(is_followed=False),
            error=None,
            sync_at_once=lambda outside=None: at_once,
        ),
    )


async def test_settings_and_changes_share_the_deadline_of_a_request() -> None:
    indexes, root = SlowRegistry(), RecordingRoot()
    sync, index = sync_over(indexes), index_of(root)
    deadline = sync.deadline(10_000)
    indexes.delay_s = 0.1
    # the settings are followed again by a request that has followed them before
    await sync.wait(index, deadline)
    await sync.wait(index, deadline)
    assert root.timeouts_s[0] <= 9.9
    assert root.timeouts_s[1] <= root.timeouts_s[0] - 0.1
    indexes.delay_s = 60.0
    soon = sync.deadline(100)
    assert "its settings have changed" in ((await sync.wait(index, soon)).reason or "")
    assert len(root.timeouts_s) == 2
    assert sync.deadline(0) is None


async def test_a_pause_of_indexing_is_named_in_the_reason() -> None:
    sync = sync_over(SlowRegistry(), "the disk is full")
    freshness = await sync.wait(index_of(RecordingRoot()), sync.deadline(100))
    assert freshness.reason == "not compared with the disk; the disk is full"
    assert freshness.code == "indexing_paused"


async def test_only_indexes_that_may_have_changed_are_waited_for() -> None:
    roots = [RecordingRoot() for _ in range(CHECKED_TOGETHER + 2)]
    unchanged = Freshness(Clock("epoch", 7), None)
    indexes = [
        index_of(root, None if number % 3 == 0 else unchanged) for number, root in enumerate(roots)
    ]
    sync = sync_over(SlowRegistry())
    results = await sync.wait_all(indexes, sync.deadline(400))
    assert [freshness.fresh for freshness in results] == [
        number % 3 != 0 for number in range(len(roots))
    ]
    assert [len(root.timeouts_s) for root in roots] == [
        int(number % 3 == 0) for number in range(len(roots))
    ]
    assert not any(freshness.fresh for freshness in await sync.wait_all(indexes, None)), (
        "who does not wait is told nothing"
    )


async def test_after_a_rest_no_unchanged_index_is_waited_for() -> None:
    """One list of mapped files serves all indexes; without it, each needs a cookie and its checks."""
    registry, roots = SlowRegistry(), [RecordingRoot() for _ in range(3)]
    unchanged = Freshness(Clock("epoch", 7), None)

    def find_at_once(outside: object = None) -> Freshness | None:
        return unchanged if registry.mapped_files.is_listed else None

    indexes = [index_of(root) for root in roots]
    for index in indexes:
        index.sync_at_once = find_at_once  # type: ignore[method-assign]
    sync = sync_over(registry)
    assert await sync.wait_all(indexes, sync.deadline(60_000)) == [unchanged] * 3
    registry.mapped_files.is_listed = False
    assert await sync.wait(indexes[0], sync.deadline(60_000)) == unchanged
    assert not any(root.timeouts_s for root in roots)


async def test_no_answer_is_fresh_while_another_daemon_may_use_the_database() -> None:
    fresh = Freshness(Clock("", 0))
    index = index_of(RecordingRoot(), at_once=fresh)
    deadline = anyio.current_time() + 5
    assert await sync_over(SlowRegistry()).wait_all([index], deadline) == [fresh]
    sync = sync_over(SlowRegistry(), is_owner=False)
    assert (await sync.wait(index, deadline)).code == "lock_lost"
    assert [freshness.code for freshness in await sync.wait_all([index], deadline)] == ["lock_lost"]
