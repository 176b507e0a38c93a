"""Any order of commits, merges, failures, saves and restarts: answers have all applied commits

Writers commit to a real database, each to its own files, as one path never has two writers. The
index reads a database that fails now and then, and each of its steps takes a while, of another
length each time.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
import numpy as np
import pytest

from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.search.lexical import lexical_index, snapshot_changes
from cocosearchd.search.lexical.analysis.terms import term_hash
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store.chunks.file_writer import replace_files
from cocosearchd.store.connection.database import Connection, Database
from tests.search.lexical.direct import DirectAnalyser
from tests.store.support import file_write, new_index

# A server's cursor that is cancelled while it closes is said to have been left open, by its
# finalizer.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

T = TypeVar("T")
WRITERS = 4
FILES = 12  # the first ones save, the last ones switch branches
CONTENTS = 3  # of a file: so that it often is again what it was
QUICK = {"_QUIET_S": 0.0, "_QUIET_BULK_S": 0.0, "_RETRY_S": (0.001,), "_SAVE_EVERY_S": 0.03}
SMALL = {"_SLICE_FILES": 3, "_BULK_FILES": 4, "_BATCH_CHUNKS": 5}


class Away(Database):
    """Database that is slow, and sometimes absent, for one of its users."""

    def __init__(self, db: Database, rng: random.Random) -> None:
        self._db = db
        self._rng = rng
        self.share = 0.0
        self._long_work = asyncio.Semaphore(2)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        await self._dawdle()
        if self._rng.random() < self.share:
            raise StoreUnavailable("PostgreSQL does not answer", "wait for it")
        async with self._db.connection() as connection:
            yield connection
        await self._dawdle()

    async def _dawdle(self) -> None:
        for _ in range(self._rng.choice((0, 0, 1, 3, 30))):
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Told:
    """Finished commit: the generation that the index must reach, and the content of a file or None."""

    generation: int
    content: str | None


class World:
    """Index in memory, its writers, and a reader that compares."""

    def __init__(self, db: Database, record: IndexRecord, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.db = db
        self.record = record
        self.folder = folder
        self.away = Away(db, self.rng)
        self.index = self._new()
        self.told = dict[str, Told]()
        self.busy = set[str]()
        self.lives = self.compared = 0
        self.end = 0.0
        self.done = False

    def _new(self) -> LexicalIndex:
        return LexicalIndex(self.away, self.record, self.folder, DirectAnalyser())

    async def live(self) -> None:
        """Run the index, and restart it whenever it ends."""
        while not self.done:
            self.lives += 1
            life = asyncio.create_task(self.index.run())
            if (await asyncio.wait({life}, timeout=self.rng.uniform(0.05, 0.6)))[0]:
                life.result()  # nothing ends it but a defect
            life.cancel()
            # In Python 3.11 `asyncio.wait_for`, by which the pool waits for a connection, forgets a
            # cancellation that comes when the connection is there. The daemon's own are repeated
            # until they are heard.
            while not (await asyncio.wait({life}, timeout=1))[0]:
                life.cancel()
            self.index = self._new()
            self.done = (
                asyncio.get_running_loop().time() > self.end
                and self.lives > 2
                and self.compared > 20
            )

    async def trouble(self) -> None:
        while not self.done:
            self.away.share = self.rng.choice((0, 0, 0, 0.05, 0.3))
            await asyncio.sleep(self.rng.uniform(0.005, 0.05))

    async def write(self, number: int) -> None:
        saves = number < WRITERS // 2
        paths = [f"w{number}/f{item}.py" for item in range(2 if saves else FILES)]
        while not self.done:
            selected = self.rng.sample(paths, 1 if saves else self.rng.randrange(1, FILES))
            self.busy.update(selected)
            contents = {path: self._content() for path in selected}
            writes = [
                file_write(path, f"{text}: is here", f"more of {path}")
                for path, text in contents.items()
                if text
            ]
            gone = [path for path, text in contents.items() if text is None]
            generation = await replace_files(self.db, self.record, writes, gone)
            await self._tell(Commit(self.record.name, generation, tuple(selected), urgent=saves))
            self.told |= {path: Told(generation, text) for path, text in contents.items()}
            self.busy.difference_update(selected)
            await asyncio.sleep(self.rng.choice((0, 0, 0.001, 0.01)))

    def _content(self) -> str | None:
        return None if self.rng.random() < 0.15 else f"word{self.rng.randrange(CONTENTS)}"

    async def _tell(self, commit: Commit) -> None:
        """Apply a commit to the current index until that succeeds."""
        while True:
            index = self.index
            with contextlib.suppress(StoreUnavailable):
                await index.apply(commit)
                if index is self.index:
                    return
            await asyncio.sleep(0)

    async def ask(self) -> None:
        while not self.done:
            expected = {path: item for path, item in self.told.items() if path not in self.busy}
            index = self.index
            generation = max((item.generation for item in expected.values()), default=0)
            if (
                await index.wait_for_generation(generation, 0.02)
                and index is self.index
                and (state := await index.snapshot())
            ):
                still = {
                    path: item
                    for path, item in expected.items()
                    if self.told[path] is item and path not in self.busy
                }
                self._compare(state, still)
            await asyncio.sleep(self.rng.choice((0, 0.001)))

    def _compare(self, state: IndexSnapshot, expected: dict[str, Told]) -> None:
        result = contents(state)
        assert sorted(result) == sorted(state.live_documents.paths)
        for path, item in expected.items():
            assert result.get(path) == item.content, (
                path,
                item,
                result.get(path),
                state.generation,
            )
        self.compared += len(expected)

    async def run(self, seconds: float) -> None:
        """Run for so long, and on a slow machine until enough has happened."""
        self.end = asyncio.get_running_loop().time() + seconds
        async with anyio.create_task_group() as tasks:
            for work in (self.live, self.trouble, self.ask, self.ask):
                tasks.start_soon(work)
            for number in range(WRITERS):
                tasks.start_soon(self.write, number)
        self.away.share = 0
        await self.index.catch_up()
        state = await self.index.snapshot()
        assert state is not None
        self._compare(state, self.told)


def contents(state: IndexSnapshot) -> dict[str, str]:
    """Content of each live file, by the words that lead to it.

    Raises `AssertionError` if a path is there twice.
    """
    content_by_path = dict[str, str]()
    for view in state.views:
        paths = view.segment.path_list()
        for number in range(CONTENTS):
            word = f"word{number}"
            (rows,) = view.segment.file_rows(np.array([term_hash(word)], np.uint64))
            for file in view.segment.posting_files[rows].tolist():
                if view.alive is None or view.alive[file]:
                    assert paths[file] not in content_by_path
                    content_by_path[paths[file]] = word
    return content_by_path


def slowly(rng: random.Random) -> Callable[..., Any]:
    """Make an `asyncio.to_thread` that begins and ends after random delays."""
    to_thread = asyncio.to_thread

    async def dawdling(work: Callable[..., T], *arguments: Any) -> T:
        await asyncio.sleep(rng.choice((0, 0, 0.001)))
        try:
            return await to_thread(work, *arguments)
        finally:
            await asyncio.sleep(rng.choice((0, 0, 0.001)))

    return dawdling


@pytest.mark.parametrize(
    ("seed", "seconds"),
    [
        *((seed, 1.5) for seed in (0, 2)),  # with the fewest and the most retired files
        *(pytest.param(seed, 20.0, marks=pytest.mark.slow) for seed in range(10)),
    ],
)
async def test_announced_commits_are_in_the_answers(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, seconds: float
) -> None:
    for name, value in (QUICK | SMALL).items():
        monkeypatch.setattr(lexical_index, name, value)
    monkeypatch.setattr(snapshot_changes, "_RETIRED_FILES", 1 + seed % 3)
    world = World(db, await new_index(db), tmp_path / "words", seed)
    monkeypatch.setattr(
        "cocosearchd.search.lexical.lexical_index.asyncio.to_thread", slowly(world.rng)
    )
    await world.run(seconds)
