"""The embedded database is the daemon's alone: no other user connects, and the daemon's role is no
superuser.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.server import accounts
from cocosearchd.store.server.binaries import find_install
from cocosearchd.store.server.embedded import SOCKET, EmbeddedPostgres
from cocosearchd.store.server.processes import identify, list_processes
from cocosearchd.store.server.roles import DAEMON, SUPERUSER
from tests.clusters import copy_cluster
from tests.conftest import QUICK
from tests.daemon import Daemon
from tests.hostile.other_users import AS_ROOT, NOBODY, as_user, needs_root

SMALL = {"shared_buffers": "16MB"}
PLAIN = {"LC_ALL": "C", "PATH": os.defpath}  # no environment of the tests
ROWS = "select sum(n), count(*) from ours"


@pytest.fixture
def home(public_state: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The directory of one server."""
    home = public_state / f"d{abs(hash(request.node.name)) % 10**8}"
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def server(home: Path) -> Iterator[EmbeddedPostgres]:
    """The server of `home`, not started; it is ended after the test."""
    server = EmbeddedPostgres(home, SMALL)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def postgres(public_state: Path, cluster: Path) -> Iterator[EmbeddedPostgres]:
    """A running server, for tests that leave it as it is."""
    copy_cluster(cluster, public_state / "private")
    server = EmbeddedPostgres(public_state / "private", SMALL)
    server.ensure()
    yield server
    server.stop()


def connect_error(dsn: str) -> str:
    """The reason why a connection is refused; empty where it is not."""
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def uids_of(pids: Iterable[int]) -> set[int]:
    """The users of those processes that still run: the server's children come and go."""
    identities = [identify(pid) for pid in pids]
    return {identity.uid for identity in identities if identity is not None}


def owners(top: Path) -> set[int]:
    """The owners of all below a directory of a running server, which removes files meanwhile."""
    uids = set[int]()
    for directory, folders, files in os.walk(top):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                uids.add(Path(directory, name).lstat().st_uid)
    return uids


@needs_root
def test_the_server_shares_its_account_with_nobody(postgres: EmbeddedPostgres) -> None:
    assert uids_of(postgres.pids()) == {postgres.uid}
    assert postgres.uid not in (0, NOBODY)
    names = {user.pw_name for user in pwd.getpwall() if user.pw_uid == postgres.uid}
    assert names <= {"cocosearch"}
    assert owners(postgres.home / "pg") == {postgres.uid}


@needs_root
def test_other_users_do_not_reach_the_socket(postgres: EmbeddedPostgres) -> None:
    for role in (SUPERUSER, DAEMON):
        assert "Permission denied" in as_user(
            NOBODY, partial(connect_error, make_conninfo(postgres.dsn, user=role))
        )
    assert postgres.run.stat().st_mode & 0o777 == 0o700


@needs_root
@pytest.mark.parametrize("role", [SUPERUSER, DAEMON, "postgres"])
def test_other_users_who_reach_the_socket_are_refused(
    postgres: EmbeddedPostgres, role: str
) -> None:
    """Even where the directory and the socket are open to all: the kernel says who connects."""
    dsn = make_conninfo(postgres.dsn, user=role)
    modes = {path: path.stat().st_mode & 0o777 for path in (postgres.run, postgres.run / SOCKET)}
    try:
        for path in modes:
            path.chmod(0o777)
        for uid in (NOBODY, postgres.uid, 2_147_000_000):
            refusal = as_user(uid, lambda: connect_error(dsn))
            assert "Peer authentication failed" in refusal or "no pg_hba.conf entry" in refusal, (
                refusal
            )
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert connect_error(dsn) == "" or role == "postgres"


