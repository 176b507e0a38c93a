"""Looks at what may never answer, a file server for one, in threads: however many ask and give up,
it holds one.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cocosearchd.watching.root_threads import RootThreads

Seen = TypeVar("Seen")
SILENT_S = 1.0  # a look takes milliseconds where it is answered at all


class SingleFlight(Generic[Seen]):
    """For one event loop. Who asks while a look is under way waits for the next one, together with
    all others.
    """

    def __init__(self, look: Callable[[], Seen], threads: RootThreads | None = None) -> None:
        self._look, self._threads = look, threads or RootThreads()
        self._running: asyncio.Task[Seen] | None = None
        self._next: asyncio.Task[Seen] | None = None
        self._began = 0.0

    @property
    def silent(self) -> bool:
        """Whether a look has not been answered for longer than looks take."""
        return (
            self._running is not None
            and not self._running.done()
            and time.monotonic() - self._began > SILENT_S
        )

    async def seen(self) -> Seen:
        """What a look says that begins after this call. Whoever gives up leaves it to its end."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[Seen] | None) -> Seen:
        if before is not None:
            await asyncio.wait({before})
        self._running, self._next, self._began = self._next, None, time.monotonic()
        return await self._threads.run(self._look)
