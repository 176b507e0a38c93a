"""The rows of a followed index: each change is applied once, and again after a failure."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cocosearchd.errors import NotFound, StoreUnavailable
from cocosearchd.indexes.following import followed_rows
from cocosearchd.indexes.following.followed_rows import FollowedRows
from cocosearchd.model import Commit
from cocosearchd.store.chunks.file_writer import delete_file, replace_file, replace_files
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.read_snapshot import open_snapshot
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.following.followed_registry import paths_of_lengths
from cocosearchd.store.index_records import drop_index, raise_generation
from cocosearchd.store.lineage import LINEAGE, is_same_lineage
from tests.store.support import file_write, new_index


class Recorder:
    """Records commits; fails as often as it is told."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.failures = 0

    async def apply(self, commit: Commit) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("PostgreSQL is away")
        self.commits.append(commit)


async def test_changed_and_removed_files_are_one_commit(db: Database) -> None:
    record = await new_index(db)
    await replace_files(db, record, [file_write(f"{name}.py", f"{name}: 1") for name in "abc"])
    recorder = Recorder()
    rows = FollowedRows(db, record, recorder.apply)
    await rows.start()
    assert (rows.generation, rows.file_count) == (1, 3)
    assert await rows.catch_up() == 1
    assert recorder.commits == []
    await replace_file(db, record, file_write("a.py", "a: 2"))
    await delete_file(db, record, "b.py")
    await replace_file(db, record, file_write("d.py", "d: 1"))
    assert await rows.catch_up() == 4
    (commit,) = recorder.commits
    assert commit.generation == 4
    assert sorted(commit.paths) == ["a.py", "b.py", "d.py"]
    assert rows.file_count == 3
    await delete_file(db, record, "d.py")
    await rows.catch_up()
    assert recorder.commits[1:] == [Commit(record.name, 5, ("d.py",))]


async def test_a_deletion_is_applied_although_its_snapshot_ends_with_an_error(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await new_index(db)
    await replace_files(db, record, [file_write(f"{name}.py", f"{name}: 1") for name in "ab"])
    recorder = Recorder()
    rows = FollowedRows(db, record, recorder.apply)
    await rows.start()
    await delete_file(db, record, "b.py")
    with monkeypatch.context() as patch:
        patch.setattr(followed_rows, "open_snapshot", _failing_snapshot)
        with pytest.raises(StoreUnavailable):
            await rows.catch_up()
    await rows.catch_up()
    assert [commit.paths for commit in recorder.commits] == [("b.py",)]


@asynccontextmanager
async def _failing_snapshot(db: Database) -> AsyncIterator[Database]:
    """A snapshot whose connection is lost at its end."""
    async with open_snapshot(db) as snapshot:
        yield snapshot
    raise StoreUnavailable("PostgreSQL is away")


async def test_a_deletion_reads_only_paths_of_the_same_length(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await new_index(db)
    paths = ["a.py", "é.py", "lib/b.py", "lib/more/c.py"]
    await replace_files(db, record, [file_write(path, f"{path}: 1") for path in paths])
    recorder = Recorder()
    rows = FollowedRows(db, record, recorder.apply)
    await rows.start()
    read_paths = list[frozenset[str]]()

    async def read_and_record(*arguments: Any) -> frozenset[str]:
        read_paths.append(await paths_of_lengths(*arguments))
        return read_paths[-1]

    monkeypatch.setattr(followed_rows, "paths_of_lengths", read_and_record)
    await delete_file(db, record, "é.py")
    await replace_file(db, record, file_write("d.py", "d: 1"))
    await rows.catch_up()
    (commit,) = recorder.commits
    assert sorted(commit.paths) == ["d.py", "é.py"]
    assert read_paths == [{"a.py", "d.py"}]
    assert rows.file_count == 4
    await replace_files(db, record, [], [*paths[2:], "a.py", "d.py"])
    await rows.catch_up()
    assert rows.file_count == 0


async def test_restored_rows_are_not_taken_for_those_that_were_read(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "a: 1"))
    rows = FollowedRows(db, record, Recorder().apply)
    await rows.start()
    files = compose("{files}", record).as_string()
    async with db.connection() as connection:
        await connection.execute(f"create table copy (like {files} including all)")
        await connection.execute(f"drop table {files}")
        await connection.execute(f"alter table copy rename to {files}")
    # the generation of the backup has caught up with that of the rows that were read
    with pytest.raises(NotFound):
        await rows.catch_up()
    assert rows.is_replaced


async def test_another_database_is_not_taken_for_the_one_that_was_read(db: Database) -> None:
    record = await new_index(db)
    rows = FollowedRows(db, record, Recorder().apply)
    await rows.start()
    async with db.connection() as connection:
        await connection.execute("update cocosearch_registry set incarnation = gen_random_uuid()")
    with pytest.raises(NotFound):
        await rows.catch_up()
    assert rows.is_replaced


async def test_rows_that_were_lost_are_not_taken_for_those_that_were_read(db: Database) -> None:
    record = await new_index(db)
    generation = await replace_file(db, record, file_write("a.py", "a: 1"))
    rows = FollowedRows(db, record, Recorder().apply)
    await rows.start()
    # the owner raises the generation before the follower has seen the smaller one
    raised = await raise_generation(db, record, generation)
    assert not is_same_lineage(generation, raised)
    later = await replace_file(db, record, file_write("b.py", "b: 1"))
    assert is_same_lineage(raised, later)
    with pytest.raises(NotFound):
        await rows.catch_up()
    assert rows.is_replaced
    assert await raise_generation(db, record, 0) // LINEAGE == 2


async def test_what_could_not_be_applied_comes_again(db: Database) -> None:
    record = await new_index(db)
    recorder = Recorder()
    rows = FollowedRows(db, record, recorder.apply)
    await rows.start()
    await replace_file(db, record, file_write("a.py", "a: 1"))
    recorder.failures = 1
    with pytest.raises(StoreUnavailable):
        await rows.catch_up()
    assert rows.generation == 0
    await replace_file(db, record, file_write("b.py", "b: 1"))
    assert await rows.catch_up() == 2
    (commit,) = recorder.commits
    assert sorted(commit.paths) == ["a.py", "b.py"]
    await drop_index(db, record)
    with pytest.raises(NotFound):
        await rows.catch_up()
