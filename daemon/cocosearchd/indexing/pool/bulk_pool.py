"""Processes beside the child that do bulk work on other cores: the crew, whose members are mates.

Python's lock keeps the child on one core, and most of what it does for a content that nobody knows
needs nothing but that content. Mates are started when there is enough of it, and end when there has
been none for a while. Nothing depends on them: what no mate has taken, as none is there yet, is
parsed by the parser processes (`boxed_parser`), and so is what a person has just saved. What a mate
had in hand when it ended is a suspect: it is parsed alone there.
"""

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from cocosearchd.indexing.pool import bulk_messages
from cocosearchd.indexing.pool.bulk_messages import TaskInput, TaskRequest, TaskResult
from cocosearchd.indexing.pool.parse_task import split_batches
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_loop import CODE_MISMATCH
from cocosearchd.sandbox.worker_pool import UNDECODABLE
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerProcess

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "cocosearchd.indexing.pool.bulk_worker")

# NumPy and the model reserve 0.1 GiB more than a parser does (measured).
LIMITS = ResourceLimits()
MAX_FAILURES = 3  # so many that did not end as they were told to, and there are none for a while
REQUESTS_PER_WORKER = 2  # orders that a mate has, so that it does not wait for the child


class SuspectFile(Enum):
    """The place of a file in an answer that a mate had in hand when it ended."""

    SUSPECT = "suspect"


SUSPECT = SuspectFile.SUSPECT
TaskOutcome = TaskResult | SuspectFile | None  # None: no mate has taken the file


@dataclass(frozen=True, slots=True)
class BulkPoolLimits:
    """When mates come and go. Only tests have others."""

    # A mate takes 0.16 s of CPU to start, the child 0.3 s to make so much content by itself
    # (measured): for a switch of few files there is none, and each more has to pay as well.
    bytes_per_worker: int = 1 << 20
    idle_s: float = 10.0  # without work; then they end
    deadline_s: float = 60.0  # for one order: a parser gives up after three seconds a file
    retry_s: float = 600.0  # after `MAX_FAILURES`


class BulkPool:
    """At most `size` mates. For one event loop."""

    def __init__(
        self,
        size: int,
        installed: str,
        terms: BulkPoolLimits | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """At most `size` mates, started by `command`. `installed`: what that function said when the
        process began.
        """
        self._size, self._installed = size, installed
        self._terms, self._command = terms or BulkPoolLimits(), command
        self._mates: list[WorkerProcess] = []
        self._lives: set[asyncio.Task[None]] = set()
        self._failed_at: deque[float] = deque(maxlen=MAX_FAILURES)
        self._bytes, self._used_at = 0, 0.0
        self._busy = 0
        self._idle: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        """Whether there may be mates: the size is not 0."""
        return self._size > 0

    async def process(
        self, order: TaskRequest, files: Sequence[TaskInput], pause: Callable[[], Awaitable[None]]
    ) -> list[TaskOutcome]:
        """Return what mates make of files by the rules of an order. `pause` goes before each
        part.
        """
        answers: list[TaskOutcome] = [None] * len(files)
        self._busy += 1
        try:
            self._count(sum(len(one.data) for one in files))
            left = deque(split_batches([len(one.data) for one in files]))
            mates = [mate for mate in self._mates if mate.ready]
            serving = (
                self._serve(mate, order, files, left, answers, pause)
                for mate in mates * REQUESTS_PER_WORKER
            )
            await asyncio.gather(*serving)
        finally:
            self._busy -= 1
            self._used_at = time.monotonic()
            self._wait_for_idleness()
        return answers

    async def aclose(self) -> None:
        """Close the crew: its size is 0, all mates are dismissed, their lives awaited."""
        self._size = 0
        if self._idle is not None:
            self._idle.cancel()
        self._dismiss()
        if self._lives:
            await asyncio.wait(self._lives)

    async def _serve(
        self,
        mate: WorkerProcess,
        order: TaskRequest,
        files: Sequence[TaskInput],
        left: deque[range],
        answers: list[TaskOutcome],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        while left and mate.ready:
            await pause()
            if not left:
                return
            part = left.popleft()
            body = bulk_messages.pack_task_request(
                replace(order, files=tuple(files[number] for number in part))
            )
            try:
                response = await mate.request(body, self._terms.deadline_s)
                answers[part.start : part.stop] = bulk_messages.unpack_task_results(
                    response, len(part)
                )
            except WorkerLost as error:
                self._mark_lost(part, answers, left, culprit=error.culprit)
                return
            except UNDECODABLE as error:
                mate.give_up(f"{type(error).__name__}: {error}")
                self._mark_lost(part, answers, left, culprit=True)
                return

    def _mark_lost(
        self, part: range, answers: list[TaskOutcome], left: deque[range], *, culprit: bool
    ) -> None:
        if culprit:
            answers[part.start : part.stop] = [SUSPECT] * len(part)
        else:  # the mate had not begun with them
            left.appendleft(part)

    def forgive_failure(self) -> None:
        """Do not count the last failure: a file was the cause of it, which is quarantined now."""
        if self._failed_at:
            self._failed_at.pop()

    def _count(self, size: int) -> None:
        """Count bytes that are to be made; start lives of mates while bytes are worth more of them,
        unless it rests.
        """
        if time.monotonic() - self._used_at > self._terms.idle_s and self._busy == 1:
            self._bytes = 0
        self._bytes += size
        while (
            len(self._lives) < min(self._size, self._bytes // self._terms.bytes_per_worker)
            and not self._rests()
        ):
            self._lives.add(task := asyncio.create_task(self._live()))
            task.add_done_callback(self._lives.discard)

    def _rests(self) -> bool:
        often = len(self._failed_at) == MAX_FAILURES
        return often and time.monotonic() - self._failed_at[0] < self._terms.retry_s

    async def _live(self) -> None:
        """The life of one mate: started, and why it has failed if it was not told to end."""
        try:
            mate = await WorkerProcess.start(self._command, self._installed, LIMITS)
        except OSError as error:
            self._failed(f"it cannot be started: {error}")
            return
        if not self._size:
            mate.stop()
        self._mates.append(mate)
        try:
            why = await mate.wait_closed()
        finally:
            self._mates.remove(mate)
        if mate.process.returncode == CODE_MISMATCH:
            self._size = 0
        if why is not None:
            self._failed(why)

    def _failed(self, why: str) -> None:
        self._failed_at.append(time.monotonic())
        log.warning(
            "bulk_worker_ended", extra={"how": why, "alone": self._rests() or not self._size}
        )

    def _wait_for_idleness(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._size and self._lives and not self._busy:
            self._idle = asyncio.get_running_loop().call_later(self._terms.idle_s, self._dismiss)

    def _dismiss(self) -> None:
        if not self._busy:
            for mate in self._mates:
                mate.stop()
            self._wait_for_idleness()  # of those that are just being started
