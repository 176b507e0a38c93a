"""Where blocking work of the child is done: in threads, with few of them for bulk work."""

import asyncio
import ctypes
import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cocosearchd.indexing.precedence import Precedence

BULK_THREADS = 2  # parsing holds the interpreter for most of its time: more threads only take turns
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # the number of the system call, by machine: <asm/unistd.h>

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


def read_last() -> None:
    """What this thread asks of a disk comes after what others ask; where the kernel is not Linux, nothing happens."""
    number = IOPRIO_SET.get(platform.machine())
    if number is not None and sys.platform == "linux":
        ctypes.CDLL(None).syscall(number, 1, 0, (2 << 13) | 7)  # this thread; best effort, the last of eight levels
