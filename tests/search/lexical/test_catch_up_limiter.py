"""CatchUpLimiter: few lexical indexes read PostgreSQL at once; those that questions need are first"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.search.lexical import lexical_index
from cocosearchd.search.lexical.catch_up_limiter import CatchUpLimiter
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Connection, Database
from tests.search.lexical.direct import DirectAnalyser
from tests.store.support import file_write, new_index
from tests.waiting import until

pytestmark = pytest.mark.anyio

INDEXES = 6
RUNNING = 2
RESERVED = 1


class Server:
    """State of a server that can be away, or hold each reader until it is told to answer."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.answers.set()
        self.away = False
        self.reading = list[int]()  # numbers of the indexes that read now
        self.begun = list[int]()  # numbers of all that began to read
        self.most = 0  # reads at a time


class WatchedDatabase(Database):
    """Database of one index, which records when the index reads."""

    def __init__(self, db: Database, server: Server, number: int) -> None:
        self._db = db
        self._server = server
        self._number = number
        self._long_work = asyncio.Semaphore(INDEXES)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        server = self._server
        server.reading.append(self._number)
        server.begun.append(self._number)
        server.most = max(server.most, len(server.reading))
        try:
            await server.answers.wait()
            if server.away:
                raise StoreUnavailable("PostgreSQL does not answer", "wait for it")
            async with self._db.connection() as connection:
                yield connection
        finally:
            server.reading.remove(self._number)


class World:
    """Cold lexical indexes of the same rows, which share a limiter and a server."""

    def __init__(self, db: Database, record: IndexRecord, folder: Path) -> None:
        self.db = db
        self.record = record
        self.server = Server()
        self._folder = folder
        self._limiter = CatchUpLimiter(RUNNING, RESERVED)
        self.indexes = [self.make_index(number) for number in range(INDEXES)]

    def make_index(self, number: int) -> LexicalIndex:
        return LexicalIndex(
            WatchedDatabase(self.db, self.server, number),
            self.record,
            self._folder / str(number),
            DirectAnalyser(),
            self._limiter,
        )

    async def write(self, path: str) -> Commit:
        generation = await replace_file(self.db, self.record, file_write(path, "alpha: a text"))
        return Commit(self.record.name, generation, (path,))

    async def fall_behind(self) -> Commit:
        """Commit a file that no index can apply. Those that read again wait for the answer."""
        commit = await self.write("b.py")
        self.server.away = True
        for index in self.indexes:
            with pytest.raises(StoreUnavailable):
                await index.apply(commit)
        self.server.answers.clear()
        await until(lambda: len(self.server.reading) >= RUNNING)
        return commit


@pytest.fixture
async def world(db: Database, tmp_path: Path) -> World:
    return World(db, await new_index(db), tmp_path)


@asynccontextmanager
async def run_all(indexes: list[LexicalIndex]) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        for index in indexes:
            tasks.start_soon(index.run)
        yield
        tasks.cancel_scope.cancel()


async def reach(indexes: list[LexicalIndex], commit: Commit) -> None:
    await until(lambda: all(index.generation >= commit.generation for index in indexes))


async def test_few_cold_indexes_read_at_once(world: World) -> None:
    commit = await world.write("a.py")
    world.server.answers.clear()
    async with run_all(world.indexes):
        await anyio.wait_all_tasks_blocked()
        assert world.server.reading == [0, 1]
        world.server.answers.set()
        await reach(world.indexes, commit)
        assert world.server.most == RUNNING


async def test_an_index_that_a_question_needs_does_not_wait_for_others(world: World) -> None:
    commit = await world.write("a.py")
    world.server.answers.clear()
    async with run_all(world.indexes):
        await anyio.wait_all_tasks_blocked()
        assert not await world.indexes[4].wait_for_generation(commit.generation, 0)
        await anyio.wait_all_tasks_blocked()
        assert world.server.reading == [0, 1, 4]


@asynccontextmanager
async def run_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Commit]:
    """Run all indexes, and yield a commit that they lack after an outage."""
    monkeypatch.setattr(lexical_index, "_RETRY_S", (0.0,))
    first = await world.write("a.py")
    async with run_all(world.indexes):
        await reach(world.indexes, first)
        yield await world.fall_behind()


