"""Coalesced calls: one at a time, and callers that come meanwhile share the next one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Generic, TypeVar

Result = TypeVar("Result")


class CoalescedCalls(Generic[Result]):
    """Runs a call for many callers. Each gets the outcome of one that began after it came.

    A call goes on when its callers are cancelled. For one event loop.
    """

    def __init__(self, call: Callable[[], Awaitable[Result]]) -> None:
        self._call = call
        self._running: asyncio.Task[Result] | None = None
        self._next: asyncio.Task[Result] | None = None

    async def run(self) -> Result:
        """Wait for the outcome of the next call. Raises what it raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._run_after(self._running), context=Context())
            self._next.add_done_callback(_retrieve)
        return await asyncio.shield(self._next)

    async def _run_after(self, previous: asyncio.Task[Result] | None) -> Result:
        if previous is not None:
            await asyncio.wait({previous})
        self._running = self._next
        self._next = None
        return await self._call()


def _retrieve(task: asyncio.Task[Result]) -> None:
    """Retrieve the error of a call whose callers are gone: asyncio would log it as forgotten."""
    if not task.cancelled():
        task.exception()
