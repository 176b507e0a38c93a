"""A pool of worker processes that each have one request at a time, so that a process which ends
tells on its request.

Processes start when they are needed and end when they have been idle for a while. Some are kept
warm, so that a request does not pay for a start, nor for another request that never ends.
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
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerProcess, WorkerUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")
# What reading a response raises when a corrupted process has written it.
UNDECODABLE = (InvalidFrame, ValueError, EOFError, TypeError)
RESTART_PAUSE_S = 1.0  # before a warm process that died while it was idle is replaced


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many processes a pool has."""

    max_processes: int = 1
    warm: int = 0  # idle processes that are not ended
    idle_s: float = 60.0  # others end after so long without a request
    # A request that takes longer than this has a spare process started for the next one, where
    # processes are kept warm.
    spare_after_s: float = 0.05
    # A request that takes longer than this is slow. So many processes may have such for as long as
    # that takes. One more is ended when its process is wanted, and asked again when another slow
    # one has its answer.
    slow_after_s: float = math.inf
    max_slow: int = 1


class WorkerPool:
    """At most `size.max_processes` processes. For one event loop; `aclose` ends them."""

    def __init__(
        self, name: str, command: Sequence[str], code: str, limits: ResourceLimits, size: PoolSize
    ) -> None:
        """`name` is for the log; the others are those of `WorkerProcess.start`."""
        self._name, self._size = name, size
        self._slow = SlowSlots(size.max_slow, size.slow_after_s, self._wanted)
        self._command, self._code, self._limits = command, code, limits
        self._idle: dict[WorkerProcess, float] = {}  # since when; the one used last at the end
        # requests, while no process is idle
        self._waiting: deque[asyncio.Future[WorkerProcess]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._more_idle = asyncio.Event()
        self._launching = 0  # of them, those that have no process yet
        self._lives: dict[WorkerProcess, asyncio.Task[str | None]] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The process numbers of all that live."""
        return [process.process.pid for process in self._lives]

    def warm_up(self) -> None:
        """Start the processes that are kept warm and are not there, without waiting for them."""
        while len(self._idle) + len(self._starting) < self._size.warm and self._grow():
            pass

    async def replace_idle(self) -> None:
        """Replace the processes that are idle: new ones hold nothing of what was asked before."""
        lives = [self._lives[process] for process in self._idle]
        for process in self._idle:
            process.stop()
        self._idle.clear()
        if lives:
            await asyncio.wait(lives)
        self.warm_up()

    async def wait_refilled(self, deadline_s: float) -> None:
        """Wait until all processes that are kept warm are idle again, or for so long.

        Who has ended a process waits here before the next request, and so leaves a warm process to
        others.
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

        The deadline begins when a process has the request. Raises `WorkerLost` when the request has
        ended its process or missed the deadline, or when `decode` raises one of `UNDECODABLE`;
        `WorkerUnavailable` when no process can be started. A process that somebody else has killed
        is replaced, and asked once more.
        """
        request, killed = PoolRequest(body, deadline_s), False
        while True:
            was_put_off = request.deferred
            try:
                return await self._request(request, decode)
            except WorkerLost as error:
                put_off_now = request.deferred and not was_put_off
                if error.certain or (killed and not put_off_now):
                    raise
                killed = killed or not put_off_now

    async def aclose(self) -> None:
        """End all processes and wait for that. Nothing may be asked any more."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(self._unavailable("the daemon stops"))
        for process in self._lives:
            process.stop()
        while self._lives or self._starting:
            await asyncio.wait([*self._lives.values(), *self._starting])

    async def _request(self, request: PoolRequest, decode: Callable[[bytes], T]) -> T:
        async with self._slow.hold_slot(request):
            process = await self._acquire()
            with self._slow.watch_time(request, process):
                return await self._ask(process, request, decode)

    async def _ask(
        self, process: WorkerProcess, request: PoolRequest, decode: Callable[[bytes], T]
    ) -> T:
        spare_timer = asyncio.get_running_loop().call_later(
            self._size.spare_after_s, self._add_spare
        )
        try:
            return decode(await process.request(request.body, request.deadline_s))
        except UNDECODABLE as error:
            reason = f"its answer cannot be read ({type(error).__name__})"
            process.give_up(reason)
            raise WorkerLost(reason, culprit=True, certain=True) from error
        except asyncio.CancelledError:
            process.stop()  # it may be at work for nobody
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
        self._grow()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._release(waiter.result())
            raise

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
        """Start another process, unless there are enough; return whether one is started."""
        if self._closed or len(self._lives) + self._launching >= self._size.max_processes:
            return False
        self._launching += 1
        self._starting.add(task := asyncio.create_task(self._start()))
        task.add_done_callback(self._started)
        return True

    def _add_spare(self) -> None:
        if self._size.warm and not self._idle and not self._starting:
            self._grow()

    def _wanted(self) -> bool:
        """Whether a request waits, while all processes are at work: none is starting, and none
        ends.
        """
        busy = sum(process.ready for process in self._lives) == self._size.max_processes
        return busy and any(not waiter.done() for waiter in self._waiting)

    def _end_idle(self) -> None:
        """End what has been idle for long, and look again while there is more than is kept warm."""
        self._idle_timer, now = None, time.monotonic()
        for process, since in list(self._idle.items()):
            if len(self._idle) <= self._size.warm:
                return
            pause = since + self._size.idle_s - now
            if pause > 0:
                self._idle_timer = asyncio.get_running_loop().call_later(pause, self._end_idle)
                return
            del self._idle[process]
            process.stop()

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        error = task.exception()
        if error is None or self._closed:
            return
        if not isinstance(error, WorkerUnavailable):
            raise error
        log.warning("worker_process_missing", extra={"worker": self._name, "error": str(error)})
        if (waiter := self._next_waiter()) is not None:
            waiter.set_exception(error)
        if self._waiting and not self._lives:
            self._grow()

    async def _start(self) -> None:
        """Start a process and offer it when it takes requests. Raises `WorkerUnavailable`."""
        try:
            process = await WorkerProcess.start(self._command, self._code, self._limits)
        except OSError as error:
            raise self._unavailable(str(error)) from error
        finally:
            self._launching -= 1
        self._lives[process] = life = asyncio.create_task(self._live(process))
        if self._closed:
            process.stop()
        if not await process.wait_ready():
            raise self._unavailable(await life or "it was told to end")
        self._release(process)

    async def _live(self, process: WorkerProcess) -> str | None:
        try:
            reason = await process.wait_closed()
        finally:
            del self._lives[process]
        if self._waiting and process.was_ready:
            self._grow()
        if self._idle.pop(process, None) is not None and not self._closed:
            asyncio.get_running_loop().call_later(RESTART_PAUSE_S, self.warm_up)
        if reason is not None:
            log.warning("worker_process_ended", extra={"worker": self._name, "how": reason})
        return reason

    def _unavailable(self, reason: str) -> WorkerUnavailable:
        hint = "free memory, processes or open files; it is tried again by itself"
        return WorkerUnavailable(f"the {self._name} process cannot be started: {reason}", hint)
