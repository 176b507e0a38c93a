"""Commits for whoever follows them. A reader that is too slow is cut off: it then knows that it
must ask again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from cocosearchd.model import Commit

log = logging.getLogger(__name__)

MAX_WAITING = 1000  # for one reader; a commit is a name, a number and the paths of a batch


class CommitFeed:
    """One sender, many readers, in one event loop."""

    def __init__(self) -> None:
        self._readers: frozenset[MemoryObjectSendStream[Commit]] = frozenset()

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[MemoryObjectReceiveStream[Commit]]:
        """Commits from now on. It ends for a reader that is too slow."""
        send, receive = anyio.create_memory_object_stream[Commit](MAX_WAITING)
        self._readers |= {send}
        try:
            async with receive:
                yield receive
        finally:
            self._readers -= {send}
            send.close()

    def tell(self, commit: Commit) -> None:
        """To every reader, without waiting."""
        for reader in self._readers:
            try:
                reader.send_nowait(commit)
            except anyio.WouldBlock:
                log.warning("subscriber_too_slow")
                reader.close()
                self._readers -= {reader}


class ChangeNotifier:
    """Rung when something may have changed. Who listens looks by itself at what; nobody is told
    twice of one moment.
    """

    def __init__(self) -> None:
        self.rung = 0
        self._heard: asyncio.Event | None = None  # while somebody listens

    def ring(self) -> None:
        """Costs next to nothing: it is rung for every hint."""
        self.rung += 1
        if self._heard is not None:
            self._heard.set()
            self._heard = None

    async def wait(self, known: int) -> int:
        """Returns `rung` when it is another than `known`."""
        while self.rung == known:
            self._heard = self._heard or asyncio.Event()
            await self._heard.wait()
        return self.rung
