"""Requests whose client gives up: their work is done completely or not begun."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Connection, Database, LivenessCheck
from tests.indexes.test_config_sync import shop

pytestmark = pytest.mark.anyio


class Away(Database):
    """PostgreSQL that does not answer: the one of the tests is shared, and cannot be ended."""

    def __init__(self) -> None:
        self._liveness = LivenessCheck()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        raise StoreUnavailable("PostgreSQL does not answer")
        yield  # type: ignore[unreachable] # which makes it what it is


async def given_up(work: Coroutine[Any, Any, object], begun: anyio.Event) -> None:
    """Cancel a request as soon as its work has begun, as a client does by going."""
    request = asyncio.create_task(work)
    await begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request


async def test_settings_that_a_question_noticed_are_followed_when_nobody_waits_for_it(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop(dsn, tmp_path) as bench:
        begun, configure = anyio.Event(), bench.index.own_root.configure

        async def slow(indexing: IndexingSettings) -> None:
            begun.set()
            await anyio.sleep(0.01)
            await configure(indexing)

        monkeypatch.setattr(bench.index.own_root, "configure", slow)
        bench.project("indexing: {exclude: [gen/]}")
        await given_up(bench.indexes.refresh(bench.index), begun)
        await bench.touched()
        assert await bench.files() == {"src/a.py", "src/b.go"}


async def test_an_index_that_is_being_cleared_is_gone_when_nobody_waits_for_it(
    dsn: str, tmp_path: Path
) -> None:
    async with shop(dsn, tmp_path) as bench:
        root, begun = bench.index.record.root, anyio.Event()
        lexical, discard = bench.index.lexical, bench.index.lexical.delete

        async def slow() -> None:
            begun.set()
            await anyio.sleep(0.01)
            await discard()

        lexical.delete = slow  # type: ignore[method-assign]
        await given_up(bench.indexes.remove(bench.index.record.name), begun)
        _, created = await bench.indexes.add(root, None, ())
        assert created
        assert [record.root for record in await index_records.list_indexes(bench.db)] == [root]


async def test_a_new_index_runs_when_nobody_waits_for_it(dsn: str, tmp_path: Path) -> None:
    async with shop(dsn, tmp_path) as bench:
        (tmp_path / "other").mkdir()
        other_index, begun, lacking = (
            os.fsencode(tmp_path / "other"),
            anyio.Event(),
            index_records.count_outdated_chunks,
        )

        async def slow(db: Database, record: Any) -> int:
            begun.set()
            await anyio.sleep(0.01)
            return await lacking(db, record)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index_records, "count_outdated_chunks", slow)
            await given_up(bench.indexes.add(other_index, None, ()), begun)
        index, created = await bench.indexes.add(other_index, None, ())
        assert (index.record.name, created) == ("other", False)


async def test_an_index_that_cannot_be_cleared_now_goes_on(dsn: str, tmp_path: Path) -> None:
    async with shop(dsn, tmp_path) as bench:
        index = bench.index
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bench.indexes, "_db", Away())
            with pytest.raises(StoreUnavailable):
                await bench.indexes.remove(index.record.name)
        assert bench.index is index
        (bench.root / "src/b.go").write_text("package b\n")
        assert await bench.touched() == {"src/b.go"}
