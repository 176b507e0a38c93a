"""A drain barrier: closing it blocks new work and waits for the work that has entered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DrainBarrier:
    """Counts the work inside. It starts open. For one event loop, and one `drain` at a time."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self._empty = asyncio.Event()
        self.open.set()
        self._empty.set()
        self._inside = 0

    def enter(self) -> bool:
        """Enter and return true. Return false while the barrier is closed: wait for `open`."""
        if not self.open.is_set():
            return False
        self._inside += 1
        self._empty.clear()
        return True

    def leave(self) -> None:
        """Leave after a successful `enter`."""
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @asynccontextmanager
    async def drain(self) -> AsyncIterator[None]:
        """Close the barrier and wait until no work is inside. Open it at the end."""
        self.open.clear()
        try:
            await self._empty.wait()
            yield
        finally:
            self.open.set()
