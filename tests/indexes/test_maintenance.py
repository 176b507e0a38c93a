"""Periodic maintenance of the tables of a running index."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import anyio
import pytest

from cocosearchd.config.settings import Profile, SearchEngine, Settings
from cocosearchd.indexes import maintenance
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import IndexRecord
from cocosearchd.sandbox.worker_process import WorkerUnavailable
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.chunks.vector_index import ensure_vector_index
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose, statement
from cocosearchd.store.words.words_table import drop_words, fill_words, read_words_state
from tests.store.support import file_write, new_index, retained_texts, split_texts, stored_words
from tests.waiting import until

pytestmark = pytest.mark.anyio


@dataclass
class Running:
    """The part of a running index that maintenance reads: a real one is a root, a lexical index and
    a daemon.
    """

    record: IndexRecord
    settings: Settings = field(default_factory=Settings)
    classic_use: anyio.Event = field(default_factory=anyio.Event)
    is_filling_words: bool = False

    def configure(self, profile: Profile, engine: SearchEngine) -> None:
        """Change settings of searches, as a project's file does."""
        search = replace(self.settings.search, profile=profile, engine=engine)
        self.settings = replace(self.settings, search=search)


async def until_retained(db: Database, record: IndexRecord, expected: list[str]) -> None:
    with anyio.fail_after(60):
        while await retained_texts(db, record) != expected:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.01)


async def test_old_rows_are_dropped_after_changes_and_at_rest(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "CLEARING_INTERVAL_S", 0.02)
    monkeypatch.setattr(maintenance, "CLEARING_INTERVAL_AT_REST_S", 3600.0)
    record = await new_index(db)
    index = Running(record)
    looks = list[int]()

    async def drop_and_note(db: Database, record: IndexRecord) -> int:
        dropped = await drop_retained_chunks(db, record)
        looks.append(dropped)
        return dropped

    monkeypatch.setattr(maintenance, "drop_retained_chunks", drop_and_note)
    old = compose("update {retained_chunks} set since = now() - interval '4 days'", record)

    async def saved(number: int) -> None:
        await replace_file(db, record, file_write("a.py", "one: 1", f"two: {number}"))

    async with anyio.create_task_group() as tasks, db.connection() as connection:
        tasks.start_soon(maintenance.keep_retained_chunks_bounded, db, cast(RunningIndex, index))
        await saved(1)
        await saved(2)
        await until(lambda: len(looks) == 1)
        index.record = replace(record, generation=record.generation + 1)  # as a commit is told
        await until(lambda: len(looks) == 2)
        assert await retained_texts(db, record) == ["two: 1"], "it is young"
        await connection.execute(old)
        index.record = replace(record, generation=record.generation + 2)
        await until(lambda: len(looks) == 3)
        assert await retained_texts(db, record) == []
        await saved(3)
        await connection.execute(old)
        await anyio.sleep(0.1)
        assert await retained_texts(db, record) == ["two: 2"], (
            "nothing has been told, so nothing is looked at"
        )
        monkeypatch.setattr(maintenance, "CLEARING_INTERVAL_AT_REST_S", 0.0)
        await until_retained(db, record, [])
        tasks.cancel_scope.cancel()


