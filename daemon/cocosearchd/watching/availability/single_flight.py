"""Calls that may never return, such as those to a file server, sharing one thread."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cocosearchd.runtime.coalesced_calls import CoalescedCalls
from cocosearchd.watching.root_threads import RootThreads

Result = TypeVar("Result")
UNRESPONSIVE_S = 1.0  # a file system that answers takes milliseconds


class SingleFlight(Generic[Result]):
    """One call at a time, for one event loop, however many callers wait or give up.

    A caller that comes while a call is running waits for the next call, together with all others.
    """

    def __init__(self, call: Callable[[], Result], threads: RootThreads) -> None:
        self._call = call
        self._threads = threads
        self._calls = CoalescedCalls(self._run)
        self._began: float | None = None  # while a call is running

    @property
    def unresponsive(self) -> bool:
        """True while the running call takes longer than `UNRESPONSIVE_S`."""
        return self._began is not None and time.monotonic() - self._began > UNRESPONSIVE_S

    async def run(self) -> Result:
        """Return the result of a call that begins after this one.

        A cancelled caller leaves the call to its end.
        """
        return await self._calls.run()

    async def _run(self) -> Result:
        self._began = time.monotonic()
        try:
            return await self._threads.run(self._call)
        finally:
            self._began = None
