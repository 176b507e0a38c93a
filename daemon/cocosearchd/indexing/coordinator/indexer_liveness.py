"""Liveness of the indexing process: it is asked from time to time whether it answers, and killed
when it never does.
"""

import asyncio
import logging
import time

import anyio

from cocosearchd.indexing.coordinator.indexer_process import IndexerProcess

log = logging.getLogger(__name__)

# A process that is stopped is known after the pause and the patience: within eight seconds.
PING_EVERY_S, UNRESPONSIVE_S = 3.0, 5.0


class IndexerLiveness:
    """Of one process. One that has not answered for `stall_s` is killed."""

    def __init__(self, child: IndexerProcess, stall_s: float) -> None:
        self._child, self._stall_s = child, stall_s
        self._asked_at: float | None = None  # while an answer is awaited

    async def watch(self) -> None:
        """Ask for ever; to be cancelled when the process has ended."""
        while True:
            await anyio.sleep(min(PING_EVERY_S, self._stall_s))
            answer = self._child.link.request({"do": "ping"})
            self._asked_at = time.monotonic()
            if not (await asyncio.wait({answer}, timeout=self._stall_s))[0]:
                log.error(
                    "indexer_stalled", extra={"pid": self._child.pid, "seconds": self._stall_s}
                )
                answer.cancel()
                self._child.kill()
            self._asked_at = None

    def describe_silence(self) -> str | None:
        """That the process does not answer, for people; None while it does."""
        waited_s = 0.0 if self._asked_at is None else time.monotonic() - self._asked_at
        if waited_s < UNRESPONSIVE_S:
            return None
        return f"it has not answered for {waited_s:.0f} s; after {self._stall_s:g} s it is ended and started again"
