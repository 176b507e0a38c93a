"""Publishes commits to subscribers; a subscriber that is too slow is cut off and has to ask again."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from cocosearchd.model import Commit

log = logging.getLogger(__name__)

MAX_WAITING = 1000  # for one subscriber; a commit is a name, a number and the paths of a batch


class CommitFeed:
    """One publisher and many subscribers, in one event loop."""

    def __init__(self) -> None:
        self._subscribers: frozenset[MemoryObjectSendStream[Commit]] = frozenset()

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[MemoryObjectReceiveStream[Commit]]:
        """Subscribe to later commits. The stream ends for a subscriber that is too slow."""
        send, receive = anyio.create_memory_object_stream[Commit](MAX_WAITING)
        self._subscribers |= {send}
        try:
            async with receive:
                yield receive
        finally:
            self._subscribers -= {send}
            send.close()

    def publish(self, commit: Commit) -> None:
        """Send a commit to every subscriber, without waiting."""
        for subscriber in self._subscribers:
            try:
                subscriber.send_nowait(commit)
            except anyio.WouldBlock:
                log.warning("subscriber_too_slow")
                subscriber.close()
                self._subscribers -= {subscriber}
