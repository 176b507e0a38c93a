"""Starts the indexing child and ends it. What is said to it is in `updater`; what it does, in
`worker`.
"""

import asyncio
import logging
import os
import re
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from cocosearchd.indexing import indexer_messages
from cocosearchd.indexing.coordinator.indexer_link import IndexerLink

log = logging.getLogger(__name__)

MODULE = "cocosearchd.indexing.worker.indexer"  # by name: importing it would load CocoIndex
# until it answers; loading its libraries takes a second or some, waiting for an orphan's lock less
START_S = 60.0
STOP_S = 5.0  # for what is in flight; a kill is survived as well, it only costs the work again
STDERR_LINES = 20
# What a process gets for what it does; nobody sends them from outside.
FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSYS}
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # CocoIndex writes for a terminal, wherever it writes to


class IndexerProcess:
    """A running child: `link` to talk to it, `pid`, and after its end `describe_exit`."""

    def __init__(self, process: asyncio.subprocess.Process, link: IndexerLink) -> None:
        self.process, self.link = process, link
        self.pid = process.pid
        self._said: deque[str] = deque(maxlen=STDERR_LINES)

    async def log_stderr(self) -> None:
        """Put what it says into the log, until it ends."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            text = _COLOUR.sub("", line.decode("utf-8", "replace")).rstrip()
            self._said.append(text)
            log.warning("indexer_output", extra={"pid": self.pid, "text": text})

    async def wait_ready(self) -> bool:
        """Whether it came up. False when it ended first, or is ended as it has not come up for
        `START_S`.
        """
        with anyio.move_on_after(START_S):
            return await self.link.wait_ready()
        log.error("indexer_stalled", extra={"pid": self.pid, "seconds": START_S})
        self.kill()
        return False

    def kill(self) -> None:
        """End it now."""
        if self.process.returncode is None:
            self.process.kill()

    @property
    def ended_by_itself(self) -> bool:
        """After its end: whether it is known that nobody else ended it."""
        code = self.process.returncode
        return code is not None and (code > 0 or -code in FAULTS)

    def describe_exit(self) -> str:
        """How it ended, in one line."""
        code = self.process.returncode
        how = (
            f"signal {signal.Signals(-code).name}"
            if code is not None and code < 0
            else f"exit code {code}"
        )
        return f"{how}: {self._said[-1]}" if self._said else how


@asynccontextmanager
async def start_indexer(spec: indexer_messages.IndexerSpec) -> AsyncIterator[IndexerProcess]:
    """A new child, told its settings. Leaving the context hangs up, waits `STOP_S`, then kills.

    Call it from the main thread: the child asks the kernel to be killed when the *thread* that
    started it ends.
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
            limit=indexer_messages.LINE_BYTES,
        )
    reader, writer = await asyncio.open_connection(sock=ours, limit=indexer_messages.LINE_BYTES)
    child = IndexerProcess(process, IndexerLink(reader, writer))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.log_stderr)
            try:
                child.link.send(indexer_messages.spec_to_json(spec))
                yield child
            finally:
                await _end(child)
    finally:
        child.kill()


async def _end(child: IndexerProcess) -> None:
    with anyio.CancelScope(shield=True):
        child.link.fail()
        with anyio.move_on_after(STOP_S):
            await child.process.wait()
        child.kill()
        await child.process.wait()
