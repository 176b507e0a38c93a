"""Who goes first inside of the child: what a person has just saved, before what is being indexed in
bulk.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Somebody who saves all the time must not keep an index from being completed.
MAX_PAUSE_S = 0.25


class WorkPriority:
    """Bulk work goes on only while nothing urgent is under way: each step of it asks, and no step
    is interrupted.
    """

    def __init__(self) -> None:
        self._urgent = 0
        # the same, for tasks and for threads
        self._calm, self._quiet = asyncio.Event(), threading.Event()
        self._calm.set()
        self._quiet.set()
        self._patient = True  # until it was urgent for too long; then until it is calm again

    @asynccontextmanager
    async def slot(self, *, urgent: bool) -> AsyncIterator[None]:
        """Around a piece of work."""
        if not urgent:
            await self.pause()
            yield
            return
        self._urgent += 1
        self._calm.clear()
        self._quiet.clear()
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._patient = True
                self._calm.set()
                self._quiet.set()

    async def pause(self) -> None:
        """Before a step of bulk work: returns when nothing is urgent, or has been for too long."""
        if self._calm.is_set() or not self._patient:
            return
        try:
            async with asyncio.timeout(MAX_PAUSE_S):
                await self._calm.wait()
        except TimeoutError:
            self._patient = False

    def pause_thread(self) -> None:
        """As `pause`, for threads."""
        if self._patient and not self._quiet.wait(MAX_PAUSE_S):
            self._patient = False
