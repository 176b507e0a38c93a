"""One watched root: hints, scope, scans and the dirty set, and the guarantee of `sync`.

An epoch lasts from the start of a hints backend to its loss. Each epoch begins with a scan of the
whole root. The dirty set outlives epochs. All methods belong to one event loop; blocking work runs
in threads.
"""

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeGuard

import anyio

from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.errors import CocoSearchError
from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.freshness import MAX_PENDING, Freshness, StaleReason, stale_reason
from cocosearchd.model import Clock
from cocosearchd.runtime.ticks import REST_TICK_S
from cocosearchd.watching.availability.availability import ROOT_POLL_S, RootAvailability
from cocosearchd.watching.change_log import ChangeLog
from cocosearchd.watching.cookies import Cookies, CookieVoid
from cocosearchd.watching.dirty_records import DirtyBatch, DirtyTree, PickedPaths
from cocosearchd.watching.dirty_set import DirtySet
from cocosearchd.watching.exclusion_report import ExclusionReport
from cocosearchd.watching.git.checkout_hold import CheckoutHold
from cocosearchd.watching.hints.backend_choice import may_improve, open_hints
from cocosearchd.watching.hints.base import (
    Cookie,
    DirtyHint,
    DirtyTreeHint,
    Hint,
    Hints,
    HintsLost,
    Sink,
)
from cocosearchd.watching.hints.save_settling import SaveSettling
from cocosearchd.watching.ignore.outside_stamps import OutsideStamps
from cocosearchd.watching.root_freshness import lag_reason, synced_freshness
from cocosearchd.watching.root_status import (
    MAX_LISTED_FAILURES,
    MAX_LISTED_PATHS,
    RootState,
    RootStatus,
    live_state,
)
from cocosearchd.watching.root_threads import GIT_THREADS_PER_ROOT, RootThreads
from cocosearchd.watching.scans.hard_links import MAX_CHECKED
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.scans.scan import compare_paths
from cocosearchd.watching.scans.scan_coordinator import KnownFiles, ScanCoordinator
from cocosearchd.watching.scans.scan_schedule import ScanSchedule

log = logging.getLogger(__name__)

# While nothing changes, checks wait for `REST_TICK_S`, and longer with many roots (`RootGroup.rest_s`):
# hints and questions check anyway.
TICK_S = 1.0
# Between epochs; the pause doubles while epochs are shorter than `STEADY_S`.
RESTART_S = 0.02
RESTART_MAX_S = 5.0
STEADY_S = 30.0
# The longest wait for the end of a backend's threads: the file system may not answer.
CLOSE_S = 1.0
# A root without events is scanned again after `watching.poll_s` seconds. After a long scan, it rests
# for this many times the length of the scan, so that scans take at most a twentieth of the time.
POLL_REST = 20


