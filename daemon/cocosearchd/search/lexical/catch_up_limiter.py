"""Limits how many lexical indexes catch up at once; those that questions need come first.

After an outage of PostgreSQL, all indexes of the daemon have to catch up. At once, they would take
its connections from questions, some would not get one in time, and these would start again.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

# Each uses one connection at a time. Together these are fewer than the default `database.pool_max`.
RUNNING = 4
RESERVED = 2


class CatchUpLimiter:
    """Slots for catch-ups. For one event loop.

    A catch-up that no question needs gets one of `running` slots. A catch-up that a question needs
    also gets one of `reserved` further slots, so it never waits for the others alone.
    """

    def __init__(self, running: int = RUNNING, reserved: int = RESERVED) -> None:
        self._running = running
        self._reserved = reserved
        self._in_use = 0
        # catch-ups that wait, in order
        self._background = dict[Hashable, asyncio.Event]()
        self._preferred = dict[Hashable, asyncio.Event]()

    @asynccontextmanager
    async def slot(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for a slot, and free it at the end. A key has one slot at a time."""
        admitted = asyncio.Event()
        self._background[key] = admitted
        self._admit()
        try:
            await admitted.wait()
            yield
        finally:
            # a cancelled caller may have been admitted without having run since
            if admitted.is_set():
                self._in_use -= 1
            else:
                self._background.pop(key, None)
                self._preferred.pop(key, None)
            self._admit()

    def prefer(self, key: Hashable) -> None:
        """Put a catch-up that waits before all that no question needs. Others are not changed."""
        admitted = self._background.pop(key, None)
        if admitted is not None:
            self._preferred[key] = admitted
            self._admit()

    def _admit(self) -> None:
        """Give free slots to catch-ups that wait."""
        while self._preferred and self._in_use < self._running + self._reserved:
            self._give_slot(self._preferred)
        while self._background and self._in_use < self._running:
            self._give_slot(self._background)

    def _give_slot(self, waiting: dict[Hashable, asyncio.Event]) -> None:
        waiting.pop(next(iter(waiting))).set()
        self._in_use += 1
