"""Coalesced calls: each caller gets the outcome of a call that began after it came."""

import asyncio

import anyio
import pytest

from cocosearchd.runtime.coalesced_calls import CoalescedCalls


class Counter:
    """A call that waits for its release, and returns how many began before it."""

    def __init__(self) -> None:
        self.begun = 0
        self.release = anyio.Event()

    async def call(self) -> int:
        self.begun += 1
        number = self.begun
        await self.release.wait()
        if number == 3:
            raise ValueError("the third fails")
        return number


async def test_callers_share_the_next_call_and_never_the_running_one() -> None:
    counter = Counter()
    calls = CoalescedCalls(counter.call)
    first = asyncio.create_task(calls.run())
    await anyio.sleep(0.01)
    late = [asyncio.create_task(calls.run()) for _ in range(5)]
    await anyio.sleep(0.01)
    assert counter.begun == 1
    counter.release.set()
    assert await first == 1
    assert [await task for task in late] == [2] * 5
    with pytest.raises(ValueError, match="third"):
        await calls.run()
    assert await calls.run() == 4


async def test_a_call_goes_on_when_its_caller_gives_up() -> None:
    counter = Counter()
    calls = CoalescedCalls(counter.call)
    with anyio.move_on_after(0.01):
        await calls.run()
    waiting = asyncio.create_task(calls.run())
    await anyio.sleep(0.01)
    assert counter.begun == 1
    counter.release.set()
    assert await waiting == 2
