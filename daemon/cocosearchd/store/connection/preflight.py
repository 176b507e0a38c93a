"""Checks whether a PostgreSQL can be used; if not, the error is one sentence and a hint.

No password is ever part of an error.
"""

import re
from collections.abc import Awaitable, Callable

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.liveness_check import MonitoredConnection
from cocosearchd.store.server.binaries import MIN_PGVECTOR

MIN_SERVER = 140_000  # PostgreSQL 14, as server_version_num
# The first name of a search_path: in quotes, or without.
_FIRST_SCHEMA = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",\s]+))')
EXTENSION_LOCK = 0x636F_636F_0001  # advisory: CREATE EXTENSION IF NOT EXISTS fails when raced


async def check_database(connection: MonitoredConnection) -> str:
    """Return the version of pgvector in a usable database. Raises `StoreUnavailable`."""
    check_server_version(connection.info.server_version)
    _check_encoding(connection)
    return await _ensure_pgvector(connection)


def check_server_version(version: int) -> None:
    """Raise `StoreUnavailable` for a server_version_num that is too old."""
    if version < MIN_SERVER:
        text = f"{version // 10_000}.{version % 10_000}"
        raise StoreUnavailable(
            f"PostgreSQL {text} is too old: 14 or newer is needed",
            "upgrade it, or unset COCOSEARCH_DATABASE_URL to use the embedded server",
        )


async def check_session_pooling(
    connection: MonitoredConnection, connect: Callable[[], Awaitable[MonitoredConnection]]
) -> None:
    """Raise `StoreUnavailable` if a pooler gives each transaction another session.

    The daemon's session locks would then stay held for ever, by a session without a client.
    `connect` opens a second connection. With a pooler, it gets the session that `connection` had, or
    keeps `connection` from getting that session again.
    """
    first = await _session(connection)
    async with await connect() as second, second.transaction():
        second.answer_timeout_s = connection.answer_timeout_s
        pooled = await _session(second) == first or await _session(connection) != first
    if pooled:
        raise StoreUnavailable(
            "a pooler gives each transaction another session of PostgreSQL",
            "name PostgreSQL itself in COCOSEARCH_DATABASE_URL, or a pool that keeps sessions "
            "(pool_mode = session)",
        )


async def _session(connection: MonitoredConnection) -> int:
    row = await (await connection.execute("select pg_backend_pid()")).fetchone()
    assert row
    return int(row[0])


async def check_schema(connection: MonitoredConnection) -> str:
    """Return the schema that the tables of the daemon are in, "" if there is none.

    Raises `StoreUnavailable` if the first schema of the search_path is missing: the next schema may
    have the tables of another daemon.
    """
    query = "select coalesce(current_schema(), ''), current_setting('search_path')"
    row = await (await connection.execute(query)).fetchone()
    assert row, "an expression has a row"
    schema, path = row
    first = _FIRST_SCHEMA.match(path)
    name = (first[1] or "").replace('""', '"') or (first[2] or "").lower() if first else ""
    if schema and name not in ("", "$user", schema):
        raise StoreUnavailable(
            f"schema {name} of the search_path is not there, or user {connection.info.user} may not "
            "use it",
            f"create it (CREATE SCHEMA {name} AUTHORIZATION {connection.info.user}), or correct the "
            "search_path in the options of COCOSEARCH_DATABASE_URL",
        )
    return str(schema)


def _check_encoding(connection: MonitoredConnection) -> None:
    """Raise `StoreUnavailable` unless the database is UTF8.

    Other encodings lack characters that files have; SQL_ASCII knows none.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"database {connection.info.dbname} is encoded as {encoding}: UTF8 is needed",
            "make another (createdb -T template0 -E UTF8 NAME) and name it in "
            "COCOSEARCH_DATABASE_URL",
        )


async def _ensure_pgvector(connection: MonitoredConnection) -> str:
    installed = """
    select extversion, nspname, to_regtype('halfvec') is not null
    from pg_extension join pg_namespace n on n.oid = extnamespace where extname = 'vector'
    """
    row = await (await connection.execute(installed)).fetchone()
    if row is None:
        await _create_pgvector(connection)
        row = await (await connection.execute(installed)).fetchone()
    version = str(row[0]) if row else ""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < MIN_PGVECTOR:
        raise StoreUnavailable(
            f"pgvector {version} is too old: 0.8 or newer is needed",
            "install a newer pgvector on the server, then run ALTER EXTENSION vector UPDATE",
        )
    if row and not row[2]:
        user, path = connection.info.user, ", ".join(dict.fromkeys(("public", row[1])))
        raise StoreUnavailable(
            f"pgvector is in schema {row[1]} of database {connection.info.dbname}, "
            f"where user {user} does not look",
            f"name that schema in the search_path: ALTER ROLE {user} SET search_path = {path}",
        )
    return version


async def _create_pgvector(connection: MonitoredConnection) -> None:
    database = connection.info.dbname
    try:
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(%s)", (EXTENSION_LOCK,))
            await connection.execute("create extension if not exists vector")
    except psycopg.errors.InsufficientPrivilege:
        raise StoreUnavailable(
            f"pgvector is not enabled in database {database}, "
            f"and user {connection.info.user} may not enable it",
            f"let a superuser run CREATE EXTENSION vector in database {database}",
        ) from None
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
        raise StoreUnavailable(
            "the server has no pgvector",
            "install pgvector 0.8 or newer on the server "
            "(Debian: the package postgresql-<major>-pgvector)",
        ) from None


_NAME_NO_POOLER = (
    "name PostgreSQL itself in COCOSEARCH_DATABASE_URL; "
    "a few connections are kept open and used again"
)
_REFUSED_PASSWORDS = (
    "password authentication failed",
    "no password supplied",
    "Ident authentication",
)


def connection_error(conninfo: str, error: psycopg.OperationalError) -> StoreUnavailable:
    """Explain in one sentence and a hint why a connection was refused."""
    parameters = conninfo_to_dict(conninfo)
    user = parameters.get("user") or ""
    database = parameters.get("dbname") or user
    host = parameters.get("host") or "localhost"
    port = parameters.get("port") or 5432
    server = f"PostgreSQL at {host}:{port}"
    # libpq sets no SQLSTATE on a failed connection, so only messages tell the cause. Messages of the
    # server may be translated.
    causes = {
        _REFUSED_PASSWORDS: (
            f"{server} does not accept the password of user {user}",
            "correct the user and the password in COCOSEARCH_DATABASE_URL",
        ),
        (f'database "{database}" does not exist',): (
            f"{server} has no database {database}",
            f"create it (createdb {database}) or name another in COCOSEARCH_DATABASE_URL",
        ),
        (f'role "{user}" does not exist',): (
            f"{server} has no user {user}",
            "correct the user in COCOSEARCH_DATABASE_URL",
        ),
        ("too many", "connection slots"): (
            f"{server} has no connection left for user {user}",
            "allow more on the server: at most twice database.pool_max and a few more are used",
        ),
        ("unsupported startup parameter",): (
            f"what answers at {host}:{port} is a pooler that refuses settings of a session",
            _NAME_NO_POOLER,
        ),
    }
    text = str(error)
    for phrases, (message, hint) in causes.items():
        if any(phrase in text for phrase in phrases):
            return StoreUnavailable(message, hint)
    line = (text.strip().splitlines() or ["no answer"])[0]
    reason = line.rpartition("failed: ")[2] or line
    return StoreUnavailable(
        f"{server} cannot be reached: {reason}",
        "check that it runs and that host and port in COCOSEARCH_DATABASE_URL are right",
    )
