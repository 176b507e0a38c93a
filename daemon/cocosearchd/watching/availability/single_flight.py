"""Calls that may never return, such as those to a file server, sharing one thread."""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cocosearchd.watching.root_threads import RootThreads

Result = TypeVar("Result")
UNRESPONSIVE_S = 1.0  # a call takes milliseconds where it is answered at all


class SingleFlight(Generic[Result]):
    """One call at a time, for one event loop, however many callers wait or give up.

    A caller that comes while a call is running waits for the next call, together with all others.
    """

    def __init__(self, call: Callable[[], Result], threads: RootThreads | None = None) -> None:
        self._call = call
        self._threads = threads or RootThreads()
        self._running: asyncio.Task[Result] | None = None
        self._next: asyncio.Task[Result] | None = None
        self._began = 0.0

    @property
    def unresponsive(self) -> bool:
        """True while the running call takes longer than `UNRESPONSIVE_S`."""
        return (
            self._running is not None
            and not self._running.done()
            and time.monotonic() - self._began > UNRESPONSIVE_S
        )

    async def run(self) -> Result:
        """Return the result of a call that begins after this one.

        A cancelled caller leaves the call to its end.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._run_after(self._running))
        return await asyncio.shield(self._next)

    async def _run_after(self, previous: asyncio.Task[Result] | None) -> Result:
        if previous is not None:
            await asyncio.wait({previous})
        self._running = self._next
        self._next = None
        self._began = time.monotonic()
        return await self._threads.run(self._call)
