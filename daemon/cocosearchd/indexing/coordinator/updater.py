"""The daemon's end of the write flow: keeps the child alive, hands it what is dirty, reports what
became of it.

It pulls batches from the source of each index, because the source knows what is urgent and when a
path is settled. It never loads CocoIndex. A child that dies takes no batch with it: what it had not
answered is given to the next one, batch by batch with nothing beside it and then in halves, until
the path that kills is known; that one is set aside.
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
from cocosearchd.indexing.coordinator.indexer_status import IndexerStatus, WorkerState
from cocosearchd.indexing.index_queue import BatchPart, BatchSource, FileBatch, IndexQueue
from cocosearchd.indexing.indexer_messages import IndexerSpec, IndexRules
from cocosearchd.indexing.throttle import DISK_FULL, Throttle
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.supervise import attempt, summary, supervise

__all__ = [
    "BatchSource",
    "FileBatch",
    "IndexRules",
    "IndexerSpec",
    "IndexerStatus",
    "Updater",
    "WorkerState",
]

log = logging.getLogger(__name__)

THROTTLE_CHECK_S = 5.0  # between looks at disk and battery
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 30.0
# How often a path must end or stall the child, with nothing beside it, to be set aside where it may
# have been something else: kills from outside and machines that freeze hit one piece after another,
# as pieces take turns, but a path that kills does so at every turn. A fault or an error is the
# path's own: once is enough.
STRIKES = 3
# A parser in native code, or a pattern that backtracks, can hold up the whole child; nothing it
# does takes this long.
STALL_S = 60.0
# After the last index was removed; the next one may come at once, and should not wait for a process
# to start.
IDLE_S = 10.0
# for the files in flight of an index that is removed; then the child is killed, and starts again
CLOSE_S = 15.0


@dataclass(slots=True)
class _GuardedRules:
    """What an index is kept by. The gate is shut while that changes."""

    rules: IndexRules
    gate: DrainBarrier = field(default_factory=DrainBarrier)


@dataclass(eq=False, slots=True)
class _BatchJob:
    """A batch on its way."""

    lane: IndexQueue
    batch: Any
    edits: bool  # pulled as what a person waits for


@dataclass(slots=True)
class _BatchReply:
    """What the child said of a batch, pieces added up. `aside` are those of `failed` that ended
    it.
    """

    generation: int
    failed: dict[str, str]
    aside: list[str]


class Updater:
    """One per daemon. `add` and `remove` may be called before and while `run` runs; all in one
    event loop.
    """

    def __init__(
        self,
        spawn: IndexerSpec,
        on_commit: Callable[[Commit], Awaitable[None]],
        *,
        extra_unsettled: int = 0,
        stall_s: float = STALL_S,
    ) -> None:
        """`on_commit` is awaited after each batch with all its paths that did not fail, before they
        are settled.

        So many bulk batches may be `back` from the child and wait for that beside those that it
        works on. A child that does not answer for `stall_s` seconds is killed.
        """
        self._spec, self._on_commit, self._extra_unsettled, self._stall_s = (
            spawn,
            on_commit,
            extra_unsettled,
            stall_s,
        )
        self._lanes: dict[str, IndexQueue] = {}
        self._ruled: dict[str, _GuardedRules] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._child: IndexerProcess | None = None
        self._liveness: IndexerLiveness | None = None
        self._state: WorkerState = "stopped"
        self._deaths = 0
        self._done = Counter[str]()  # by the children that have ended
        self._error: str | None = None
        self._certain = False  # nobody else ended the last child
        self._up = asyncio.Event()
        self._calm = asyncio.Event()  # clear while it is being found out which path ended the child
        self._calm.set()
        self._alone = asyncio.Lock()
        self._restraint, self._looking = (
            Throttle(Path(spawn.state_dir), spawn.indexing),
            asyncio.Lock(),
        )
        self._look_at = 0.0
        self._paused: str | None = None
        self._asked: set[_BatchJob] = set()
        self._suspects: set[_BatchJob] = set()
        self._renewing = False  # the child ends because it was told to

    @property
    def status(self) -> IndexerStatus:
        """Of this moment."""
        state: WorkerState = (
            "recovering" if self._state == "running" and self._suspects else self._state
        )
        silence = self._liveness.describe_silence() if self._liveness is not None else None
        now = self._child.link.totals if self._child is not None else Counter[str]()
        total = self._done + now
        return IndexerStatus(
            "unresponsive" if silence else state,
            self.pid,
            self._deaths,
            silence or self._error,
            total["computed"],
            total["reused"],
            total["parsed"],
            self._paused,
        )

    @property
    def pid(self) -> int | None:
        """Of the living child."""
        return self._child.pid if self._child is not None else None

    async def add(
        self,
        record: IndexRecord,
        source: BatchSource[Any],
        rules: IndexRules | None = None,
        report: Callable[[str | None], None] | None = None,
    ) -> None:
        """From now on, keep this index equal to what its source says. Raises `Conflict` for a
        second of the name.

        Without `rules`, by the settings that this was started with. `report` as for `supervise`:
        what fails in the work on one index restarts that work alone.
        """
        if record.name in self._lanes:
            raise Conflict(f"index {record.name!r} is being kept already")
        self._ruled[record.name] = _GuardedRules(rules or IndexRules(self._spec.indexing))
        lane = IndexQueue(
            record, source, self._spec.indexing.inflight_files, self._extra_unsettled, report
        )
        self._lanes[record.name] = lane
        if self._up.is_set():
            self._open(lane)
        if self._tasks is not None:
            self._tasks.start_soon(self._serve, lane)

    async def change_rules(
        self, name: str, rules: IndexRules, change: Callable[[], Awaitable[IndexRecord]]
    ) -> None:
        """From now on, keep the index by other rules. `change` makes the record for them, while
        nobody writes.

        What is under way is awaited; what comes meanwhile waits. Raises what `change` does; the old
        rules then stay.
        """
        lane, ruled = self._lanes[name], self._ruled[name]
        async with ruled.gate.drain():
            # the child knows it by the name it was given first
            lane.record = replace(await change(), name=name)
            ruled.rules = rules
            child = self._child
            if child is None or not self._up.is_set():
                return  # the next child is told
            closed = child.link.request({"do": "close", "index": name, "forget": False})
            await asyncio.wait({closed})
            if closed.exception() is None and self._up.is_set() and self._child is child:
                self._open(lane)

    async def remove(self, name: str) -> None:
        """Stop keeping the index, for good: when this returns, nothing writes to its tables any
        more.
        """
        lane = self._lanes.pop(name, None)
        if lane is None:
            return
        if lane.scope is not None:
            lane.scope.cancel()
        child = self._child
        if child is None or not self._up.is_set():
            return  # the next child will not hear of it
        closed = child.link.request({"do": "close", "index": name, "forget": True})
        with anyio.move_on_after(CLOSE_S):
            await asyncio.wait({closed})
        if not closed.done():
            child.kill()
            await asyncio.wait({closed})
        closed.exception()  # a child that died is as good
        if self._tasks is not None and not self._lanes:
            self._tasks.start_soon(self._renew_unused, child)

    async def _renew_unused(self, child: IndexerProcess) -> None:
        """Replace a child that has worked and has no index any more: a new process holds nothing of
        what was.
        """
        await anyio.sleep(IDLE_S)
        if not self._lanes and child is self._child and self._up.is_set():
            self._renewing = True
            self._up.clear()  # an index that is added from here on waits for the next child
            child.link.fail()  # it ends at the end of its input

    async def run(self) -> None:
        """For ever. To be supervised. What fails in the work on one index stays in its lane."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for lane in self._lanes.values():
                    tasks.start_soon(self._serve, lane)
                await self._keep_alive()
        finally:
            self._tasks, self._state = None, "stopped"

    async def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            answers = await self._live()
            if self._renewing:
                self._renewing = False
                continue
            self._deaths += 1
            log.error("indexer_died", extra={"how": self._error, "suspects": len(self._suspects)})
            pause = FIRST_PAUSE_S if answers else min(pause * 2, LAST_PAUSE_S)
            self._state = "waiting"
            await anyio.sleep(pause)

    async def _live(self) -> int:
        """One life of the child; how many answers it gave."""
        self._state = "starting"
        try:
            async with start_indexer(self._spec) as child:
                try:
                    if await child.wait_ready():
                        self._begin(child)
                        await self._listen(child)
                finally:
                    self._end()
        finally:
            self._child = self._liveness = None
        if not self._renewing:
            self._error, self._certain = child.describe_exit(), child.ended_by_itself
        self._done += child.link.totals
        return child.link.answers

    async def _listen(self, child: IndexerProcess) -> None:
        async with anyio.create_task_group() as tasks:
            self._liveness = IndexerLiveness(child, self._stall_s)
            tasks.start_soon(self._liveness.watch)
            await child.link.listen()
            tasks.cancel_scope.cancel()

    def _begin(self, child: IndexerProcess) -> None:
        self._child = child
        for lane in self._lanes.values():
            self._open(lane)
        self._state = "running"
        self._up.set()

    def _end(self) -> None:
        """In one step, before anything waiting for an answer hears of it: nothing is sent beside a
        suspect.
        """
        self._up.clear()
        self._suspects |= self._asked
        if self._suspects:
            self._calm.clear()

    def _open(self, lane: IndexQueue) -> None:
        record, rules = (
            indexer_messages.record_to_json(lane.record),
            indexer_messages.rules_to_json(self._ruled[lane.record.name].rules),
        )
        self._link.send({"do": "open", "record": record, "rules": rules})

    @property
    def _link(self) -> IndexerLink:
        assert self._child is not None
        return self._child.link

    async def _serve(self, lane: IndexQueue) -> None:
        """Pull the batches of an index; they overlap. Edits are pulled apart, so that they wait for
        no bulk work.
        """
        with anyio.CancelScope() as lane.scope:
            name = f"indexing of {lane.record.name}"
            await supervise(name, partial(self._serve_once, lane), lane.report)

    async def _serve_once(self, lane: IndexQueue) -> None:
        """Until something of this index fails: its batches under way are then given back, and no
        other is touched.
        """
        async with anyio.create_task_group() as jobs:
            for edits in (False, True):
                jobs.start_soon(self._pull, lane, edits, jobs)

    async def _pull(self, lane: IndexQueue, edits: bool, jobs: anyio.abc.TaskGroup) -> None:
        while True:
            if not edits:
                await self._permitted()
            batch = await lane.next_batch(edits=edits)
            lane.begin(batch, edits=edits)
            jobs.start_soon(self._do, _BatchJob(lane, batch, edits))

    async def _permitted(self) -> None:
        """Returns when bulk work may go on; looks at most every `THROTTLE_CHECK_S`, for all indexes
        together.
        """
        async with self._looking:
            while time.monotonic() >= self._look_at:
                self._paused = await asyncio.to_thread(self._restraint.pause_reason)
                if self._paused is None:
                    self._look_at = time.monotonic() + THROTTLE_CHECK_S
                else:
                    await anyio.sleep(THROTTLE_CHECK_S)

    async def _do(self, job: _BatchJob) -> None:
        lane, batch = job.lane, job.batch
        piece = BatchPart(tuple(batch.paths), tuple(batch.gone))
        failed = dict.fromkeys(piece.all_paths, "the updater stopped")
        try:
            with span("index.batch", index=lane.record.name, files=len(piece.all_paths)):
                answer = await self._answered(job, piece)
                failed = await self._published(job, piece, answer)
        finally:
            self._clear(job)
            lane.mark_settled(batch, edits=job.edits)
            lane.source.settle(batch, failed)
        for path in answer.aside:
            log.error("path_set_aside", extra={"index": lane.record.name, "path": path})
            lane.source.quarantine(path, answer.failed[path])

    async def _answered(self, job: _BatchJob, piece: BatchPart) -> _BatchReply:
        """What the child says of a batch, or those after it; there is room in the child then."""
        began = time.monotonic()
        try:
            # a save takes a turn between pieces that may end the child
            if job.edits and not self._calm.is_set():
                async with self._alone:
                    return await self._ask(job, piece, alone=True)
            return await self._ask(job, piece, alone=False)
        except IndexerDied:
            return await self._find_killer(job, piece)
        finally:
            job.lane.mark_answered(job.batch, time.monotonic() - began, edits=job.edits)

    async def _published(
        self, job: _BatchJob, piece: BatchPart, answer: _BatchReply
    ) -> dict[str, str]:
        """Run the hook for what is committed; the paths that are not done, and why.

        All paths are told, not only those that this child has written: what a child had committed
        before it died comes back as unchanged from the next one.
        """
        failed = dict(answer.failed)
        groups = deque([tuple(path for path in piece.all_paths if path not in failed)])
        while groups:
            paths = groups.popleft()
            if not paths:
                continue
            error = await self._told(
                Commit(job.lane.record.name, answer.generation, paths, job.edits)
            )
            if isinstance(error, CocoSearchError):
                failed |= dict.fromkeys(paths, str(error))
            elif error is not None and len(paths) > 1:
                middle = len(paths) // 2  # the file that does it is in one half
                groups.extend((paths[:middle], paths[middle:]))
            elif error is not None:
                failed |= dict.fromkeys(paths, summary(error))
        return failed

    async def _told(self, commit: Commit) -> Exception | None:
        """Run the hook; its error, which is logged unless it is one for people."""
        run = partial(self._on_commit, commit)
        return await attempt(f"taking in a commit of {commit.index}", run, (CocoSearchError,))

    async def _ask(self, job: _BatchJob, piece: BatchPart, *, alone: bool) -> _BatchReply:
        """One piece to the child and back. Raises `IndexerDied`."""
        gate = self._ruled[job.lane.record.name].gate
        while True:
            await self._up.wait()
            # What was awake already when its index was removed: the child knows that no more, and
            # would end of it.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if not alone and not self._calm.is_set():
                await self._calm.wait()
            elif gate.enter():
                break
            else:
                await gate.open.wait()
        self._asked.add(job)
        try:
            answer = await self._link.request(
                {
                    "do": "work",
                    "index": job.lane.record.name,
                    "paths": piece.paths,
                    "gone": piece.gone,
                    "force": job.batch.force,
                    "urgent": job.edits,
                }
            )
        finally:
            self._asked.discard(job)
            gate.leave()
        return _BatchReply(answer["generation"], answer["failed"], answer.get("aside", []))

    async def _find_killer(self, job: _BatchJob, piece: BatchPart) -> _BatchReply:
        """Work off a batch that was in flight when the child died, one piece at a time and nothing
        beside it.
        """
        total, strikes, pieces = _BatchReply(0, {}, []), Counter[str](), deque([piece])
        while pieces:
            piece = pieces.popleft()
            async with self._alone:  # taken for each piece, so that batches take turns; see STRIKES
                try:
                    answer = await self._ask(job, piece, alone=True)
                except IndexerDied:
                    # how the child ended is known by then, and is of this piece
                    await self._up.wait()
                    strikes.update(piece.all_paths * (STRIKES if self._certain else 1))
                    answer = None
            if answer is not None:
                total.generation = max(total.generation, answer.generation)
                total.failed |= answer.failed
                total.aside += answer.aside
            elif len(piece.all_paths) > 1:
                pieces.extend(piece.split())
                strikes.clear()
            elif strikes[piece.all_paths[0]] < STRIKES:
                pieces.append(piece)
            else:
                await self._blame(job, piece.all_paths[0], total)
        return total

    async def _blame(self, job: _BatchJob, path: str, total: _BatchReply) -> None:
        """Set a path aside that has ended the child, and have its content remembered; on a full
        disk any file would.
        """
        if await asyncio.to_thread(self._restraint.disk_full):
            total.failed[path] = DISK_FULL
            return
        reason = f"indexing this file ends the indexing process ({self._error}); change it, or exclude it"
        total.aside.append(path)
        total.failed[path] = reason
        if self._up.is_set():
            self._link.send(
                {"do": "set_aside", "index": job.lane.record.name, "path": path, "reason": reason}
            )

    def _clear(self, job: _BatchJob) -> None:
        self._suspects.discard(job)
        if not self._suspects:
            self._calm.set()
