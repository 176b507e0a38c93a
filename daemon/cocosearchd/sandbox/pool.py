"""A pool of worker processes that each have one request at a time, so that a process which ends tells on its request.

Processes start when they are needed and end when they have been idle for a while. Some are kept warm, so that a request
does not pay for a start, nor for another request that never ends.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.process import WorkerLost, WorkerProcess, WorkerUnavailable

log = logging.getLogger(__name__)

RESTART_PAUSE_S = 1.0  # before a warm process that died while it was idle is replaced


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many processes a pool has."""

    most: int = 1
    warm: int = 0  # idle processes that are not ended
    idle_s: float = 60.0  # others end after so long without a request
    # A request that takes longer than this has a spare process started for the next one, where processes are kept warm.
    spare_after_s: float = 0.05


class WorkerPool:
    """At most `size.most` processes. For one event loop; `aclose` ends them."""

    def __init__(self, name: str, command: Sequence[str], code: str, limits: ResourceLimits, size: PoolSize) -> None:
        """`name` is for the log; the others are those of `WorkerProcess.start`."""
        self._name, self._size = name, size
        self._command, self._code, self._limits = command, code, limits
        self._slots = asyncio.Semaphore(size.most)
        self._idle: dict[WorkerProcess, float] = {}  # since when; the one used last at the end
        self._spare: asyncio.Task[WorkerProcess] | None = None  # one that is being started for nobody yet
        self._lives: dict[WorkerProcess, asyncio.Task[str | None]] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The process numbers of all that live."""
        return [process.process.pid for process in self._lives]

    def warm_up(self) -> None:
        """Start a process that is kept warm, without waiting for it, unless one is idle or there are enough."""
        enough = bool(self._idle) or len(self._lives) >= self._size.most
        if self._size.warm and not enough and self._spare is None and not self._closed:
            self._spare = asyncio.create_task(self._start())
            self._spare.add_done_callback(self._add_spare)

    async def request(self, body: bytes, deadline_s: float) -> bytes:
        """Return the response to a request, which waits for a process if all are busy; the deadline begins after that.

        Raises `WorkerLost` when the request has ended its process or missed the deadline, `WorkerUnavailable` when no
        process can be started. A process that somebody else has killed is replaced, and asked once more.
        """
        async with self._slots:
            try:
                return await self._request(body, deadline_s)
            except WorkerLost as error:
                if error.certain:
                    raise
            return await self._request(body, deadline_s)

    async def aclose(self) -> None:
        """End all processes and wait for that. Nothing may be asked any more."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._spare is not None:
            self._spare.cancel()
        for process in self._lives:
            process.stop()
        while self._lives or self._spare is not None:
            await asyncio.wait([*self._lives.values(), *filter(None, (self._spare,))])

    async def _request(self, body: bytes, deadline_s: float) -> bytes:
        process = await self._acquire()
        spare_timer = asyncio.get_running_loop().call_later(self._size.spare_after_s, self.warm_up)
        try:
            return await process.request(body, deadline_s)
        except asyncio.CancelledError:
            process.stop()  # it may be at work for nobody
            raise
        finally:
            spare_timer.cancel()
            self._release(process)

    async def _acquire(self) -> WorkerProcess:
        while True:
            while self._idle:
                process, _ = self._idle.popitem()
                if process.ready:
                    return process
            if self._spare is None:
                return await self._start()
            await asyncio.wait({self._spare})  # it is idle then, unless it failed or another request has it

    def _release(self, process: WorkerProcess) -> None:
        if not process.ready:
            self.warm_up()
            return
        self._idle[process] = time.monotonic()
        if self._idle_timer is None:
            self._end_idle()

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

    def _add_spare(self, task: asyncio.Task[WorkerProcess]) -> None:
        self._spare = None
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, WorkerUnavailable):
            log.warning("worker_process_missing", extra={"worker": self._name, "error": str(error)})
        elif error is not None:
            raise error
        else:
            self._release(task.result())

    async def _start(self) -> WorkerProcess:
        """Start a process and wait until it takes requests. Raises `WorkerUnavailable`."""
        try:
            process = await WorkerProcess.start(self._command, self._code, self._limits)
        except OSError as error:
            raise self._unavailable(str(error)) from error
        self._lives[process] = life = asyncio.create_task(self._live(process))
        try:
            if self._closed:
                process.stop()
            if await process.came_up():
                return process
        except asyncio.CancelledError:
            process.stop()
            raise
        raise self._unavailable(await life or "it was told to end")

    async def _live(self, process: WorkerProcess) -> str | None:
        try:
            reason = await process.wait_closed()
        finally:
            del self._lives[process]
        if self._idle.pop(process, None) is not None and not self._closed:
            asyncio.get_running_loop().call_later(RESTART_PAUSE_S, self.warm_up)
        if reason is not None:
            log.warning("worker_process_ended", extra={"worker": self._name, "how": reason})
        return reason

    def _unavailable(self, reason: str) -> WorkerUnavailable:
        hint = "free memory, processes or open files; it is tried again by itself"
        return WorkerUnavailable(f"the {self._name} process cannot be started: {reason}", hint)
