"""Wakes the tasks that wait for a possible change of any index, such as of its state."""

import asyncio


class ChangeNotifier:
    """Counts moments of possible changes. A waiter has to find out itself what changed."""

    def __init__(self) -> None:
        self.version = 0
        self._changed: asyncio.Event | None = None  # while a task waits

    def notify(self) -> None:
        """Wake all waiters. Cheap: called for every hint of a file."""
        self.version += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait(self, version: int) -> int:
        """Wait until the version differs from `version`; returns the new one."""
        while self.version == version:
            self._changed = self._changed or asyncio.Event()
            await self._changed.wait()
        return self.version
