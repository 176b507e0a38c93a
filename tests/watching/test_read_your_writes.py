"""A question after a save that is answered as fresh shows the save: any order of hints, scans,
batches and failures.

No disk and no clock: a model of them, so that thousands of steps take seconds. Several steps are
taken in one turn of the event loop, as on a machine that is busy with something else.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.watching import dirty_set
from cocosearchd.watching.dirty_records import DirtyTree, PickedPaths, is_at_or_below
from cocosearchd.watching.dirty_set import DirtySet

SETTINGS = WatchingSettings(retry_base_s=1, retry_max_s=4)
PATHS = ("a", "b", "x/a", "x/b", "x/y/a", "x/y/b", "z/a")
TREES = ("", "x", "x/y", "z", "z/a")
Version = int


@dataclass(slots=True)
class Flight:
    """A batch on its way: what was read of its files when it was handed out or later."""

    picked: PickedPaths
    read: dict[str, Version] = field(default_factory=dict)


@dataclass(slots=True)
class Scan:
    """A scan on its way: what the store said of files, then which of them the disk had
    otherwise.
    """

    trees: tuple[DirtyTree, ...]
    stored: dict[str, Version]
    differ: list[str] | None = None


class World:
    """A disk, an index that follows it by way of a dirty set, and somebody who saves and asks."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dirty = DirtySet(SETTINGS)
        self.disk, self.index = dict.fromkeys(PATHS, 0), dict.fromkeys(PATHS, -1)
        self.hints = deque[str | asyncio.Future[bool]]()  # a path, or a cookie
        self.flights, self.scans = list[Flight](), list[Scan]()
        self.now, self.epoch = 0.0, 0
        self.fresh = 0
        self.steps: tuple[Callable[[], None], ...] = (
            *[self.save] * 4,
            *[self.tell] * 6,
            *[self.take] * 4,
            *[self.read] * 4,
            *[self.settle] * 4,
            self.give_back,
            self.mark_tree,
            self.begin_scan,
            *[self.compare] * 2,
            *[self.finish_scan] * 2,
            self.remark,
            self.retry,
            self.lose,
        )
        self.dirty.mark_tree("")

    def save(self) -> None:
        path = self.rng.choice(PATHS)
        self.disk[path] += 1
        self.hints.append(path)

    def tell(self) -> None:
        """One hint, or all of them."""
        for _ in range(self.rng.choice((1, len(self.hints)))):
            if self.hints:
                hint = self.hints.popleft()
                if isinstance(hint, str):
                    self.dirty.mark(hint, urgent=self.rng.random() < 0.9)
                elif not hint.done():
                    hint.set_result(True)

    def take(self) -> None:
        picked = self.dirty.take(self.rng.randrange(1, 4), edits=self.rng.random() < 0.3)
        if picked is not None:
            self.flights.append(Flight(picked))

    def read(self) -> None:
        for flight in self.flights:
            for path in flight.picked.seqs:
                if path not in flight.read and self.rng.random() < 0.7:
                    flight.read[path] = self.disk[path]

    def settle(self) -> None:
        """Applied, partly or wholly; what failed may have been applied all the same."""
        if not self.flights:
            return
        flight = self.flights.pop(self.rng.randrange(len(self.flights)))
        away, failed = self.rng.random() < 0.15, dict[str, str]()
        for path in flight.picked.seqs:
            if away or self.rng.random() < 0.1:
                failed[path] = "away" if away else f"broken {self.rng.random()}"
            if path not in failed or self.rng.random() < 0.3:
                self.index[path] = flight.read.get(path, self.disk[path])
        self.dirty.settle(flight.picked.id, failed, self.now)

    def give_back(self) -> None:
        if self.flights:
            self.dirty.give_back(self.flights.pop(self.rng.randrange(len(self.flights))).picked.id)

    def mark_tree(self) -> None:
        self.dirty.mark_tree(self.rng.choice(TREES), urgent=self.rng.random() < 0.5)

    def begin_scan(self) -> None:
        if self.dirty.scans.ready.is_set() and not self.scans:
            self.scans.append(Scan(self.dirty.begin_scan(), dict(self.index)))

    def compare(self) -> None:
        for scan in self.scans:
            if scan.differ is None:
                inside = [
                    path
                    for path in PATHS
                    if any(is_at_or_below(path, tree.path) for tree in scan.trees)
                ]
                scan.differ = [path for path in inside if scan.stored[path] != self.disk[path]]

    def finish_scan(self) -> None:
        if not self.scans:
            return
        scan = self.scans.pop()
        if scan.differ is None or self.rng.random() < 0.1:
            self.dirty.fail_scan(scan.trees)
        else:
            self.dirty.finish_scan(scan.trees, scan.differ, force=self.rng.random() < 0.1)

    def remark(self) -> None:
        self.dirty.remark_in_flight(self.rng.choice(TREES))

    def retry(self) -> None:
        self.now += self.rng.random() * 2
        self.dirty.retry_due(self.now)

    def lose(self) -> None:
        """The queue overflowed: what it held is told by nobody."""
        if self.rng.random() < 0.3:
            for hint in self.hints:
                if not isinstance(hint, str) and not hint.done():
                    hint.set_result(False)
            self.hints.clear()
            self.epoch += 1
            self.dirty.mark_tree("")
            self.dirty.clock.interrupt()

    async def ask(self) -> None:
        """Wait like `WatchedRoot.sync`."""
        while True:
            saved, cookie = dict(self.disk), asyncio.get_running_loop().create_future()
            self.hints.append(cookie)
            if not await cookie:
                continue
            epoch = self.epoch
            await self.dirty.clock.wait(self.dirty.clock.seq)
            if epoch != self.epoch:
                continue
            if not self.dirty.failures:
                behind = {
                    path: (self.index[path], saved[path])
                    for path in PATHS
                    if self.index[path] < saved[path]
                }
                assert not behind, behind
                self.fresh += 1
            for _ in range(self.rng.randrange(3)):
                await asyncio.sleep(0)

    async def run(self, turns: int) -> None:
        clients = [asyncio.ensure_future(self.ask()) for _ in range(3)]
        for _ in range(turns):
            for _ in range(self.rng.choice((1, 1, 2, 5, 20))):
                self.rng.choice(self.steps)()
            await asyncio.sleep(0)
            for client in clients:
                if client.done():
                    client.result()
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)


@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 1000))]
)
async def test_a_fresh_answer_holds_what_was_saved_before_the_question(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(dirty_set, "MAX_HINTED", 4)
    monkeypatch.setattr(dirty_set, "MAX_TREES", 3)
    monkeypatch.setattr(dirty_set, "URGENT_LIMIT", 3)
    world = World(seed)
    await world.run(1500)
    assert world.fresh > 5
