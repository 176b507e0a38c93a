"""A stopped process, or one whose host is gone, does not hold its locks for ever."""

import socket
from collections.abc import AsyncIterator

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.file_writer import replace_files
from cocosearchd.store.connection import database
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.migrate import schema_change
from cocosearchd.store.connection.read_snapshot import open_snapshot
from cocosearchd.store.index_records import read_generation
from cocosearchd.store.reads.chunk_reads import file_chunks
from tests.store.support import file_write, new_index

pytestmark = pytest.mark.anyio
LIMIT_S = 0.3
PAUSE_S = 1.0
SETTINGS = DatabaseSettings(pool_min=1, pool_max=2)


@pytest.fixture
async def record(db: Database) -> IndexRecord:
    record = await new_index(db)
    await replace_files(db, record, (file_write("a.py", "a: 1"), file_write("b.py", "b: 1")))
    return record


@pytest.fixture
async def hasty_db(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """The database of a process whose transactions may not pause."""
    monkeypatch.setattr(database, "IDLE_TRANSACTION_S", LIMIT_S)
    async with Database.open(dsn, SETTINGS) as opened:
        yield opened


async def test_the_server_ends_a_transaction_that_stands_still(
    db: Database, hasty_db: Database
) -> None:
    """Such as one of a stopped daemon: another start waits a minute for the lock of the schema."""

    async def stand_still() -> None:
        async with schema_change(hasty_db) as connection:
            await anyio.sleep(PAUSE_S)
            with anyio.fail_after(50):  # before the lock_timeout of a schema change
                async with schema_change(db):
                    pass
            await connection.execute("select 1")

    with pytest.raises(StoreUnavailable, match="stood still"):
        await stand_still()
    await hasty_db.ping()


async def test_readers_may_work_between_two_batches(
    hasty_db: Database, record: IndexRecord
) -> None:
    paths = list[str]()
    async for file in file_chunks(hasty_db, record, None, batch=1):
        paths.append(file.path)
        await anyio.sleep(PAUSE_S)
    assert paths == ["a.py", "b.py"]
    async with open_snapshot(hasty_db) as snapshot:
        await anyio.sleep(PAUSE_S)
        assert await read_generation(snapshot, record) > 0


async def server_keepalives(connection: Connection) -> list[str]:
    names = ("idle", "interval", "count")
    settings = ", ".join(f"current_setting('tcp_keepalives_{name}')" for name in names)
    row = await (await connection.execute(f"select {settings}".encode())).fetchone()
    assert row
    return list(row)


async def test_both_ends_notice_a_host_that_is_gone(db: Database, dsn: str) -> None:
    host = str(conninfo_to_dict(dsn).get("host"))
    async with db.connection() as connection:
        if host.startswith("/"):
            assert await server_keepalives(connection) == ["0", "0", "0"], "a socket has none"
            return
        assert await server_keepalives(connection) == ["20", "10", "3"]
        with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
            assert copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 10
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
            user_timeout_ms = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert psycopg.pq.version() < 120_000 or user_timeout_ms == 50_000


async def test_times_of_the_database_url_stay(dsn: str) -> None:
    if str(conninfo_to_dict(dsn).get("host")).startswith("/"):
        pytest.skip("a socket has none")
    url = make_conninfo(dsn, keepalives_idle=77, tcp_user_timeout=12_000)
    async with Database.open(url, SETTINGS) as opened, opened.connection() as connection:
        with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 12_000
