"""Where blocking work of the child is done: in threads, with few of them for bulk work."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cocosearchd.indexing.giving_way import read_last
from cocosearchd.indexing.precedence import Precedence

BULK_THREADS = 2  # parsing holds the interpreter for most of its time: more threads only take turns

T = TypeVar("T")


class Threads:
    """For one event loop. What is urgent finds a thread free."""

    def __init__(self, precedence: Precedence) -> None:
        self._precedence = precedence
        self._bulk = ThreadPoolExecutor(BULK_THREADS, "bulk", initializer=read_last)

    def close(self) -> None:
        """End the threads for bulk work, of which there must be none any more."""
        self._bulk.shutdown()

    async def apart(self, work: Callable[[], T], *, urgent: bool) -> T:
        """Do blocking work in a thread. Bulk work queues for few of them, and begins while nothing is urgent."""
        loop = asyncio.get_running_loop()
        if urgent:
            return await loop.run_in_executor(None, work)
        return await loop.run_in_executor(self._bulk, self._in_turn, work)

    def _in_turn(self, work: Callable[[], T]) -> T:
        self._precedence.pause_thread()
        return work()
