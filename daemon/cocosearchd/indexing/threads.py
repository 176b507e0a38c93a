"""Where blocking work on an index is done in the child: in threads of its own, as its root's file system may hang."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cocosearchd.indexing.giving_way import read_last
from cocosearchd.indexing.precedence import Precedence

BULK_THREADS = 2  # parsing holds the interpreter for most of its time: more threads only take turns
EDIT_THREADS = 8  # made as they are needed

T = TypeVar("T")


class Threads:
    """For one event loop. What is urgent finds a thread free."""

    def __init__(self, precedence: Precedence) -> None:
        self._precedence = precedence
        self._bulk = ThreadPoolExecutor(BULK_THREADS, "bulk", initializer=read_last)
        self._edits = ThreadPoolExecutor(EDIT_THREADS, "edits")

    def close(self) -> None:
        """End the threads, but for those that a file system holds."""
        self._bulk.shutdown(wait=False)
        self._edits.shutdown(wait=False)

    async def apart(self, work: Callable[[], T], *, urgent: bool) -> T:
        """Do blocking work in a thread. Bulk work queues for few of them, and begins while nothing is urgent."""
        loop = asyncio.get_running_loop()
        if urgent:
            return await loop.run_in_executor(self._edits, work)
        return await loop.run_in_executor(self._bulk, self._in_turn, work)

    def _in_turn(self, work: Callable[[], T]) -> T:
        self._precedence.pause_thread()
        return work()
