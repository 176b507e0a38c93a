"""A pool of worker processes with one request at a time each: a crash names its request.

Processes start on demand and end after some idle time. The pool keeps some processes warm: then a
request waits neither for a start nor for another request that never ends.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.slow_requests import PoolRequest, SlowSlots
from cocosearchd.sandbox.worker_process import (
    CODE_CHANGED,
    WorkerLost,
    WorkerProcess,
    WorkerUnavailable,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
# Errors of decoding a response that a corrupted process has written.
UNDECODABLE = (InvalidFrame, ValueError, EOFError, TypeError)
# A process that takes longer to start may hang: a request that waits for it gets another process.
LONG_START_S = 2.0
RESTART_PAUSE_S = 1.0  # before a warm process that died while it was idle is replaced


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The number of processes of a pool, and its times in seconds."""

    max_processes: int = 1
    warm: int = 0  # idle processes that do not end
    idle_s: float = 60.0  # other processes end after this time without a request
    # If a request takes longer, a pool with warm processes starts one more for the next request.
    spare_after_s: float = 0.05
    # A request that takes longer than this is slow. `max_slow` slow requests run to their end. A
    # further one loses its process when another request needs it, and is sent again when another
    # slow request has its response.
    slow_after_s: float = math.inf
    max_slow: int = 1


