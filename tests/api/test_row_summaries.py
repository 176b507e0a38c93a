"""Summaries of rows for `status`: read once for each state of an index, a few indexes at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import anyio
import pytest

from cocosearchd.api.row_summaries import READ_TOGETHER, RowSummaries
from cocosearchd.errors import StoreUnavailable
from cocosearchd.graph.code_graph import CodeGraph
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Connection, Database, LivenessCheck
from cocosearchd.store.index_records import Counts
from cocosearchd.store.precise_use_rows import PreciseUseRow, replace_precise_uses
from cocosearchd.store.reads.file_states import file_states
from cocosearchd.store.row_summary import RowSummary
from cocosearchd.watching.watched_root import WatchedRoot
from tests.store.support import file_write, new_index

pytestmark = pytest.mark.anyio
RECORD = IndexRecord(1, "shop", "shop", b"/shop", (), 8, IndexIdentity((), "", 0), 0)
MANY = 3 * READ_TOGETHER


def running(record: IndexRecord = RECORD) -> RunningIndex:
    """Make an index without a root, a lexical index and a graph: no summary uses them."""
    root = cast(WatchedRoot, SimpleNamespace(threads=None))
    lexical, graph = cast(LexicalIndex, None), cast(CodeGraph, None)
    return RunningIndex(record, root, lexical, graph, anyio.CancelScope())


class CountedDatabase(Database):
    """A database that another one stands behind, and that counts its connections.

    They wait for `opened`; without a database behind it, PostgreSQL is away.
    """

    def __init__(self, behind: Database | None = None) -> None:
        self._liveness = LivenessCheck()
        self._behind = behind
        self.opened = asyncio.Event()
        self.opened.set()
        self.connections = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        self.connections += 1
        await self.opened.wait()
        if self._behind is None:
            raise StoreUnavailable("PostgreSQL is away")
        async with self._behind.connection() as connection:
            yield connection


class FailsOnce(CountedDatabase):
    """A database that does not answer its first connection."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if not self.connections:
            self.connections = 1
            raise StoreUnavailable("PostgreSQL does not answer")
        async with super().connection() as connection:
            yield connection


async def test_a_summary_is_read_again_only_after_a_change(db: Database) -> None:
    record = await new_index(db)
    counted = CountedDatabase(db)
    index, summaries = running(record), RowSummaries(counted)
    assert (await summaries.read(index)).counts == Counts(0, 0)
    connections = counted.connections
    assert (await summaries.read(index)).counts == Counts(0, 0)
    assert counted.connections == connections, "nothing has changed"

    generation = await replace_file(db, record, file_write("a.py", "text"))
    index.record = replace(record, generation=generation)
    assert (await summaries.read(index)).counts == Counts(1, 1)

    (state,) = (await file_states(db, record, ["a.py"])).files.values()
    await replace_precise_uses(db, record, [PreciseUseRow("a.py", state.content_hash, b"uses")])
    index.use_imports += 1
    assert (await summaries.read(index)).precise == (1, 0)


async def test_a_summary_that_was_overtaken_is_not_kept(db: Database) -> None:
    """A commit and an import may come while it is read."""
    record = await new_index(db)
    counted = CountedDatabase(db)
    counted.opened.clear()
    index, summaries = running(record), RowSummaries(counted)
    reading = asyncio.create_task(summaries.read(index))
    while not counted.connections:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    index.use_imports += 1
    counted.opened.set()
    await reading
    assert index.row_summary is None


async def test_a_followed_index_is_read_each_time(db: Database) -> None:
    """Its owner imports precise uses without a new generation."""
    index = running(replace(await new_index(db), schema="team"))
    index.keep_row_summary(RowSummary(), index.rows_moment)
    assert index.row_summary is None


async def test_few_indexes_are_read_at_a_time() -> None:
    """The time of a read begins with it: the last of many reads at once would be out of time."""
    away = CountedDatabase()
    away.opened.clear()
    summaries = RowSummaries(away)
    reading = [asyncio.create_task(summaries.read(running())) for _ in range(MANY)]
    for _ in range(MANY):
        await asyncio.sleep(0)
    assert away.connections == READ_TOGETHER

    away.opened.set()
    assert {(await summary).counts for summary in reading} == {Counts(-1, -1)}
    connections = away.connections
    assert connections < MANY, "the others have waited, and PostgreSQL was away"
    await summaries.read(running())
    assert away.connections == connections + 1, "a later question asks again"


async def test_a_read_that_fails_alone_is_no_reason_to_give_up(db: Database) -> None:
    """On a busy machine one of many may take too long."""
    record = await new_index(db)
    summaries = RowSummaries(FailsOnce(db))
    reading = [asyncio.create_task(summaries.read(running(record))) for _ in range(MANY)]
    counts = [(await summary).counts for summary in reading]
    assert counts.count(Counts(-1, -1)) == 1
    assert counts.count(Counts(0, 0)) == MANY - 1
