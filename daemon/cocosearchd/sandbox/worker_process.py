"""The parent's end of a worker process: how it is started and ended, and requests to it with
deadlines.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Sequence
from typing import Self

from cocosearch_ipc.protocol import UNAVAILABLE
from cocosearchd.errors import CocoSearchError
from cocosearchd.sandbox.frames import (
    HEADER_BYTES,
    InvalidFrame,
    body_size,
    encode_frame,
    verify_body,
)
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_loop import CODE_MISMATCH, OUT_OF_MEMORY

START_S = 60.0
STOP_S = 1.0  # for a process that was told to end, or has hung up
# Signals that a process gets from others, not for what it does. SIGKILL may also be the kernel's,
# out of memory.
_FOREIGN = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

# A failed allocation ends native code by one of these: tree-sitter's grammars do not check for it.
_FAULTS = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS})


class WorkerUnavailable(CocoSearchError):
    """No worker process can be started: no handles, memory or processes are left, or other code is
    installed.
    """

    code = UNAVAILABLE


class WorkerLost(Exception):
    """The worker process has not answered a request, and will not.

    `reason` says how the process ended, for people. `culprit`: the process was working on this very
    request. `certain`: the request is what ended it, as far as one can know: nobody else did it
    from outside.
    """

    def __init__(self, reason: str, *, culprit: bool, certain: bool) -> None:
        super().__init__(reason)
        self.reason, self.culprit, self.certain = reason, culprit, certain


class WorkerProcess:
    """A running worker process. Requests are answered in their order. For one event loop.

    Somebody has to await `wait_closed` for the whole life of the process: it does the reading.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        limits: ResourceLimits,
    ) -> None:
        self.process, self.ready, self.was_ready = process, False, False
        self._limits = limits
        self._reader, self._writer = streams
        self._requests: deque[asyncio.Future[bytes]] = deque()  # unanswered ones, the oldest first
        self._fault = ""  # why this side has given the process up
        self._stopped = False  # told to end
        self._settled = asyncio.Event()  # it is ready, or will never be

    @classmethod
    async def start(cls, command: Sequence[str], code: str, limits: ResourceLimits) -> Self:
        """Start `command` with the arguments of `run_worker`. Raises `OSError`: no handles, memory
        or processes left.

        `code` is what `installed_code` returned when this process began. Call it from the main
        thread: the worker asks the kernel to be killed when the *thread* that started it ends.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(*command, str(theirs.fileno()), str(os.getpid()), code, limits.to_argument()),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    # A pipe that the worker outlives its parent with would keep others waiting.
                    stderr=asyncio.subprocess.DEVNULL,
                )
        except OSError:
            ours.close()
            raise
        return cls(process, await asyncio.open_connection(sock=ours), limits)

    @property
    def ended(self) -> bool:
        """True once the process takes no requests any more."""
        return self._settled.is_set() and not self.ready

    async def wait_ready(self) -> bool:
        """Wait until the process takes requests, or has ended; True if it takes them."""
        await self._settled.wait()
        return self.ready

    async def request(self, body: bytes, deadline_s: float) -> bytes:
        """Return the response to a request. Raises `WorkerLost`, after killing a process that
        misses the deadline.
        """
        if not self.ready:
            raise WorkerLost("the process has ended", culprit=False, certain=False)
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._requests.append(response)
        self._writer.write(encode_frame(body))
        try:
            if not (await asyncio.wait({response}, timeout=deadline_s))[0]:
                self.give_up(f"no answer within {deadline_s:g} s")
            return await response
        finally:
            response.cancel()  # without effect, unless the caller has been cancelled

    async def wait_closed(self) -> str | None:
        """Receive until the process exits. Return how it ended, for people; None if it was told to
        end.
        """
        fault = ""
        try:
            await self._receive()
        except (InvalidFrame, TimeoutError) as error:
            fault = f"{type(error).__name__}: {error}"
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # its exit code says why
        if fault:
            self.give_up(fault)
        self._close()
        code = await self._exit_code()
        reason = self._fault or self.describe_exit(code)
        self._fail(reason, certain=bool(self._fault) or -code not in _FOREIGN)
        return None if self._stopped else reason

    def stop(self) -> None:
        """Tell the process to end; what it was asked fails."""
        self._stopped = True
        self._close()
        self._fail("the process was told to end", certain=False)

    def give_up(self, reason: str) -> None:
        """Kill the process for what it did; `reason` is for people."""
        self._fault = self._fault or reason
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self._close()
        self._fail(self._fault, certain=True)

    def describe_exit(self, code: int) -> str:
        """Return what an exit code of a worker says, for people."""
        memory = f"{self._limits.address_space_bytes >> 20} MiB of memory"
        if code == OUT_OF_MEMORY:
            return f"it needs more than {memory}"
        if code == CODE_MISMATCH:
            return "other code is installed than runs here: restart the daemon"
        if code >= 0:
            return f"exit code {code}"
        if -code == signal.SIGXCPU:
            return f"it takes more than {self._limits.request_cpu_s} s of CPU"
        name = signal.Signals(-code).name
        return (
            f"signal {name}: a fault, or more than {memory}"
            if -code in _FAULTS
            else f"signal {name}"
        )

    async def _receive(self) -> None:
        async with asyncio.timeout(START_S):
            await self._message()
        self.ready = self.was_ready = True
        self._settled.set()
        while True:
            body = await self._message()
            if not self._requests:
                raise InvalidFrame("a response without a request")
            response = self._requests.popleft()
            if not response.done():  # the caller may have been cancelled
                response.set_result(body)

    async def _message(self) -> bytes:
        header = await self._reader.readexactly(HEADER_BYTES)
        return verify_body(header, await self._reader.readexactly(body_size(header)))

    def _close(self) -> None:
        self.ready = False
        self._settled.set()
        self._writer.transport.abort()

    def _fail(self, reason: str, *, certain: bool) -> None:
        """Fail what is unanswered. The oldest request is the culprit: a worker reads the next one
        when it is done.
        """
        for number, response in enumerate(self._requests):
            if not response.done():
                response.set_exception(WorkerLost(reason, culprit=number == 0, certain=certain))
        self._requests.clear()

    async def _exit_code(self) -> int:
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self.process.wait(), STOP_S)
        self._fault = self._fault or "it hung up and did not end"
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        return await self.process.wait()