async def test_few_indexes_read_at_once_after_an_outage(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world.server
    async with run_behind(world, monkeypatch) as commit:
        server.most = 0
        server.away = False
        server.answers.set()
        await reach(world.indexes, commit)
        assert server.most == RUNNING


async def test_a_question_moves_an_index_up_that_is_behind_after_an_outage(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world.server
    async with run_behind(world, monkeypatch) as commit:
        number = next(n for n in range(INDEXES) if n not in server.reading)
        index = world.indexes[number]

        async def ask_until_it_reads() -> None:
            while number not in server.reading:
                assert not await index.wait_for_generation(commit.generation, 0.01)

        with anyio.fail_after(120):
            await ask_until_it_reads()
        assert len(server.reading) == RUNNING + RESERVED


async def test_a_failed_catch_up_frees_its_slot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_index, "_RETRY_S", (3600.0,))
    world.server.away = True
    async with run_all(world.indexes):
        await until(lambda: world.server.begun == [*range(INDEXES)])


class Holders:
    """Tasks that each take a slot and hold it until they are told to end."""

    def __init__(self, tasks: anyio.abc.TaskGroup, limiter: CatchUpLimiter) -> None:
        self.admitted = list[str]()
        self._tasks = tasks
        self._limiter = limiter
        self._scopes = dict[str, anyio.CancelScope]()
        self._ends = dict[str, anyio.Event]()

    async def start(self, *keys: str) -> None:
        for key in keys:
            self._scopes[key] = anyio.CancelScope()
            self._ends[key] = anyio.Event()
            self._tasks.start_soon(self._hold, key)
        await anyio.wait_all_tasks_blocked()

    async def _hold(self, key: str) -> None:
        with self._scopes[key]:
            async with self._limiter.slot(key):
                self.admitted.append(key)
                await self._ends[key].wait()

    def cancel(self, key: str) -> None:
        self._scopes[key].cancel()

    async def end(self, *keys: str) -> None:
        for key in keys:
            self._ends[key].set()
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def open_holders(
    running: int = RUNNING, reserved: int = RESERVED
) -> AsyncIterator[tuple[CatchUpLimiter, Holders]]:
    limiter = CatchUpLimiter(running, reserved)
    async with anyio.create_task_group() as tasks:
        yield limiter, Holders(tasks, limiter)
        tasks.cancel_scope.cancel()


async def test_preferred_catch_ups_go_first_in_their_order() -> None:
    async with open_holders() as (limiter, holders):
        await holders.start("a", "b", "c", "d", "e", "f")
        assert holders.admitted == ["a", "b"]
        for key in ("e", "d", "f", "a", "unknown"):
            limiter.prefer(key)
        await anyio.wait_all_tasks_blocked()
        assert holders.admitted == ["a", "b", "e"]
        await holders.end("a")
        assert holders.admitted == ["a", "b", "e", "d"]
        await holders.end("b")
        assert holders.admitted == ["a", "b", "e", "d", "f"]
        await holders.end("e")  # the others take all slots but the reserved one
        assert "c" not in holders.admitted
        await holders.end("d")
        assert holders.admitted[-1] == "c"


async def test_a_cancelled_catch_up_frees_its_slot() -> None:
    async with open_holders() as (_, holders):
        await holders.start("a", "b", "c", "d")
        holders.cancel("a")
        await anyio.wait_all_tasks_blocked()
        assert holders.admitted == ["a", "b", "c"]


@pytest.mark.parametrize("is_preferred", [False, True])
async def test_a_cancelled_catch_up_leaves_the_queue(is_preferred: bool) -> None:
    async with open_holders(1, 0) as (limiter, holders):
        await holders.start("a", "b", "c")
        if is_preferred:
            limiter.prefer("b")
        holders.cancel("b")
        await anyio.wait_all_tasks_blocked()
        await holders.end("a")
        assert holders.admitted == ["a", "c"]


async def test_a_slot_that_a_cancelled_catch_up_got_goes_to_the_next() -> None:
    """It is admitted, and cancelled before its task runs again."""
    limiter = CatchUpLimiter(1, 0)
    admitted = list[str]()

    async def hold(key: str) -> None:
        async with limiter.slot(key):
            admitted.append(key)
            await anyio.sleep_forever()

    async with limiter.slot("a"):
        tasks = [asyncio.create_task(hold(key)) for key in ("b", "c")]
        await anyio.wait_all_tasks_blocked()
    tasks[0].cancel()
    await anyio.wait_all_tasks_blocked()
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert admitted == ["c"]
