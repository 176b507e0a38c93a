"""A transaction that has begun ends in spite of a cancellation; one that has not begun is never
written.

What was announced is waited for, but not for ever.
"""

import asyncio
from collections.abc import Callable, Sequence

import anyio
import pytest
from psycopg import sql

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import NotFound, StoreUnavailable
from cocosearchd.indexing.indexer import transaction_group
from cocosearchd.indexing.indexer.row_target import FileTarget, WantedFile
from cocosearchd.indexing.indexer.transaction_group import GROUP_FILES, GroupWriter
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.model import IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.chunks.manifest import StoredFile
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Connection, Database
from tests.store.support import file_write, fingerprint, new_index, stored_contents

pytestmark = pytest.mark.anyio

FAILING = {"raises.py", "says.py"}


async def stored(db: Database, record: IndexRecord) -> set[str]:
    return {file.path for file in await index_records.file_records(db, record)}


async def as_is(
    sources: Sequence[FileWrite], stored: Sequence[StoredFile] | None, *, urgent: bool
) -> Sequence[FileWrite]:
    """Makes of a file what the test has made of it."""
    del stored, urgent
    return sources


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)


async def hold(connection: Connection, record: IndexRecord) -> None:
    """Let nothing of the index be committed until the connection's transaction ends."""
    query = sql.SQL("select 1 from cocosearch_indexes where number = {} for update").format(
        record.number
    )
    await connection.execute(query)


async def until_blocked(db: Database) -> None:
    """Wait until a statement of the database waits for the lock of another."""
    query = (
        "select exists (select from pg_stat_activity"
        " where datname = current_database() and wait_event_type = 'Lock')"
    )
    async with db.connection() as connection:
        blocked = False
        while not blocked:
            row = await (await connection.execute(query)).fetchone()
            blocked = row == (True,)


@pytest.mark.parametrize("urgent", [False, True])
async def test_a_write_cancelled_in_progress_is_waited_for(db: Database, urgent: bool) -> None:
    record = await new_index(db)
    writer = GroupWriter(db, record, WorkPriority(), as_is)
    async with db.connection() as connection:
        async with connection.transaction():
            await hold(connection, record)
            given_up = asyncio.create_task(
                writer.apply("a.py", file_write("a.py", "one"), urgent=urgent)
            )
            await until(lambda: "a.py" in writer._in_flight)
            given_up.cancel()
            with anyio.move_on_after(0.1) as early:
                await writer.wait_ended(["a.py"])
            assert early.cancelled_caught
            await writer.wait_ended(["b.py"])  # of which nothing is under way
        with anyio.fail_after(60):
            await writer.wait_ended(["a.py"])
    assert await stored(db, record) == {"a.py"}
    assert not writer._in_flight


