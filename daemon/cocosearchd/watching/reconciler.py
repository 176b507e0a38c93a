"""The Reconciler: what is dirty in one root, in which order it is handed out, and when it is clean
again.

A set, never a queue: a path that changes a thousand times is in it once. Each mark has a number
(`seq`); a path leaves the set only if its number is what it was when it was handed out, and only
after it has been applied. `since` is the number of the oldest change of a path that has not been
applied: a sync waits until everything is younger than itself. Used from one event loop; knows
neither the disk nor the store.
"""

import asyncio
import heapq
import math
from collections.abc import Iterable, Mapping
from itertools import islice

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.watching.dirty_set import (
    DirtyDirectory,
    DirtyPath,
    PickedPaths,
    RunningScan,
    below,
)
from cocosearchd.watching.root_status import FailedPath

URGENT_LIMIT = 64  # more at once is not a person saving files: see `mark`
# dirty paths named by hints; above, one scan of the root is cheaper than all of them
MAX_HINTED = 20_000
MAX_TREES = 256


class Reconciler:
    """See the module. Times (`now`) are seconds of one monotonic clock."""

    def __init__(self, settings: WatchingSettings) -> None:
        self._settings = settings
        self.seq = 0
        self._entries: dict[str, DirtyPath] = {}
        self._urgent: dict[str, None] = {}  # ready to be handed out, oldest first
        self._bulk: dict[str, None] = {}
        self._aside: dict[str, None] = {}  # failed, the oldest first; not in the queues
        self._retry_from = math.inf  # nothing set aside is tried again before
        self._flying: dict[int, PickedPaths] = {}
        self._trees: dict[str, DirtyDirectory] = {}
        self._scanning: list[RunningScan] = []
        # heap of (since, path); entries that moved on are skipped
        self._oldest: list[tuple[int, str]] = []
        self._batches = 0
        self._hinted = 0
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self.changed = asyncio.Event()  # replaced at every settle
        self.work = asyncio.Event()  # set while something can be handed out
        self.edits = asyncio.Event()  # set while something urgent can
        self.to_scan = asyncio.Event()  # set while trees wait

    # -- marking

    def mark(
        self,
        path: str,
        *,
        urgent: bool = True,
        force: bool = False,
        scanned: bool = False,
        since: int = 0,
    ) -> None:
        """The path may differ from the index. `since` is an older number that this mark stands
        for.
        """
        self.seq += 1
        entry = self._entries.get(path)
        if entry is None:
            entry = self._entries[path] = DirtyPath(
                self.seq, since or self.seq, urgent, force, scanned
            )
            self._hinted += not scanned
            self._push(path, entry)
        else:
            self._mark_again(path, entry, urgent, since)
            entry.force |= force
            if scanned:
                self._may_be_stored(entry)
        if not entry.batch:
            self._enqueue(path, entry)
        if self._hinted > MAX_HINTED:
            self._collapse()

    def mark_tree(self, path: str, *, urgent: bool = True, since: int = 0) -> None:
        """Everything at and below the path may differ from the index; `since` as for `mark`."""
        self.seq += 1
        self._add_tree(DirtyDirectory(path, since or self.seq, urgent))

    def remark_in_flight(self, tree: str) -> None:
        """What is being applied below `tree` was decided by rules that no longer hold."""
        for picked in list(self._flying.values()):
            for path in picked.seqs:
                if below(path, tree):
                    self.mark(path, urgent=False, scanned=True)

    def _mark_again(self, path: str, entry: DirtyPath, urgent: bool, since: int) -> None:
        entry.seq = self.seq
        entry.urgent |= urgent
        if entry.batch:
            entry.again = min(entry.again or self.seq, since or self.seq)
        elif entry.error is not None:  # the file changed: a new chance
            self._aside.pop(path, None)
            entry.error, entry.retry_at, entry.tries = None, None, 0
            self._push(path, entry)
        if since and since < entry.since:
            entry.since = since
            self._push(path, entry)

    def _may_be_stored(self, entry: DirtyPath) -> None:
        self._hinted -= not entry.stored
        entry.stored = True

    def _push(self, path: str, entry: DirtyPath) -> None:
        heapq.heappush(self._oldest, (entry.since, path))

    def _enqueue(self, path: str, entry: DirtyPath) -> None:
        # Edits overtake bulk work, but a checkout also arrives as thousands of hints; the next edit
        # after it must find the short queue short.
        if entry.urgent and path not in self._urgent and len(self._urgent) < URGENT_LIMIT:
            self._bulk.pop(path, None)
            self._urgent[path] = None
            self.edits.set()
        elif path not in self._urgent:
            self._bulk.setdefault(path)
        self.work.set()

    def _collapse(self) -> None:
        since = self.seq
        for path, entry in list(self._entries.items()):
            if not entry.stored and not entry.batch and entry.error is None:
                since = min(since, entry.since)
                self._drop(path)
        self._add_tree(DirtyDirectory("", since, True))

    def _add_tree(self, tree: DirtyDirectory) -> None:
        for pending in self._trees.values():
            if below(tree.path, pending.path):
                pending.since = min(pending.since, tree.since)
                pending.urgent |= tree.urgent
                return
        for path in [path for path in self._trees if below(path, tree.path)]:
            tree.since = min(tree.since, self._trees.pop(path).since)
        self._trees[tree.path] = tree
        if len(self._trees) > MAX_TREES:
            self._trees = {"": DirtyDirectory("", min(t.since for t in self._trees.values()), True)}
        self.to_scan.set()

    # -- scanning

    def begin_scan(self) -> tuple[DirtyDirectory, ...]:
        """The trees to be scanned now, none inside of another. To be ended by `finish_scan` or
        `fail_scan`.
        """
        trees = tuple(self._trees.values())
        self._trees = {}
        self.to_scan.clear()
        flying = {path for picked in self._flying.values() for path in picked.seqs}
        self._scanning.append(RunningScan(trees, flying))
        return trees

    def finish_scan(
        self, trees: tuple[DirtyDirectory, ...], dirty: Iterable[str], *, force: bool = False
    ) -> None:
        """The trees were compared with the store; `dirty` differ.

        What was being applied meanwhile is looked at again: the store may have been read before
        that was committed, and the disk after it had changed once more.
        """
        scan = self._take_scanning(trees)
        found = list(dirty)
        since = min((tree.since for tree in trees), default=self.seq)
        urgent = any(tree.urgent for tree in trees) and len(found) < URGENT_LIMIT
        for path in found:
            self.mark(path, urgent=urgent, force=force, scanned=True, since=since)
        for path in scan.overlapping:
            if any(below(path, tree.path) for tree in trees):
                self.mark(path, urgent=False, scanned=True, since=since)
        self._settled()

    def fail_scan(self, trees: tuple[DirtyDirectory, ...]) -> None:
        """The scan did not happen: its trees are still to be scanned."""
        self._take_scanning(trees)
        for tree in trees:
            self._add_tree(tree)

    def _take_scanning(self, trees: tuple[DirtyDirectory, ...]) -> RunningScan:
        scan = next(scan for scan in self._scanning if scan.trees is trees)
        self._scanning.remove(scan)
        return scan

    # -- handing out

    def take(self, limit: int, *, edits: bool = False) -> PickedPaths | None:
        """At most `limit` paths, edits before bulk, or `edits` alone; None if there are none. All
        with one `force`.
        """
        queue, urgent = (self._urgent, True) if self._urgent or edits else (self._bulk, False)
        if not queue:
            (self.edits if edits else self.work).clear()
            return None
        force = self._entries[next(iter(queue))].force
        picked = list[str]()
        for path in queue:
            if len(picked) >= limit or self._entries[path].force != force:
                break
            picked.append(path)
        self._batches += 1
        for path in picked:
            del queue[path]
            self._entries[path].batch = self._batches
            # from here on: what is marked meanwhile
            self._entries[path].again, self._entries[path].force = 0, False
        seqs = {path: self._entries[path].seq for path in picked}
        stored = frozenset(path for path in picked if self._entries[path].stored)
        self._flying[self._batches] = found = PickedPaths(
            self._batches, seqs, stored, force, urgent
        )
        for scan in self._scanning:
            scan.overlapping.update(picked)
        return found

    def give_back(self, number: int) -> None:
        """What was handed out was not looked at."""
        picked = self._flying.get(number)
        for path, entry in self._landed(number):
            entry.again, entry.force = 0, entry.force or (picked is not None and picked.force)
            self._enqueue(path, entry)

    def settle(self, number: int, failed: Mapping[str, str], now: float) -> None:
        """Everything handed out under this number has been applied, except for `failed` (path ->
        why).
        """
        picked = self._flying.get(number)
        if picked is None:
            return  # given back, or settled before
        outage = (
            len(picked.seqs) > 1
            and failed.keys() >= picked.seqs.keys()
            and len(set(failed.values())) == 1
        )
        for path, entry in self._landed(number):
            if path in failed:
                entry.force |= picked.force
                # the store may have gone away between writing and saying so
                self._may_be_stored(entry)
            # changed since it was handed out: compare and do not remove
            if entry.seq != picked.seqs[path]:
                if path not in failed:
                    entry.since, entry.tries = entry.again or entry.seq, 0
                    self._push(path, entry)
                self._enqueue(path, entry)
            elif path in failed:
                self._set_aside(path, entry, failed[path], now, outage=outage)
            else:
                self._drop(path)
        if len(failed) < len(picked.seqs):
            self._end_outage()
        self._settled()

    def quarantine(self, path: str, error: str) -> None:
        """The path, which has just been settled as failed, is not handed out again until it is
        marked again.
        """
        entry = self._entries.get(path)
        if entry is None:
            self.seq += 1
            entry = self._entries[path] = DirtyPath(
                self.seq, self.seq, urgent=False, force=False, stored=True, tries=1
            )
        elif entry.error is None:
            return  # changed meanwhile: it gets another chance
        entry.error, entry.retry_at, entry.outage = error, None, False
        self._aside[path] = None
        self._settled()

    def _landed(self, number: int) -> list[tuple[str, DirtyPath]]:
        picked = self._flying.pop(number, None)
        landed = [] if picked is None else [(path, self._entries[path]) for path in picked.seqs]
        for _, entry in landed:
            entry.batch = 0
        return landed

    def _set_aside(
        self, path: str, entry: DirtyPath, error: str, now: float, *, outage: bool
    ) -> None:
        entry.tries += 1
        pause = min(
            self._settings.retry_base_s * 2 ** min(entry.tries - 1, 30), self._settings.retry_max_s
        )
        entry.error, entry.retry_at, entry.outage = error, now + pause, outage
        self._retry_from = min(self._retry_from, now + pause)
        self._aside[path] = None

    def _end_outage(self) -> None:
        for path in list(self._aside):
            if self._entries[path].outage:
                self._retry(path)

    def retry_due(self, now: float) -> None:
        """Hand out again what failed and has waited long enough."""
        if now < self._retry_from:
            return
        self._retry_from = math.inf
        for path in list(self._aside):
            retry_at = self._entries[path].retry_at
            if retry_at is not None and retry_at <= now:
                self._retry(path)
            elif retry_at is not None:
                self._retry_from = min(self._retry_from, retry_at)

    def _retry(self, path: str) -> None:
        entry = self._entries[path]
        self._aside.pop(path, None)
        entry.error, entry.retry_at, entry.outage, entry.urgent = None, None, False, False
        self._push(path, entry)
        self._enqueue(path, entry)

    def _drop(self, path: str) -> None:
        entry = self._entries.pop(path)
        self._hinted -= not entry.stored
        self._unqueue(path)

    def _unqueue(self, path: str) -> None:
        self._urgent.pop(path, None)
        self._bulk.pop(path, None)

    # -- asking

    def oldest(self) -> float:
        """The number of the oldest change that has not been applied and is not set aside; infinity
        if there is none.
        """
        while self._oldest:
            since, path = self._oldest[0]
            entry = self._entries.get(path)
            if entry is not None and entry.since == since and entry.error is None:
                break
            heapq.heappop(self._oldest)
        scanned = [tree.since for scan in self._scanning for tree in scan.trees]
        waiting = [tree.since for tree in self._trees.values()]
        return min([*scanned, *waiting, self._oldest[0][0] if self._oldest else math.inf])

    async def applied(self, seq: int) -> None:
        """Returns when every change up to this number has been applied or set aside, or when
        `interrupt` is called.

        It is so at the moment of the return: what was set aside may be taken up again before who
        waits for it is awake.
        """
        while self.oldest() <= seq:
            future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append((seq, future))
            if not await future:
                return

    def interrupt(self) -> None:
        """Nobody is to wait any more for what cannot be applied now."""
        for _, future in self._waiting:
            if not future.done():
                future.set_result(False)
        self._waiting = []

    def applied_seq(self) -> int:
        """Every change up to this number has been applied or set aside."""
        oldest = self.oldest()
        return self.seq if oldest == math.inf else int(oldest) - 1

    def pending(self) -> int:
        """How many paths will be applied without anything else having to happen."""
        return len(self._entries) - len(self._aside)

    def pending_paths(self, limit: int = 20) -> tuple[str, ...]:
        """Some of them, those handed out and urgent ones first; then directories to scan: `src/`,
        the root `./`.
        """
        found = [path for picked in self._flying.values() for path in picked.seqs]
        found += [*self._urgent, *list(self._bulk)[:limit]]
        trees = [*self._trees.values(), *(tree for scan in self._scanning for tree in scan.trees)]
        return tuple((found + [(tree.path or ".") + "/" for tree in trees])[:limit])

    def since(self, path: str) -> int:
        """The number of the oldest change of a dirty path that has not been applied."""
        return self._entries[path].since

    def retrying(self) -> bool:
        """Whether something is tried again when its time comes."""
        return any(self._entries[path].retry_at is not None for path in self._aside)

    def is_aside(self, path: str) -> bool:
        """Whether a path has failed and waits."""
        return path in self._aside

    def bulk(self) -> bool:
        """Whether bulk work is waiting."""
        return bool(self._bulk)

    def scanning(self) -> bool:
        """Whether trees are being scanned or wait for it."""
        return bool(self._scanning or self._trees)

    def failing(self) -> int:
        """How many paths are set aside."""
        return len(self._aside)

    def failed(self, now: float, limit: int | None = None) -> tuple[FailedPath, ...]:
        """What is set aside, by path; at most `limit`, the oldest: without an embedder it may be
        every file.
        """
        return tuple(self._failed(path, now) for path in sorted(islice(self._aside, limit)))

    def _failed(self, path: str, now: float) -> FailedPath:
        entry = self._entries[path]
        wait = None if entry.retry_at is None else max(0.0, entry.retry_at - now)
        return FailedPath(path, entry.error or "", entry.tries, wait)

    def _settled(self) -> None:
        event, self.changed = self.changed, asyncio.Event()
        event.set()
        if self._waiting:
            oldest = self.oldest()
            for seq, future in self._waiting:
                if oldest > seq and not future.done():
                    future.set_result(True)
            self._waiting = [(seq, future) for seq, future in self._waiting if not future.done()]
