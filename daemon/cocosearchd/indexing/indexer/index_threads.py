"""Threads for blocking work on one index only, because the file system of its root may hang."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.sandbox.process_priority import lower_io_priority

BULK_THREADS = 2  # parsing holds the interpreter for most of its time: more threads only take turns
EDIT_THREADS = 8  # started on demand
# Idle time until threads end: a thread holds memory, and few of many indexes have work.
THREADS_IDLE_S = 5.0

T = TypeVar("T")


class IndexThreads:
    """Thread pools for bulk and urgent work, so urgent work finds a free thread.

    After some idle time there are no threads. For one event loop.
    """

    def __init__(self, work_priority: WorkPriority) -> None:
        self._work_priority = work_priority
        self._busy = 0
        self._used = False  # since the last idle check
        self._idle_timer: asyncio.TimerHandle | None = None
        self._create_pools()

    def close(self) -> None:
        """End the threads, except threads that a file system blocks."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._shut_down_pools()

    async def run_in_thread(self, work: Callable[[], T], *, urgent: bool) -> T:
        """Run blocking work in a thread. Bulk work has few threads, and waits for urgent work."""
        loop = asyncio.get_running_loop()
        self._busy += 1
        self._used = True
        if self._idle_timer is None:
            self._idle_timer = loop.call_later(THREADS_IDLE_S, self._check_idle, loop)
        try:
            if urgent:
                return await loop.run_in_executor(self._edits, work)
            return await loop.run_in_executor(self._bulk, self._run_after_urgent, work)
        finally:
            self._busy -= 1

    def _check_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._busy or self._used:
            self._used = False
            self._idle_timer = loop.call_later(THREADS_IDLE_S, self._check_idle, loop)
        else:
            self._idle_timer = None
            self._shut_down_pools()
            self._create_pools()

    def _create_pools(self) -> None:
        self._bulk = ThreadPoolExecutor(BULK_THREADS, "bulk", initializer=lower_io_priority)
        self._edits = ThreadPoolExecutor(EDIT_THREADS, "edits")

    def _shut_down_pools(self) -> None:
        self._bulk.shutdown(wait=False)
        self._edits.shutdown(wait=False)

    def _run_after_urgent(self, work: Callable[[], T]) -> T:
        self._work_priority.pause_thread()
        return work()
