"""A followed schema: its indexes are added, refused, dropped and read again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import LoadedSettings, Settings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.indexes.change_notifier import ChangeNotifier
from cocosearchd.indexes.commit_feed import CommitFeed
from cocosearchd.indexes.following.chunk_budget import ChunkBudget
from cocosearchd.indexes.following.followed_schema import FollowedSchema, FollowingParts
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import IndexRecord
from cocosearchd.search.lexical.analysis.analyser import ProcessAnalyser
from cocosearchd.search.lexical.catch_up_limiter import CatchUpLimiter
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.following.followed_registry import read_records
from cocosearchd.store.index_records import drop_index
from cocosearchd.store.index_roles import ensure_next_index, promote_index
from tests.store.owner import open_schema
from tests.store.support import DIMENSION, IDENTITY, file_write, new_index
from tests.waiting import until

SCHEMA = "team"
NAME = "code@team"


@pytest.fixture
async def owner(dsn: str, db: Database) -> AsyncIterator[Database]:
    async with open_schema(dsn, db, SCHEMA) as database:
        yield database


@asynccontextmanager
async def following(
    db: Database, folder: Path, limit: int, own_names: tuple[str, ...] = ()
) -> AsyncIterator[tuple[FollowedSchema, dict[str, RunningIndex]]]:
    """Follow the schema as a daemon does, with room for so many chunks."""
    indexes: dict[str, RunningIndex] = {}
    analyser = ProcessAnalyser()
    async with anyio.create_task_group() as tasks:
        parts = FollowingParts(
            db=db,
            loaded=lambda: LoadedSettings(Settings(), {}),
            lexical_dir=folder / "lexical",
            analyser=analyser,
            limiter=CatchUpLimiter(),
            tasks=tasks,
            commits=CommitFeed(),
            notifier=ChangeNotifier(),
            budget=ChunkBudget(limit),
            is_taken=own_names.__contains__,
            note_removal=lambda: None,
        )
        schema = FollowedSchema(SCHEMA, parts, indexes)
        tasks.start_soon(schema.run)
        yield schema, indexes
        tasks.cancel_scope.cancel()
    await analyser.pool.aclose()


async def fill(owner: Database) -> IndexRecord:
    record = await new_index(owner)
    await replace_file(owner, record, file_write("a.py", "first: 1", "second: 2", "third: 3"))
    return record


async def test_an_index_that_does_not_fit_is_listed_with_the_reason(
    db: Database, owner: Database, tmp_path: Path
) -> None:
    record = await fill(owner)
    async with following(db, tmp_path, limit=2) as (_, indexes):
        await until(lambda: NAME in indexes and indexes[NAME].error is not None)
        error = indexes[NAME].error
        assert error is not None
        assert "code@team has 3 chunks" in error.message
        assert not indexes[NAME].lexical.warm
        # its owner removes what was too much
        await replace_file(owner, record, file_write("a.py", "first: 1"))
        await until(lambda: indexes[NAME].error is None and indexes[NAME].lexical.warm)


async def test_the_name_of_an_own_index_is_its_own(
    db: Database, owner: Database, tmp_path: Path
) -> None:
    await fill(owner)
    async with following(db, tmp_path, 1000, own_names=(NAME,)) as (schema, indexes):
        await until(lambda: bool(schema.warnings))
        assert "there is another index code@team" in schema.warnings[0]
        assert indexes == {}


async def test_another_life_of_an_index_is_read_anew(
    db: Database, owner: Database, tmp_path: Path
) -> None:
    record = await fill(owner)
    async with following(db, tmp_path, 1000) as (_, indexes):
        await until(lambda: NAME in indexes and indexes[NAME].lexical.warm)
        first = indexes[NAME]
        assert first.lexical.sizes()["chunks"] == 3
        assert (first.record.generation, first.record.schema) == (1, SCHEMA)
        identity = replace(IDENTITY, chunker="definitions-2")
        successor = await ensure_next_index(owner, record, DIMENSION, identity)
        await replace_file(owner, successor, file_write("b.py", "other: 1"))
        await promote_index(owner, record, successor)
        await until(lambda: indexes.get(NAME, first) is not first and indexes[NAME].lexical.warm)
        second = indexes[NAME]
        assert second.record.number == successor.number
        assert second.lexical.sizes()["chunks"] == 1
        assert first.lexical.sizes()["chunks"] == 0, "its memory is returned"
        # a database that was restored from a backup is behind what was read
        async with owner.connection() as connection:
            await connection.execute("update cocosearch_indexes set generation = 1")
        await until(lambda: indexes.get(NAME, second) is not second)
        await drop_index(owner, replace(second.record, name="code", schema=""))
        await until(lambda: NAME not in indexes)


async def test_another_server_that_comes_back_is_read_anew(
    db: Database, owner: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables may have the same names and numbers, and its generation may be as high."""
    await fill(owner)
    is_away = False

    async def read_unless_away(database: Database, schema: str) -> tuple[IndexRecord, ...]:
        if is_away:
            raise StoreUnavailable("the server is away")
        return await read_records(database, schema)

    monkeypatch.setattr(
        "cocosearchd.indexes.following.followed_schema.read_records", read_unless_away
    )
    async with following(db, tmp_path, 1000) as (schema, indexes):
        await until(lambda: NAME in indexes and indexes[NAME].lexical.warm)
        first = indexes[NAME]
        is_away = True
        await until(lambda: schema._registry is None)
        async with owner.connection() as connection:
            await connection.execute(
                "update cocosearch_registry set incarnation = gen_random_uuid()"
            )
        is_away = False
        await until(lambda: indexes.get(NAME, first) is not first and indexes[NAME].lexical.warm)