class WatchedRoot:
    """The root of one index: run `run` under supervision, pull and settle batches, call `sync`.

    `availability` says whether the root exists; the supervisor may set its `admit`. `exclusions`
    says why files are not in the index; `changes` has the paths applied last. `on_top_change` is
    called with the name of each changed entry of the root directory itself, `on_status` when
    `status` may have changed.
    """

    def __init__(
        self,
        root: bytes,
        known_files: KnownFiles,
        indexing: IndexingSettings,
        watching: WatchingSettings,
        sync_dir: Path,
        executor: Executor | None = None,
        group: RootGroup | None = None,
    ) -> None:
        """Create a root that does not run yet.

        `sync_dir` is a directory of this root alone, outside of every root; it is made if it is
        missing. `executor` runs the blocking calls; None: the event loop's own. `group` is that of all
        roots; None: the root is alone.
        """
        self.path = root  # absolute
        self._watching = watching
        self.threads = RootThreads(executor)
        self.git_threads = RootThreads(executor, GIT_THREADS_PER_ROOT)  # of questions
        self.history_threads = RootThreads(executor, 1)
        self._sync_dir = os.fsencode(sync_dir)
        self._group = RootGroup() if group is None else group
        self._dirty = DirtySet(watching)
        self._coordinator = ScanCoordinator(root, known_files, indexing, self._dirty, self.threads)
        self.availability = RootAvailability(root, known_files, self.threads)
        self.exclusions = ExclusionReport(
            self._coordinator, self._dirty.failures, self.threads, lambda: self.freshness().reason
        )
        self._cookies = Cookies(self._sync_dir)
        self._schedule = ScanSchedule(watching, time.monotonic())
        self._checkout_hold = CheckoutHold()
        self.changes = ChangeLog()
        self._hints: Hints | None = None
        # True if a quick check of the root cannot hang: hints are exact on local file systems only
        self.local = False
        self._absorbed = 0  # batches of hints taken in during this epoch
        self._settling = SaveSettling()
        self._open = asyncio.Event()  # set while the root exists and its hints backend runs
        self._lost = asyncio.Event()
        self._lost.set()
        self._state: RootState = "cold"
        self._reason: StaleReason | None = None
        self._watcher = ""
        self._fallen_back = False  # the hints backend is not the preferred one
        self._backend_review_due = False  # after the scan that runs
        self._scan_error: StaleReason | None = None
        self._retry_scan = asyncio.Event()  # set to retry a failed scan at once
        self._scanned = asyncio.Event()  # a scan has renewed the list of unwatched directories
        self.on_top_change: Callable[[bytes], None] = lambda _: None
        self.on_status: Callable[[], None] = lambda: None

    # -- running

    async def run(self) -> None:
        """Watch for ever, under supervision. May be run again after it failed."""
        self._enter("cold", None)
        pause = RESTART_S
        try:
            with self._group.member():
                while True:
                    await self._wait_for_root()
                    began = time.monotonic()
                    await self._run_epoch()
                    steady = time.monotonic() - began > STEADY_S
                    pause = RESTART_S if steady else min(pause * 2, RESTART_MAX_S)
                    await anyio.sleep(pause)
        finally:
            self._enter("failed", stale_reason("watching_failed"))

    async def _wait_for_root(self) -> None:
        await self.availability.wait(self._report_missing)
        if self._state == "root_missing":
            self._enter("cold", None)

    def _report_missing(self, reason: StaleReason) -> None:
        if (self._state, self._reason) != ("root_missing", reason):
            root = path_text(self.path)
            log.warning("root_missing", extra={"root": root, "reason": reason.sentence})
            self._enter("root_missing", reason)

    async def _run_epoch(self) -> None:
        lost = asyncio.Event()
        self._lost = lost
        self._absorbed = 0
        self.changes.begin_epoch()
        sink = partial(asyncio.get_running_loop().call_soon_threadsafe, partial(self._absorb, lost))
        if error := await self._coordinator.open():
            return self._end_epoch(error)
        hints, reason = await self._open_hints(sink)
        self._begin_epoch(hints, reason)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._scan_for_ever)
                tasks.start_soon(self._tick_for_ever)
                tasks.start_soon(self._poll_for_ever, hints)
                await lost.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._open.clear()
            lost.set()
            self._cookies.void()
            self._dirty.clock.interrupt()  # after an error, nothing else ends these waits
            with anyio.move_on_after(CLOSE_S, shield=True):
                await asyncio.shield(self.threads.start_beside(hints.close))

    async def _open_hints(self, sink: Sink) -> tuple[Hints, str | None]:
        """Return a started backend. After a cancellation, close the backend once it has started."""
        opening = asyncio.ensure_future(
            self.threads.run(
                open_hints,
                self.path,
                self._sync_dir,
                self._watching,
                sink,
                self._group.instances,
            )
        )
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._close_late)
            raise

    def _close_late(self, opening: "asyncio.Future[tuple[Hints, str | None]]") -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.threads.start_beside(opening.result()[0].close)

    def _begin_epoch(self, hints: Hints, fallback_reason: str | None) -> None:
        self._watcher = f"{hints.name} ({fallback_reason})" if fallback_reason else hints.name
        self._hints = hints
        self.local = hints.exact  # an exact backend is used on local file systems only
        self._fallen_back = fallback_reason is not None
        self._dirty.mark_tree("", urgent=False)
        # A root that was away for a moment fails the files that were read then.
        self._dirty.retry_due(math.inf)
        self._enter("scanning", None)
        log.info(
            "watching",
            extra={
                "root": path_text(self.path),
                "watcher": self._watcher,
                "epoch": self.changes.epoch,
            },
        )
        self._open.set()

    def _end_epoch(self, reason: StaleReason) -> None:
        """End the epoch at once: nothing that it noticed is certain any more."""
        if not self._lost.is_set():
            self.availability.available = False
            root = path_text(self.path)
            log.warning("hints_lost", extra={"root": root, "reason": reason.sentence})
            self._enter("lost", reason)
            self._open.clear()
            self._cookies.void()
            self._dirty.mark_tree("")
            self._lost.set()
            # A waiting sync asks again, in the next epoch or at a missing root.
            self._dirty.clock.interrupt()

    def _enter(self, state: RootState, reason: StaleReason | None) -> None:
        self._state = state
        self._reason = reason
        self.on_status()

    # -- hints

    def _absorb(self, lost: asyncio.Event, hints: Sequence[Hint]) -> None:
        if lost.is_set():
            return  # of an epoch that is over
        # Without this, the next cookie would prove that a hint was taken in although it failed.
        with ExitStack() as on_error:
            event = "a hint could not be taken in; the log says why"
            on_error.callback(self._end_epoch, stale_reason("hints_lost", event=event))
            changes = [hint for hint in hints if self._take_in_unless_change(hint)]
            self._coordinator.take_hints(changes)
            for change in changes:
                if b"/" not in change.path:
                    self.on_top_change(change.path)
            on_error.pop_all()
        self._absorbed += 1
        if changes:
            hinted_at = time.monotonic()
            self._settling.record(changes, hinted_at)
            self._schedule.record_activity(hinted_at)
            self.on_status()

    def _take_in_unless_change(self, hint: Hint) -> TypeGuard[DirtyHint | DirtyTreeHint]:
        """Return whether the hint names a change in the work tree; take in any other hint."""
        if isinstance(hint, Cookie):
            self._cookies.resolve(hint.name)
        elif isinstance(hint, HintsLost):
            self._end_epoch(stale_reason("hints_lost", event=hint.reason))
        else:
            return not (hint.path.startswith(b".git/") or b"/.git/" in hint.path)
        return False

    # -- scanning

    async def _scan_for_ever(self) -> None:
        pause = self._watching.retry_base_s
        while True:
            await self._dirty.scans.ready.wait()
            self._retry_scan.clear()  # not later: the cause of a failure may end during the scan
            trees = self._dirty.begin_scan()
            done = False
            try:
                done = await self._scan(trees)
                if done:
                    self._scan_error = None
                    pause = self._watching.retry_base_s
                    self._scanned.set()
            except (CocoSearchError, OSError) as error:
                self._scan_error = stale_reason("scan_failed", error=error)
            finally:
                if not done:
                    self._dirty.fail_scan(trees)
            if not done:
                with anyio.move_on_after(pause):
                    await self._retry_scan.wait()
                pause = min(pause * 2, self._watching.retry_max_s)

    async def _scan(self, trees: tuple[DirtyTree, ...]) -> bool:
        """Return whether the directories could be compared. Raises `StoreUnavailable`."""
        assert self._hints is not None
        if not await self._coordinator.scan(trees, self._hints.watch, self.availability.is_same):
            self._end_epoch(stale_reason("root_replaced"))
            return False
        if any(not tree.path for tree in trees):
            self._schedule.record_scan(time.monotonic())
            if self._state == "scanning":
                self._enter("live", None)
        return True

    # -- timers

    async def _tick_for_ever(self) -> None:
        while True:
            quiet = (
                self.local
                and self._state == "live"
                and not (
                    self._dirty.failures.has_retries() or self._coordinator.unknown_directories
                )
            )
            quiet_s = self._group.rest_s(REST_TICK_S)
            await self._schedule.wait_tick(TICK_S, quiet_s, quiet=quiet)
            self._dirty.retry_due(time.monotonic())
            await self._check_root()
            stamps = self._group.recent_stamps()
            await self._coordinator.check_rules(local=self.local, outside=stamps)
            await self._coordinator.check_stamps(local=self.local, max_links=MAX_CHECKED)
            self._rescan_if_due()
            self._review_if_due()

    def _rescan_if_due(self) -> None:
        scanning = self._dirty.scans.is_active()
        reason = self._schedule.due(time.monotonic(), scanning=scanning)
        if reason is not None:
            self._coordinator.audit_due = True
            self.rescan(reason)

    def _review_if_due(self) -> None:
        """Have files read again by the next scan, and try the better backend."""
        checked_at = time.monotonic()
        if self._schedule.is_review_due(checked_at):
            self._schedule.record_review(checked_at)
            self._coordinator.audit_due = True
            self._backend_review_due = True
        # The better backend may start by now: a limit was raised, or handles were closed. A scan
        # goes on to its end, or one that takes longer than the period would never end.
        if not self._backend_review_due or self._dirty.scans.is_active():
            return
        self._backend_review_due = False
        if self._fallen_back and may_improve(self.path, self._watching):
            self._end_epoch(stale_reason("hints_lost", event="another way to watch is tried"))

    async def _poll_for_ever(self, hints: Hints) -> None:
        """Scan the directories without hints, again and again."""
        while True:
            await self._scanned.wait()
            await anyio.sleep(max(self._watching.poll_s, self._coordinator.duration_s * POLL_REST))
            if not self._dirty.scans.is_active():
                self._scanned.clear()  # the scan of the unwatched directories sets it again
                self._mark_unwatched(hints.unwatched())

    def _mark_unwatched(self, unwatched: Iterable[bytes]) -> None:
        """Mark these directories and those whose last reading failed: only a scan knows them."""
        for directory in {*map(path_text, unwatched), *self._coordinator.unread.failed}:
            self._dirty.mark_tree(directory)

    async def _same_root(self) -> bool:
        return self.availability.is_same() if self.local else await self.availability.check_same()

    async def _check_root(self) -> bool:
        """Return whether the root is the same directory; if it is not, end the epoch."""
        same = await self._same_root()
        if not same:
            self._end_epoch(stale_reason("root_replaced"))
        return same

    # -- batches

    async def next_batch(self, limit: int = 64, *, edits: bool = False) -> DirtyBatch:
        """Wait for at most `limit` paths that may differ from the index: edits before bulk work.

        With `edits` only urgent paths.
        """
        queues = self._dirty.queues
        while True:
            await (queues.edits if edits else queues.work).wait()
            await self._open.wait()
            if pause := self._settling.pause(time.monotonic()):
                await anyio.sleep(pause)
            await self._wait_for_checkout()
            picked = self._dirty.take(limit, edits=edits)
            if picked is not None and (batch := await self._compare(picked)) is not None:
                return batch

    async def _wait_for_checkout(self) -> None:
        assert self._coordinator.scope is not None
        repositories = [rules.repository for rules in self._coordinator.scope.git_rules()]
        local = self.local and not any(repository.elsewhere for repository in repositories)
        git_dirs = [repository.git_dir for repository in repositories]
        await self._checkout_hold.wait(git_dirs, self.threads, local=local)

    async def _compare(self, picked: PickedPaths) -> DirtyBatch | None:
        """Compare picked paths with the disk.

        Return None if there is nothing to do, or if the paths were given back.
        """
        scope = self._coordinator.scope
        epoch = self.changes.epoch
        valid = False
        assert scope is not None
        try:
            paths = {path: path_bytes(path) for path in picked.seqs}
            compared = await self.threads.run(compare_paths, scope, paths)
            self._coordinator.record_compared(compared, picked, announced=self._hears_all())
            same = await self._same_root()
            valid = same and scope is self._coordinator.scope and self._is_open_since(epoch)
        finally:
            if not valid:
                self._dirty.give_back(picked.id)
        if not same:
            # The paths are gone because the root is gone: this proves no deletion.
            self._end_epoch(stale_reason("root_replaced"))
        if not valid:
            return None
        gone = self._coordinator.deletions(compared, picked, certain=self._state != "scanning")
        if not compared.present and not gone:
            self._dirty.settle(picked.id, {}, time.monotonic())
            return None
        return DirtyBatch(
            picked.id,
            tuple(compared.present),
            gone,
            picked.force,
            picked.urgent,
            compared.stamps,
        )

    def _hears_all(self) -> bool:
        """Return whether an event announces each change of a file."""
        return self.local and not (self._hints and self._hints.unwatched())

    def _is_open_since(self, epoch: str) -> bool:
        """Return whether hints have been running since this epoch was the current one."""
        return epoch == self.changes.epoch and self._open.is_set()

    def settle(self, batch: DirtyBatch, failed: Mapping[str, str]) -> None:
        """End a batch that was applied and announced, except for `failed` (path -> error)."""
        for path in failed:
            self._coordinator.record_failure(path, batch.stamps.get(path))
        self._dirty.settle(batch.id, failed, time.monotonic())
        # A new number, not those of the marks: clocks may count the mark of a path that failed at
        # first and is applied only now.
        number = self._dirty.clock.next_seq()
        paths = (*batch.paths, *batch.gone)
        self.changes.record(number, (path for path in paths if path not in failed))

    def set_aside(self, path: str, error: str) -> None:
        """Hold back a path until the file changes: it was settled as failed, and does harm."""
        self._dirty.set_aside(path, error)

    # -- freshness

    async def sync(self, timeout_s: float) -> Freshness:
        """Wait until every change before the call has been applied.

        The answer is fresh if all of them are known to be applied.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for _ in range(2):  # the first check may have begun before the question
                    if self._state == "root_missing":
                        await self.availability.check_again()
                while self._state != "root_missing":
                    if await self._sync_epoch():
                        return self._sync_answer()
        return self.freshness()

    def sync_at_once(self, outside: OutsideStamps | None = None) -> Freshness | None:
        """Do as `sync` if there is nothing to wait for; None if there may be.

        An answer means that the root has not changed. Some `stat` calls on a local file system.
        `outside` has stamps that were read for other roots since the question came.
        """
        hints = self._hints
        if not self._is_quiet() or hints is None or hints.unwatched():
            return None
        if not self._group.has_recent_mappings():
            return None
        if not self.availability.is_same() or self._coordinator.has_unannounced(outside):
            return None
        # The last check: every change before the question has been reported by now.
        if hints.batches_sent() != self._absorbed or not self._dirty.clock.is_applied:
            return None
        return self._sync_answer()

    def _is_quiet(self) -> bool:
        """Return whether a local root is watched, and no scan of all of it is due."""
        is_open = self._open.is_set() and not self._lost.is_set()
        return is_open and self.local and not self._schedule.slept()

    async def _sync_epoch(self) -> bool:
        """Return whether the sync ended in the epoch in which it began."""
        if not self._open.is_set():
            # no longer: the root may turn out to be missing
            with anyio.move_on_after(ROOT_POLL_S):
                await self._open.wait()
            return False
        epoch = self.changes.epoch
        hints = self._hints
        assert hints is not None
        if not await self._check_root():
            return False
        await self._group.list_mapped()
        await self._coordinator.check_rules(local=self.local)
        await self._coordinator.check_unannounced(local=self.local)
        if not self._is_open_since(epoch):
            return False  # lost meanwhile: no backend would see a cookie
        if self._schedule.slept():
            self._rescan_if_due()
        try:
            self._mark_unwatched(await self._sync_hints(hints))
        except CookieVoid:
            return False
        if not self._is_open_since(epoch):
            return False  # ended with the cookie's batch, when no wait could be interrupted yet
        await self._dirty.clock.wait(self._dirty.clock.seq)
        return epoch == self.changes.epoch and not self._lost.is_set()

    async def _sync_hints(self, hints: Hints) -> Iterable[bytes]:
        """Wait for all hints before this call. Return the directories that have to be scanned.

        Raises `CookieVoid`.
        """
        if not hints.exact:
            return (b"",)
        unwatched = hints.unwatched()
        try:
            await self._cookies.sync()
        except OSError as error:  # for example a full disk: a scan proves as much as a cookie
            root = path_text(self.path)
            log.warning("no_cookie", extra={"root": root, "reason": error.strerror})
            return (b"",)
        return unwatched

    def _sync_answer(self) -> Freshness:
        failures = self._dirty.failures
        return synced_freshness(
            self.clock(),
            failures.listed(time.monotonic(), MAX_PENDING),
            len(failures),
            self._coordinator.unknown_directories,
            self._coordinator.unknown_reason(),
        )

    def freshness(self) -> Freshness:
        """Say without waiting why the index may be stale: the answer is never fresh."""
        dirty = self._dirty
        lag = lag_reason(
            dirty.pending(),
            dirty.failures.listed(time.monotonic(), 1),
            len(dirty.failures),
            git=self._checkout_hold.waiting,
            scanning=dirty.scans.is_active(),
        )
        reason = self._reason_not_live() or lag
        return Freshness(self.clock(), reason, dirty.pending_paths(MAX_PENDING))

    def _reason_not_live(self) -> StaleReason | None:
        """Return why changes are not noticed now, for `status` and for answers; None if they are."""
        return self.availability.unresponsive or self._scan_error or self._reason

    def clock(self) -> Clock:
        """Return the clock up to which every change has been applied or has failed."""
        return Clock(self.changes.epoch, self._dirty.clock.applied_seq())

    # -- control

    def mark_possibly_changed(self, paths: Iterable[str]) -> None:
        """Mark files that an answer has seen changed: perhaps no event announced the change."""
        if self._state == "live":
            for path in paths:
                self._dirty.mark(path, may_be_stored=True)

    def follow_mapped(self, paths: tuple[str, ...]) -> None:
        """Have each question read these files again: processes have them mapped for writing."""
        self._coordinator.mapped = paths

    async def configure(self, indexing: IndexingSettings) -> None:
        """Use other settings: only files that come into the scope or leave it are touched."""
        await self._coordinator.configure(indexing)

    def rescan(self, reason: str, *, force: bool = False) -> None:
        """Compare everything with the disk; with `force`, process every file again."""
        log.debug("rescan", extra={"root": path_text(self.path), "reason": reason, "force": force})
        self._coordinator.force |= force
        self._dirty.mark_tree("", urgent=False)
        self.on_status()

    def has_retries(self) -> bool:
        """Return whether a scan or a file has failed and waits for its retry."""
        return self._scan_error is not None or self._dirty.failures.has_retries()

    def retry(self) -> None:
        """Retry failed files and scans at once: the cause of the failure is gone."""
        self._dirty.retry_due(math.inf)
        self._retry_scan.set()

    # -- status

    def status(self) -> RootStatus:
        """Return the status of the root at this moment, from memory: no disk, no PostgreSQL."""
        pending = self._dirty.pending()
        limit = self._hints.trouble if self._hints is not None else None
        unread = self._coordinator.unread
        total = self._coordinator.total
        stale = self._reason_not_live()
        return RootStatus(
            state=self._live_state(limit) if self._state == "live" else self._state,
            done=max(0, (total or 0) - pending),
            total=total,
            pending=pending,
            failed=self._dirty.failures.listed(time.monotonic(), MAX_LISTED_FAILURES),
            watcher=f"{self._watcher} ({limit})" if limit else self._watcher,
            reason=stale.sentence if stale else limit or self._coordinator.reason(),
            clock=self.clock(),
            unreadable=(*unread.closed, *self._coordinator.closed_files)[:MAX_LISTED_PATHS],
            failed_count=len(self._dirty.failures),
        )

    def _live_state(self, limit: str | None) -> RootState:
        return live_state(
            forced=self._coordinator.force,
            git=self._checkout_hold.waiting,
            bulk=self._dirty.queues.has_bulk(),
            degraded=limit is not None or self._fallen_back,
        )
