"""The child's end of one mate: orders out, what was made of them in, in that order; and how it is started and ended."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Sequence

from cocosearchd.indexing import portion
from cocosearchd.indexing.portion import Garbled, Made, Order

COMMAND = (sys.executable, "-P", "-m", "cocosearchd.indexing.mate")
START_S = 60.0
STOP_S = 1.0  # for a process that was told to end, or has hung up


class Lost(Exception):
    """A mate has not answered, and will not."""


class Mate:
    """A running process. `ready` when it takes orders."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.process, self.ready = process, False
        self._reader, self._writer = reader, writer
        self._asked: deque[asyncio.Future[bytes]] = deque()
        self._why = ""  # why it was given up
        self._told = False  # to end
        self._known = asyncio.Event()  # whether it comes up

    @property
    def ended(self) -> bool:
        """Whether it takes no orders any more."""
        return self._known.is_set() and not self.ready

    async def came_up(self) -> bool:
        """Whether it takes orders, once that is known."""
        await self._known.wait()
        return self.ready

    async def ask(self, order: Order, patience_s: float) -> list[Made | None]:
        """What was made of the files of an order. A mate without an answer within its patience is given up: `Lost`."""
        if not self.ready:
            raise Lost
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._writer.write(portion.order_to_frame(order))
        try:
            if not (await asyncio.wait({answer}, timeout=patience_s))[0]:
                self._give_up(f"no answer within {patience_s:g} s")
            body = await answer
        finally:
            answer.cancel()  # for nothing, unless who asks has been cancelled
        try:
            return portion.made_of(body, len(order.files))
        except (Garbled, ValueError, EOFError, TypeError) as error:
            self._give_up(f"{type(error).__name__}: {error}")
            raise Lost from error

    async def live(self) -> str | None:
        """Listen until the process exits. Why it did, as a signal or an exit code; None if it was told to end."""
        try:
            await self._listen()
        except (Garbled, TimeoutError) as error:
            self._give_up(f"{type(error).__name__}: {error}")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._let_go()
            code = await self._exit()
        if self._told:
            return None
        return self._why or (f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")

    def tell_to_end(self) -> None:
        """Tell the process to end, and let go of what it has been asked."""
        self._told = True
        self._let_go()

    async def _listen(self) -> None:
        async with asyncio.timeout(START_S):
            await self._message()
        self.ready = True
        self._known.set()
        while True:
            body = await self._message()
            if not self._asked:
                raise Garbled("an answer to nothing")
            answer = self._asked.popleft()
            if not answer.done():  # who asked may have been cancelled
                answer.set_result(body)

    async def _message(self) -> bytes:
        header = await self._reader.readexactly(portion.HEADER_BYTES)
        return portion.checked(header, await self._reader.readexactly(portion.body_bytes(header)))

    def _give_up(self, why: str) -> None:
        self._why = self._why or why
        self._kill()
        self._let_go()

    def _let_go(self) -> None:
        self.ready = False
        self._known.set()
        self._writer.transport.abort()
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(Lost())
        self._asked.clear()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def _exit(self) -> int:
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self.process.wait(), STOP_S)
        self._kill()
        return await self.process.wait()


async def started(command: Sequence[str], installed: str) -> Mate:
    """A new process. Raises `OSError`: no handles, no memory, too many processes.

    Call it from the main thread: it asks the kernel to be killed when the *thread* that started it ends.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(*command, str(theirs.fileno()), str(os.getpid()), installed),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,  # a pipe that it outlives its parent with would keep others waiting
            )
    except OSError:
        ours.close()
        raise
    reader, writer = await asyncio.open_connection(sock=ours)
    return Mate(process, reader, writer)