async def test_the_vector_index_follows_the_profile(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made, or dropped again, when the project's file says another profile, without a restart or a
    save.
    """
    monkeypatch.setattr(maintenance, "QUIET_S", 0.02)
    monkeypatch.setattr(maintenance, "CLEARING_INTERVAL_S", 0.02)
    monkeypatch.setattr(
        maintenance, "ensure_vector_index", partial(ensure_vector_index, build_at=1, drop_below=1)
    )
    index = Running(await new_index(db))
    await replace_file(db, index.record, file_write("a.py", "one: 1", "two: 2"))

    async def until_there(expected: bool) -> None:
        with anyio.fail_after(60):
            async with db.connection() as connection:
                state = None
                while state != (expected,):
                    await anyio.sleep(0.01)
                    state = await (
                        await connection.execute(statement("has_vector_index", index.record))
                    ).fetchone()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(maintenance.keep_vector_index, db, cast(RunningIndex, index))
        index.configure("classic", "memory")
        await until_there(True)
        index.configure("code", "memory")
        await until_there(False)
        index.configure("code", "postgresql")
        await until_there(True)
        index.configure("code", "memory")
        await until_there(False)
        tasks.cancel_scope.cancel()


async def test_a_vector_index_is_dropped_once_a_build_of_a_killed_daemon_has_ended(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pauses(monkeypatch, 0.02)
    index = Running(await new_index(db))
    await replace_file(db, index.record, file_write("a.py", "one: 1"))
    await ensure_vector_index(db, index.record, build_at=1, drop_below=1)
    async with (
        db.session({}) as builder,
        db.connection() as connection,
        anyio.create_task_group() as tasks,
    ):
        await builder.execute(statement("lock_vectors_maintenance", index.record))
        tasks.start_soon(maintenance.keep_vector_index, db, cast(RunningIndex, index))
        await anyio.sleep(0.5)  # several tries
        await builder.execute(statement("unlock_vectors_maintenance", index.record))
        with anyio.fail_after(60):
            state = None
            while state != (False,):
                await anyio.sleep(0.01)
                query = statement("has_vector_index", index.record)
                state = await (await connection.execute(query)).fetchone()
        tasks.cancel_scope.cancel()


async def until_words(db: Database, record: IndexRecord, expected: str) -> None:
    with anyio.fail_after(60):
        async with db.connection() as connection:
            while await read_words_state(connection, record) != expected:  # noqa: ASYNC110
                await anyio.sleep(0.01)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    set_pauses(monkeypatch, 0.02)
    monkeypatch.setattr(maintenance, "drop_words", partial(drop_words, grace_s=0.0))


def set_pauses(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(maintenance, "QUIET_S", seconds)
    monkeypatch.setattr(maintenance, "CLEARING_INTERVAL_S", seconds)


@pytest.mark.usefixtures("quick")
async def test_words_follow_the_settings(db: Database) -> None:
    """Stored, and dropped again at once, without a restart or a save."""
    index = Running(await new_index(db))
    await replace_file(db, index.record, file_write("a.py", "one: 1", "two: 2"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(maintenance.keep_words, db, cast(RunningIndex, index), split_texts)
        await anyio.sleep(0.2)
        await until_words(db, index.record, "none")
        index.configure("code", "postgresql")
        await until_words(db, index.record, "complete")
        assert len(await stored_words(db, index.record)) == 2
        index.configure("code", "memory")
        await until_words(db, index.record, "none")
        index.configure("classic", "memory")
        await until_words(db, index.record, "complete")
        tasks.cancel_scope.cancel()
    assert not index.is_filling_words


@pytest.mark.usefixtures("quick")
async def test_words_are_stored_at_the_first_use_and_dropped_when_it_is_long_ago(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Running(await new_index(db))
    await replace_file(db, index.record, file_write("a.py", "one: 1"))
    set_pauses(monkeypatch, 3600.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(maintenance.keep_words, db, cast(RunningIndex, index), split_texts)
        index.classic_use.set()
        await until_words(db, index.record, "complete")
        tasks.cancel_scope.cancel()
    set_pauses(monkeypatch, 0.02)
    async with anyio.create_task_group() as tasks:  # like after a restart
        tasks.start_soon(maintenance.keep_words, db, cast(RunningIndex, index), split_texts)
        await anyio.sleep(0.2)
        await until_words(db, index.record, "complete")
        tasks.cancel_scope.cancel()
    monkeypatch.setattr(maintenance, "UNUSED_S", 0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(maintenance.keep_words, db, cast(RunningIndex, index), split_texts)
        await until_words(db, index.record, "none")
        tasks.cancel_scope.cancel()


@pytest.mark.usefixtures("quick")
async def test_an_interrupted_fill_goes_on_after_a_restart(db: Database) -> None:
    index = Running(await new_index(db))
    await replace_file(db, index.record, file_write("a.py", "one: 1"))

    async def ended(texts: Sequence[str]) -> list[str]:
        raise WorkerUnavailable("no process", "wait")

    with pytest.raises(WorkerUnavailable):
        await fill_words(db, index.record, ended)
    await until_words(db, index.record, "filling")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(maintenance.keep_words, db, cast(RunningIndex, index), split_texts)
        await until_words(db, index.record, "complete")
        tasks.cancel_scope.cancel()
