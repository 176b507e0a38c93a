"""A gate that work passes one by one, and that can be shut: then what is inside is waited for, and
nothing enters.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DrainBarrier:
    """Open at first. For one event loop; shut by one at a time."""

    def __init__(self) -> None:
        self.open, self._empty = asyncio.Event(), asyncio.Event()
        self.open.set()
        self._empty.set()
        self._inside = 0

    def enter(self) -> bool:
        """Whether one is inside now; False while the gate is shut: wait for `open` and try
        again.
        """
        if not self.open.is_set():
            return False
        self._inside += 1
        self._empty.clear()
        return True

    def leave(self) -> None:
        """One that had entered is gone."""
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @asynccontextmanager
    async def drain(self) -> AsyncIterator[None]:
        """Nothing is inside meanwhile."""
        self.open.clear()
        try:
            await self._empty.wait()
            yield
        finally:
            self.open.set()
