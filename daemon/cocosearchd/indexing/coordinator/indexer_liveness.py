"""Liveness check of the indexer process: pings it, and kills it when it does not answer."""

import asyncio
import logging
import math
import time

import anyio

from cocosearchd.indexing.coordinator.indexer_process import IndexerProcess
from cocosearchd.runtime.ticks import LIVENESS_TICK_S, REST_TICK_S, seconds_to_tick

log = logging.getLogger(__name__)

PING_EVERY_S = REST_TICK_S
# A caller who asks for the silence of a process has it pinged at once, if its last ping is older.
ASKED_PING_S = LIVENESS_TICK_S
UNRESPONSIVE_S = 4.0


class IndexerLiveness:
    """Liveness check of one process. After `stall_s` seconds without an answer it kills it."""

    def __init__(self, indexer: IndexerProcess, stall_s: float) -> None:
        self._indexer = indexer
        self._stall_s = stall_s
        self._pinged_at: float | None = None  # monotonic time of a ping without an answer yet
        self._last_ping_at = -math.inf
        self._is_asked = anyio.Event()

    async def watch(self) -> None:
        """Ping for ever. Cancel it when the link has ended.

        The link ends with the process, unless a child that the process was starting keeps it open.
        """
        while True:
            with anyio.move_on_after(seconds_to_tick(min(PING_EVERY_S, self._stall_s))):
                await self._is_asked.wait()
            self._is_asked = anyio.Event()
            if self._indexer.has_ended:
                log.error("indexer_left_a_child", extra={"pid": self._indexer.pid})
                self._indexer.kill()
                continue
            answer = self._indexer.link.request({"do": "ping"})
            self._pinged_at = self._last_ping_at = time.monotonic()
            if not (await asyncio.wait({answer}, timeout=self._stall_s))[0]:
                log.error(
                    "indexer_stalled", extra={"pid": self._indexer.pid, "seconds": self._stall_s}
                )
                answer.cancel()
                self._indexer.kill()
            self._pinged_at = None

    def describe_silence(self) -> str | None:
        """Return a text for people if the process does not answer; None while it does.

        A process that was not pinged for some seconds is pinged now: ask again.
        """
        asked_at = time.monotonic()
        if asked_at - self._last_ping_at > ASKED_PING_S:
            self._is_asked.set()
        waited_s = 0.0 if self._pinged_at is None else asked_at - self._pinged_at
        if waited_s < UNRESPONSIVE_S:
            return None
        return (
            f"it has not answered for {waited_s:.0f} s; "
            f"after {self._stall_s:g} s it is ended and started again"
        )
