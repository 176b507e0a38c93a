"""The parent's end of a worker process: its start and end, and requests with deadlines."""

import asyncio
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Sequence
from typing import Self

from cocosearch_ipc.error_codes import UNAVAILABLE
from cocosearchd.errors import CocoSearchError
from cocosearchd.runtime.deadlines import is_done_within
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
STOP_S = 1.0  # grace time of a process that was stopped, or has hung up
# Signals that come from outside, not from the work of the process. SIGKILL may also come from the
# kernel, when memory runs out.
_FOREIGN = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

# A failed allocation ends native code with one of these: tree-sitter's grammars do not check for it.
_FAULTS = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS})


# The reason that is given when the code of a worker differs from that of the daemon, for example
# after an upgrade.
CODE_CHANGED = "the installed code is not the code of this daemon: restart the daemon"


class WorkerUnavailable(CocoSearchError):
    """No worker process can start: no resources are left, or other code is installed."""

    code = UNAVAILABLE


class WorkerLost(Exception):
    """The worker process has not answered a request, and will not.

    `reason` describes the end of the process, for people. `culprit`: the process worked on this
    request. `certain`: the request ended the process, as far as can be known: no signal came from
    outside. `missed_deadline`: it took too long, which a busy machine may cause as well.
    """

    def __init__(
        self, reason: str, *, culprit: bool, certain: bool, missed_deadline: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason, self.culprit, self.certain = reason, culprit, certain
        self.missed_deadline = missed_deadline


class WorkerProcess:
    """A running worker process. It answers requests in their order. For one event loop.

    The owner must await `wait_closed` for the whole life of the process: it does the reading.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        limits: ResourceLimits,
    ) -> None:
        self.process = process
        self.ready = False
        self.was_ready = False
        self._limits = limits
        self._reader, self._writer = streams
        self._requests: deque[asyncio.Future[bytes]] = deque()  # unanswered requests, oldest first
        self._fault = ""  # the reason of `give_up`
        self._missed_deadline = False
        self._stopped = False  # `stop` was called
        self._settled = asyncio.Event()  # the process is ready, or will never be

    @classmethod
    async def start(cls, command: Sequence[str], code: str, limits: ResourceLimits) -> Self:
        """Start `command` with the arguments of `run_worker`.

        `code` is the `installed_code_digest` of the time when this process began. Call it from the
        main thread: the kernel kills the worker when the *thread* that started it ends. Raises
        `OSError`: no handles, memory or processes are left.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(*command, str(theirs.fileno()), str(os.getpid()), code, limits.to_argument()),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    # A worker that outlives its parent would keep readers of a pipe waiting.
                    stderr=asyncio.subprocess.DEVNULL,
                )
        except OSError:
            ours.close()
            raise
        return cls(process, await asyncio.open_connection(sock=ours), limits)

    @property
    def ended(self) -> bool:
        """True after the process has stopped taking requests."""
        return self._settled.is_set() and not self.ready

    async def wait_ready(self) -> bool:
        """Wait until the process takes requests or has ended. Return true if it takes them."""
        await self._settled.wait()
        return self.ready

    async def request(self, body: bytes, deadline_s: float) -> bytes:
        """Return the response to a request. Kill a process that misses the deadline.

        Raises `WorkerLost`.
        """
        if not self.ready:
            raise WorkerLost("the process has ended", culprit=False, certain=False)
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._requests.append(response)
        self._writer.write(encode_frame(body))
        try:
            if not await is_done_within(response, deadline_s):
                self._missed_deadline = True
                self.give_up(f"no answer within {deadline_s:g} s")
            return await response
        finally:
            response.cancel()  # without effect, unless the caller has been cancelled

    async def wait_closed(self) -> str | None:
        """Receive until the process exits. Return a description of its end; None after `stop`."""
        fault = ""
        try:
            await self._receive()
        except (InvalidFrame, TimeoutError) as error:
            fault = f"{type(error).__name__}: {error}"
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the exit code gives the reason
        if fault:
            self.give_up(fault)
        self._close()
        code = await self._exit_code()
        reason = self._fault or self.describe_exit(code)
        self._fail(reason, certain=bool(self._fault) or -code not in _FOREIGN)
        return None if self._stopped else reason

    def stop(self) -> None:
        """Stop the process. Its open requests fail."""
        self._stopped = True
        self._close()
        self._fail("the process was stopped", certain=False)

    def give_up(self, reason: str) -> None:
        """Kill the process because of a fault; `reason` is for people."""
        self._fault = self._fault or reason
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self._close()
        self._fail(self._fault, certain=True)

    def describe_exit(self, code: int) -> str:
        """Return a description of an exit code of a worker, for people."""
        memory = f"{self._limits.address_space_bytes >> 20} MiB of memory"
        if code == OUT_OF_MEMORY:
            return f"it needs more than {memory}"
        if code == CODE_MISMATCH:
            return CODE_CHANGED
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
        """Fail the unanswered requests. The oldest one is the culprit.

        A worker reads the next request only after it has answered one.
        """
        for number, response in enumerate(self._requests):
            if not response.done():
                is_first = number == 0
                response.set_exception(
                    WorkerLost(
                        reason,
                        culprit=is_first,
                        certain=certain,
                        missed_deadline=is_first and self._missed_deadline,
                    )
                )
        self._requests.clear()

    async def _exit_code(self) -> int:
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self.process.wait(), STOP_S)
        self._fault = self._fault or "it hung up and did not end"
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        return await self.process.wait()
