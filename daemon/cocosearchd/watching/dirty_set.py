"""Tracks the dirty paths of one root: their order, their batches, and when they are clean again.

A set, never a queue: a path that changes a thousand times is in it once. Each mark has a number
(`seq`). A path leaves the set after it has been applied, unless it was marked again since it was
handed out: then its number has changed. `since` is the number of the oldest change of a path that
has not been applied: a sync waits until every `since` is younger than the sync. All calls come from
one event loop. The set knows neither the disk nor the store.
"""

import asyncio
import heapq
import math
from collections.abc import Iterable, Mapping
from itertools import islice

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.forms.tree_filter import TreeFilter
from cocosearchd.watching.dirty_records import (
    DirtyPath,
    DirtyTree,
    PickedPaths,
    RunningScan,
    is_at_or_below,
)
from cocosearchd.watching.root_status import FailedPath

URGENT_LIMIT = 64  # no person saves more files at once: see `DirtyQueues.add`
# Dirty paths that hints have named. With more, one scan of the root costs less than all of them.
MAX_HINTED = 20_000
MAX_TREES = 256
# Outdated numbers of changes that are kept beside those of the dirty paths.
SPARSE_HEAP = 1000


class DirtyQueues:
    """Two queues of paths that are ready to be handed out: edits, and bulk work."""

    def __init__(self) -> None:
        self._urgent: dict[str, None] = {}  # oldest first
        self._bulk: dict[str, None] = {}
        self.work = asyncio.Event()  # set while a path can be handed out
        self.edits = asyncio.Event()  # set while an urgent path can be handed out

    def add(self, path: str, *, urgent: bool) -> None:
        """Queue a path. Edits overtake bulk work."""
        # A checkout also arrives as thousands of hints. The bound keeps the short queue short for
        # the next edit after it.
        if urgent and path not in self._urgent and len(self._urgent) < URGENT_LIMIT:
            self._bulk.pop(path, None)
            self._urgent[path] = None
            self.edits.set()
        elif path not in self._urgent:
            self._bulk.setdefault(path)
        self.work.set()

    def remove(self, path: str) -> None:
        """Take a path out of its queue, if it is in one."""
        self._urgent.pop(path, None)
        self._bulk.pop(path, None)

    def next_queue(self, *, edits: bool) -> tuple[Iterable[str], bool]:
        """Return the paths to hand out next, maybe none, and whether they are urgent.

        With `edits` only urgent paths.
        """
        urgent = bool(self._urgent) or edits
        queue = self._urgent if urgent else self._bulk
        if not queue:
            (self.edits if edits else self.work).clear()
        return queue, urgent

    def has_bulk(self) -> bool:
        """Return whether bulk work is waiting."""
        return bool(self._bulk)

    def sample(self, limit: int) -> list[str]:
        """Return the urgent paths and at most `limit` of the others."""
        return [*self._urgent, *islice(self._bulk, limit)]


