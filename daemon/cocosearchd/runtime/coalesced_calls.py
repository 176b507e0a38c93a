"""Coalesced calls: one runs at a time, and callers that come meanwhile share the next one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Generic, TypeVar

Result = TypeVar("Result")


class CoalescedCalls(Generic[Result]):
    """Runs a call for many callers. Each caller gets the outcome of a call that began later.

    A call goes on when its callers are cancelled. For one event loop.
    """

    def __init__(self, call: Callable[[], Awaitable[Result]]) -> None:
        self._call = call
        self._running: asyncio.Task[Result] | None = None
        self._next: asyncio.Task[Result] | None = None

    async def run(self) -> Result:
        """Return the outcome of the next call. Raises the errors of the call."""
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
    """Retrieve the error of a call without callers: otherwise asyncio logs it as forgotten."""
    if not task.cancelled():
        task.exception()
