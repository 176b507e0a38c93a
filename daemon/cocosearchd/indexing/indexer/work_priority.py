"""Work priority in the indexer process: urgent work (saved files) goes before bulk work."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Endless saves must not stop the indexing of the rest.
MAX_PAUSE_S = 0.25


class WorkPriority:
    """Lets bulk work run only while no urgent work runs.

    Each step of bulk work calls `pause` first. No step is interrupted.
    """

    def __init__(self) -> None:
        self._urgent = 0
        # set while no urgent work runs, for tasks and for threads
        self._calm = asyncio.Event()
        self._thread_calm = threading.Event()
        self._calm.set()
        self._thread_calm.set()
        # false after a pause of `MAX_PAUSE_S`, until no urgent work runs
        self._may_pause = True

    @asynccontextmanager
    async def slot(self, *, urgent: bool) -> AsyncIterator[None]:
        """Run the work of the context as urgent or bulk."""
        if not urgent:
            await self.pause()
            yield
            return
        self._urgent += 1
        self._calm.clear()
        self._thread_calm.clear()
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._may_pause = True
                self._calm.set()
                self._thread_calm.set()

    async def pause(self) -> None:
        """Wait before a step of bulk work while urgent work runs, at most `MAX_PAUSE_S`."""
        if self._calm.is_set() or not self._may_pause:
            return
        try:
            async with asyncio.timeout(MAX_PAUSE_S):
                await self._calm.wait()
        except TimeoutError:
            self._may_pause = False

    def pause_thread(self) -> None:
        """Wait in a thread, as `pause` does in a task."""
        if self._may_pause and not self._thread_calm.wait(MAX_PAUSE_S):
            self._may_pause = False