class WorkerPool:
    """At most `size.max_processes` processes. For one event loop; `aclose` ends them."""

    def __init__(
        self, name: str, command: Sequence[str], code: str, limits: ResourceLimits, size: PoolSize
    ) -> None:
        """`name` is for the log. See `WorkerProcess.start` for `command`, `code` and `limits`."""
        self._name = name
        self._size = size
        self._slow = SlowSlots(size.max_slow, size.slow_after_s, self._is_starved)
        self._command = command
        self._code = code
        self._limits = limits
        # process -> start of its idle time (monotonic); the most recently used process is last
        self._idle: dict[WorkerProcess, float] = {}
        # requests that wait while no process is idle
        self._waiting: deque[asyncio.Future[WorkerProcess]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._more_idle = asyncio.Event()
        self._launching = 0  # tasks of `_starting` that have no process yet
        self._lifetimes: dict[WorkerProcess, asyncio.Task[str | None]] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The process ids of all living processes."""
        return [process.process.pid for process in self._lifetimes]

    def warm_up(self) -> None:
        """Start the missing warm processes, without waiting for them."""
        while len(self._idle) + len(self._starting) < self._size.warm and self._grow():
            pass

    async def replace_idle(self) -> None:
        """Replace the idle processes: new ones hold no data of earlier requests."""
        lives = [self._lifetimes[process] for process in self._idle]
        for process in self._idle:
            process.stop()
        self._idle.clear()
        if lives:
            await asyncio.wait(lives)
        self.warm_up()

    async def wait_refilled(self, deadline_s: float) -> None:
        """Wait until all warm processes are idle again, at most `deadline_s` seconds.

        A caller whose request has ended a process waits here before its next request: it leaves the
        warm processes to other callers.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while len(self._idle) < self._size.warm:
                    self._more_idle.clear()
                    await self._more_idle.wait()

    async def request(self, body: bytes, deadline_s: float) -> bytes:
        """Return the response to a request; see `call`."""
        return await self.call(body, deadline_s, bytes)

    async def call(self, body: bytes, deadline_s: float, decode: Callable[[bytes], T]) -> T:
        """Return the decoded response to a request. Requests wait while all processes are busy.

        The deadline begins when a process has the request. A process that was killed from outside
        is replaced, and the request sent once more. Raises `WorkerLost` when the request has ended
        its process or missed the deadline, or when `decode` raises one of `UNDECODABLE`;
        `WorkerUnavailable` when no process can be started.
        """
        request = PoolRequest(body, deadline_s)
        killed = False
        while True:
            was_deferred = request.deferred
            try:
                return await self._request(request, decode)
            except WorkerLost as error:
                newly_deferred = request.deferred and not was_deferred
                if error.certain or (killed and not newly_deferred):
                    raise
                killed = killed or not newly_deferred

    async def aclose(self) -> None:
        """End all processes and wait for their end. The pool accepts no more requests."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(self._unavailable_error("the daemon stops"))
        for process in self._lifetimes:
            process.stop()
        while self._lifetimes or self._starting:
            await asyncio.wait([*self._lifetimes.values(), *self._starting])

    async def _request(self, request: PoolRequest, decode: Callable[[bytes], T]) -> T:
        async with self._slow.hold_slot(request):
            process = await self._acquire()
            with self._slow.watch_time(request, process):
                return await self._send(process, request, decode)

    async def _send(
        self, process: WorkerProcess, request: PoolRequest, decode: Callable[[bytes], T]
    ) -> T:
        spare_timer = asyncio.get_running_loop().call_later(
            self._size.spare_after_s, self._add_spare
        )
        try:
            return decode(await process.request(request.body, request.deadline_s))
        except UNDECODABLE as error:
            reason = f"its response cannot be read ({type(error).__name__})"
            process.give_up(reason)
            raise WorkerLost(reason, culprit=True, certain=True) from error
        except asyncio.CancelledError:
            process.stop()  # its result has no receiver any more
            raise
        finally:
            spare_timer.cancel()
            self._release(process)

    async def _acquire(self) -> WorkerProcess:
        while self._idle:
            process, _ = self._idle.popitem()
            if process.ready:
                return process
        waiter: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        # A pool that has just been warmed up has a process for this request already: a further process
        # would take CPU from that one.
        if len(self._starting) < sum(not request.done() for request in self._waiting):
            self._grow()
        start_timer = asyncio.get_running_loop().call_later(LONG_START_S, self._grow)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._release(waiter.result())
            raise
        finally:
            start_timer.cancel()

    def _release(self, process: WorkerProcess) -> None:
        if not process.ready:
            if self._waiting:
                self._grow()
            self.warm_up()
        elif (waiter := self._next_waiter()) is not None:
            waiter.set_result(process)
        else:
            self._idle[process] = time.monotonic()
            self._more_idle.set()
            if self._idle_timer is None:
                self._end_idle()

    def _next_waiter(self) -> asyncio.Future[WorkerProcess] | None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _grow(self) -> bool:
        """Start another process if the maximum allows it. Return true if one starts."""
        if self._closed or len(self._lifetimes) + self._launching >= self._size.max_processes:
            return False
        self._launching += 1
        self._starting.add(task := asyncio.create_task(self._start()))
        task.add_done_callback(self._on_started)
        return True

    def _add_spare(self) -> None:
        if self._size.warm and not self._idle and not self._starting:
            self._grow()

    def _is_starved(self) -> bool:
        """Return true if a request waits while all processes work, and none starts or ends."""
        busy = sum(process.ready for process in self._lifetimes) == self._size.max_processes
        return busy and any(not waiter.done() for waiter in self._waiting)

    def _end_idle(self) -> None:
        """End processes that were idle for `idle_s`. Repeat while there are more than `warm`."""
        self._idle_timer = None
        time_now = time.monotonic()
        for process, since in list(self._idle.items()):
            if len(self._idle) <= self._size.warm:
                return
            pause = since + self._size.idle_s - time_now
            if pause > 0:
                self._idle_timer = asyncio.get_running_loop().call_later(pause, self._end_idle)
                return
            del self._idle[process]
            process.stop()

    def _on_started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        error = task.exception()
        if error is None or self._closed:
            return
        if not isinstance(error, WorkerUnavailable):
            raise error
        log.warning("worker_process_missing", extra={"worker": self._name, "error": str(error)})
        if self._starting:
            return  # a process that starts at the same time serves the waiting requests
        if (waiter := self._next_waiter()) is not None:
            waiter.set_exception(error)
        if self._waiting and not self._lifetimes:
            self._grow()

    async def _start(self) -> None:
        """Start a process and offer it when it takes requests. Raises `WorkerUnavailable`."""
        try:
            process = await WorkerProcess.start(self._command, self._code, self._limits)
        except OSError as error:
            raise self._unavailable_error(str(error)) from error
        finally:
            self._launching -= 1
        self._lifetimes[process] = life = asyncio.create_task(self._live(process))
        if self._closed:
            process.stop()
        if not await process.wait_ready():
            raise self._unavailable_error(await life or "it was stopped")
        self._release(process)

    async def _live(self, process: WorkerProcess) -> str | None:
        try:
            reason = await process.wait_closed()
        finally:
            del self._lifetimes[process]
        if self._waiting and process.was_ready:
            self._grow()
        if self._idle.pop(process, None) is not None and not self._closed:
            asyncio.get_running_loop().call_later(RESTART_PAUSE_S, self.warm_up)
        if reason is not None:
            log.warning("worker_process_ended", extra={"worker": self._name, "how": reason})
        return reason

    def _unavailable_error(self, reason: str) -> WorkerUnavailable:
        hint = "free memory, processes or open files; the daemon tries again by itself"
        if reason == CODE_CHANGED:
            hint = "run `cocosearchctl restart`"
        return WorkerUnavailable(f"the {self._name} process cannot be started: {reason}", hint)
