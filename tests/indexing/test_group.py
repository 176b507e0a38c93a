"""A transaction that has begun ends, whoever gives it up, and what was given up before it began is never written.

What was announced is waited for, but not for ever.
"""

import asyncio

import anyio
import pytest
from psycopg import sql

from cocosearchd.indexing import group
from cocosearchd.indexing.group import GROUP_FILES, LINGER_S, GroupWriter
from cocosearchd.indexing.precedence import Precedence
from cocosearchd.model import IndexRecord
from cocosearchd.store import records
from cocosearchd.store.pool import Connection, Database
from tests.store.support import file_write, new_index

pytestmark = pytest.mark.anyio


async def stored(db: Database, record: IndexRecord) -> set[str]:
    return {file.path for file in await records.file_records(db, record)}


async def hold(connection: Connection, record: IndexRecord) -> None:
    """Nothing of the index can be committed until the connection's transaction ends."""
    query = sql.SQL("select 1 from cocosearch_indexes where number = {} for update").format(record.number)
    await connection.execute(query)


@pytest.mark.parametrize("urgent", [False, True])
async def test_what_is_given_up_under_way_is_waited_for(db: Database, urgent: bool) -> None:
    record = await new_index(db)
    writer = GroupWriter(db, record, Precedence())
    async with db.connection() as other:
        async with other.transaction():
            await hold(other, record)
            with anyio.move_on_after(0.1):
                await writer.apply("a.py", file_write("a.py", "one"), urgent=urgent)
            with anyio.move_on_after(0.1) as early:
                await writer.ended(["a.py"])
            assert early.cancelled_caught
            await writer.ended(["b.py"])  # of which nothing is under way
        with anyio.fail_after(10):
            await writer.ended(["a.py"])
    assert await stored(db, record) == {"a.py"}
    assert not writer._under_way


async def test_what_is_given_up_before_its_turn_is_not_written(db: Database) -> None:
    record = await new_index(db)
    writer = GroupWriter(db, record, Precedence())
    async with db.connection() as other, other.transaction():
        await hold(other, record)
        first = asyncio.create_task(writer.apply("a.py", file_write("a.py", "one"), urgent=False))
        while "a.py" not in writer._under_way:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0)
        given_up = asyncio.create_task(writer.apply("b.py", file_write("b.py", "old"), urgent=False))
        last = asyncio.create_task(writer.apply("c.py", file_write("c.py", "one"), urgent=False))
        while len(writer._waiting) < 2:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0)
        given_up.cancel()
    await first
    await last
    assert await stored(db, record) == {"a.py", "c.py"}


async def test_what_is_announced_shares_a_transaction(db: Database) -> None:
    record = await new_index(db)
    writer, paths = GroupWriter(db, record, Precedence()), [f"{number}.py" for number in range(5)]
    writer.expect([*paths, "unchanged.py"])

    async def late(number: int, path: str) -> int:
        await asyncio.sleep(0.002 * number)
        return await writer.apply(path, file_write(path, path), urgent=False)

    work = [asyncio.create_task(late(number, path)) for number, path in enumerate(paths)]
    await asyncio.sleep(0.02)
    assert await writer.apply("saved.py", file_write("saved.py", "one"), urgent=True) == 1
    writer.expect_no_more("unchanged.py")
    assert await asyncio.gather(*work) == [2] * 5


async def test_what_does_not_come_is_not_waited_for(db: Database) -> None:
    record = await new_index(db)
    writer = GroupWriter(db, record, Precedence())
    writer.expect(["a.py", "never.py"])
    with anyio.fail_after(LINGER_S * 50):
        assert await writer.apply("a.py", file_write("a.py", "one"), urgent=False) == 1


async def test_a_full_group_waits_for_nothing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "LINGER_S", 3600.0)
    record = await new_index(db)
    writer, paths = GroupWriter(db, record, Precedence()), [f"{number}.py" for number in range(GROUP_FILES + 1)]
    writer.expect([*paths, "never.py"])
    work = [asyncio.create_task(writer.apply(path, file_write(path, "one"), urgent=False)) for path in paths]
    with anyio.fail_after(20):
        assert await asyncio.gather(*work[:-1]) == [1] * GROUP_FILES
    assert not work[-1].done()
    writer.expect_no_more("never.py")
    with anyio.fail_after(20):
        assert await work[-1] == 2