def test_nothing_listens_on_the_network(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.superuser_dsn) as connection:
        listeners = [
            connection.execute(f"show {name}").fetchone()
            for name in ("listen_addresses", "unix_socket_permissions", "hba_file", "ident_file")
        ]
        rules = connection.execute(
            "select auth_method, database, user_name, error from pg_hba_file_rules"
        ).fetchall()
        users = connection.execute(
            "select sys_name, pg_username, error from pg_ident_file_mappings"
        ).fetchall()
    files = [(str(postgres.home / name),) for name in ("pg_hba.conf", "pg_ident.conf")]
    assert listeners == [("",), ("0700",), *files]
    assert rules == [("peer", ["all"], [SUPERUSER, DAEMON], None)]
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert users == [(name, SUPERUSER, None), (name, DAEMON, None)]
    assert not (postgres.data / "pg_hba.conf").exists(), (
        "a server that is started by hand must not let everybody in"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 'x') to program 'cat > /tmp/cocosearch-owned'",
        "copy (select 'x') to '/tmp/cocosearch-owned'",
        "select pg_read_file('/etc/hostname')",
        "select pg_ls_dir('/')",
        "select lo_import('/etc/hostname')",
        "alter system set archive_command = 'id'",
        "load '/tmp/x.so'",
        "create function own() returns int language c as '/tmp/x.so'",
        f"set role {SUPERUSER}",
        f"alter role {DAEMON} superuser",
        f"alter role {SUPERUSER} password 'x'",
        "create role mine superuser",
        "drop extension vector",
        "select pg_reload_conf()",
    ],
)
def test_the_daemon_role_is_no_way_out_of_the_database(
    postgres: EmbeddedPostgres, statement: str
) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        assert connection.execute(
            "select current_user, current_setting('is_superuser')"
        ).fetchone() == (DAEMON, "off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


def run_as_before(home: Path, uid: int) -> "subprocess.Popen[bytes]":
    """A server as it was started before: without rules of its own, so those of the data directory
    hold.
    """
    conf = home / "postgresql.conf"
    conf.write_text(
        f"listen_addresses = ''\nport = 5432\nunix_socket_directories = '{home / 'run'}'\n"
    )
    command = [
        str(find_install().bin / "postgres"),
        "-D",
        str(home / "pg" / "data"),
        "-c",
        f"config_file={conf}",
    ]
    with (home / "postgres.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=PLAIN, cwd="/", **account(uid))


def account(uid: int) -> dict[str, Any]:
    return {"user": uid, "group": uid, "extra_groups": []} if AS_ROOT else {}


def superuser_of(home: Path) -> str:
    return make_conninfo(host=str(home / "run"), port=5432, user=SUPERUSER, dbname="postgres")


@pytest.fixture(scope="module")
def trusting_data(public_state: Path) -> Iterator[Path]:
    """A cluster as it was made before, stopped: `trust`, one superuser, and as root the account
    `nobody`.
    """
    home, uid = public_state / "trusting", NOBODY if AS_ROOT else os.geteuid()
    for path, mode in ((home, 0o711), (home / "pg", 0o700), (home / "run", 0o700)):
        path.mkdir()
        path.chmod(mode)
        if path != home:
            os.chown(path, uid, -1)
    program, data = str(find_install().bin / "initdb"), str(home / "pg" / "data")
    initdb = [program, "-D", data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    subprocess.run(initdb, check=True, capture_output=True, env=PLAIN, cwd="/", **account(uid))
    server = run_as_before(home, uid)
    fill(superuser_of(home))
    server.send_signal(signal.SIGINT)
    server.wait(120)
    yield home
    shutil.rmtree(home)


@pytest.fixture
def trusting_cluster(home: Path, trusting_data: Path) -> Iterator[Path]:
    """A running copy of it, of the test's own."""
    subprocess.run(["cp", "-a", trusting_data, home], check=True)
    server = run_as_before(home, (home / "pg").stat().st_uid)
    wait_for(superuser_of(home))
    if AS_ROOT:
        assert as_user(NOBODY, lambda: connect_error(superuser_of(home))) == "", (
            "others could enter it before"
        )
    yield home
    server.kill()
    server.wait(120)


def wait_for(dsn: str) -> None:
    deadline = time.monotonic() + 60
    while refusal := connect_error(dsn):
        assert time.monotonic() < deadline, refusal
        time.sleep(0.05)


def fill(dsn: str) -> None:
    """Tables of every kind that the daemon makes, with rows in them."""
    wait_for(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create extension vector")
        connection.execute(
            "create table ours (id int generated always as identity primary key, n int, v halfvec(2))"
        )
        connection.execute(
            "insert into ours (n, v) select i, '[1,2]' from generate_series(1, 100) i"
        )
        connection.execute("alter system set log_connections = 'on'")


def check_converted(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute(ROWS).fetchone() == (5050, 100)
        connection.execute("insert into ours (n) values (0)")
        connection.execute("create index on ours using hnsw (v halfvec_cosine_ops)")
        connection.execute("create table more (id int)")
        connection.execute("drop table ours, more")
        assert connection.execute("select current_setting('is_superuser')").fetchone() == ("off",)
    with psycopg.connect(server.superuser_dsn) as connection:
        assert connection.execute(
            "select distinct auth_method from pg_hba_file_rules"
        ).fetchall() == [("peer",)]
    assert owners(server.home / "pg") == {server.uid}
    assert not AS_ROOT or server.uid != NOBODY


def test_a_trusting_cluster_is_converted_with_all_rows(
    trusting_cluster: Path, server: EmbeddedPostgres
) -> None:
    previous_pids = server.pids()
    assert previous_pids, "the running server of before is recognised"
    server.ensure()
    assert not {*previous_pids} & {*server.pids()}
    if AS_ROOT:
        assert not (server.data / "postgresql.auto.conf").exists(), (
            "settings that somebody else could have made"
        )
        (server.run / SOCKET).chmod(0o777)
        server.run.chmod(0o711)
        assert "Peer authentication failed" in as_user(
            NOBODY, lambda: connect_error(server.superuser_dsn)
        )
        server.run.chmod(0o700)
    check_converted(server)
    first = server.pids()[0]
    EmbeddedPostgres(trusting_cluster, SMALL).ensure()
    assert server.pids()[0] == first, "nothing is left to be done"


@needs_root
@pytest.mark.parametrize(
    "calls", [*(pytest.param(calls, marks=pytest.mark.slow) for calls in (0, 7)), 1, 400]
)
def test_a_conversion_that_is_killed_goes_on(
    trusting_cluster: Path, server: EmbeddedPostgres, calls: int
) -> None:
    """The process ends at that change of an owner; the next start finds data of two accounts."""
    pid = os.fork()
    if pid == 0:
        remaining = iter(range(calls))

        def until_killed(original: Callable[..., None]) -> Callable[..., None]:
            def change(*arguments: object, **options: object) -> None:
                if next(remaining, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                original(*arguments, **options)

            return change

        for name in ("chown", "fchown"):
            setattr(os, name, until_killed(getattr(os, name)))
        with contextlib.suppress(BaseException):
            EmbeddedPostgres(trusting_cluster, SMALL).ensure()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    server.ensure()
    check_converted(server)


@needs_root
def test_files_of_the_system_do_not_come_along(
    trusting_cluster: Path, server: EmbeddedPostgres
) -> None:
    """A former user of the account could name another file of this disk in the data."""
    system_file = trusting_cluster.parent / "system-file"
    system_file.write_text("root's")
    os.link(system_file, trusting_cluster / "pg" / "data" / "base" / "planted")
    (trusting_cluster / "pg" / "data" / "base" / "link").symlink_to(system_file)
    with pytest.raises(StoreUnavailable, match="planted has a second name") as refusal:
        server.ensure()
    assert "index again" in refusal.value.hint
    assert system_file.stat().st_uid == 0
    (trusting_cluster / "pg" / "data" / "base" / "planted").unlink()
    server.ensure()
    assert system_file.stat().st_uid == 0
    check_converted(server)


@needs_root
def test_initialising_is_closed_to_the_account_that_is_lent(home: Path) -> None:
    """`initdb` runs as `nobody`, in a group of its own: others of that name see neither its files
    nor its memory.
    """
    install, programs = find_install(), home.parent / f"{home.name}-bin"
    programs.mkdir()
    for program in install.bin.iterdir():
        (programs / program.name).symlink_to(program)
    (programs / "initdb").unlink()
    waits = f"while [ ! -e {programs}/go ]; do sleep 0.05; done"  # until it has been looked at
    (programs / "initdb").write_text(f'#!/bin/sh\n{waits}\nexec {install.bin}/initdb "$@"\n')
    (programs / "initdb").chmod(0o755)
    server = EmbeddedPostgres(home, SMALL, str(programs))
    assert server.account is not None
    if server.account.name:
        pytest.skip("the system user cocosearch exists here: no account is lent")
    start = threading.Thread(target=server.ensure)
    start.start()
    deadline, part = time.monotonic() + 60, server.data.with_name("data.part")
    while not (
        started := [
            process.pid for process in list_processes() if f"initdb -D {part}" in process.command
        ]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for attempt in (
        lambda: list(part.iterdir()),
        lambda: list(part.parent.iterdir()),
        lambda: (part / "planted").write_text("x"),
        lambda: Path(f"/proc/{started[0]}/environ").read_bytes(),
        lambda: list(Path(f"/proc/{started[0]}/cwd/").iterdir()),
    ):
        assert str(as_user(NOBODY, attempt)).startswith("PermissionError"), attempt
    (programs / "go").touch()
    start.join()
    assert connect_error(server.dsn) == ""
    server.stop()
    shutil.rmtree(programs)


@needs_root
def test_an_account_number_in_use_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = accounts.private_uid(b"seed")
    assert first == accounts.private_uid(b"seed") != accounts.private_uid(b"other seed")
    (tmp_path / "subuid").write_text(f"someone:{first}:3\n# a comment\nbroken\n")
    monkeypatch.setattr(accounts, "SUBORDINATE_FILES", (tmp_path / "subuid", tmp_path / "missing"))
    assert accounts.private_uid(b"seed") == first + 3
    with subprocess.Popen(["sleep", "60"], user=first + 3) as process:
        assert accounts.private_uid(b"seed") == first + 4
        process.kill()


def test_a_container_with_few_account_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "map").write_text("         0     100000      65536\n")
    monkeypatch.setattr(accounts, "MAP_FILES", (tmp_path / "map",))
    assert accounts.private_uid(b"seed") in accounts.PRIVATE_UIDS[1]
    (tmp_path / "map").write_text("         0       1000          1\n")
    with pytest.raises(StoreUnavailable, match="there is no account for it alone") as refusal:
        accounts.private_uid(b"seed")
    assert "useradd --system" in refusal.value.hint


def test_a_daemon_indexes_and_answers_as_that_role(shared: Daemon, tmp_path: Path) -> None:
    """The whole product, from a real start: nothing needs more rights than the role has."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "main.py").write_text("def answer_of_the_private_database():\n    return 42\n")
    shared.index(root)
    assert shared.paths("answer_of_the_private_database")[:1] == ["main.py"]
    dsn = shared.call("status")["store"]["dsn"]
    assert f"user={DAEMON}" in dsn.split()
    check_users(shared)


def check_users(daemon: Daemon) -> None:
    """Every connection but the test's own is the daemon role's."""
    server = EmbeddedPostgres(daemon.home / "state" / "postgres", QUICK)
    with psycopg.connect(server.superuser_dsn) as connection:
        users = connection.execute(
            "select distinct usename from pg_stat_activity where backend_type = 'client backend' and pid <> "
            "pg_backend_pid()"
        ).fetchall()
    assert users == [(DAEMON,)]
