"""Bounded waits for calls that may never return, for callers that must answer in any case."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from cocosearchd.errors import StoreUnavailable, StoreUnresponsive

Answer = TypeVar("Answer")

# `is_done_within` measures the time in parts: a pause of the whole machine counts as one part at
# most.
_PARTS = 4
CALL_RETRY_S = 1.0  # pause between calls; a call to a frozen server takes further seconds itself


async def call_within(call: Coroutine[Any, Any, Answer], within_s: float) -> Answer:
    """Await a call to PostgreSQL. Raises `StoreUnavailable` if it takes longer than `within_s`.

    The call then goes on in the background: a frozen server (stopped, or waiting for its disk) does
    not answer a request to cancel, and the driver waits for that answer.
    """
    task = asyncio.ensure_future(call)
    if not await ends_within(task, within_s):
        raise StoreUnresponsive(
            f"PostgreSQL has not answered for {within_s:g} s", "look at its processes and its disk"
        )
    return task.result()


async def ends_within(task: "asyncio.Future[Any]", within_s: float) -> bool:
    """Return True if a task ends in time; otherwise it goes on. A cancelled wait cancels the task."""
    try:
        done, _ = await asyncio.wait({task}, timeout=within_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.add_done_callback(_forget)
    return bool(done)


async def is_done_within(future: "asyncio.Future[Any]", within_s: float) -> bool:
    """Wait until a future is done; return False if that takes too long. The future goes on.

    A time in which this process was frozen as well (a paused container, a machine that slept)
    counts as a quarter of `within_s` at most.
    """
    for _ in range(_PARTS):
        if (await asyncio.wait({future}, timeout=within_s / _PARTS))[0]:
            return True
    return False


async def retry_until_available(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat a call until PostgreSQL answers. For subscriptions: no client waits for them."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(CALL_RETRY_S)


def _forget(task: "asyncio.Future[Any]") -> None:
    """Retrieve the error of an abandoned task: otherwise asyncio logs it."""
    if not task.cancelled():
        task.exception()
