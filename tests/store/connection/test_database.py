"""The connection pool: its checks, its errors, and lost connections that cause no error."""

import asyncio
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString
from urllib.parse import quote

import anyio
import anyio.lowlevel
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import TIMED_OUT, CocoSearchError, NotFound, StoreUnavailable
from cocosearchd.store.connection import liveness_check
from cocosearchd.store.connection.database import LOCK_TIMEOUT_MS, Database, without_password
from cocosearchd.store.connection.liveness_check import MonitoredConnection
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.connection.preflight import check_server_version, check_session_pooling
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import read_generation
from cocosearchd.store.server.roles import SUPERUSER
from tests.databases import drop_database
from tests.store.remote import PASSWORD, RemoteServer, free_port
from tests.store.support import new_index

SECRET = "hunter2-Tr0ub4dor"


async def refused(dsn: str) -> StoreUnavailable:
    """The error with which `dsn` is refused: a sentence and a hint, and the password nowhere."""
    with pytest.raises(StoreUnavailable) as caught:
        async with Database.open(dsn, DatabaseSettings()):
            pass
    output = "".join(traceback.format_exception(caught.value)) + caught.value.hint
    assert SECRET not in output
    assert PASSWORD not in output
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


@pytest.fixture
def bare_database(embedded_server: str) -> Iterator[str]:
    """A database without pgvector, as its superuser."""
    superuser = make_conninfo(embedded_server, user=SUPERUSER)
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("create database bare")
        try:
            yield make_conninfo(superuser, dbname="bare")
        finally:
            connection.execute("drop database bare with (force)")


async def test_opens_and_answers(db: Database) -> None:
    await db.ping()
    assert db.server_version.split(".")[0].isdigit()
    assert db.pgvector_version.startswith("0.")


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:{SECRET}@[host/db",
        f"host=h password={SECRET} nonsense",
        f"user=me {SECRET}",
        f"postgresql://me:x@{SECRET}@127.0.0.1:1/db",
        f"postgresql://me:{SECRET}/x@127.0.0.1:1/db",
        f"postgresql://me:1/{SECRET}@127.0.0.1:1/db",
        f"postgresql://me:x@{SECRET}/x@127.0.0.1:1/db",
        f"postgresql://me:?@{SECRET}@127.0.0.1:1/db",
    ],
)
async def test_unreadable_url(dsn: str) -> None:
    """Also where an @ or a / of a password would be taken for its end."""
    error = await refused(dsn)
    assert error.message == "the database URL cannot be read"
    assert "postgresql://user:password@host" in error.hint


async def test_nobody_listens() -> None:
    error = await refused(f"postgresql://me:{SECRET}@127.0.0.1:{free_port()}/db")
    assert error.message.startswith("PostgreSQL at 127.0.0.1:")
    assert error.message.endswith("cannot be reached: Connection refused")


async def test_a_password_with_every_character() -> None:
    error = await refused(
        f"postgresql://me:{quote(SECRET + '@/:%?#', safe='')}@127.0.0.1:{free_port()}/db%40x?user=me@here"
    )
    assert error.message.endswith("Connection refused")


