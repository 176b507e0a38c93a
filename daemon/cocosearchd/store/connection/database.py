"""The connection pool of a PostgreSQL, and the one place that translates the driver's errors."""

import asyncio
import hashlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import (
    TIMED_OUT,
    CocoSearchError,
    InvalidInput,
    NotFound,
    Refused,
    StoreUnavailable,
    StoreUnresponsive,
)
from cocosearchd.runtime.masking import HARMLESS, mask_urls
from cocosearchd.store.connection.citus import (
    check_citus,
    describe_schema,
    failed_node,
)
from cocosearchd.store.connection.liveness_check import (
    LIVENESS_TIMEOUT_S,
    MonitoredConnection,
    Unresponsive,
)
from cocosearchd.store.connection.preflight import (
    check_database,
    check_schema,
    check_session_pooling,
    connection_error,
)
from cocosearchd.store.connection.server_cursor import ServerCursor
from cocosearchd.store.connection.statements import statement

CONNECT_TIMEOUT_S = 5
MIN_CONNECT_TIMEOUT_S = 2  # libpq's shortest
CHECKOUT_TIMEOUT_S = 10.0
LOCK_TIMEOUT_MS = 2000
# The pool retries with pauses that double. After it gave up, the next checkout makes it retry at
# once. It gives up early and callers ask again: a server is used as soon as it is back.
RECONNECT_S = 0.5
# An unused connection beyond pool_min is closed after this time, which ends a process of the server.
CONNECTION_IDLE_S = 20.0
PREDECESSORS_LIMIT_S = 60.0  # the longest statement of a writing process
# The server ends a transaction in which nothing happens for this time: that of a process that was
# stopped, whose kernel still answers. Shorter than the lock_timeout of a schema change (60 s), so
# that a start does not fail for it. Work between two statements of a write takes a few seconds.
IDLE_TRANSACTION_S = 30.0
# A host that is gone, or a network that drops all packets, is noticed after idle + count * interval
# = 50 s, by the server and here. The defaults of Linux take two hours (tcp(7)).
KEEPALIVES: Mapping[str, str] = {"idle": "20", "interval": "10", "count": "3"}
USER_TIMEOUT_MS = 50_000  # the same for sent data without an acknowledgement (RFC 5482)
_USER_TIMEOUT_LIBPQ = 120_000  # the version of libpq that introduced it

# A prepared plan stays in use after settings have changed and tables have grown: a filtered vector
# query then kept an index scan with a recall of one half. By default nothing is prepared. With the
# threshold below, only statements that ask for it are prepared. On a server that is not ours no
# statement is: a pooler in between may give each transaction another session.
_ONLY_WHEN_ASKED = sys.maxsize
_CONNECT: Mapping[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,
    "connect_timeout": CONNECT_TIMEOUT_S,
}