class FailedPaths:
    """Paths that failed and wait for a retry or for a change of the file, the oldest first."""

    def __init__(self, settings: WatchingSettings) -> None:
        self._settings = settings
        self._entries: dict[str, DirtyPath] = {}
        self._retry_from = math.inf  # no path is due before

    def __contains__(self, path: object) -> bool:
        return path in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, path: str, entry: DirtyPath, error: str, now: float, *, outage: bool) -> None:
        """Record a failure. The pause before the retry doubles with each try, up to a limit."""
        entry.tries += 1
        backoff_s = self._settings.retry_base_s * 2 ** min(entry.tries - 1, 30)
        entry.retry_at = now + min(backoff_s, self._settings.retry_max_s)
        entry.error = error
        entry.outage = outage
        self._retry_from = min(self._retry_from, entry.retry_at)
        self._entries[path] = entry

    def set_aside(self, path: str, entry: DirtyPath, error: str) -> None:
        """Record a failure that only a change of the file can end."""
        entry.error = error
        entry.retry_at = None
        entry.outage = False
        self._entries[path] = entry

    def remove(self, path: str) -> None:
        """Forget the failure of a path."""
        entry = self._entries.pop(path, None)
        if entry is not None:
            entry.error = None
            entry.retry_at = None
            entry.outage = False

    def paths_in(self, trees: TreeFilter[str]) -> list[str]:
        """Return the failed paths in some trees. May be called from any thread."""
        return [path for path in list(self._entries) if trees.covers(path)]

    def outages(self) -> list[str]:
        """Return the paths that failed together with everything else of their batch."""
        return [path for path, entry in self._entries.items() if entry.outage]

    def due(self, now: float) -> list[str]:
        """Return the paths that have waited long enough."""
        if now < self._retry_from:
            return []
        waits = {
            path: entry.retry_at
            for path, entry in self._entries.items()
            if entry.retry_at is not None
        }
        self._retry_from = min((at for at in waits.values() if at > now), default=math.inf)
        return [path for path, at in waits.items() if at <= now]

    def error(self, path: str) -> str | None:
        """Return the error of a failed path; None for a path that has not failed."""
        entry = self._entries.get(path)
        return None if entry is None else entry.error or ""

    def has_retries(self) -> bool:
        """Return whether a failed path waits for a retry at a set time."""
        return any(entry.retry_at is not None for entry in self._entries.values())

    def listed(self, now: float, limit: int | None = None) -> tuple[FailedPath, ...]:
        """Return the oldest failures, at most `limit`, sorted by path.

        Without an embedder every file may have failed.
        """
        return tuple(self._report_path(path, now) for path in sorted(islice(self._entries, limit)))

    def _report_path(self, path: str, now: float) -> FailedPath:
        entry = self._entries[path]
        wait_s = None if entry.retry_at is None else max(0.0, entry.retry_at - now)
        return FailedPath(path, entry.error or "", entry.tries, wait_s)


class ScanQueue:
    """Directories that wait for a scan, none inside of another, and the scans that are running."""

    def __init__(self) -> None:
        self._trees: dict[str, DirtyTree] = {}
        self._running: list[RunningScan] = []
        self.ready = asyncio.Event()  # set while directories wait

    def add(self, tree: DirtyTree) -> None:
        """Queue a directory. It is merged with the queued directories above and below it."""
        for queued in self._trees.values():
            if is_at_or_below(tree.path, queued.path):
                queued.since = min(queued.since, tree.since)
                queued.urgent |= tree.urgent
                return
        for path in [path for path in self._trees if is_at_or_below(path, tree.path)]:
            tree.since = min(tree.since, self._trees.pop(path).since)
        self._trees[tree.path] = tree
        if len(self._trees) > MAX_TREES:
            since = min(queued.since for queued in self._trees.values())
            self._trees = {"": DirtyTree("", since, True)}
        self.ready.set()

    def begin(self, in_flight: Iterable[str]) -> tuple[DirtyTree, ...]:
        """Start a scan of all queued directories; `in_flight` are the paths being applied now."""
        trees = tuple(self._trees.values())
        self._trees = {}
        self.ready.clear()
        self._running.append(RunningScan(trees, set(in_flight)))
        return trees

    def end(self, trees: tuple[DirtyTree, ...]) -> RunningScan:
        """Return the scan that began with this tuple, which is no longer running."""
        scan = next(scan for scan in self._running if scan.trees is trees)
        self._running.remove(scan)
        return scan

    def add_in_flight(self, paths: Iterable[str]) -> None:
        """Note for each running scan that these paths are applied meanwhile."""
        for scan in self._running:
            scan.overlapping.update(paths)

    def directories(self) -> list[DirtyTree]:
        """Return the directories that wait, then those that are being scanned."""
        return [*self._trees.values(), *(tree for scan in self._running for tree in scan.trees)]

    def is_active(self) -> bool:
        """Return whether directories are being scanned or wait for a scan."""
        return bool(self._running or self._trees)


