"""The daemon's side of the write flow: keeps the indexer process alive and sends it dirty paths.

The updater pulls batches from the source of each index and reports their outcome to it, because the
source knows which paths are urgent and when a path is settled. It never loads CocoIndex. No batch
is lost when an indexer process dies: the next process gets the unanswered batches one at a time,
alone, and then in halves, until the culprit path is known. That path is set aside.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from cocosearch_ipc.spans import span
from cocosearchd.errors import CocoSearchError, Conflict
from cocosearchd.indexing import indexer_messages
from cocosearchd.indexing.coordinator.drain_barrier import DrainBarrier
from cocosearchd.indexing.coordinator.indexer_link import IndexerDied, IndexerLink
from cocosearchd.indexing.coordinator.indexer_liveness import IndexerLiveness
from cocosearchd.indexing.coordinator.indexer_process import IndexerProcess, start_indexer
from cocosearchd.indexing.coordinator.indexer_status import IndexerState, IndexerStatus
from cocosearchd.indexing.index_queue import BatchPart, BatchSource, IndexQueue
from cocosearchd.indexing.indexer_messages import IndexerSpec, IndexRules
from cocosearchd.indexing.throttle import DISK_FULL, Throttle
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.supervise import attempt, summary, supervise

log = logging.getLogger(__name__)

THROTTLE_CHECK_S = 5.0  # between checks of disk and battery
# Before the indexer process starts again: at first, and at most.
FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 30.0
# A path is set aside after it has ended or stalled the indexer process this often, alone in it, if
# the cause may also be another. Kills from outside and a machine that freezes hit different parts,
# because parts take turns, but a culprit ends the process at each of its turns. A fault signal or an
# error exit can only come from the path: once is enough.
STRIKES = 3
# A parser in native code, or a pattern that backtracks, can block the whole indexer process. No
# step of its work takes this long.
STALL_S = 60.0
# After the last index was removed, the process lives on for this time: the next index may come at
# once, and should not wait for a process to start.
IDLE_S = 10.0
# The time for the files in flight of a removed index. Then the process is killed and restarted.
CLOSE_S = 15.0


@dataclass(slots=True)
class _GuardedRules:
    """The rules of an index. The barrier is closed while they change."""

    rules: IndexRules
    barrier: DrainBarrier = field(default_factory=DrainBarrier)


@dataclass(eq=False, slots=True)
class _BatchJob:
    """A batch in flight."""

    queue: IndexQueue
    batch: Any
    edits: bool  # true for paths that a person waits for


@dataclass(slots=True)
class _BatchOutcome:
    """The outcome of a batch, summed over its parts. `set_aside` is a subset of `failed`."""

    generation: int
    failed: dict[str, str]  # path -> reason
    set_aside: list[str]  # paths that ended the indexer process
    hooked_generation: int = -1  # the generation for whose commit the hook has run already


class Updater:
    """The updater of all indexes of a daemon.

    `add` and `remove` may be called before and while `run` runs. For one event loop.
    """

    def __init__(
        self,
        spec: IndexerSpec,
        on_commit: Callable[[Commit], Awaitable[None]],
        *,
        extra_unsettled: int = 0,
        stall_s: float = STALL_S,
    ) -> None:
        """`on_commit` gets the paths of each batch that did not fail, before it is settled.

        `extra_unsettled` answered bulk batches may wait for `on_commit`, beside the batches in the
        indexer process. A process that does not answer for `stall_s` seconds is killed.
        """
        self._spec = spec
        self._on_commit = on_commit
        self._extra_unsettled = extra_unsettled
        self._stall_s = stall_s
        self._queues: dict[str, IndexQueue] = {}
        self._guarded_rules: dict[str, _GuardedRules] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._indexer: IndexerProcess | None = None
        self._liveness: IndexerLiveness | None = None
        self._state: IndexerState = "stopped"
        self._deaths = 0
        self._totals = Counter[str]()  # of the processes that have ended
        self._error: str | None = None
        self._crashed = False  # the last process ended by itself, not by a signal from outside
        self._up = asyncio.Event()
        # clear while the updater looks for the path that ended the process
        self._no_suspects = asyncio.Event()
        self._no_suspects.set()
        self._suspect_lock = asyncio.Lock()
        self._throttle = Throttle(Path(spec.state_dir), spec.indexing)
        self._throttle_lock = asyncio.Lock()
        self._next_check_at = 0.0
        self._paused: str | None = None
        self._in_flight: set[_BatchJob] = set()
        self._suspects: set[_BatchJob] = set()
        self._replacing = False  # the updater has ended the process itself

    @property
    def status(self) -> IndexerStatus:
        """The current status of the indexer process."""
        recovering = self._state == "running" and self._suspects
        state: IndexerState = "recovering" if recovering else self._state
        silence = self._liveness.describe_silence() if self._liveness is not None else None
        totals = self._totals
        if self._indexer is not None:
            totals = totals + self._indexer.link.totals
        return IndexerStatus(
            state="unresponsive" if silence else state,
            pid=self.pid,
            deaths=self._deaths,
            error=silence or self._error,
            computed=totals["computed"],
            reused=totals["reused"],
            parsed=totals["parsed"],
            paused=self._paused,
        )

    @property
    def pid(self) -> int | None:
        """The id of the living indexer process, if any."""
        return self._indexer.pid if self._indexer is not None else None

    async def add(
        self,
        record: IndexRecord,
        source: BatchSource[Any],
        rules: IndexRules | None = None,
        on_failure: Callable[[str | None], None] | None = None,
    ) -> None:
        """Keep an index equal to its source from now on.

        Without `rules` the settings of `IndexerSpec` apply. `on_failure` is as for `supervise`: a
        failure in the work on one index restarts that work only. Raises `Conflict` for a name in
        use.
        """
        if record.name in self._queues:
            raise Conflict(f"index {record.name!r} is being indexed already")
        self._guarded_rules[record.name] = _GuardedRules(rules or IndexRules(self._spec.indexing))
        queue = IndexQueue(
            record, source, self._spec.indexing.inflight_files, self._extra_unsettled, on_failure
        )
        self._queues[record.name] = queue
        if self._up.is_set():
            self._open_index(queue)
        if self._tasks is not None:
            self._tasks.start_soon(self._serve, queue)

    async def change_rules(
        self, name: str, rules: IndexRules, change: Callable[[], Awaitable[IndexRecord]]
    ) -> None:
        """Index by other rules from now on. `change` makes their record.

        It runs while no batch of the index is in flight; new batches wait. An error of `change` is
        raised, and the old rules stay.
        """
        queue = self._queues[name]
        guarded = self._guarded_rules[name]
        async with guarded.barrier.drain():
            # the indexer process knows the index by its first name
            queue.record = replace(await change(), name=name)
            guarded.rules = rules
            indexer = self._indexer
            if indexer is None or not self._up.is_set():
                return  # the next process gets the new rules
            closed = indexer.link.request({"do": "close", "index": name, "forget": False})
            await asyncio.wait({closed})
            if closed.exception() is None and self._up.is_set() and self._indexer is indexer:
                self._open_index(queue)

    async def remove(self, name: str) -> None:
        """Stop indexing for good. After the return nothing writes to the tables of the index."""
        queue = self._queues.pop(name, None)
        if queue is None:
            return
        if queue.scope is not None:
            queue.scope.cancel()
        indexer = self._indexer
        if indexer is None or not self._up.is_set():
            return  # the next process will not know the index
        closed = indexer.link.request({"do": "close", "index": name, "forget": True})
        with anyio.move_on_after(CLOSE_S):
            await asyncio.wait({closed})
        if not closed.done():
            indexer.kill()
            await asyncio.wait({closed})
        closed.exception()  # a dead process writes nothing either
        if self._tasks is not None and not self._queues:
            self._tasks.start_soon(self._replace_idle_indexer, indexer)

    async def _replace_idle_indexer(self, indexer: IndexerProcess) -> None:
        """Replace a used process without an index: a new one holds no data of removed indexes."""
        await anyio.sleep(IDLE_S)
        if not self._queues and indexer is self._indexer and self._up.is_set():
            self._replacing = True
            self._up.clear()  # an index that is added from here on waits for the next process
            indexer.link.fail()  # the process ends at the end of its input

    async def run(self) -> None:
        """Run for ever, under supervision. A failure in the work on one index stops no other."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for queue in self._queues.values():
                    tasks.start_soon(self._serve, queue)
                await self._keep_alive()
        finally:
            self._tasks = None
            self._state = "stopped"

    async def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            answer_count = await self._run_indexer()
            if self._replacing:
                self._replacing = False
                continue
            self._deaths += 1
            log.error("indexer_died", extra={"how": self._error, "suspects": len(self._suspects)})
            pause = FIRST_PAUSE_S if answer_count else min(pause * 2, LAST_PAUSE_S)
            self._state = "waiting"
            await anyio.sleep(pause)

    async def _run_indexer(self) -> int:
        """Run one indexer process to its end. Return the number of its answers."""
        self._state = "starting"
        try:
            async with start_indexer(self._spec) as indexer:
                try:
                    if await indexer.wait_ready():
                        self._start_serving(indexer)
                        await self._listen(indexer)
                finally:
                    self._suspect_in_flight()
        finally:
            self._indexer = self._liveness = None
        if not self._replacing:
            self._error = indexer.describe_exit()
            self._crashed = indexer.ended_by_itself
        self._totals += indexer.link.totals
        return indexer.link.answers

    async def _listen(self, indexer: IndexerProcess) -> None:
        async with anyio.create_task_group() as tasks:
            self._liveness = IndexerLiveness(indexer, self._stall_s)
            tasks.start_soon(self._liveness.watch)
            await indexer.link.listen()
            tasks.cancel_scope.cancel()

    def _start_serving(self, indexer: IndexerProcess) -> None:
        self._indexer = indexer
        for queue in self._queues.values():
            self._open_index(queue)
        self._state = "running"
        self._up.set()

    def _suspect_in_flight(self) -> None:
        """Mark all batches in flight as suspects, before their futures fail.

        It does so without a pause, so nothing is sent at the same time as a suspect.
        """
        self._up.clear()
        self._suspects |= self._in_flight
        if self._suspects:
            self._no_suspects.clear()

    def _open_index(self, queue: IndexQueue) -> None:
        record = indexer_messages.record_to_json(queue.record)
        rules = indexer_messages.rules_to_json(self._guarded_rules[queue.record.name].rules)
        self._link.send({"do": "open", "record": record, "rules": rules})

    @property
    def _link(self) -> IndexerLink:
        assert self._indexer is not None
        return self._indexer.link

    async def _serve(self, queue: IndexQueue) -> None:
        """Process the batches of an index, under supervision. Batches overlap."""
        with anyio.CancelScope() as queue.scope:
            name = f"indexing of {queue.record.name}"
            await supervise(name, partial(self._pull_until_failure, queue), queue.on_failure)

    async def _pull_until_failure(self, queue: IndexQueue) -> None:
        """Process batches until the work on this index fails. Then fail its batches in flight.

        Edits are pulled by a task of their own, so they wait for no bulk work.
        """
        async with anyio.create_task_group() as jobs:
            for edits in (False, True):
                jobs.start_soon(self._pull_batches, queue, edits, jobs)

    async def _pull_batches(
        self, queue: IndexQueue, edits: bool, jobs: anyio.abc.TaskGroup
    ) -> None:
        while True:
            if not edits:
                await self._wait_throttle()
            batch = await queue.next_batch(edits=edits)
            queue.begin(batch, edits=edits)
            jobs.start_soon(self._process_batch, _BatchJob(queue, batch, edits))

    async def _wait_throttle(self) -> None:
        """Wait until bulk work may go on. It checks at most every `THROTTLE_CHECK_S` for all."""
        async with self._throttle_lock:
            while time.monotonic() >= self._next_check_at:
                self._paused = await asyncio.to_thread(self._throttle.pause_reason)
                if self._paused is None:
                    self._next_check_at = time.monotonic() + THROTTLE_CHECK_S
                else:
                    await anyio.sleep(THROTTLE_CHECK_S)

    async def _process_batch(self, job: _BatchJob) -> None:
        queue = job.queue
        batch = job.batch
        part = BatchPart(tuple(batch.paths), tuple(batch.gone))
        failed = dict.fromkeys(part.all_paths, "the updater stopped")
        try:
            with span("index.batch", index=queue.record.name, files=len(part.all_paths)):
                outcome = await self._request_outcome(job, part)
                failed = await self._run_hook(job, part, outcome)
        finally:
            self._clear_suspect(job)
            queue.mark_settled(batch, edits=job.edits)
            queue.source.settle(batch, failed)
        for path in outcome.set_aside:
            log.error("path_set_aside", extra={"index": queue.record.name, "path": path})
            queue.source.set_aside(path, outcome.failed[path])

    async def _request_outcome(self, job: _BatchJob, part: BatchPart) -> _BatchOutcome:
        """Return the outcome of a batch, from this indexer process or a later one.

        Then free its place in the indexer process.
        """
        began = time.monotonic()
        try:
            # a save goes between two suspect parts, which may end the process
            if job.edits and not self._no_suspects.is_set():
                async with self._suspect_lock:
                    return await self._send_part(job, part, alone=True)
            return await self._send_part(job, part, alone=False)
        except IndexerDied:
            return await self._find_culprit(job, part)
        finally:
            job.queue.mark_answered(job.batch, time.monotonic() - began, edits=job.edits)

    async def _run_hook(
        self, job: _BatchJob, part: BatchPart, outcome: _BatchOutcome
    ) -> dict[str, str]:
        """Run the hook for the committed paths. Return path -> reason of all failed paths.

        The hook gets all paths, not only those that this process has written: paths that a process
        committed before it died come back as unchanged from the next process.
        """
        failed = outcome.failed
        if outcome.hooked_generation == outcome.generation and not failed:
            return failed
        paths = tuple(path for path in part.all_paths if path not in failed)
        return failed | await self._run_hook_in_groups(job, outcome.generation, paths)

    async def _run_hook_in_groups(
        self, job: _BatchJob, generation: int, all_paths: tuple[str, ...]
    ) -> dict[str, str]:
        """Run the hook for all paths; if it fails, for halves of them. Return path -> reason."""
        failed = dict[str, str]()
        groups = deque([all_paths])
        while groups:
            paths = groups.popleft()
            if not paths:
                continue
            error = await self._call_hook(
                Commit(job.queue.record.name, generation, paths, job.edits)
            )
            if isinstance(error, CocoSearchError):
                failed |= dict.fromkeys(paths, str(error))
            elif error is not None and len(paths) > 1:
                middle = len(paths) // 2  # one half has the path that fails the hook
                groups.extend((paths[:middle], paths[middle:]))
            elif error is not None:
                failed |= dict.fromkeys(paths, summary(error))
        return failed

    async def _call_hook(self, commit: Commit) -> Exception | None:
        """Run the hook once. Return its error, which is logged unless it is a `CocoSearchError`."""
        run = partial(self._on_commit, commit)
        return await attempt(f"taking in a commit of {commit.index}", run, (CocoSearchError,))

    async def _send_part(self, job: _BatchJob, part: BatchPart, *, alone: bool) -> _BatchOutcome:
        """Send one part and return its outcome. Raises `IndexerDied`."""
        barrier = self._guarded_rules[job.queue.record.name].barrier
        while True:
            await self._up.wait()
            # The index may have been removed while this task was ready to run. The process does not
            # know a removed index and would fail.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if not alone and not self._no_suspects.is_set():
                await self._no_suspects.wait()
            elif barrier.enter():
                break
            else:
                await barrier.open.wait()
        self._in_flight.add(job)
        try:
            answering, committed = self._link.request_work(
                {
                    "do": "work",
                    "index": job.queue.record.name,
                    "paths": part.paths,
                    "gone": part.gone,
                    "force": job.batch.force,
                    "urgent": job.edits,
                }
            )
            hooked_generation = await self._run_early_hook(job, part, answering, committed)
            answer = await answering
        finally:
            self._in_flight.discard(job)
            barrier.leave()
        return _BatchOutcome(
            answer["generation"], answer["failed"], answer.get("set_aside", []), hooked_generation
        )

    async def _run_early_hook(
        self,
        job: _BatchJob,
        part: BatchPart,
        answering: asyncio.Future[dict[str, Any]],
        committed: asyncio.Future[int],
    ) -> int:
        """Run the hook of a save while CocoIndex stores that the rows are committed.

        Return the generation for which it ran, -1 if it did not. A batch is settled after both.
        """
        futures: set[asyncio.Future[Any]] = {answering, committed}
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if not committed.done() or committed.cancelled():
            return -1
        generation = committed.result()
        commit = Commit(job.queue.record.name, generation, part.all_paths, job.edits)
        return -1 if await self._call_hook(commit) is not None else generation

    async def _find_culprit(self, job: _BatchJob, part: BatchPart) -> _BatchOutcome:
        """Process a batch in flight at the death of a process, one part at a time and alone."""
        total = _BatchOutcome(0, {}, [])
        strikes = Counter[str]()
        parts = deque([part])
        while parts:
            part = parts.popleft()
            # taken for each part, so that batches take turns; see STRIKES
            async with self._suspect_lock:
                try:
                    outcome = await self._send_part(job, part, alone=True)
                except IndexerDied:
                    # after this wait it is known how the process ended; only this part was in it
                    await self._up.wait()
                    strikes.update(part.all_paths * (STRIKES if self._crashed else 1))
                    outcome = None
            if outcome is not None:
                total.generation = max(total.generation, outcome.generation)
                total.failed |= outcome.failed
                total.set_aside += outcome.set_aside
            elif len(part.all_paths) > 1:
                parts.extend(part.split())
                strikes.clear()
            elif strikes[part.all_paths[0]] < STRIKES:
                parts.append(part)
            else:
                await self._set_path_aside(job, part.all_paths[0], total)
        return total

    async def _set_path_aside(self, job: _BatchJob, path: str, total: _BatchOutcome) -> None:
        """Set a path aside that has ended the process; the indexer process stores its content hash.

        On a full disk any file ends the process. The path then counts as failed only.
        """
        if await asyncio.to_thread(self._throttle.disk_full):
            total.failed[path] = DISK_FULL
            return
        reason = f"indexing this file ends the indexing process ({self._error}); change it, or exclude it"
        total.set_aside.append(path)
        total.failed[path] = reason
        # the index may have been removed meanwhile, see `_send_part`
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._up.is_set():
            self._link.send(
                {"do": "set_aside", "index": job.queue.record.name, "path": path, "reason": reason}
            )

    def _clear_suspect(self, job: _BatchJob) -> None:
        self._suspects.discard(job)
        if not self._suspects:
            self._no_suspects.set()