async def test_a_reopened_index_waits_for_writes_of_before(
    db: Database, target: FileTarget
) -> None:
    """A late one would put older rows over newer ones. What had not begun is never written."""
    record = await new_index(db)
    newer = asyncio.Event()

    async def make(
        sources: Sequence[SourceFile], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[FileWrite]:
        del stored, urgent
        if sources[0].path == "late.py":
            await newer.wait()
        return [file_write(source.path, source.data.decode()) for source in sources]

    def apply(path: str, text: str) -> asyncio.Task[int]:
        source = SourceFile(path, text.encode(), fingerprint(), text.encode())
        declared = WantedFile(source, (source.content_hash, 0, b""))
        return asyncio.create_task(target.apply(record.number, path, declared))

    target.open(db, record, make)
    async with db.connection() as connection:
        async with connection.transaction():
            await hold(connection, record)
            older = [apply("a.py", "older"), apply("late.py", "older")]
            with target.mark_urgent(record.number, ["a.py", "late.py"]):
                await until_blocked(db)
            older[0].cancel()
            target.close(record.number)
            target.open(db, record, make)
            with anyio.move_on_after(0.1) as early:
                await target.wait_ended(record.number, ["a.py"])
            assert early.cancelled_caught
        with anyio.fail_after(60):
            await target.wait_ended(record.number, ["a.py", "late.py"])
    newer.set()
    await apply("a.py", "newer")
    with pytest.raises(NotFound):
        await older[1]
    rows = await stored_contents(db, record, "{live}")
    assert [(path, text) for path, _, text, _ in rows] == [("a.py", "newer")]


@pytest.mark.parametrize("when", ["waits", "is made", "waits to be written"])
async def test_a_write_cancelled_before_its_turn_is_not_written(db: Database, when: str) -> None:
    """One file is being written while the next two come; the second is given up while it does
    `when`.
    """
    record, calls, began, go_on = await new_index(db), list[str](), asyncio.Event(), asyncio.Event()

    async def make(
        sources: Sequence[FileWrite], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[FileWrite]:
        began.set()
        await go_on.wait()
        calls.extend(source.path for source in sources)
        return await as_is(sources, stored, urgent=urgent)

    writer = GroupWriter(db, record, WorkPriority(), make)

    def apply(path: str) -> asyncio.Task[int]:
        return asyncio.create_task(writer.apply(path, file_write(path, "one"), urgent=False))

    async with db.connection() as connection, connection.transaction():
        await hold(connection, record)
        go_on.set()
        first = apply("a.py")
        await until(lambda: "a.py" in writer._in_flight)
        began.clear()
        go_on.clear()
        given_up, last = apply("b.py"), apply("c.py")
        await until(lambda: len(writer._waiting) == 2)
        if when == "waits":
            given_up.cancel()
        await began.wait()
        if when == "is made":
            given_up.cancel()
        go_on.set()
        await until(lambda: "c.py" in calls)
        assert ("b.py" in calls) == (when != "waits")
        given_up.cancel()
    await first
    await last
    assert await stored(db, record) == {"a.py", "c.py"}


async def test_a_file_that_cannot_be_made_fails_alone(db: Database) -> None:
    """The error names the file, or concerns all files together."""
    record = await new_index(db)

    async def make(
        sources: Sequence[FileWrite], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[FileWrite | Exception]:
        if any(source.path == "raises.py" for source in sources):
            raise ValueError("raised")
        writes = await as_is(sources, stored, urgent=urgent)
        return [ValueError("said") if write.path == "says.py" else write for write in writes]

    writer = GroupWriter(db, record, WorkPriority(), make)
    for paths in (
        ["a.py", "says.py", "b.py"],
        ["c.py", "raises.py", "d.py"],
        ["says.py"],
        ["raises.py"],
    ):
        for urgent in (False, True):
            work = [
                writer.apply(path, file_write(path, f"{urgent}"), urgent=urgent) for path in paths
            ]
            ended = await asyncio.gather(*work, return_exceptions=True)
            assert [isinstance(outcome, ValueError) for outcome in ended] == [
                path in FAILING for path in paths
            ]
    assert await stored(db, record) == {"a.py", "b.py", "c.py", "d.py"}


async def test_nothing_is_made_while_it_is_not_known_what_is_stored(db: Database, dsn: str) -> None:
    """PostgreSQL does not answer: that is no file's error, so the files are not tried one by
    one.
    """
    record, calls = await new_index(db), list[str]()

    async def make(
        sources: Sequence[FileWrite], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[FileWrite]:
        calls.extend(source.path for source in sources)
        return await as_is(sources, stored, urgent=urgent)

    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=1)) as closed:
        pass
    writer = GroupWriter(closed, record, WorkPriority(), make)
    work = [writer.apply(path, file_write(path, "one"), urgent=False) for path in ("a.py", "b.py")]
    ended = await asyncio.gather(*work, return_exceptions=True)
    assert [type(outcome) for outcome in ended] == [StoreUnavailable] * 2
    assert not calls


async def test_many_chunks_are_not_one_transaction(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_group, "GROUP_CHUNKS", 3)
    record = await new_index(db)
    writer, paths = (
        GroupWriter(db, record, WorkPriority(), as_is),
        [f"{number}.py" for number in range(7)],
    )
    work = [writer.apply(path, file_write(path, path), urgent=False) for path in paths]
    assert await asyncio.gather(*work) == [1, 1, 1, 2, 2, 2, 3]


async def test_expected_files_share_a_transaction(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_group, "LINGER_S", 3600.0)
    record = await new_index(db)
    writer, paths = (
        GroupWriter(db, record, WorkPriority(), as_is),
        [f"{number}.py" for number in range(5)],
    )
    writer.expect([*paths, "unchanged.py"])

    async def late(number: int, path: str) -> int:
        await asyncio.sleep(0.002 * number)
        return await writer.apply(path, file_write(path, path), urgent=False)

    work = [asyncio.create_task(late(number, path)) for number, path in enumerate(paths)]
    await asyncio.sleep(0.02)
    assert await writer.apply("saved.py", file_write("saved.py", "one"), urgent=True) == 1
    writer.expect_no_more("unchanged.py")
    assert await asyncio.gather(*work) == [2] * 5


async def test_files_that_do_not_come_are_not_waited_for(db: Database) -> None:
    record = await new_index(db)
    writer = GroupWriter(db, record, WorkPriority(), as_is)
    writer.expect(["a.py", "never.py"])
    with anyio.fail_after(60):
        assert await writer.apply("a.py", file_write("a.py", "one"), urgent=False) == 1


async def test_a_full_group_waits_for_nothing(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_group, "LINGER_S", 3600.0)
    record = await new_index(db)
    writer, paths = (
        GroupWriter(db, record, WorkPriority(), as_is),
        [f"{number}.py" for number in range(GROUP_FILES + 1)],
    )
    writer.expect([*paths, "never.py"])
    work = [
        asyncio.create_task(writer.apply(path, file_write(path, "one"), urgent=False))
        for path in paths
    ]
    with anyio.fail_after(60):
        assert await asyncio.gather(*work[:-1]) == [1] * GROUP_FILES
    assert not work[-1].done()
    writer.expect_no_more("never.py")
    with anyio.fail_after(60):
        assert await work[-1] == 2
