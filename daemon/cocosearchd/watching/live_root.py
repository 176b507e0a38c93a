"""One root, watched: hints, scope, scans and the reconciler wired together, and the guarantee that
`sync` gives.

An epoch lasts from the start of a hints backend to its loss; each begins with a scan of the whole
root. The dirty set outlives epochs. All methods belong to one event loop; what blocks runs in
threads.
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path

import anyio

from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.errors import CocoSearchError
from cocosearchd.model import Clock, Freshness, decode_path, encode_path
from cocosearchd.watching.availability.availability import POLL_S, RootAvailability
from cocosearchd.watching.change_log import ChangeLog
from cocosearchd.watching.clock import Cookies, CookieVoid, Schedule
from cocosearchd.watching.dirty_set import DirtyBatch, DirtyDirectory, PickedPaths
from cocosearchd.watching.git.checkout_hold import CheckoutHold
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.hints.base import Cookie, Hint, Hints, HintsLost
from cocosearchd.watching.reconciler import Reconciler
from cocosearchd.watching.root_status import (
    FAILED_SHOWN,
    SHOWN,
    RootStatus,
    in_sync,
    lagging,
    live_state,
)
from cocosearchd.watching.root_threads import RootThreads
from cocosearchd.watching.scan import look
from cocosearchd.watching.scan_coordinator import KnownFiles, ScanCoordinator

log = logging.getLogger(__name__)

# so many ticks are one while nothing changes: hints and questions look by themselves
TICK_S, QUIET_TICKS = 1.0, 5
# between epochs, doubling while they are short
RESTART_S, RESTART_MAX_S, STEADY_S = 0.02, 5.0, 30.0
# A save is a truncation, some writes and a close, within microseconds: indexing the empty file
# between them is waste.
SETTLE_S = 0.003
POLL_REST = 20  # a polled root rests for so many times as long as its scan took


class LiveRoot:
    """See `watched.WatchedRoot`, which is this with the store behind it."""

    def __init__(
        self,
        root: bytes,
        known: KnownFiles,
        indexing: IndexingSettings,
        watching: WatchingSettings,
        sync_dir: Path,
        executor: Executor | None = None,
    ) -> None:
        """`executor` runs what looks at roots; None: the event loop's own."""
        self._root, self._watching = root, watching
        self.threads = RootThreads(executor)
        self._sync_dir = os.fsencode(sync_dir)
        self._dirty = Reconciler(watching)
        self._survey = ScanCoordinator(root, known, indexing, self._dirty, self.threads)
        self.presence = RootAvailability(root, known, self.threads)
        self._cookies = Cookies(self._sync_dir)
        self._schedule = Schedule(watching, time.monotonic())
        self._gate = CheckoutHold()
        self._hints: Hints | None = None
        self._life, self._epochs, self._epoch = uuid.uuid4().hex[:12], count(1), ""
        self._changes, self._hinted_at = ChangeLog(), 0.0
        self._open = asyncio.Event()  # set while the root is there and its hints are running
        self._lost = asyncio.Event()
        self._lost.set()
        self._state, self._watcher, self._fallen_back = "cold", "", False
        self._reason: str | None = None
        self._scan_trouble: str | None = None
        self._again = asyncio.Event()  # what failed need not wait until its next try
        self._scanned = asyncio.Event()  # a scan says anew which directories no hint comes from
        # is told the names of what changes in the root itself
        self.on_top: Callable[[bytes], None] = lambda _: None
        # is told that `status` may be another one from now on
        self.on_state: Callable[[], None] = lambda: None

    # -- running

    async def run(self) -> None:
        """For ever; to be supervised. May be run again after it failed."""
        self._enter("cold", None)
        pause = RESTART_S
        try:
            while True:
                await self._wait_for_root()
                began = time.monotonic()
                await self._live()
                pause = (
                    RESTART_S
                    if time.monotonic() - began > STEADY_S
                    else min(pause * 2, RESTART_MAX_S)
                )
                await anyio.sleep(pause)
        finally:
            self._enter("failed", "watching failed, and starts again; the log says why")

    async def _wait_for_root(self) -> None:
        await self.presence.wait(self._missing)
        if self._state == "root_missing":
            self._enter("cold", None)

    def _missing(self, reason: str) -> None:
        if (self._state, self._reason) != ("root_missing", reason):
            log.warning("root_missing", extra={"root": encode_path(self._root), "reason": reason})
            self._enter("root_missing", reason)

    async def _live(self) -> None:
        """One epoch."""
        self._lost = lost = asyncio.Event()
        self._epoch = f"{self._life}.{next(self._epochs)}"
        told = partial(asyncio.get_running_loop().call_soon_threadsafe, partial(self._absorb, lost))
        if trouble := await self._survey.open():
            return self._lose(trouble)
        with anyio.CancelScope(shield=True):  # what has been opened must be closed
            hints, reason = await self.threads.run(
                open_hints, self._root, self._sync_dir, self._watching, told
            )
        self._watcher = f"{hints.name} ({reason})" if reason else hints.name
        self._hints, self._fallen_back = hints, reason is not None
        self._dirty.mark_tree("", urgent=False)
        self._enter("scanning", None)
        log.info(
            "watching",
            extra={"root": encode_path(self._root), "watcher": self._watcher, "epoch": self._epoch},
        )
        self._open.set()
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
            with anyio.CancelScope(shield=True):
                await self.threads.run(hints.close)

    def _lose(self, reason: str) -> None:
        """Nothing that this epoch knows is certain any more. Never put off, never merged."""
        if not self._lost.is_set():
            self.presence.there = False
            log.warning("hints_lost", extra={"root": encode_path(self._root), "reason": reason})
            self._enter("lost", reason)
            self._open.clear()
            self._cookies.void()
            self._dirty.mark_tree("")
            self._lost.set()
            # who waits asks again: of the next epoch, or of a root that is missing
            self._dirty.interrupt()

    def _enter(self, state: str, reason: str | None) -> None:
        self._state, self._reason = state, reason
        self.on_state()

    # -- hints

    def _absorb(self, lost: asyncio.Event, hints: Sequence[Hint]) -> None:
        if lost.is_set():
            return  # of an epoch that is over
        # what could not be taken in would be taken for seen, by the next cookie
        with ExitStack() as failed:
            failed.callback(self._lose, "a hint could not be taken in; the log says why")
            active = [self._taken(hint) for hint in hints]
            failed.pop_all()
        if any(active):
            self._hinted_at = time.monotonic()
            self._schedule.active(self._hinted_at)
            self.on_state()

    def _taken(self, hint: Hint) -> bool:
        if isinstance(hint, Cookie):
            self._cookies.seen(hint.name)
        elif isinstance(hint, HintsLost):
            self._lose(hint.reason)
        elif not (hint.path.startswith(b".git/") or b"/.git/" in hint.path):
            self._survey.hinted(hint)
            if b"/" not in hint.path:
                self.on_top(hint.path)
            return True
        return False

    # -- scanning

    async def _scan_for_ever(self) -> None:
        pause = self._watching.retry_base_s
        while True:
            await self._dirty.to_scan.wait()
            trees, done = self._dirty.begin_scan(), False
            try:
                done = await self._scan(trees)
                if done:
                    self._scan_trouble, pause = None, self._watching.retry_base_s
                    self._scanned.set()
            except (CocoSearchError, OSError) as error:
                self._scan_trouble = str(error)
            finally:
                if not done:
                    self._dirty.fail_scan(trees)
            if not done:
                self._again.clear()
                with anyio.move_on_after(pause):
                    await self._again.wait()
                pause = min(pause * 2, self._watching.retry_max_s)

    async def _scan(self, trees: tuple[DirtyDirectory, ...]) -> bool:
        """Whether the comparison could be made. Raises `CocoSearchError` if the store does not
        answer.
        """
        assert self._hints is not None
        if not await self._survey.scan(trees, self._hints.watch, self.presence.same):
            self._lose("the root was replaced")
            return False
        if any(not tree.path for tree in trees):
            self._schedule.scanned(time.monotonic())
            if self._state == "scanning":
                self._enter("live", None)
        return True

    # -- timers

    async def _tick_for_ever(self) -> None:
        while True:
            quiet = (
                self.local
                and self._state == "live"
                and not (self._dirty.retrying() or self._survey.unknown)
            )
            await self._schedule.rest(TICK_S, TICK_S * QUIET_TICKS, quiet=quiet)
            self._dirty.retry_due(time.monotonic())
            await self._still_there()
            await self._survey.check_rules(local=self.local)
            await self._survey.check_links(local=self.local)
            self._rescan_if_due()

    def _rescan_if_due(self) -> None:
        due = self._schedule.due(time.monotonic())
        if due is not None:
            self._survey.audit_due = True
            self.rescan(due)
            # the better backend may start by now: a limit was raised, handles were closed
            if self._fallen_back:
                self._lose("another way to watch is tried")

    async def _poll_for_ever(self, hints: Hints) -> None:
        """Where no hints come from, scans must."""
        while True:
            await self._scanned.wait()
            # A scan that takes long must not follow its end at once, for ever.
            await anyio.sleep(max(self._watching.poll_s, self._survey.took_s * POLL_REST))
            if not self._dirty.scanning():
                self._scanned.clear()  # a scan of what is not seen sets it again
                self._mark_unseen(hints.blind())

    def _mark_unseen(self, blind: Iterable[bytes]) -> None:
        """What is in these directories, and in those whose last reading failed, is known by a scan
        alone.
        """
        for directory in {*map(encode_path, blind), *self._survey.unread}:
            self._dirty.mark_tree(directory)

    async def _still_there(self) -> bool:
        if not (same := self.presence.same() if self.local else await self.presence.still()):
            self._lose("the root was replaced")
        return same

    # -- batches

    async def next_batch(self, limit: int = 64, *, edits: bool = False) -> DirtyBatch:
        """Wait for paths that may differ from the index: edits before bulk work, or `edits` alone;
        at most `limit`.
        """
        while True:
            await (self._dirty.edits if edits else self._dirty.work).wait()
            await self._open.wait()
            if time.monotonic() - self._hinted_at < SETTLE_S:
                await anyio.sleep(SETTLE_S)
            assert self._survey.scope is not None
            git_dirs = [rules.repository.git_dir for rules in self._survey.scope.git_rules()]
            await self._gate.passed(git_dirs, self.threads, local=self.local)
            picked = self._dirty.take(limit, edits=edits)
            if picked is not None and (batch := await self._look(picked)) is not None:
                return batch

    async def _look(self, picked: PickedPaths) -> DirtyBatch | None:
        """What is at the paths now. None if nothing is to be done, or if it has to be done
        again.
        """
        scope, epoch, taken = self._survey.scope, self._epoch, False
        assert scope is not None
        try:
            paths = {path: decode_path(path) for path in picked.seqs}
            found = await self.threads.run(look, scope, paths)
            self._survey.looked(
                found, picked, told=self.local and not (self._hints and self._hints.blind())
            )
            same = self.presence.same() if self.local else await self.presence.still()
            taken = (
                same
                and scope is self._survey.scope
                and epoch == self._epoch
                and self._open.is_set()
            )
        finally:
            if not taken:
                self._dirty.give_back(picked.id)
        if not same:
            # The paths are gone because the root is: that says nothing of them.
            self._lose("the root was replaced")
        if not taken:
            return None
        gone = self._survey.gone(found, picked, sure=self._state != "scanning")
        if not found.present and not gone:
            self._dirty.settle(picked.id, {}, time.monotonic())
            return None
        return DirtyBatch(picked.id, tuple(found.present), gone, picked.force, picked.urgent)

    def settle(self, batch: DirtyBatch, failed: Mapping[str, str]) -> None:
        """The batch has been applied, and whoever follows commits has been told, except for
        `failed` (path -> why).
        """
        for path in failed:
            self._survey.refuse(path)
        self._dirty.settle(batch.id, failed, time.monotonic())
        # not the numbers of marks: what failed at first is applied after clocks that count it
        self._dirty.seq += 1
        self._changes.applied(
            self._dirty.seq, (p for p in (*batch.paths, *batch.gone) if p not in failed)
        )

    def quarantine(self, path: str, error: str) -> None:
        """Applying the path does harm: it is not handed out again until the file changes."""
        self._survey.refuse(path)
        self._dirty.quarantine(path, error)

    # -- freshness

    async def sync(self, timeout_s: float) -> Freshness:
        """Wait until everything that changed before the call has been applied, and say whether that
        is known.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for _ in range(2):  # the first look may have begun before the question
                    if self._state == "root_missing":
                        await self.presence.again()
                while self._state != "root_missing":
                    if await self._sync():
                        return self._answer()
        return self.freshness()

    async def _sync(self) -> bool:
        """Whether it worked within one epoch."""
        if not self._open.is_set():
            # the root may turn out to be missing: then there is no waiting
            with anyio.move_on_after(POLL_S):
                await self._open.wait()
            return False
        epoch, hints = self._epoch, self._hints
        assert hints is not None
        if not await self._still_there():
            return False
        await self._survey.check_rules(local=self.local)
        await self._survey.check_unannounced(local=self.local)
        if epoch != self._epoch or not self._open.is_set():
            return False  # lost meanwhile: nobody is there who would see a cookie
        if self._schedule.slept():
            self._rescan_if_due()
        unseen = hints.blind() if hints.exact else (b"",)
        try:
            if hints.exact:
                await self._cookies.sync()
        except CookieVoid:
            return False
        except OSError as error:  # a full disk, say: a scan proves as much as a cookie
            log.warning(
                "no_cookie", extra={"root": encode_path(self._root), "reason": error.strerror}
            )
            unseen = (b"",)
        self._mark_unseen(unseen)
        await self._dirty.applied(self._dirty.seq)
        return epoch == self._epoch and not self._lost.is_set()

    def _answer(self) -> Freshness:
        survey, failed = self._survey, self._dirty.failed(time.monotonic(), SHOWN)
        return in_sync(
            self.clock(), failed, self._dirty.failing(), survey.unknown, survey.unknown_reason()
        )

    def freshness(self) -> Freshness:
        """Without waiting: never known to be fresh."""
        dirty = self._dirty
        failed = dirty.failed(time.monotonic(), 1)
        lag = lagging(
            dirty.pending(),
            failed,
            dirty.failing(),
            git=self._gate.waiting,
            scanning=dirty.scanning(),
        )
        why = self.presence.silent or self._scan_trouble or self._reason or lag
        return Freshness(False, self.clock(), why, dirty.pending_paths(SHOWN))

    def since(self, clock: Clock) -> tuple[str, ...] | None:
        """Paths that were applied, or left the index, after a clock that was given before; None:
        look at everything.

        Never less than that, maybe more. None for a clock of another run of the daemon and for one
        that is too old.
        """
        same = clock.epoch.rpartition(".")[0] == self._life
        return self._changes.since(clock.seq) if same else None

    def clock(self) -> Clock:
        """How far the index is."""
        return Clock(self._epoch, self._dirty.applied_seq())

    # -- the rest

    @property
    def place(self) -> bytes:
        """The absolute path of the root."""
        return self._root

    def suspect(self, paths: Iterable[str]) -> None:
        """Look at files of which an answer has seen that they are not as they were indexed: no
        event may have told.
        """
        if self._state == "live":
            for path in paths:
                self._dirty.mark(path, scanned=True)

    def follow_mapped(self, paths: tuple[str, ...]) -> None:
        """Have each question read these files again: processes have them mapped for writing."""
        self._survey.mapped = paths

    async def configure(self, indexing: IndexingSettings) -> None:
        """Take other settings: only files that come into the scope or leave it are touched."""
        await self._survey.configure(indexing)

    @property
    def local(self) -> bool:
        """Whether a quick look at the root cannot hang: hints are exact on local file systems
        only.
        """
        return self._hints is not None and self._hints.exact

    def rescan(self, reason: str, *, force: bool = False) -> None:
        """Compare everything with the disk; with `force`, process every file again."""
        log.debug(
            "rescan", extra={"root": encode_path(self._root), "reason": reason, "force": force}
        )
        self._survey.force |= force
        self._dirty.mark_tree("", urgent=False)
        self.on_state()

    def status(self) -> RootStatus:
        """Of this moment."""
        pending, hints = self._dirty.pending(), self._hints
        trouble = hints.trouble if hints is not None else None
        return RootStatus(
            self._state if self._state != "live" else self._shown(trouble),
            max(0, (self._survey.total or 0) - pending),
            self._survey.total,
            pending,
            self._dirty.failed(time.monotonic(), FAILED_SHOWN),
            f"{self._watcher} ({trouble})" if trouble else self._watcher,
            self.presence.silent
            or self._reason
            or self._scan_trouble
            or trouble
            or self._survey.reason(),
            self.clock(),
            (*self._survey.closed, *self._survey.closed_files)[:SHOWN],
            self._dirty.failing(),
        )

    def _shown(self, trouble: str | None) -> str:
        degraded = trouble is not None or self._fallen_back
        return live_state(self._survey.force, self._gate.waiting, self._dirty.bulk(), degraded)
