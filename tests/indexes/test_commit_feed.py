"""The feed of commits: each subscriber gets all later commits, or its stream ends."""

import anyio
import pytest

from cocosearchd.indexes import commit_feed
from cocosearchd.indexes.commit_feed import CommitFeed
from cocosearchd.model import Commit


def make_commit(generation: int) -> Commit:
    return Commit("a", generation, ("a.py",))


async def test_a_subscriber_that_is_too_slow_is_cut_off_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commit_feed, "MAX_WAITING", 3)
    feed = CommitFeed()
    commits = [make_commit(generation) for generation in range(1, 6)]
    received = list[Commit]()
    async with feed.subscribe() as slow, feed.subscribe() as quick:
        for commit in commits:
            feed.publish(commit)
            received.append(quick.receive_nowait())
        waiting = [commit async for commit in slow]
    assert received == commits
    assert waiting == commits[:3]
    assert [record.message for record in caplog.records] == ["subscriber_too_slow"]


async def test_a_subscription_begins_with_the_next_commit_and_ends_with_its_block() -> None:
    feed = CommitFeed()
    feed.publish(make_commit(1))
    async with feed.subscribe() as commits:
        feed.publish(make_commit(2))
        assert (await commits.receive()).generation == 2
    feed.publish(make_commit(3))
    with pytest.raises(anyio.ClosedResourceError):
        commits.receive_nowait()
