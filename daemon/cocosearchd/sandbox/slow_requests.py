"""Slots for slow requests: fewer than a pool has processes, so that some are left for requests that
are quick.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

import anyio

from cocosearchd.sandbox.worker_process import WorkerProcess

POLL_S = 0.05  # between looks whether the process of a slow request without a slot is wanted


@dataclass(slots=True, eq=False)
class PoolRequest:
    """A request, which may be asked more than once. `deferred`: its process was wanted while all
    slots were held.
    """

    body: bytes
    deadline_s: float
    deferred: bool = field(default=False, init=False)


class SlowSlots:
    """Of one pool. A request that turns out to be slow takes a slot.

    One that gets none keeps its process until that is wanted. Then it is put off until there is a
    slot.
    """

    def __init__(self, count: int, slow_after_s: float, wanted: Callable[[], bool]) -> None:
        """`wanted`: whether a request waits for a process, and none will be there soon."""
        self._slots, self._slow_after_s, self._wanted = (
            anyio.CapacityLimiter(count),
            slow_after_s,
            wanted,
        )

    @contextlib.asynccontextmanager
    async def hold_slot(self, request: PoolRequest) -> AsyncIterator[None]:
        """Wait for a slot if the request was put off, and give back the one that it holds at the
        end.
        """
        if request.deferred:
            await self._slots.acquire_on_behalf_of(request)
        try:
            yield
        finally:
            if request in self._slots.statistics().borrowers:
                self._slots.release_on_behalf_of(request)

    @contextlib.contextmanager
    def watch_time(self, request: PoolRequest, process: WorkerProcess) -> Iterator[None]:
        """Watch the time of a request in a process, which is told to end if the request is put
        off.
        """
        if math.isinf(self._slow_after_s) or request.deferred:
            yield
            return
        watching = asyncio.create_task(self._watch(request, process))
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self, request: PoolRequest, process: WorkerProcess) -> None:
        await asyncio.sleep(self._slow_after_s)
        while True:
            try:
                return self._slots.acquire_on_behalf_of_nowait(request)
            except anyio.WouldBlock:
                if self._wanted():
                    request.deferred = True
                    return process.stop()
            await asyncio.sleep(POLL_S)