class AppliedClock:
    """The numbers of changes, and calls that wait until they are applied."""

    def __init__(self, entries: Mapping[str, DirtyPath], scans: ScanQueue) -> None:
        self.seq = 0  # the newest number
        self._entries = entries
        self._scans = scans
        # heap of (since, path); outdated pairs are skipped
        self._heap: list[tuple[int, str]] = []
        self._waiting: dict[asyncio.Future[None], int] = {}  # -> number
        self._interruptions = 0

    def next_seq(self) -> int:
        """Return a new number."""
        self.seq += 1
        return self.seq

    def track(self, path: str) -> None:
        """Let `oldest` count a dirty path with its present `since`."""
        if len(self._heap) > SPARSE_HEAP + 2 * len(self._entries):
            # an old change that waits, while indexing is paused, keeps the pairs of all later ones
            self._heap = [
                (entry.since, path) for path, entry in self._entries.items() if entry.error is None
            ]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (self._entries[path].since, path))

    def find_oldest(self) -> float:
        """Return the number of the oldest change that is not applied and has not failed.

        Infinity if there is none.
        """
        while self._heap:
            since, path = self._heap[0]
            entry = self._entries.get(path)
            if entry is not None and entry.since == since and entry.error is None:
                break
            heapq.heappop(self._heap)
        scans = [tree.since for tree in self._scans.directories()]
        return min([*scans, self._heap[0][0] if self._heap else math.inf])

    def applied_seq(self) -> int:
        """Return the number up to which every change has been applied or has failed."""
        oldest = self.find_oldest()
        return self.seq if oldest == math.inf else int(oldest) - 1

    @property
    def is_applied(self) -> bool:
        """True if every change so far is applied or failed."""
        return self.find_oldest() > self.seq

    async def wait(self, seq: int) -> None:
        """Wait until every change up to `seq` is applied or failed, or until `interrupt`.

        The condition is checked again after each wake-up, because a failed path may be retried
        before the waiting call runs: it holds when the call returns.
        """
        interruptions = self._interruptions
        while self.find_oldest() <= seq and self._interruptions == interruptions:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[future] = seq
            try:
                await future
            finally:
                self._waiting.pop(future, None)

    def wake(self) -> None:
        """Wake the calls whose changes have all been applied or have failed."""
        if not self._waiting:
            return
        oldest = self.find_oldest()
        for future, seq in self._waiting.items():
            if oldest > seq and not future.done():
                future.set_result(None)

    def interrupt(self) -> None:
        """End every wait: the changes cannot be applied now.

        A call that has been woken, but has not run yet, ends too: nobody would wake it again.
        """
        self._interruptions += 1
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


