"""Commits for whoever follows them. A reader that is too slow is cut off: it then knows that it must ask again."""

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