Connection = MonitoredConnection


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server at the start: versions, and the schema of the daemon.

    `citus_version` is "" without Citus, `schema` is "" if no schema of the search_path exists.
    """

    server_version: str
    pgvector_version: str
    citus_version: str
    schema: str


class LivenessCheck:
    """Checks connections, and remembers whether the server failed to answer the last time."""

    def __init__(self) -> None:
        self.unresponsive = False

    async def check(self, connection: Connection) -> None:
        """Check a connection as it is handed out.

        The pool then replaces a broken connection: after a restart of the server no caller gets an
        error, and a frozen server holds no caller up.
        """
        try:
            await connection.check()
        except Unresponsive:
            self.unresponsive = True
            raise
        self.unresponsive = False


class Database:
    """A pool of connections to a usable PostgreSQL. Made by `open`."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Connection],
        conninfo: str,
        state: ServerState,
        checkout_timeout_s: float,
        liveness: LivenessCheck,
        owner: str,
    ) -> None:
        self._pool = pool
        self._conninfo = conninfo
        self._checkout_timeout_s = checkout_timeout_s
        self._liveness = liveness
        self.server_version = state.server_version
        self.pgvector_version = state.pgvector_version
        self.citus_version = state.citus_version
        self._schema = state.schema
        # The owner of the registry for whom rows are written; "" where nobody else can be.
        self.owner = owner
        # Leaves connections for queries and saves, however many indexes are read whole or vacuumed.
        self._long_work = asyncio.Semaphore(max(1, pool.max_size // 2))

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str,
        settings: DatabaseSettings,
        checkout_timeout_s: float = CHECKOUT_TIMEOUT_S,
        series: str | None = None,
        owner: str = "",
    ) -> AsyncIterator["Database"]:
        """Check the server (PostgreSQL >= 14, pgvector >= 0.8) and open a pool to it.

        A checkout waits `checkout_timeout_s` for a server that restarts, and `LIVENESS_TIMEOUT_S`
        for a frozen one. An answer may take a little longer than statement_timeout.

        `series` names a series of processes in the daemon's schema: only one of them lives at a time. The
        transactions of a killed process go on: a commit that the server has received may still be
        under way. Before this returns, all transactions of earlier processes of the series have
        ended.

        `owner` is the daemon for whom rows are written: see `owned_transaction`.

        Installs the extension if it is available and allowed. Raises `StoreUnavailable`, with a
        sentence and a hint for each cause, and never shows a password.
        """
        conninfo = _conninfo(dsn, settings)
        limit_ms = settings.statement_timeout_ms
        liveness = LivenessCheck()
        answer_timeout_s = limit_ms / 1000 + LIVENESS_TIMEOUT_S if limit_ms else None
        state = await _check(conninfo, series, answer_timeout_s, is_ours=not settings.url)
        pool = AsyncConnectionPool[Connection](
            conninfo,
            connection_class=MonitoredConnection,
            min_size=settings.pool_min,
            max_size=settings.pool_max,
            timeout=checkout_timeout_s,
            max_idle=CONNECTION_IDLE_S,
            reconnect_timeout=RECONNECT_S,
            configure=partial(
                _configure, state.schema, series, answer_timeout_s, bool(state.citus_version)
            ),
            check=liveness.check,
            open=False,
            kwargs={**_CONNECT, "prepare_threshold": None if settings.url else _ONLY_WHEN_ASKED},
        )
        async with pool:
            yield cls(pool, conninfo, state, checkout_timeout_s, liveness, owner)

    @property
    def unresponsive(self) -> bool:
        """Return whether the server was there but did not answer the last check."""
        return self._liveness.unresponsive

    async def replace_connections(self) -> None:
        """Replace all connections, each as soon as it is free.

        A process of the server keeps cached data of dropped tables.
        """
        await self._pool.drain()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Check out a connection in autocommit mode. For modules of the store only.

        Raises `StoreUnavailable` when the server cannot be reached, `CocoSearchError` for other
        errors of the server.
        """
        async with self._take_connection(self._checkout_timeout_s) as connection:
            yield connection

    async def reach(self, timeout_s: float) -> None:
        """Do as `ping`, but wait at most `timeout_s` for a server that restarts.

        The pool does not say why it has no connection. A new connection tells a frozen server
        (`StoreUnresponsive`) from one that is down, and from a pool whose connections are all in use.
        """
        try:
            async with self._take_connection(timeout_s) as connection:
                await self._probe(connection)
        except StoreUnavailable as error:
            if error.unresponsive:
                raise
            await self._try_new_connection()

    async def _try_new_connection(self) -> None:
        settings = {**_CONNECT, "connect_timeout": MIN_CONNECT_TIMEOUT_S}
        try:
            async with await MonitoredConnection.connect(self._conninfo, **settings) as connection:
                if self.citus_version:
                    await describe_schema(connection)
                await self._probe(connection)
        except psycopg.errors.ConnectionTimeout as error:
            self._liveness.unresponsive = True
            raise _translate(Unresponsive("the server does not respond")) from error
        except psycopg.Error as error:
            raise _translate(error) from error

    @asynccontextmanager
    async def _take_connection(self, timeout_s: float) -> AsyncIterator[Connection]:
        try:
            async with AsyncExitStack() as stack:
                yield await self._check_out(stack, timeout_s)
        except psycopg.Error as error:
            self._liveness.unresponsive |= isinstance(error, Unresponsive)
            if isinstance(error, psycopg.errors.UndefinedTable):
                await self._check_registry()
            raise _translate(error) from error

    async def _check_registry(self) -> None:
        """Raise `StoreUnavailable` if not one table is missing, but all, or the schema."""
        with suppress(psycopg.Error):
            async with self._pool.connection(timeout=RECONNECT_S) as connection:
                await self._probe(connection)

    @asynccontextmanager
    async def long_connection(self) -> AsyncIterator[Connection]:
        """Check out a connection for work of minutes: at most half of all; further callers wait.

        Raises as `connection` does.
        """
        async with self._long_work, self.connection() as connection:
            yield connection

    async def _check_out(self, stack: AsyncExitStack, timeout_s: float) -> Connection:
        """Check out a connection until the stack closes. Raises `PoolTimeout`, `Unresponsive`."""
        start = time.monotonic()
        while True:
            remaining_s = start + timeout_s - time.monotonic()
            try:
                return await stack.enter_async_context(
                    self._pool.connection(timeout=min(remaining_s, RECONNECT_S))
                )
            except PoolTimeout:
                waited_s = time.monotonic() - start
                if self._liveness.unresponsive and waited_s >= LIVENESS_TIMEOUT_S:
                    raise Unresponsive("the server does not respond") from None
                if remaining_s <= RECONNECT_S:
                    raise

    @asynccontextmanager
    async def session(self, settings: Mapping[str, str]) -> AsyncIterator[Connection]:
        """Open a separate connection with other settings, for long work.

        The connection is always closed at the end, which ends everything that belongs to its
        session. Raises as `connection` does.
        """
        base = conninfo_to_dict(self._conninfo).get("options") or ""
        options = " ".join([str(base), *(f"-c {name}={value}" for name, value in settings.items())])
        try:
            connection = await MonitoredConnection.connect(
                make_conninfo(self._conninfo, options=options), **_CONNECT
            )
            try:
                if self.citus_version:
                    await describe_schema(connection)
                yield connection
            finally:
                await connection.close()  # does not wait, so a cancelled task gets here too
        except psycopg.Error as error:
            raise _translate(error) from error

    async def wait_for_predecessors(
        self, series: str, limit_s: float = PREDECESSORS_LIMIT_S
    ) -> None:
        """Wait until all transactions of the ended processes of a series have ended.

        No process of the series may be alive. For readers of what these processes wrote: rows that
        are read earlier would lack the last commits. Raises `StoreUnavailable` after `limit_s`.
        """
        end = time.monotonic() + limit_s
        while True:
            try:
                async with self.connection() as connection:
                    return await _wait_for_predecessors(connection, self._schema, series)
            except StoreUnavailable:
                if time.monotonic() >= end:
                    raise

    async def ping(self) -> None:
        """Raise `StoreUnavailable` when the server does not answer."""
        async with self.connection() as connection:
            await self._probe(connection)

    async def _probe(self, connection: Connection) -> None:
        """Ask the server, and the node of a distributed schema. Raises `StoreUnavailable`.

        Without its schema, a session would go on with the next one of the search_path, and may find
        the tables of another daemon there.
        """
        row = await (await connection.execute(statement("registry_schema"))).fetchone()
        if self._schema and (row is None or row[0] != self._schema):
            raise StoreUnavailable(
                f"schema {self._schema} of the daemon is not there any more",
                "restore it; or make it anew, restart the daemon, and `cocosearchctl up` its directories",
            )
        if not (connection.is_distributed or self.owner):
            return  # there may be no registry yet
        try:
            await connection.execute(statement("registry_version"))
        except psycopg.errors.UndefinedTable:
            raise StoreUnavailable(
                f"the registry of the daemon is not in schema {self._schema} any more",
                "restore it; or restart the daemon, and `cocosearchctl up` its directories",
            ) from None


def _conninfo(dsn: str, settings: DatabaseSettings) -> str:
    parameters = None
    with suppress(psycopg.ProgrammingError):
        # {} if everything is in the environment, or in a service file
        parameters = conninfo_to_dict(dsn)
    if parameters is None or _is_misread(dsn):
        # Show neither the driver's message nor its traceback: both quote the DSN with the password.
        raise StoreUnavailable(
            "the database URL cannot be read",
            "write postgresql://user:password@host:5432/database, in a password %40, %2F and %25 "
            "for @, / and %",
        )
    # A generation that was returned must be on disk, whatever the server's default is.
    ours = {
        "synchronous_commit": "on",
        "statement_timeout": str(settings.statement_timeout_ms),
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        # The pool closes idle sessions: if the server did, the next query would wait for new ones.
        "idle_session_timeout": "0",
        # Readers that pause between batches set their own: see `reading_transaction`.
        "idle_in_transaction_session_timeout": f"{IDLE_TRANSACTION_S * 1000:.0f}",
        **{f"tcp_keepalives_{name}": value for name, value in KEEPALIVES.items()},
        # The driver writes bytes and reads times in these formats.
        "standard_conforming_strings": "on",
        "datestyle": "ISO",
        # `set local` also counts on the node of a distributed schema. Without Citus it has no effect.
        "citus.propagate_set_commands": "local",
    }
    name = parameters.get("application_name") or "cocosearchd"
    # Files contain any character, whatever PGCLIENTENCODING says for a terminal.
    return make_conninfo(
        dsn,
        options=_options(parameters, ours),
        application_name=name,
        client_encoding="utf8",
        **_liveness_parameters(parameters),
    )


def _liveness_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of libpq that end a connection to a host that is gone.

    Those that the DSN has stay. Sockets of the same host ignore them.
    """
    ours: dict[str, Any] = {f"keepalives_{name}": value for name, value in KEEPALIVES.items()}
    if psycopg.pq.version() >= _USER_TIMEOUT_LIBPQ:
        ours["tcp_user_timeout"] = USER_TIMEOUT_MS
    return {name: value for name, value in ours.items() if name not in parameters}


def _is_misread(dsn: str) -> bool:
    """Return whether the driver took an @ or a / in a password for the end of the password.

    The rest of the password would be shown as a part of the address.
    """
    scheme, _, rest = dsn.partition("://")
    address, _, path = rest.partition("/")
    return scheme in ("postgresql", "postgres") and (
        address.count("@") > 1 or "@" in path.partition("?")[0]
    )


def _options(parameters: Mapping[str, Any], settings: Mapping[str, str]) -> str:
    """Append settings to the `options` of a DSN; the last value of a name counts."""
    return " ".join(
        [
            str(parameters.get("options") or ""),
            *(f"-c {name}={value}" for name, value in settings.items()),
        ]
    )


async def _configure(
    schema: str,
    series: str | None,
    answer_timeout_s: float | None,
    has_citus: bool,
    connection: Connection,
) -> None:
    """Prepare a new connection of a pool."""
    connection.answer_timeout_s = answer_timeout_s
    connection.server_cursor_factory = ServerCursor
    await register_vector_async(connection)
    if has_citus:
        await describe_schema(connection)
    if series is not None:
        key = series_key(schema, series)
        await connection.execute("select pg_advisory_lock_shared(%s)", (key,))


def series_key(schema: str, series: str) -> int:
    """Derive the lock of a series of processes, which all of their connections share.

    Locks are of the whole database. Daemons of other schemas may have series of the same name: two
    machines often have the same directories.
    """
    return int.from_bytes(hashlib.blake2b(f"{schema}\0{series}".encode(), digest_size=7).digest())


async def _wait_for_predecessors(connection: Connection, schema: str, series: str) -> None:
    """Wait until no connection of an earlier process is left. Raises `StoreUnavailable`."""
    key = series_key(schema, series)
    try:
        # waits no longer than lock_timeout
        await connection.execute("select pg_advisory_lock(%s)", (key,))
        await connection.execute("select pg_advisory_unlock(%s)", (key,))
    except psycopg.errors.LockNotAvailable:
        raise StoreUnavailable(
            "PostgreSQL still works for a process that has ended",
            "wait for it, or see `cocosearchctl status`",
        ) from None


async def _check(
    conninfo: str, series: str | None, answer_timeout_s: float | None, *, is_ours: bool
) -> ServerState:
    """Return the state of a usable database.

    Raises `StoreUnavailable`.
    """
    connect = partial(MonitoredConnection.connect, conninfo, **_CONNECT)
    try:
        connection = await connect()
    except psycopg.OperationalError as error:
        raise connection_error(conninfo, error) from None
    connection.answer_timeout_s = answer_timeout_s
    try:
        async with connection:
            vector = await check_database(connection)
            if not is_ours:
                await check_session_pooling(connection, connect)
            schema = await check_schema(connection)
            if series is not None:
                await _wait_for_predecessors(connection, schema, series)
            return ServerState(
                server_version=connection.info.parameter_status("server_version") or "",
                pgvector_version=vector,
                citus_version=await check_citus(connection),
                schema=schema,
            )
    except psycopg.Error as error:
        raise _translate(error) from error


# Errors with a cause that people can act on; the first match counts.
_CAUSES: tuple[tuple[type[psycopg.Error], Callable[[str, str], CocoSearchError], str, str], ...] = (
    (
        Unresponsive,
        StoreUnresponsive,
        "PostgreSQL is there, and answers nothing",
        "look at its processes, its disk and the network; it is used again as soon as it answers",
    ),
    (
        PoolTimeout,
        StoreUnavailable,
        "PostgreSQL does not answer",
        "wait for it, or see `cocosearchctl status`",
    ),
    (
        psycopg.errors.QueryCanceled,
        partial(CocoSearchError, code=TIMED_OUT),
        "the database took too long",
        "narrow the query, or raise database.statement_timeout_ms",
    ),
    (
        psycopg.errors.LockNotAvailable,
        partial(CocoSearchError, code=TIMED_OUT),
        "another operation holds the tables of this index",
        "try again when it has ended",
    ),
    (
        psycopg.errors.IdleInTransactionSessionTimeout,
        StoreUnavailable,
        "PostgreSQL ended a transaction in which this process stood still",
        "it is tried again; see why the process was stopped",
    ),
    (
        psycopg.errors.InvalidRegularExpression,
        InvalidInput,
        "a pattern of this filter cannot be used",
        "see that each [ has its ] and ranges ascend",
    ),
    (
        psycopg.errors.UndefinedTable,
        NotFound,
        "the tables of this index are gone",
        "see `cocosearchctl list`",
    ),
    (
        psycopg.errors.DiskFull,
        StoreUnavailable,
        "the disk of the database is full",
        "free some space; work goes on by itself",
    ),
    (
        psycopg.errors.InvalidSchemaName,
        StoreUnavailable,
        "no schema of the search_path is there",
        "name one that is, by ALTER ROLE or in the options of COCOSEARCH_DATABASE_URL",
    ),
    (
        psycopg.errors.ReadOnlySqlTransaction,
        StoreUnavailable,
        "the database is read-only",
        "name a primary server in COCOSEARCH_DATABASE_URL",
    ),
)


def _translate(error: psycopg.Error) -> CocoSearchError:
    for kind, ours, message, hint in _CAUSES:
        if isinstance(error, kind):
            return ours(message, hint)
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if node := failed_node(line):
        return StoreUnavailable(
            f"{node} of the cluster went away: {line}", "start it; work goes on by itself then"
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Refused(
            f"the database refuses: {line}", "give the user of COCOSEARCH_DATABASE_URL this right"
        )
    if isinstance(error, psycopg.OperationalError):
        # Classes 08 and 57: connection exception, operator intervention.
        lost = error.sqlstate is None or error.sqlstate[:2] in ("08", "57")
        summary = "PostgreSQL went away" if lost else "PostgreSQL could not do this now"
        return StoreUnavailable(f"{summary}: {line}", "wait for it, or see `cocosearchctl status`")
    return CocoSearchError(f"the database reports: {line}", "this is a defect; please report it")


def without_password(dsn: str) -> str:
    """Return the DSN with only those parameters that are no secrets."""
    harmless = {
        name: mask_urls(str(value))
        for name, value in conninfo_to_dict(dsn).items()
        if name in HARMLESS
    }
    return make_conninfo("", **harmless)


async def fetch_row(
    connection: Connection,
    query: sql.Composed | bytes,
    values: Mapping[str, Any] | None = None,
    *,
    prepare: bool = False,
) -> tuple[Any, ...] | None:
    """Execute a statement, and return its first row; None without one."""
    return await (await connection.execute(query, values, prepare=prepare)).fetchone()
