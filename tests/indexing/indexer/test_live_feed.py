"""Batches overlap; a path never does."""

import anyio
import pytest

from cocosearchd.indexing.indexer.live_feed import RootFeed

pytestmark = pytest.mark.anyio


async def test_a_path_is_held_by_one_batch_at_a_time() -> None:
    feed, log = RootFeed(), list[str]()

    async def batch(name: str, *paths: str) -> None:
        async with feed.hold_paths(paths):
            log.append(f"{name} begins")
            await anyio.sleep(0.01)
            log.append(f"{name} ends")

    async with anyio.create_task_group() as tasks:
        for name, paths in (("a", ["x", "y"]), ("b", ["y", "x"]), ("c", ["z", "z"])):
            tasks.start_soon(batch, name, *paths)
    assert log.index("c begins") < log.index("a ends")  # nothing shared: at the same time
    first, second = sorted("ab", key=lambda name: log.index(f"{name} begins"))
    assert log.index(f"{first} ends") < log.index(f"{second} begins")
    assert not feed._locks  # nothing is kept of paths that nobody works on


async def test_a_batch_that_is_given_up_lets_go_of_its_paths() -> None:
    feed = RootFeed()
    async with feed.hold_paths(["x"]):
        with anyio.move_on_after(0.01):
            async with feed.hold_paths(["a", "x"]):
                pytest.fail("the path is held")
        with anyio.fail_after(60):
            async with feed.hold_paths(["a"]):
                pass
    with anyio.fail_after(60):
        async with feed.hold_paths(["x"]):
            pass
