"""Real PostgreSQL for every test that asks: one embedded server per run, one empty database per
test.

`dsn` is the address of an empty, migrated database of the test's own; `db` is it opened.
"""

import asyncio
import contextlib
import fcntl
import gc
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.server.embedded import EmbeddedPostgres
from cocosearchd.store.server.roles import DAEMON, SUPERUSER
from tests.cluster.exceptions import EXCEPTIONS
from tests.clusters import copy_cluster, initialise_cluster
from tests.common_cluster import STATE_PREFIX, make_state
from tests.daemon import Daemon, DaemonPool, passing_daemon
from tests.databases import DatabasePool
from tests.schemas import CITUS, SchemaPool

SOURCES = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("daemon", "ipc")]
TEMPLATE = "template_cocosearch"
# Tests do not outlive a power cut. The crash tests run servers of their own, with the product's
# settings.
QUICK = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "80",
}


def pytest_configure(config: pytest.Config) -> None:
    """Start only programs of this work tree, whichever tree the interpreter has installed.

    Whoever starts the tests in the background may have them ignore Ctrl-C, and so every program
    that they start.

    A hook of git, a bisection or a rebase has them speak of its own repository, whatever directory
    they are in.

    Programs keep their bytecode, as for `make test`: to compile all of its modules again takes a
    daemon 0.6 s of CPU.

    Hypothesis has the same examples in every `make test`, so that a run fails by what has changed.
    Without `-m "not slow"` they are other ones each time.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*SOURCES, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    ).strip(":")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The time of an example depends on the load of the machine, not on the code.
    settings.register_profile(
        "load",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=config.getoption("markexpr") == "not slow",
    )
    settings.load_profile("load")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With a cluster, leave out what needs no database, and skip what it cannot do: each by name."""
    if not CITUS:
        return
    items[:] = [item for item in items if is_for_cluster(item)]
    for item in items:
        name = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        if name in EXCEPTIONS:
            item.add_marker(pytest.mark.skip(reason=EXCEPTIONS[name]))


def is_for_cluster(item: pytest.Item) -> bool:
    """Tell whether a test uses a database of its own, or is about clusters."""
    return "databases" in getattr(item, "fixturenames", ()) or "cluster" in item.path.parts


def pytest_collection_finish() -> None:
    """Set aside the modules, which stay to the end: a collection of garbage then takes
    milliseconds, not 0.2 s.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """psycopg's pool is asyncio's, and so is the daemon."""
    return "asyncio"


@pytest.fixture(scope="session")
def public_state() -> Iterator[Path]:
    """A short-named directory of this run that every account may enter: as root, PostgreSQL runs as
    another one.

    (pytest's own temporary directories are closed to others, and too deep for the name of a
    socket.)
    """
    _sweep()
    path = make_state()
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _sweep() -> None:
    """Ends servers of test runs that were killed, and removes what they left."""
    for leftover in Path("/tmp").glob(f"{STATE_PREFIX}*"):
        owner = leftover.name.removeprefix(STATE_PREFIX).partition("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            with contextlib.suppress(FileNotFoundError):  # another run removes it as well
                for home in {data.parent.parent for data in leftover.glob("**/pg/data")}:
                    EmbeddedPostgres(home, {}).stop()
            shutil.rmtree(leftover, ignore_errors=True)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.fixture(scope="session")
def cluster(public_state: Path) -> Path:
    """A directory of PostgreSQL as `initdb` makes it, for servers to begin with a copy: that is
    made once a run, or once for all runs of one `make test`.

    (Where `initdb` itself is tested, and where people start the daemon, it runs.)
    """
    home = public_state / "made"
    if common := os.environ.get("TESTS_CLUSTER"):
        copy_cluster(_ensure_common_cluster(Path(common)), home)
    else:
        initialise_cluster(home)
    return home / "pg"


def _ensure_common_cluster(folder: Path) -> Path:
    """The cluster that several runs copy. The first one makes it, the others wait for it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            initialise_cluster(folder / "made")
            (folder / "complete").touch()
    return folder / "made" / "pg"