async def test_the_environment_may_say_it_all(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    conninfo = conninfo_to_dict(dsn)
    for name, value in conninfo.items():
        monkeypatch.setenv({"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}"), str(value))
    async with (
        Database.open("postgresql://", DatabaseSettings()) as db,
        db.connection() as connection,
    ):
        assert connection.info.dbname == conninfo["dbname"]


async def test_a_password_may_look_like_a_url() -> None:
    error = await refused(f"host=127.0.0.1 port={free_port()} user=me password=a://{SECRET}@b@c")
    assert error.message.endswith("Connection refused")


async def test_no_such_host() -> None:
    error = await refused(f"postgresql://me:{SECRET}@nowhere.invalid/db")
    assert error.message.startswith("PostgreSQL at nowhere.invalid:5432 cannot be reached: ")


@pytest.mark.parametrize("password", [f"password={SECRET}", ""], ids=["wrong", "missing"])
async def test_password_is_not_accepted(remote: RemoteServer, password: str) -> None:
    error = await refused(
        f"host=127.0.0.1 port={remote.port} user=tester dbname=postgres {password}"
    )
    assert (
        error.message
        == f"PostgreSQL at 127.0.0.1:{remote.port} does not accept the password of user tester"
    )
    assert "COCOSEARCH_DATABASE_URL" in error.hint


async def test_no_connection_is_left(remote: RemoteServer) -> None:
    with psycopg.connect(remote.admin, autocommit=True) as connection:
        connection.execute("alter role tester connection limit 0")
        try:
            error = await refused(remote.dsn)
        finally:
            connection.execute("alter role tester connection limit -1")
    assert (
        error.message
        == f"PostgreSQL at 127.0.0.1:{remote.port} has no connection left for user tester"
    )
    assert "database.pool_max" in error.hint


async def test_a_pooler_that_refuses_our_settings() -> None:
    """PgBouncer does, unless told otherwise. Here in its words: it is on few machines."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (
            int.from_bytes(
                (await reader.readexactly(int.from_bytes(await reader.readexactly(4)) - 4))[:4]
            )
            != 3 << 16
        ):
            writer.write(b"N")  # no TLS
        message = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
        writer.write(b"E" + (len(message) + 4).to_bytes(4) + message)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await refused(f"postgresql://me:{SECRET}@127.0.0.1:{port}/db")
    assert (
        error.message
        == f"what answers at 127.0.0.1:{port} is a pooler that refuses settings of a session"
    )
    assert "name PostgreSQL itself" in error.hint


async def test_a_pooler_that_shares_sessions(dsn: str) -> None:
    """The lock of one transaction would stay for ever, and the next daemon wait for it in
    vain.
    """
    connection = await MonitoredConnection.connect(dsn, autocommit=True)

    async def same() -> MonitoredConnection:
        return connection  # to PostgreSQL, two clients of such a pooler are one session

    with pytest.raises(StoreUnavailable, match="another session") as caught:
        await check_session_pooling(connection, same)
    assert "pool_mode = session" in caught.value.hint
    async with Database.open(dsn, DatabaseSettings(url=dsn)) as db:
        await db.ping()


async def test_no_such_database(remote: RemoteServer) -> None:
    error = await refused(make_conninfo(remote.dsn, dbname="missing"))
    assert error.message == f"PostgreSQL at 127.0.0.1:{remote.port} has no database missing"
    assert "createdb missing" in error.hint


async def test_no_such_user(remote: RemoteServer) -> None:
    error = await refused(make_conninfo(remote.admin, user="stranger"))
    assert error.message.endswith("has no user stranger")


def test_server_is_too_old() -> None:
    """By number alone: no such old server is at hand."""
    check_server_version(140_000)
    with pytest.raises(
        StoreUnavailable, match=r"^PostgreSQL 13\.22 is too old: 14 or newer is needed$"
    ):
        check_server_version(130_022)


async def test_server_without_pgvector(bare_database: str) -> None:
    error = await refused(
        make_conninfo(bare_database, options="-c extension_control_path=/nowhere")
    )
    assert error.message == "the server has no pgvector"
    assert "install pgvector 0.8" in error.hint


async def test_pgvector_is_too_old(bare_database: str, public_state: Path) -> None:
    """A real server, and an extension that says of itself that it is an old one."""
    folder = public_state / "old" / "extension"
    folder.mkdir(parents=True)
    (folder / "vector.control").write_text("default_version = '0.7.4'\nrelocatable = true\n")
    (folder / "vector--0.7.4.sql").write_text("select 1;\n")
    for path in (folder.parent, folder, *folder.iterdir()):
        path.chmod(0o755)
    error = await refused(
        make_conninfo(bare_database, options=f"-c extension_control_path={folder.parent}")
    )
    assert error.message == "pgvector 0.7.4 is too old: 0.8 or newer is needed"
    assert "ALTER EXTENSION vector UPDATE" in error.hint


async def test_pgvector_may_not_be_enabled(remote: RemoteServer) -> None:
    with psycopg.connect(remote.dsn, autocommit=True) as connection:
        connection.execute("create database bare")
        error = await refused(make_conninfo(remote.dsn, dbname="bare"))
        drop_database(connection, "bare")
    assert (
        error.message
        == "pgvector is not enabled in database bare, and user tester may not enable it"
    )
    assert error.hint == "let a superuser run CREATE EXTENSION vector in database bare"


async def test_pgvector_is_where_nobody_looks(bare_database: str) -> None:
    with psycopg.connect(bare_database, autocommit=True) as connection:
        connection.execute("create schema extensions; create extension vector schema extensions")
    error = await refused(bare_database)
    assert (
        error.message
        == "pgvector is in schema extensions of database bare, where user cocosearch does not look"
    )
    assert error.hint.endswith("ALTER ROLE cocosearch SET search_path = public, extensions")
    looking = make_conninfo(bare_database, options="-c search_path=public,extensions")
    async with Database.open(looking, DatabaseSettings()) as db:
        await db.ping()


async def test_nowhere_to_make_anything(bare_database: str) -> None:
    error = await refused(make_conninfo(bare_database, options="-c search_path=nowhere"))
    assert error.message == "no schema of the search_path is there"


async def test_read_only_without_pgvector(bare_database: str) -> None:
    """Like on a standby."""
    error = await refused(
        make_conninfo(bare_database, options="-c default_transaction_read_only=on")
    )
    assert error.message == "the database is read-only"
    assert "primary" in error.hint


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_lacks_characters(embedded_server: str, encoding: str) -> None:
    with psycopg.connect(embedded_server, autocommit=True) as connection:
        connection.execute(
            f"create database narrow template template0 encoding '{encoding}' locale 'C'"
        )
        try:
            error = await refused(make_conninfo(embedded_server, dbname="narrow"))
        finally:
            drop_database(connection, "narrow")
    assert error.message == f"database narrow is encoded as {encoding}: UTF8 is needed"


async def test_characters_do_not_depend_on_the_terminal(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with Database.open(dsn, DatabaseSettings()) as db, db.connection() as connection:
        row = await (await connection.execute("select %s || 'ツ'", ("日",))).fetchone()
        assert row == ("日ツ",)


async def test_racing_daemons_enable_pgvector_once(bare_database: str) -> None:
    async def opened() -> str:
        async with Database.open(bare_database, DatabaseSettings(pool_min=1, pool_max=1)) as db:
            return db.pgvector_version

    assert len(set(await asyncio.gather(*(opened() for _ in range(4))))) == 1


async def test_slow_statements_end(dsn: str) -> None:
    async with Database.open(dsn, DatabaseSettings(statement_timeout_ms=1000)) as db:
        with pytest.raises(CocoSearchError, match="took too long") as caught:
            async with db.connection() as connection:
                await connection.execute("select pg_sleep(20)")
        assert caught.value.code == TIMED_OUT
        await db.ping()


async def test_lost_connections_are_replaced(dsn: str, db: Database) -> None:
    """Like after a restart of the server: each connection of the pool is dead, unnoticed."""
    async with Database.open(dsn, DatabaseSettings(pool_min=3, pool_max=3)) as victim:
        await asyncio.gather(*(victim.ping() for _ in range(3)))
        async with db.connection() as connection:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and backend_type = 'client backend'"
                " and pid <> pg_backend_pid()"
            )
        await asyncio.gather(*(victim.ping() for _ in range(6)))


@pytest.mark.parametrize("prompt_ms", [0, 60_000])
async def test_a_checked_connection_serves(
    db: Database, monkeypatch: pytest.MonkeyPatch, prompt_ms: int
) -> None:
    """The answer to the check comes while the event loop waits, or before it does."""
    monkeypatch.setattr(liveness_check, "_PROMPT_MS", prompt_ms)
    async with db.connection() as connection:
        for number in range(3):
            await connection.check()
            row = await (await connection.execute("select %s::int", [number])).fetchone()
            assert row == (number,)


@pytest.mark.parametrize("prompt_ms", [0, 60_000])
async def test_a_check_finds_a_session_that_the_server_has_ended(
    dsn: str, db: Database, monkeypatch: pytest.MonkeyPatch, prompt_ms: int
) -> None:
    monkeypatch.setattr(liveness_check, "_PROMPT_MS", prompt_ms)
    async with await MonitoredConnection.connect(dsn, autocommit=True) as victim:
        async with db.connection() as connection:
            ended = "select pg_terminate_backend(%s, 60000)"
            await connection.execute(ended, [victim.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            await victim.check()
        assert victim.closed


async def test_a_connection_that_dies_in_use(db: Database) -> None:
    with pytest.raises(StoreUnavailable, match="PostgreSQL went away") as caught:
        async with db.connection() as connection:
            await connection.execute("select pg_terminate_backend(pg_backend_pid())")
    assert caught.value.hint
    await db.ping()


async def test_a_cancelled_task_closes_its_server_cursor(db: Database) -> None:
    async with db.connection() as connection, connection.transaction():
        with anyio.CancelScope() as scope:
            async with connection.cursor("numbers") as cursor:
                await cursor.execute("select generate_series(1, 10)")
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert cursor.closed


async def test_waiting_for_a_lock_ends(db: Database) -> None:
    async with db.connection() as holder, holder.transaction():
        await holder.execute("lock table cocosearch_indexes")
        with pytest.raises(CocoSearchError, match="another operation holds the tables") as caught:
            async with db.session({"lock_timeout": "50"}) as connection:
                await connection.execute("select from cocosearch_indexes")
        assert caught.value.code == TIMED_OUT


async def test_missing_tables_are_not_a_defect(db: Database) -> None:
    with pytest.raises(NotFound, match="tables of this index are gone"):
        async with db.connection() as connection:
            await connection.execute("select from codeindex_gone__gone_chunks")


async def test_a_question_names_a_schema_or_a_registry_that_vanished(bare_database: str) -> None:
    """Where more than the tables of one index are gone."""

    def execute(query: LiteralString) -> None:
        with psycopg.connect(bare_database, autocommit=True) as connection:
            connection.execute(query)

    execute("create schema passing")
    path = make_conninfo(bare_database, options="-c search_path=passing,public")
    async with Database.open(path, DatabaseSettings(pool_min=1, pool_max=1)) as db:
        await migrate_registry(db)
        record = await new_index(db)
        db.owner = "cocosearchd-here"
        await db.ping()
        execute("drop schema passing cascade")
        with pytest.raises(StoreUnavailable, match="schema passing of the daemon is not there"):
            await read_generation(db, record)
        execute("create schema passing")
        for question in (read_generation(db, record), db.ping()):
            with pytest.raises(StoreUnavailable, match=r"the registry .* is not in schema passing"):
                await question


async def test_a_role_is_not_told_that_the_daemon_of_another_is_on_this_machine(
    remote: RemoteServer,
) -> None:
    """PostgreSQL shows it no addresses of other roles."""
    with psycopg.connect(remote.admin, autocommit=True) as connection:
        connection.execute("create role bystander login password 'bystander'")
        try:
            with (
                psycopg.connect(remote.dsn, autocommit=True) as holder,
                psycopg.connect(remote.dsn, user="bystander", password="bystander") as bystander,
            ):
                holder.execute("select pg_advisory_lock(77)")
                query = statement("instance_lock_holder")
                row = bystander.execute(query, {"key": 77}).fetchone()
        finally:
            connection.execute("drop role bystander")
    assert row
    assert row[1] == "another host or role"


async def test_settings_of_the_url_are_kept_and_ours_added(dsn: str) -> None:
    conninfo = make_conninfo(dsn, options="-c work_mem=7MB", application_name="mine")
    async with (
        Database.open(conninfo, DatabaseSettings(statement_timeout_ms=1234)) as db,
        db.connection() as connection,
    ):
        for name, value in (
            ("work_mem", "7MB"),
            ("application_name", "mine"),
            ("statement_timeout", "1234ms"),
            ("synchronous_commit", "on"),
        ):
            row = await (await connection.execute("select current_setting(%s)", (name,))).fetchone()
            assert row == (value,)


async def test_a_server_with_habits_of_its_own(dsn: str) -> None:
    conninfo = make_conninfo(dsn, options="-c datestyle=German -c standard_conforming_strings=off")
    async with Database.open(conninfo, DatabaseSettings()) as db, db.connection() as connection:
        row = await (
            await connection.execute("select now() is not null, now(), %s::bytea", (b"\0\1",))
        ).fetchone()
        assert row is not None
        assert (row[0], row[2]) == (True, b"\0\1")


async def test_a_server_that_ends_who_idles(dsn: str) -> None:
    """The next question would find the pool's connections dead, and wait for new ones for a
    second.
    """
    conninfo = make_conninfo(dsn, options="-c idle_session_timeout=50")
    pid = "select pg_backend_pid()"
    async with Database.open(conninfo, DatabaseSettings(pool_min=1, pool_max=1)) as db:
        async with db.connection() as connection:
            previous_pid = await (await connection.execute(pid)).fetchone()
        await asyncio.sleep(0.3)
        async with db.connection() as connection:
            assert await (await connection.execute(pid)).fetchone() == previous_pid


def test_a_url_is_shown_without_its_password() -> None:
    output = without_password(f"postgresql://me:{SECRET}@db.example:5433/code?sslmode=require")
    assert SECRET not in output
    assert "db.example" in output
    assert "sslmode=require" in output


async def test_a_process_waits_for_the_transactions_of_the_one_before_it(dsn: str) -> None:
    """Like after a kill: the server goes on with the statements of the dead process."""
    # One connection: another one that is just being made would have to wait behind who waits for
    # all of them.
    settings = DatabaseSettings(pool_min=1, pool_max=1)
    async with (
        Database.open(dsn, settings, series="a") as first_db,
        first_db.connection() as connection,
    ):
        await connection.execute("select 1")
        with pytest.raises(StoreUnavailable, match="for a process that has ended"):
            async with Database.open(dsn, DatabaseSettings(), series="a"):
                pass
        async with Database.open(dsn, DatabaseSettings(), series="b") as elsewhere:
            await elsewhere.ping()
    async with Database.open(dsn, DatabaseSettings(), series="a") as after:
        await after.ping()


async def test_readers_wait_for_transactions_of_a_dead_process_as_well(
    dsn: str, db: Database
) -> None:
    # One connection: another one that is just being made would have to wait behind who waits for
    # all of them.
    settings = DatabaseSettings(pool_min=1, pool_max=1)
    async with (
        Database.open(dsn, settings, series="a") as first_db,
        first_db.connection() as connection,
    ):
        await connection.execute("select 1")
        with pytest.raises(StoreUnavailable, match="for a process that has ended"):
            await db.wait_for_predecessors("a", limit_s=0)
        await db.wait_for_predecessors("b", limit_s=0)
        reading = asyncio.create_task(db.wait_for_predecessors("a"))
        assert not (await asyncio.wait({reading}, timeout=LOCK_TIMEOUT_MS / 1000 + 0.5))[0]
    await reading


async def test_daemons_of_other_schemas_may_have_equal_state_directories(
    dsn: str, db: Database
) -> None:
    """On two machines, or in two containers: neither is the predecessor of the other."""
    async with db.connection() as connection:
        await connection.execute("create schema other")
    other_dsn = make_conninfo(dsn, options="-c search_path=other,public")
    settings = DatabaseSettings(pool_min=1, pool_max=1)
    async with Database.open(dsn, settings, series="a") as first_db:
        await first_db.ping()
        async with Database.open(other_dsn, settings, series="a") as second_db:
            await second_db.ping()
            with pytest.raises(StoreUnavailable, match="for a process that has ended"):
                await db.wait_for_predecessors("a", limit_s=0)