class DirtySet:
    """The dirty set of one root. Times (`now`) are seconds of one monotonic clock."""

    def __init__(self, settings: WatchingSettings) -> None:
        self.queues = DirtyQueues()
        self.failures = FailedPaths(settings)
        self.scans = ScanQueue()
        self._entries: dict[str, DirtyPath] = {}
        self.clock = AppliedClock(self._entries, self.scans)
        self._in_flight: dict[int, PickedPaths] = {}
        self._batches = 0
        self._hinted = 0

    # -- marking

    def mark(
        self,
        path: str,
        *,
        urgent: bool = True,
        force: bool = False,
        may_be_stored: bool = False,
        since: int = 0,
    ) -> None:
        """Mark a path that may differ from the index.

        `since` is an older number that this mark stands for. `may_be_stored`: it may be in the index,
        for example because a scan has named it.
        """
        seq = self.clock.next_seq()
        entry = self._entries.get(path)
        if entry is None:
            entry = self._entries[path] = DirtyPath(seq, since or seq, urgent, force, may_be_stored)
            self._hinted += not may_be_stored
            self.clock.track(path)
        else:
            self._mark_again(path, entry, urgent, since)
            entry.force |= force
            if may_be_stored:
                self._set_may_be_stored(entry)
        if not entry.batch:
            self.queues.add(path, urgent=entry.urgent)
        if self._hinted > MAX_HINTED:
            self._collapse()

    def mark_tree(self, path: str, *, urgent: bool = True, since: int = 0) -> None:
        """Mark everything at and below a path; `since` as for `mark`."""
        seq = self.clock.next_seq()
        self.scans.add(DirtyTree(path, since or seq, urgent))

    def remark_in_flight(self, tree: str) -> None:
        """Mark the paths below `tree` that are being applied: their rules have changed."""
        for picked in list(self._in_flight.values()):
            for path in picked.seqs:
                if is_at_or_below(path, tree):
                    self.mark(path, urgent=False, may_be_stored=True)

    def _mark_again(self, path: str, entry: DirtyPath, urgent: bool, since: int) -> None:
        entry.seq = self.clock.seq
        entry.urgent |= urgent
        if entry.batch:
            entry.marked_in_flight = min(
                entry.marked_in_flight or self.clock.seq, since or self.clock.seq
            )
        elif entry.error is not None:  # the file changed: a new chance
            self.failures.remove(path)
            entry.tries = 0
            self.clock.track(path)
        if since and since < entry.since:
            entry.since = since
            self.clock.track(path)

    def _set_may_be_stored(self, entry: DirtyPath) -> None:
        self._hinted -= not entry.may_be_stored
        entry.may_be_stored = True

    def _collapse(self) -> None:
        """Replace the paths that hints have named by one scan of the root."""
        since = self.clock.seq
        for path, entry in list(self._entries.items()):
            if not entry.may_be_stored and not entry.batch and entry.error is None:
                since = min(since, entry.since)
                self._drop(path)
        self.scans.add(DirtyTree("", since, True))

    # -- scanning

    def begin_scan(self) -> tuple[DirtyTree, ...]:
        """Return the directories to scan now. End the scan by `finish_scan` or `fail_scan`."""
        return self.scans.begin(path for picked in self._in_flight.values() for path in picked.seqs)

    def finish_scan(
        self, trees: tuple[DirtyTree, ...], dirty: Iterable[str], *, force: bool = False
    ) -> None:
        """End a scan that compared the directories with the store; `dirty` are the differences.

        Paths that were being applied during the scan are marked again: the scan may have read the
        store before their commit, and the disk after one more change.
        """
        scan = self.scans.end(trees)
        paths = list(dirty)
        since = min((tree.since for tree in trees), default=self.clock.seq)
        urgent = any(tree.urgent for tree in trees) and len(paths) < URGENT_LIMIT
        for path in paths:
            self.mark(path, urgent=urgent, force=force, may_be_stored=True, since=since)
        scanned_trees = TreeFilter((tree.path for tree in trees), "/")
        for path in scan.overlapping:
            if scanned_trees.covers(path):
                self.mark(path, urgent=False, may_be_stored=True, since=since)
        self.clock.wake()

    def fail_scan(self, trees: tuple[DirtyTree, ...]) -> None:
        """End a scan that did not happen: its directories wait again."""
        self.scans.end(trees)
        for tree in trees:
            self.scans.add(tree)

    # -- handing out

    def take(self, limit: int, *, edits: bool = False) -> PickedPaths | None:
        """Hand out at most `limit` paths of equal `force`, edits first; None if there are none.

        With `edits` only urgent paths.
        """
        queue, urgent = self.queues.next_queue(edits=edits)
        paths = self._same_force(queue, limit)
        if not paths:
            return None
        force = self._entries[paths[0]].force
        self._batches += 1
        for path in paths:
            self.queues.remove(path)
            entry = self._entries[path]
            entry.batch = self._batches
            # From here on these two describe marks that are newer than the batch.
            entry.marked_in_flight = 0
            entry.force = False
        seqs = {path: self._entries[path].seq for path in paths}
        stored = frozenset(path for path in paths if self._entries[path].may_be_stored)
        picked = PickedPaths(self._batches, seqs, stored, force, urgent)
        self._in_flight[self._batches] = picked
        self.scans.add_in_flight(paths)
        return picked

    def _same_force(self, queue: Iterable[str], limit: int) -> list[str]:
        """Return the leading paths of a queue that have the same `force`, at most `limit`."""
        paths = list[str]()
        for path in islice(queue, limit):
            if paths and self._entries[path].force != self._entries[paths[0]].force:
                break
            paths.append(path)
        return paths

    def give_back(self, number: int) -> None:
        """Queue the paths of a batch again: the batch was not read."""
        picked = self._in_flight.get(number)
        for path, entry in self._end_batch(number):
            entry.marked_in_flight = 0
            entry.force = entry.force or (picked is not None and picked.force)
            self.queues.add(path, urgent=entry.urgent)

    def settle(self, number: int, failed: Mapping[str, str], now: float) -> None:
        """End a batch: all its paths have been applied, except for `failed` (path -> error)."""
        picked = self._in_flight.get(number)
        if picked is None:
            return  # given back, or settled before
        outage = _is_outage(picked, failed)
        for path, entry in self._end_batch(number):
            if path in failed:
                entry.force |= picked.force
                # the store may have gone away between the write and its answer
                self._set_may_be_stored(entry)
            # A path that has changed since it was handed out stays dirty.
            if entry.seq != picked.seqs[path]:
                if path not in failed:
                    entry.since = entry.marked_in_flight or entry.seq
                    entry.tries = 0
                    self.clock.track(path)
                self.queues.add(path, urgent=entry.urgent)
            elif path in failed:
                self.failures.add(path, entry, failed[path], now, outage=outage)
            else:
                self._drop(path)
        if len(failed) < len(picked.seqs):
            self._retry(self.failures.outages())
        self.clock.wake()

    def set_aside(self, path: str, error: str) -> None:
        """Hold back a path until it is marked again; it has just been settled as failed."""
        entry = self._entries.get(path)
        if entry is None:
            seq = self.clock.next_seq()
            entry = self._entries[path] = DirtyPath(
                seq, seq, urgent=False, force=False, may_be_stored=True, tries=1
            )
        elif entry.error is None:
            return  # changed meanwhile: it gets another chance
        self.failures.set_aside(path, entry, error)
        self.clock.wake()

    def retry_due(self, now: float) -> None:
        """Queue the failed paths again that have waited long enough."""
        self._retry(self.failures.due(now))

    def _end_batch(self, number: int) -> list[tuple[str, DirtyPath]]:
        picked = self._in_flight.pop(number, None)
        entries = [] if picked is None else [(path, self._entries[path]) for path in picked.seqs]
        for _, entry in entries:
            entry.batch = 0
        return entries

    def _retry(self, paths: Iterable[str]) -> None:
        for path in paths:
            entry = self._entries[path]
            self.failures.remove(path)
            entry.urgent = False
            self.clock.track(path)
            self.queues.add(path, urgent=False)

    def _drop(self, path: str) -> None:
        entry = self._entries.pop(path)
        self._hinted -= not entry.may_be_stored
        self.queues.remove(path)

    # -- reading

    def pending(self) -> int:
        """Count the dirty paths without those that have failed."""
        return len(self._entries) - len(self.failures)

    def pending_paths(self, limit: int) -> tuple[str, ...]:
        """Return at most `limit` paths, in-flight and urgent ones first, then directories to scan.

        Directories end in `/`: `src/`, the root `./`.
        """
        paths = [path for picked in self._in_flight.values() for path in picked.seqs]
        paths += self.queues.sample(limit)
        paths += [(tree.path or ".") + "/" for tree in self.scans.directories()]
        return tuple(paths[:limit])

    def since(self, path: str) -> int:
        """Return the number of the oldest change of a dirty path that has not been applied."""
        return self._entries[path].since


def _is_outage(picked: PickedPaths, failed: Mapping[str, str]) -> bool:
    """Return whether all of several paths have failed with the same error."""
    return (
        len(picked.seqs) > 1
        and failed.keys() >= picked.seqs.keys()
        and len(set(failed.values())) == 1
    )
