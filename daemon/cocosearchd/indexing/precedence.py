"""Who goes first inside of the child: what a person has just saved, before what is being indexed in bulk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Somebody who saves all the time must not keep an index from being completed.
MAX_PAUSE_S = 0.25


class Precedence:
    """Bulk work begins only while nothing urgent is under way; what has begun is not interrupted."""

    def __init__(self) -> None:
        self._urgent = 0
        self._calm = asyncio.Event()
        self._calm.set()

    @asynccontextmanager
    async def turn(self, *, urgent: bool) -> AsyncIterator[None]:
        """Around a piece of work."""
        if not urgent:
            await self._pause()
            yield
            return
        self._urgent += 1
        self._calm.clear()
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._calm.set()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(MAX_PAUSE_S):
                await self._calm.wait()
        except TimeoutError:
            pass
