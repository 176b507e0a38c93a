"""The embedded server after faults: kill -9, wrong pid files, lost sockets, races, settings."""

import asyncio
import contextlib
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.index_records import damaged_files, list_indexes, read_generation
from cocosearchd.store.server import embedded, server_log
from cocosearchd.store.server.embedded import DEFAULTS, EmbeddedPostgres
from cocosearchd.store.server.processes import list_processes
from tests.clusters import copy_cluster, keep_cluster
from tests.store.support import file_write, new_index
from tests.waiting import wait_until

SMALL = {"shared_buffers": "16MB"}
AS_ROOT = os.geteuid() == 0


class Servers:
    """Makes embedded servers and ends all of them."""

    def __init__(self, home: Path) -> None:
        self.home, self.made = home, list[EmbeddedPostgres]()

    def __call__(
        self, settings: dict[str, str] = SMALL, home: Path | None = None, bin_dir: str = ""
    ) -> EmbeddedPostgres:
        self.made.append(EmbeddedPostgres(home or self.home, settings, bin_dir))
        return self.made[-1]


@pytest.fixture
def servers(public_state: Path, request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Makes servers in one empty state directory."""
    servers = Servers(public_state / f"h{abs(hash(request.node.name)) % 10**8}")
    yield servers
    for server in servers.made:
        server.stop()
    shutil.rmtree(servers.home, ignore_errors=True)


@pytest.fixture
def initialised(servers: Servers, cluster: Path) -> Iterator[Servers]:
    """Makes servers in one state directory, which is initialised."""
    copy_cluster(cluster, servers.home)
    yield servers
    for server in servers.made:
        server.stop()
    keep_cluster(servers.home / "pg", cluster)


@pytest.fixture(scope="module")
def postgres(public_state: Path, cluster: Path) -> Iterator[EmbeddedPostgres]:
    """One server for many crashes, with a table of what was committed."""
    copy_cluster(cluster, public_state / "crash")
    server = EmbeddedPostgres(public_state / "crash", SMALL)
    with psycopg.connect(server.ensure(), autocommit=True) as connection:
        connection.execute("create table committed (n int)")
    yield server
    server.stop()


def ask(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = (
            connection.execute(query).fetchone()
            if query.startswith("select")
            else connection.execute(query) and None
        )
    return row[0] if row else None


def gone(pid: int) -> bool:
    return all(process.pid != pid or not process.command for process in list_processes())


def kill_first(server: EmbeddedPostgres) -> None:
    os.kill(server.pids()[0], signal.SIGKILL)


def kill_all(server: EmbeddedPostgres) -> None:
    for pid in server.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_helper(server: EmbeddedPostgres) -> None:
    """Any process but the first one: the others restart by themselves."""
    for pid in server.pids()[1:]:
        with contextlib.suppress(ProcessLookupError):  # a worker that has ended since the listing
            os.kill(pid, signal.SIGKILL)
            return


def kill_backend(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


def stop_and_leave_socket(server: EmbeddedPostgres) -> None:
    server.stop()
    (server.run / ".s.PGSQL.5432").touch()
    (server.run / ".s.PGSQL.5432.lock").write_text("1\n")


CRASHES = [kill_first, kill_all, kill_helper, kill_backend, stop_and_leave_socket]


@pytest.mark.parametrize("crash", CRASHES)
def test_crash_loses_nothing_committed(
    postgres: EmbeddedPostgres, crash: Callable[[EmbeddedPostgres], None]
) -> None:
    dsn = postgres.ensure()
    count = ask(dsn, "select count(*) from committed")
    ask(dsn, "insert into committed values (1), (2)")
    crash(postgres)
    assert postgres.ensure() == dsn
    wait_until(lambda: answers(dsn))  # a killed helper is noticed a moment later
    assert ask(dsn, "select count(*) from committed") == int(str(count)) + 2


def answers(dsn: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        return ask(dsn, "select 1") == 1
    return False


def foreign_pid() -> bytes:
    """Name a live process that is not PostgreSQL: this one's parent."""
    return str(os.getppid()).encode()


PID_FILES = {
    "dead pid": lambda: b"4194000\n/nowhere\n",
    "empty": lambda: b"",
    "garbage": lambda: b"\xff\x00 not a pid",
    "pid 1": lambda: b"1\n",
    "this process": lambda: str(os.getpid()).encode(),
    "a foreign process": foreign_pid,
}


@pytest.mark.parametrize("content", PID_FILES.values(), ids=PID_FILES.keys())
@pytest.mark.parametrize("alive", [False, True], ids=["stopped", "running"])
def test_pid_file_is_not_believed(
    postgres: EmbeddedPostgres, content: Callable[[], bytes], alive: bool
) -> None:
    postgres.ensure()
    server = postgres.pids()[0]
    if not alive:
        postgres.stop()
        assert postgres.pids() == ()
    pid_file = postgres.data / "postmaster.pid"
    previous_content = pid_file.read_bytes() if alive else b""
    pid_file.write_bytes(content())
    assert answers(postgres.ensure())
    assert (postgres.pids()[0] == server) == alive
    if alive:  # a running server ends itself once it notices that the file is another's
        pid_file.write_bytes(previous_content)


def test_server_without_its_pid_file_is_stopped_and_started(postgres: EmbeddedPostgres) -> None:
    postgres.ensure()
    server = postgres.pids()[0]
    (postgres.data / "postmaster.pid").unlink()
    postgres.stop()
    assert gone(server)
    assert answers(postgres.ensure())


def test_deleted_socket(postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody cleaned up: the server lives, and nobody can reach it."""
    monkeypatch.setattr(embedded, "SOCKET_GONE_S", 0.2)
    postgres.ensure()
    server = postgres.pids()[0]
    assert postgres.reachable()
    (postgres.run / ".s.PGSQL.5432").unlink()
    assert postgres.running()
    assert not postgres.reachable()
    assert answers(postgres.ensure())
    assert postgres.pids()[0] != server
    assert postgres.reachable()


def test_one_server_by_whatever_name_its_directory_is_called(
    postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    postgres.ensure()
    link = tmp_path / "link"
    link.symlink_to(postgres.home.parent)
    other_server = EmbeddedPostgres(link / postgres.home.name, SMALL)
    assert other_server.pids() == postgres.pids() != ()
    assert other_server.ensure() == postgres.dsn
    other_server.stop()
    assert not postgres.running()


def test_server_outlives_the_daemon_and_is_adopted(postgres: EmbeddedPostgres) -> None:
    postgres.stop()
    code = "import sys, os; from pathlib import Path; from cocosearchd.store.server.embedded import EmbeddedPostgres\n"
    code += f"EmbeddedPostgres(Path(sys.argv[1]), {SMALL}).ensure(); os.kill(os.getpid(), 9)"
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    daemon = subprocess.run([sys.executable, "-c", code, str(postgres.home)], env=environment)
    assert daemon.returncode == -signal.SIGKILL
    (server, *_) = postgres.pids()
    assert answers(postgres.ensure())
    assert postgres.pids()[0] == server


def test_a_server_that_was_stopped_is_adopted_and_ends(postgres: EmbeddedPostgres) -> None:
    """By a signal, with all of its processes: it would follow no order, and answer nobody."""

    def stop_all() -> None:
        for pid in postgres.pids():
            with contextlib.suppress(ProcessLookupError):  # a worker that ended since the listing
                os.kill(pid, signal.SIGSTOP)

    first = postgres.pids()[0]
    stop_all()
    postgres.ensure()
    assert postgres.pids()[0] == first
    stop_all()
    postgres.stop()
    assert not postgres.running()


def test_racing_daemons_get_one_server(servers: Servers) -> None:
    """On an empty directory, then after a crash."""
    daemons = [servers() for _ in range(4)]
    for _ in range(2):
        with ThreadPoolExecutor(4) as threads:
            dsns = list(threads.map(EmbeddedPostgres.ensure, daemons))
        assert len(dsns) == 4
        assert len(set(dsns)) == 1
        assert len({daemon.pids()[0] for daemon in daemons}) == 1
        kill_all(daemons[0])
    for daemon in daemons:
        daemon.stop()


@pytest.mark.parametrize("seed", range(3))
def test_killed_initialisation(servers: Servers, seed: int) -> None:
    random.seed(seed)
    racing = servers()
    thread = threading.Thread(target=swallow, args=(racing.ensure,))
    thread.start()
    initialising = f"-D {racing.data.with_name('data.part')}"
    deadline = time.monotonic() + 60
    while not (
        pids := [process.pid for process in list_processes() if initialising in process.command]
    ):
        assert time.monotonic() < deadline
    time.sleep(random.uniform(0, 0.3))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    thread.join()
    assert answers(servers().ensure())
    racing.stop()


def swallow(action: Callable[[], object]) -> None:
    with contextlib.suppress(StoreUnavailable):
        action()


def test_other_settings_restart_it(initialised: Servers) -> None:
    first = initialised()
    assert ask(first.ensure(), "select current_setting('shared_buffers')") == "16MB"
    second = initialised({"shared_buffers": "32MB"})
    assert ask(second.ensure(), "select current_setting('shared_buffers')") == "32MB"
    assert ask(second.dsn, "select current_setting('io_method')") == "sync"
    assert ask(second.dsn, "select current_setting('synchronous_commit')") == "on"
    assert "wal_writer_delay" not in DEFAULTS
    assert ask(second.dsn, "select lower('ÉCOLE ΣΟΦΟΣ')") == "école σοφοσ"
    wait_until(lambda: len(second.pids()) <= 7)  # a process of a session ends some time after it
    assert second.running()
    first.stop()
    assert second.pids() == ()
    assert not second.running()
    second.stop()


def test_a_setting_that_postgresql_refuses(initialised: Servers) -> None:
    with pytest.raises(StoreUnavailable, match="PostgreSQL does not start: FATAL") as caught:
        initialised({"no_such_setting": "1"}).ensure()
    assert "postgres.log" in caught.value.hint
    assert answers(initialised().ensure())


def test_log_is_bounded(initialised: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_log, "LOG_LIMIT", 2000)
    monkeypatch.setattr(server_log, "LOG_TAIL", 500)
    server = initialised()
    dsn = server.ensure()
    for _ in range(40):
        with psycopg.connect(dsn) as connection, contextlib.suppress(psycopg.Error):
            connection.execute("select no_such_column -- secret source code")
    assert "secret source code" not in server.log.read_text()
    assert server.log.stat().st_size > 2000
    server.ensure()
    assert server.log.stat().st_size == 500
    with psycopg.connect(dsn) as connection, contextlib.suppress(psycopg.Error):
        connection.execute("select no_such_column")
    assert b"\0" not in server.log.read_bytes()  # it appends where the log now ends
    assert 500 < server.log.stat().st_size < 1000


def test_used_log_of_writes_goes(postgres: EmbeddedPostgres) -> None:
    """A large index leaves a gigabyte of it."""
    log = postgres.data / "pg_wal"
    postgres.ensure()
    with psycopg.connect(postgres.superuser_dsn, autocommit=True) as connection:
        for _ in range(6):
            connection.execute("insert into committed values (0)")
            connection.execute("select pg_switch_wal()")
        assert len([file for file in log.iterdir() if file.is_file()]) >= 6
        connection.execute("checkpoint")
    assert len([file for file in log.iterdir() if file.is_file()]) <= 2


def test_hostile_environment_and_a_long_path(
    public_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGPORT": "1",
        "PGDATA": "/nowhere",
        "PGHOST": "nowhere",
        "LC_ALL": "xx_YY",
    }.items():
        monkeypatch.setenv(name, value)
    server = EmbeddedPostgres(public_state / ("long " * 20), SMALL)
    assert len(str(server.run)) < 60
    try:
        assert answers(server.ensure())
    finally:
        server.stop()
        shutil.rmtree(server.run)


def test_no_programs(servers: Servers) -> None:
    with pytest.raises(StoreUnavailable, match="found no PostgreSQL with pgvector") as caught:
        servers(bin_dir="/nonexistent").ensure()
    assert "COCOSEARCH_PG_BIN" in caught.value.hint


def test_data_of_another_major_version(servers: Servers) -> None:
    server = servers()
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("12\n")
    with pytest.raises(
        StoreUnavailable, match="12 with pgvector, which made the data here"
    ) as caught:
        server.ensure()
    assert f"delete {servers.home / 'pg'} and index again" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"\xff\xfe"], ids=["empty", "garbage"])
def test_damaged_data(initialised: Servers, content: bytes) -> None:
    server = initialised()
    server.ensure()
    server.stop()
    (server.data / "PG_VERSION").write_bytes(content)
    with pytest.raises(StoreUnavailable, match="PostgreSQL does not start: FATAL") as caught:
        server.ensure()
    assert f"delete {initialised.home / 'pg'} and index again" in caught.value.hint


def test_symbolic_links_are_not_followed(servers: Servers, tmp_path: Path) -> None:
    servers.home.mkdir()
    (servers.home / "run").symlink_to(tmp_path)
    with pytest.raises(StoreUnavailable, match="belongs to somebody else"):
        servers().ensure()


@pytest.mark.skipif(not AS_ROOT, reason="only root gives way to another account")
def test_root_gives_way_and_says_what_that_account_cannot_reach(servers: Servers) -> None:
    closed = servers.home / "closed"
    closed.mkdir(parents=True, mode=0o700)
    servers.home.chmod(0o711)
    with pytest.raises(StoreUnavailable, match="PostgreSQL does not run as root, and") as caught:
        servers(home=closed / "state").ensure()
    assert f"chmod o+x {closed}" in caught.value.hint
    server = servers(home=servers.home / "state")
    server.ensure()
    assert server.account is not None
    assert server.account.name in ("", "cocosearch")
    assert Path(f"/proc/{server.pids()[0]}").stat().st_uid == server.uid != 0
    assert (servers.home / "state" / "pg").stat().st_mode & 0o777 == 0o700
    server.stop()


@pytest.mark.skipif(not AS_ROOT, reason="the other tests run as an ordinary user already")
def test_runs_as_an_ordinary_user(servers: Servers) -> None:
    """Forked, since the interpreter's own files may be closed to that user.

    Under systemd the filter of the units answers each call to give a file away as here, a call
    without effect as well. It is not set up itself, since its numbers differ from one kind of
    processor to the next.
    """

    def filtered(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    servers.home.mkdir()
    os.chown(servers.home, 65534, 65534)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.chown = filtered  # of the forked process alone
            server = servers()
            assert server.account is None
            status = 0 if answers(server.ensure()) else 2
            server.stop()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (servers.home / "pg").stat().st_uid == 65534


def test_copied_programs_run(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the account cannot reach are copied once."""
    server = servers()
    reachable = EmbeddedPostgres._is_reachable
    monkeypatch.setattr(
        EmbeddedPostgres,
        "_is_reachable",
        lambda self, path: path.name != "postgres" and reachable(self, path),
    )
    assert answers(server.ensure())
    (copy,) = (servers.home / "install").iterdir()
    assert str(copy) in server.conf.read_text()
    previous_time = copy.stat().st_mtime_ns
    server.ensure()
    assert copy.stat().st_mtime_ns == previous_time
    server.stop()


@pytest.mark.parametrize("seed", range(3))
def test_a_published_generation_is_never_lost(postgres: EmbeddedPostgres, seed: int) -> None:
    """Whoever was told a generation finds it after kill -9 of everything, and no half of what came
    after.
    """
    published, delay_s = list[int](), random.Random(seed).uniform(0.1, 0.4)
    asyncio.run(write_until_killed(postgres, published, delay_s, f"crash{seed}"))
    asyncio.run(check_published(postgres.ensure(), published, f"crash{seed}"))


async def write_until_killed(
    server: EmbeddedPostgres, published: list[int], delay_s: float, name: str
) -> None:
    async with Database.open(server.ensure(), DatabaseSettings(pool_min=1, pool_max=1), 0.5) as db:
        await migrate_registry(db)
        record = await new_index(db, name, name.encode())
        for n in range(100_000):
            try:
                published.append(
                    await replace_file(
                        db, record, file_write(f"{n % 5}.py", *(f"x{n}",) * (n % 4 + 1))
                    )
                )
            except StoreUnavailable:
                return
            if n == 0:
                asyncio.get_running_loop().call_later(delay_s, kill_all, server)


async def check_published(dsn: str, published: list[int], name: str) -> None:
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=1)) as db:
        (record,) = [record for record in await list_indexes(db) if record.name == name]
        assert published
        # The one in flight may have been committed before it could be told.
        assert await read_generation(db, record) in (published[-1], published[-1] + 1)
        assert await damaged_files(db, record) == ()
