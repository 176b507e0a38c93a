"""Starts and ends the indexer process. `updater` sends its messages, `indexer` is its code."""

import asyncio
import logging
import os
import re
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from cocosearchd.indexing import indexer_messages
from cocosearchd.indexing.coordinator.indexer_link import IndexerLink

log = logging.getLogger(__name__)

MODULE = "cocosearchd.indexing.indexer.indexer"  # by name: importing it would load CocoIndex
# Limit until the first answer. Loading the libraries takes a few seconds, waiting for the lock of
# an orphaned process less.
START_S = 60.0
STOP_S = 5.0  # for the work in flight; a kill loses no data, the work is only done again
STDERR_LINES = 20
# Signals that a process gets for its own faults; other processes do not send them.
FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSYS}
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # CocoIndex writes colours even without a terminal


class IndexerProcess:
    """A running indexer process: its `link`, its `pid`, and after its end `describe_exit`."""

    def __init__(self, process: asyncio.subprocess.Process, link: IndexerLink) -> None:
        self.process = process
        self.link = link
        self.pid = process.pid
        self._stderr_lines: deque[str] = deque(maxlen=STDERR_LINES)

    async def log_stderr(self) -> None:
        """Log the lines of its standard error until it ends."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            text = _COLOUR.sub("", line.decode("utf-8", "replace")).rstrip()
            self._stderr_lines.append(text)
            log.warning("indexer_output", extra={"pid": self.pid, "text": text})

    async def wait_ready(self) -> bool:
        """Wait until the process is ready. Return false if it ended first.

        Kill it if it is not ready after `START_S`.
        """
        with anyio.move_on_after(START_S):
            return await self.link.wait_ready()
        log.error("indexer_stalled", extra={"pid": self.pid, "seconds": START_S})
        self.kill()
        return False

    def kill(self) -> None:
        """Kill the process now, and the children that it may have left.

        A `kill -9` may come between the fork and the exec of a worker. The child then waits for ever
        for a lock of the dead process. It keeps the link, the standard error and the lock of the
        state open, and `Process.wait` waits for the end of the standard error.
        """
        # macOS: a group without a living process may not be signalled
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def has_ended(self) -> bool:
        """True after the end of the process, even if a child of it keeps the link open."""
        return self.process.returncode is not None

    @property
    def ended_by_itself(self) -> bool:
        """True after the end of the process, if no signal from outside can have ended it."""
        code = self.process.returncode
        return code is not None and (code > 0 or -code in FAULTS)

    def describe_exit(self) -> str:
        """Describe its end in one line."""
        code = self.process.returncode
        end = (
            f"signal {signal.Signals(-code).name}"
            if code is not None and code < 0
            else f"exit code {code}"
        )
        return f"{end}: {self._stderr_lines[-1]}" if self._stderr_lines else end


@asynccontextmanager
async def start_indexer(spec: indexer_messages.IndexerSpec) -> AsyncIterator[IndexerProcess]:
    """Start an indexer process and send its spec. On exit hang up, wait `STOP_S`, then kill.

    Call it from the main thread: the kernel kills the process when the *thread* that started it
    ends.
    """
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(os.getpid())]
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *command,
            pass_fds=[theirs.fileno()],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # with a process group, for `kill`
            limit=indexer_messages.LINE_BYTES,
        )
    reader, writer = await asyncio.open_connection(sock=ours, limit=indexer_messages.LINE_BYTES)
    indexer = IndexerProcess(process, IndexerLink(reader, writer))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(indexer.log_stderr)
            try:
                indexer.link.send(indexer_messages.spec_to_json(spec))
                yield indexer
            finally:
                await _end(indexer)
    finally:
        indexer.kill()


async def _end(indexer: IndexerProcess) -> None:
    with anyio.CancelScope(shield=True):
        indexer.link.fail()
        with anyio.move_on_after(STOP_S):
            await indexer.process.wait()
        indexer.kill()
        await indexer.process.wait()
