"""Threads for file system calls of one root.

A file system that hangs blocks a few threads. No other root waits for these threads.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

# calls of one root at a time: two batches, a scan, rules, links, availability, a question or two
THREADS_PER_ROOT = 8
# Questions to git of one root at a time, beside these: each call of git may take half a minute, and
# goes on when its caller has gone.
GIT_THREADS_PER_ROOT = 2
# of all roots together; started as they are needed, and half of TasksMax= in the units
ROOT_THREADS = 256

Result = TypeVar("Result")


class RootThreads:
    """Runs calls for one event loop, at most `limit` at a time, however long they take."""

    def __init__(self, executor: Executor | None = None, limit: int = THREADS_PER_ROOT) -> None:
        """`executor` is shared by all roots; None: the event loop's own."""
        self._executor = executor
        self._free = asyncio.Semaphore(limit)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call `work` in a thread.

        If the caller is cancelled, the call still runs to its end, and its thread counts until
        then. Raises `RuntimeError` if no thread can be started.
        """
        await self._free.acquire()
        with ExitStack() as on_error:  # for example, no thread can be started
            on_error.callback(self._free.release)
            future = self.start_beside(partial(work, *arguments))
            on_error.pop_all()
        future.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(future)

    def start_beside(self, work: Callable[[], Result]) -> "asyncio.Future[Result]":
        """Call `work` in a thread outside of the limit: calls that hang may have reached the limit.

        Raises `RuntimeError` if no thread can be started.
        """
        call = partial(contextvars.copy_context().run, work)
        future = asyncio.get_running_loop().run_in_executor(self._executor, call)
        future.add_done_callback(_forget_error)
        return future


def _forget_error(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()  # a cancelled caller does not ask for it
