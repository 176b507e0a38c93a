"""Where blocking work on an index is done in the child: in threads of its own, as its root's file
system may hang.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cocosearchd.indexing.worker.work_priority import WorkPriority
from cocosearchd.sandbox.process_priority import lower_io_priority

BULK_THREADS = 2  # parsing holds the interpreter for most of its time: more threads only take turns
EDIT_THREADS = 8  # made as they are needed
# without work, then they end: a thread keeps parsers, and of many indexes few are worked on
IDLE_S = 5.0

T = TypeVar("T")


class IndexThreads:
    """For one event loop. What is urgent finds a thread free. At rest there are none."""

    def __init__(self, work_priority: WorkPriority) -> None:
        self._work_priority = work_priority
        self._busy, self._used = 0, False  # used: since the last look
        self._look_again: asyncio.TimerHandle | None = None
        self._begin()

    def close(self) -> None:
        """End the threads, but for those that a file system holds."""
        if self._look_again is not None:
            self._look_again.cancel()
        self._end()

    async def run_in_thread(self, work: Callable[[], T], *, urgent: bool) -> T:
        """Do blocking work in a thread. Bulk work queues for few of them, and begins while nothing
        is urgent.
        """
        loop = asyncio.get_running_loop()
        self._busy, self._used = self._busy + 1, True
        if self._look_again is None:
            self._look_again = loop.call_later(IDLE_S, self._look, loop)
        try:
            if urgent:
                return await loop.run_in_executor(self._edits, work)
            return await loop.run_in_executor(self._bulk, self._in_turn, work)
        finally:
            self._busy -= 1

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._busy or self._used:
            self._used = False
            self._look_again = loop.call_later(IDLE_S, self._look, loop)
        else:
            self._look_again = None
            self._end()
            self._begin()

    def _begin(self) -> None:
        self._bulk = ThreadPoolExecutor(BULK_THREADS, "bulk", initializer=lower_io_priority)
        self._edits = ThreadPoolExecutor(EDIT_THREADS, "edits")

    def _end(self) -> None:
        self._bulk.shutdown(wait=False)
        self._edits.shutdown(wait=False)

    def _in_turn(self, work: Callable[[], T]) -> T:
        self._work_priority.pause_thread()
        return work()
