"""Slots for slow requests: fewer than processes, so quick requests find a free process."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

import anyio

from cocosearchd.sandbox.worker_process import WorkerProcess

# Seconds between checks if another request needs the process of a slow request without a slot.
SLOT_POLL_S = 0.05


@dataclass(slots=True, eq=False)
class PoolRequest:
    """A request, which a pool may send more than once.

    `deferred`: another request needed its process while all slots were in use.
    """

    body: bytes
    deadline_s: float
    deferred: bool = field(default=False, init=False)


class SlowSlots:
    """The slots of one pool. A request that turns out to be slow takes a slot.

    A slow request without a slot keeps its process until another request needs it. Then it is
    deferred until a slot is free.
    """

    def __init__(self, count: int, slow_after_s: float, is_starved: Callable[[], bool]) -> None:
        """`is_starved`: true if a request waits for a process and none will be free soon."""
        self._slots = anyio.CapacityLimiter(count)
        self._slow_after_s = slow_after_s
        self._is_starved = is_starved

    @contextlib.asynccontextmanager
    async def hold_slot(self, request: PoolRequest) -> AsyncIterator[None]:
        """Wait for a slot if the request was deferred. Release its slot at the end."""
        if request.deferred:
            await self._slots.acquire_on_behalf_of(request)
        try:
            yield
        finally:
            if request in self._slots.statistics().borrowers:
                self._slots.release_on_behalf_of(request)

    @contextlib.contextmanager
    def watch_time(self, request: PoolRequest, process: WorkerProcess) -> Iterator[None]:
        """Watch the time of a request in a process. Stop the process if the request is deferred."""
        if math.isinf(self._slow_after_s) or request.deferred:
            yield
            return
        watcher = asyncio.create_task(self._watch(request, process))
        try:
            yield
        finally:
            watcher.cancel()

    async def _watch(self, request: PoolRequest, process: WorkerProcess) -> None:
        await asyncio.sleep(self._slow_after_s)
        while True:
            try:
                return self._slots.acquire_on_behalf_of_nowait(request)
            except anyio.WouldBlock:
                if self._is_starved():
                    request.deferred = True
                    return process.stop()
            await asyncio.sleep(SLOT_POLL_S)
