"""An upgrade of tables beside transactions that use them: neither waits for the other in vain."""

from collections.abc import AsyncIterator

import anyio
import pytest

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import TIMED_OUT, CocoSearchError
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection import migrate, owned_transaction, table_locks
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.connection.owned_transaction import check_owner
from cocosearchd.store.connection.statements import compose, migrations, statement
from cocosearchd.store.index_records import read_generation
from tests.store.support import file_write, new_index

pytestmark = pytest.mark.anyio
OWNER = "cocosearchd-before"
# Longer than PostgreSQL waits before it looks for a deadlock (deadlock_timeout, 1 s).
PAUSE_S = 1.5
# Migrations of a later version, which change the registry and the tables of each index.
LATER = {
    "registry": "alter table cocosearch_registry add column later integer;",
    "index": "alter table {chunks} add column later integer; alter table {files} add column later integer;",
}


@pytest.fixture
async def record(db: Database) -> IndexRecord:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "one: 1"))
    async with db.connection() as connection:
        await connection.execute(statement("claim_registry"), {"owner": OWNER})
    return record


@pytest.fixture
async def owned_db(db: Database, dsn: str) -> AsyncIterator[Database]:
    """The database of a daemon that is the owner, and has lost its lock."""
    assert db.owner == ""
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=2), owner=OWNER) as opened:
        yield opened


@pytest.fixture
def later_version(record: IndexRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version with more migrations; the tables are those of this one."""
    assert record.number
    monkeypatch.setattr(migrate, "migrations", lambda name: (*migrations(name), LATER[name]))


async def is_upgraded(db: Database, record: IndexRecord) -> bool:
    query = (
        "select count({registry}.later) + count({files}.later) from {registry} cross join {files}"
    )
    async with db.connection() as connection:
        return await fetch_row(connection, compose(query, record), {}) == (0,)


@pytest.mark.usefixtures("later_version")
async def test_an_upgrade_comes_after_a_write_of_a_daemon_that_lost_its_lock(
    db: Database, owned_db: Database, record: IndexRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write has locked tables of its index, and comes to the registry; the upgrade needs both."""
    written = anyio.Event()

    async def check_late(connection: Connection, owner: str) -> None:
        written.set()
        await anyio.sleep(PAUSE_S)
        await check_owner(connection, owner)

    monkeypatch.setattr(owned_transaction, "check_owner", check_late)
    generation = await read_generation(db, record)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(replace_file, owned_db, record, file_write("a.py", "two: 2"))
        await written.wait()
        await migrate_registry(db)
    assert await is_upgraded(db, record)
    assert await read_generation(db, record) == generation + 1


@pytest.mark.usefixtures("later_version")
async def test_an_upgrade_comes_after_a_read_of_several_tables(
    db: Database, owned_db: Database, record: IndexRecord
) -> None:
    """A follower reads the tables of other daemons in any order."""
    async with (
        anyio.create_task_group() as tasks,
        owned_db.connection() as connection,
        connection.transaction(),
    ):
        await connection.execute(compose("select 1 from {files} limit 1", record))
        tasks.start_soon(migrate_registry, db)
        await anyio.sleep(PAUSE_S)
        for table in ("registry", "indexes", "chunks"):
            await connection.execute(compose(f"select 1 from {{{table}}} limit 1", record))
    assert await is_upgraded(db, record)


@pytest.mark.usefixtures("later_version")
async def test_an_upgrade_locks_nothing_while_it_waits_and_gives_up(
    db: Database, owned_db: Database, record: IndexRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may need minutes. Questions are answered meanwhile, and the next start tries again."""
    monkeypatch.setattr(table_locks, "LIMIT_S", PAUSE_S)
    read = compose("select count(*) from {files}", record)
    async with owned_db.connection() as connection, connection.transaction():
        await connection.execute(compose("select 1 from {words} limit 1", record))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refuse_upgrade, db)
            for _ in range(10):
                async with db.connection() as reader:
                    assert await fetch_row(reader, read, {}) == (1,)
                await anyio.sleep(0.1)
    await migrate_registry(db)
    assert await is_upgraded(db, record)


async def refuse_upgrade(db: Database) -> None:
    with pytest.raises(CocoSearchError, match="another operation holds the tables") as refused:
        await migrate_registry(db)
    assert refused.value.code == TIMED_OUT