@pytest.fixture
def stopped(cluster: Path) -> Iterator[Daemon]:
    """A daemon that has not been started."""
    with passing_daemon(cluster) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def daemons(cluster: Path) -> Iterator[DaemonPool]:
    """The daemons behind `daemon`."""
    pool = DaemonPool(cluster)
    yield pool
    pool.close()


@pytest.fixture
def daemon(daemons: DaemonPool, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A running daemon without indexes, of the test's own: the test may kill, stop, starve and
    configure it.

    It may have run for another test, which passed and left it running: a test of a first start, or
    of the memory of an unused daemon, takes `stopped`.
    """
    with daemons.daemon(lambda: request.session.testsfailed) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def common_daemon(cluster: Path) -> Iterator[Daemon]:
    """The running daemon behind `shared`."""
    with passing_daemon(cluster) as daemon:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0


@pytest.fixture
def shared(common_daemon: Daemon) -> Iterator[Daemon]:
    """A running daemon without indexes, one for a whole run: for tests that leave it as it is."""
    yield common_daemon
    common_daemon.clear()


@pytest.fixture(scope="session")
def embedded_server(public_state: Path, cluster: Path) -> Iterator[str]:
    """The DSN of this run's embedded server, as the daemon's role, which may make databases
    here.
    """
    copy_cluster(cluster, public_state / "server")
    postgres = EmbeddedPostgres(public_state / "server", QUICK)
    try:
        dsn = postgres.ensure()
        with psycopg.connect(postgres.superuser_dsn, autocommit=True) as connection:
            connection.execute(f"alter role {DAEMON} createdb")
        yield dsn
    finally:
        postgres.stop()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> str:
    """The server that tests use. A folder may override it."""
    return CITUS or str(request.getfixturevalue("embedded_server"))


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """A migrated, empty database for others to be copied from. (Not async, so that sync tests may
    ask for it.)
    """
    return "" if CITUS else asyncio.run(make_template(server))


async def make_template(server: str) -> str:
    """Makes the template database on `server`, unless it is there, migrates it, and returns its
    name.
    """
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
        rows = await connection.execute("select 1 from pg_database where datname = %s", (TEMPLATE,))
        if await rows.fetchone() is None:
            await connection.execute(sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
            with psycopg.connect(
                make_conninfo(server, dbname=TEMPLATE, user=SUPERUSER)
            ) as superuser:
                superuser.execute("create extension vector")
    async with Database.open(
        make_conninfo(server, dbname=TEMPLATE), DatabaseSettings(pool_min=1, pool_max=1)
    ) as postgres:
        await migrate_registry(postgres)
    return TEMPLATE


@pytest.fixture(scope="session")
def database_pools() -> dict[str, DatabasePool | SchemaPool]:
    """The pools of databases of this run, by server. The servers end with the run."""
    return {}


@pytest.fixture(scope="module")
def databases(
    server: str,
    database_pools: dict[str, DatabasePool | SchemaPool],
    request: pytest.FixtureRequest,
) -> DatabasePool | SchemaPool:
    """The databases of a server: empty copies of the template, or schemas of a cluster.

    Not of the session: pytest would lend those of the first folder to one that overrides `server`.
    """
    if server not in database_pools:
        database_pools[server] = (
            SchemaPool(server)
            if CITUS
            else DatabasePool(server, request.getfixturevalue("template"))
        )
    return database_pools[server]


@pytest.fixture
def dsn(databases: DatabasePool | SchemaPool) -> Iterator[str]:
    """An empty, migrated database of the test's own."""
    with databases.database() as database:
        yield database


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Database]:
    """The test's own database, opened."""
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=4)) as database:
        yield database


@pytest.fixture(scope="module")
async def module_db(databases: DatabasePool | SchemaPool) -> AsyncIterator[Database]:
    """Like `db`, but one for all tests of a module: for tests that only read."""
    with databases.database() as dsn:
        async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=8)) as database:
            yield database
