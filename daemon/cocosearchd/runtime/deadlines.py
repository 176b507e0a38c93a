"""Waiting for what may never come, in places that must answer all the same."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from cocosearchd.errors import StoreSilent, StoreUnavailable

Answer = TypeVar("Answer")

AGAIN_S = 1.0  # beside the seconds that a server takes which is frozen


async def call_within(call: Coroutine[Any, Any, Answer], within_s: float) -> Answer:
    """What a call to PostgreSQL returns. Raises `StoreUnavailable` if it takes longer; the call
    then goes on by itself.

    A server that is frozen (stopped, or waiting for its disk) does not even answer a request to
    cancel, and the driver waits for that answer: cancelling would hang as well.
    """
    task = asyncio.ensure_future(call)
    if not await ends_within(task, within_s):
        raise StoreSilent(
            f"PostgreSQL has not answered for {within_s:g} s", "look at its processes and its disk"
        )
    return task.result()


async def call_within_or(
    default: Answer, call: Coroutine[Any, Any, Answer], within_s: float
) -> Answer:
    """Return what a call to PostgreSQL returns, or the default where PostgreSQL is away or takes
    longer.
    """
    try:
        return await call_within(call, within_s)
    except StoreUnavailable:
        return default


async def ends_within(task: "asyncio.Future[Any]", within_s: float) -> bool:
    """Whether a task ends in that time; else it goes on by itself. It is cancelled with whoever
    waits here.
    """
    try:
        done, _ = await asyncio.wait({task}, timeout=within_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.add_done_callback(_forget)
    return bool(done)


async def retry_until_available(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """What `ask` returns as soon as PostgreSQL answers it: for who listens, and has nobody that
    waits for an answer.
    """
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(AGAIN_S)


def _forget(task: "asyncio.Future[Any]") -> None:
    """Nobody waits for it any more: its error is no news."""
    if not task.cancelled():
        task.exception()
