"""Threads for looks at one root: a file system that hangs holds a few of them, and no other root
waits for those.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

# looks at one root at a time: two batches, a scan, rules, links, presence, a question or two
THREADS_PER_ROOT = 8
# of all roots together; made as they are needed, and half of TasksMax= in the units
ROOT_THREADS = 256

Result = TypeVar("Result")


class RootThreads:
    """For one event loop. Calls beyond `limit` wait for one before them to end, however long its
    file system takes.
    """

    def __init__(self, executor: Executor | None = None, limit: int = THREADS_PER_ROOT) -> None:
        """`executor` is shared by all roots; None: the event loop's own."""
        self._executor, self._free = executor, asyncio.Semaphore(limit)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call `work` in a thread. Whoever gives up leaves the call to its end, and its thread
        counts until then.
        """
        await self._free.acquire()
        call = partial(contextvars.copy_context().run, work, *arguments)
        future = asyncio.get_running_loop().run_in_executor(self._executor, call)
        future.add_done_callback(self._ended)
        return await asyncio.shield(future)

    def _ended(self, future: "asyncio.Future[Any]") -> None:
        self._free.release()
        if not future.cancelled():
            future.exception()  # whoever gave up does not ask for it
