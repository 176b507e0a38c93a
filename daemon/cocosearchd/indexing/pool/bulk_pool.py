"""The bulk pool: worker processes of the indexer process for bulk work on other cores.

Python's lock keeps the indexer process on one core, and most of its work on a new content needs
only that content. Bulk workers start when there is enough work, and end after some idle time. Nothing
depends on them: parser processes (`boxed_parser`) parse the files that no bulk worker has taken,
and all saved files. The files that a bulk worker had when it ended are suspects: parser processes parse
each of them alone.
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
from cocosearchd.indexing.pool.boxed_parser import PARSER_LIMITS
from cocosearchd.indexing.pool.bulk_messages import TaskInput, TaskRequest, TaskResult
from cocosearchd.indexing.pool.parse_task import split_batches
from cocosearchd.sandbox.worker_loop import CODE_MISMATCH
from cocosearchd.sandbox.worker_pool import UNDECODABLE
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerProcess

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "cocosearchd.indexing.pool.bulk_worker")

MAX_FAILURES = 3  # after this many failures the pool pauses for `retry_s`
# requests in flight for each bulk worker, so that it does not wait for the indexer process
REQUESTS_PER_WORKER = 2


class SuspectFile(Enum):
    """The outcome of a file that a bulk worker had when it ended."""

    SUSPECT = "suspect"


SUSPECT = SuspectFile.SUSPECT
TaskOutcome = TaskResult | SuspectFile | None  # None: no bulk worker has taken the file


@dataclass(frozen=True, slots=True)
class BulkPoolLimits:
    """Limits of starts, requests and pauses. Only tests change them."""

    # A bulk worker takes 0.16 s of CPU to start; the indexer process takes 0.3 s to process this
    # much content itself (measured). A switch of few files therefore starts no worker, and each
    # further worker needs as much content again.
    bytes_per_worker: int = 1 << 20
    idle_s: float = 10.0  # without work; then the workers end
    deadline_s: float = 60.0  # for one request: a parser gives up after three seconds a file
    retry_s: float = 600.0  # after `MAX_FAILURES`


class BulkPool:
    """A pool of at most `size` bulk workers. For one event loop."""

    def __init__(
        self,
        size: int,
        code: str,
        limits: BulkPoolLimits | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`code` is the `installed_code_digest` of the time when this process began."""
        self._size = size
        self._code = code
        self._limits = limits or BulkPoolLimits()
        self._command = command
        self._workers: list[WorkerProcess] = []
        self._lifetimes: set[asyncio.Task[None]] = set()
        self._failed_at: deque[float] = deque(maxlen=MAX_FAILURES)
        self._bytes = 0
        self._used_at = 0.0
        self._busy = 0
        self._idle_timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        """Return True if the pool may have workers: the size is not 0."""
        return self._size > 0

    async def process(
        self, request: TaskRequest, files: Sequence[TaskInput], pause: Callable[[], Awaitable[None]]
    ) -> list[TaskOutcome]:
        """Process files by the rules of `request`, which has none. Return one outcome per file.

        `pause` is awaited before each batch.
        """
        outcomes: list[TaskOutcome] = [None] * len(files)
        self._busy += 1
        try:
            self._add_bytes(sum(len(file.data) for file in files))
            batches = deque(split_batches([len(file.data) for file in files]))
            workers = [worker for worker in self._workers if worker.ready]
            feeds = (
                self._feed_worker(worker, request, files, batches, outcomes, pause)
                for worker in workers * REQUESTS_PER_WORKER
            )
            await asyncio.gather(*feeds)
        finally:
            self._busy -= 1
            self._used_at = time.monotonic()
            self._schedule_stop()
        return outcomes

    async def aclose(self) -> None:
        """Close the pool: stop all workers and wait for their end."""
        self._size = 0
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._stop_workers()
        if self._lifetimes:
            await asyncio.wait(self._lifetimes)

    async def _feed_worker(
        self,
        worker: WorkerProcess,
        request: TaskRequest,
        files: Sequence[TaskInput],
        batches: deque[range],
        outcomes: list[TaskOutcome],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        while batches and worker.ready:
            await pause()
            if not batches:
                return
            batch = batches.popleft()
            body = bulk_messages.pack_task_request(
                replace(request, files=tuple(files[number] for number in batch))
            )
            try:
                response = await worker.request(body, self._limits.deadline_s)
                outcomes[batch.start : batch.stop] = bulk_messages.unpack_task_results(
                    response, len(batch)
                )
            except WorkerLost as error:
                self._mark_lost(batch, outcomes, batches, culprit=error.culprit)
                return
            except UNDECODABLE as error:
                worker.give_up(f"{type(error).__name__}: {error}")
                self._mark_lost(batch, outcomes, batches, culprit=True)
                return

    def _mark_lost(
        self, batch: range, outcomes: list[TaskOutcome], batches: deque[range], *, culprit: bool
    ) -> None:
        if culprit:
            outcomes[batch.start : batch.stop] = [SUSPECT] * len(batch)
        else:  # the worker had not begun with the batch
            batches.appendleft(batch)

    def forgive_failure(self) -> None:
        """Remove the last failure from the count: its cause was a file that is quarantined now."""
        if self._failed_at:
            self._failed_at.pop()

    def _add_bytes(self, size: int) -> None:
        """Count bytes of work, and start workers for them unless the pool pauses."""
        if time.monotonic() - self._used_at > self._limits.idle_s and self._busy == 1:
            self._bytes = 0
        self._bytes += size
        while (
            len(self._lifetimes) < min(self._size, self._bytes // self._limits.bytes_per_worker)
            and not self._pauses()
        ):
            self._lifetimes.add(task := asyncio.create_task(self._run_worker()))
            task.add_done_callback(self._lifetimes.discard)

    def _pauses(self) -> bool:
        too_many = len(self._failed_at) == MAX_FAILURES
        return too_many and time.monotonic() - self._failed_at[0] < self._limits.retry_s

    async def _run_worker(self) -> None:
        """Run one bulk worker to its end. Record a failure if it was not stopped."""
        try:
            worker = await WorkerProcess.start(self._command, self._code, PARSER_LIMITS)
        except OSError as error:
            self._record_failure(f"it cannot be started: {error}")
            return
        if not self._size:
            worker.stop()
        self._workers.append(worker)
        try:
            reason = await worker.wait_closed()
        finally:
            self._workers.remove(worker)
        if worker.process.returncode == CODE_MISMATCH:
            self._size = 0
        if reason is not None:
            self._record_failure(reason)

    def _record_failure(self, reason: str) -> None:
        self._failed_at.append(time.monotonic())
        log.warning(
            "bulk_worker_ended", extra={"how": reason, "alone": self._pauses() or not self._size}
        )

    def _schedule_stop(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._size and self._lifetimes and not self._busy:
            self._idle_timer = asyncio.get_running_loop().call_later(
                self._limits.idle_s, self._stop_workers
            )

    def _stop_workers(self) -> None:
        if not self._busy:
            for worker in self._workers:
                worker.stop()
            self._schedule_stop()  # for workers that are just starting
