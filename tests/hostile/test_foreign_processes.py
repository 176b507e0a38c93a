"""Foreign programs that look like ours (command lines, sockets, directories, pid files) block
nothing.
"""

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cocosearch_ipc import client
from cocosearch_ipc.error_codes import REFUSED
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.trust import ownership
from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.server import processes
from cocosearchd.store.server.embedded import SOCKET, EmbeddedPostgres
from cocosearchd.store.server.processes import (
    Process,
    identify,
    listener_uid,
    read_process,
    send_signal,
)
from tests.clusters import copy_cluster, keep_cluster
from tests.daemon import Daemon, passing_daemon
from tests.hostile.other_users import AS_ROOT, NOBODY, as_user, needs_root
from tests.machine_speed import FairClock

SMALL = {"shared_buffers": "16MB"}


@pytest.fixture
def server(public_state: Path, cluster: Path) -> Iterator[EmbeddedPostgres]:
    """A server with data, not started."""
    home = public_state / "foreign"
    copy_cluster(cluster, home)
    home.chmod(0o711)
    server = EmbeddedPostgres(home, SMALL)
    yield server
    server.stop()
    keep_cluster(home / "pg", cluster)
    shutil.rmtree(home)


@contextlib.contextmanager
def impostor(
    server: EmbeddedPostgres, program: str = "sleep", **options: object
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that calls itself what the server is called."""
    name = f"postgres -D {server.data} -c config_file={server.conf}"
    command = ["bash", "-c", 'exec -a "$0" "$1" 400', name, program]
    with subprocess.Popen(command, **options) as running:  # type: ignore[call-overload]
        try:
            deadline = time.monotonic() + 60
            while (process := read_process(running.pid)) is None or not process.command.startswith(
                name
            ):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield running
        finally:
            running.kill()


def check_unhindered(server: EmbeddedPostgres, impostor: "subprocess.Popen[bytes]") -> None:
    """The server starts, answers and stops beside a process, to which nothing happens."""
    assert server.pids() == ()
    with FairClock() as clock, psycopg.connect(server.ensure()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert clock.fair_s < 30, "it was waited for"
    assert impostor.pid not in server.pids()
    assert server.pids()[0] != impostor.pid
    server.stop()
    assert not server.running()
    assert impostor.poll() is None, "a process that is not ours was ended"


@pytest.fixture(scope="module")
def program_named_postgres(public_state: Path) -> str:
    sleep = shutil.which("sleep")
    assert sleep
    folder = public_state / "named"
    folder.mkdir()
    shutil.copy(sleep, folder / "postgres")
    return str(folder / "postgres")


def account(uid: int) -> dict[str, Any]:
    return {"user": uid, "group": uid, "extra_groups": []} if AS_ROOT else {}


def skip_where_programs_are_hidden(impostor: "subprocess.Popen[bytes]") -> None:
    """For root without CAP_SYS_PTRACE the user decides, and the server's own is nobody else's."""
    identity = identify(impostor.pid)
    if identity is not None and not identity.program:
        pytest.skip("programs of other users cannot be seen here: root lacks CAP_SYS_PTRACE")


def test_another_program_with_a_command_line_like_ours_blocks_nothing(
    server: EmbeddedPostgres,
) -> None:
    """The program runs as the server's user, in the server's directory."""
    with impostor(server, cwd=server.data, **account(server.uid)) as program:
        skip_where_programs_are_hidden(program)
        check_unhindered(server, program)


def test_a_program_elsewhere_with_a_command_line_like_ours_blocks_nothing(
    server: EmbeddedPostgres, program_named_postgres: str
) -> None:
    """The program runs as the server's user and has its name, like a server of other data."""
    with impostor(server, program_named_postgres, cwd="/", **account(server.uid)) as program:
        skip_where_programs_are_hidden(program)
        check_unhindered(server, program)


@needs_root
@pytest.mark.parametrize("uid", [0, NOBODY, pytest.param(2_147_000_001, marks=pytest.mark.slow)])
def test_a_command_line_like_ours_of_another_user_blocks_nothing(
    server: EmbeddedPostgres, program_named_postgres: str, uid: int
) -> None:
    with impostor(server, program_named_postgres, cwd=server.data, **account(uid)) as program:
        check_unhindered(server, program)


@needs_root
def test_users_are_told_apart_where_programs_cannot_be_seen(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the case of root in a container without CAP_SYS_PTRACE."""
    monkeypatch.setattr(processes, "_link", lambda *_: "")
    server.ensure()
    adopting = EmbeddedPostgres(server.home, SMALL)
    assert adopting.pids()[0] == server.pids()[0]
    server.stop()
    with impostor(server, user=NOBODY, group=NOBODY, extra_groups=[]) as program:
        check_unhindered(server, program)


def test_a_pid_file_that_names_a_foreign_process(server: EmbeddedPostgres) -> None:
    with impostor(server) as program:
        (server.data / "postmaster.pid").write_text(f"{program.pid}\n{server.data}\n")
        check_unhindered(server, program)


def test_a_signal_never_meets_who_got_the_number_later() -> None:
    with subprocess.Popen(["sleep", "60"]) as running:
        current = read_process(running.pid)
        assert current is not None
        send_signal(
            Process(current.pid, current.parent, current.command, current.started - 1),
            signal.SIGKILL,
        )
        time.sleep(0.1)
        assert running.poll() is None
        send_signal(current, signal.SIGKILL)
        assert running.wait(10) == -signal.SIGKILL
    send_signal(current, signal.SIGKILL)  # it is gone


def test_a_process_is_identified_by_what_it_cannot_choose() -> None:
    with subprocess.Popen(
        ["bash", "-c", "exec -a /usr/bin/postgres sleep 60"], cwd="/usr"
    ) as running:
        deadline = time.monotonic() + 60
        while (identity := identify(running.pid)) is None or not identity.program.endswith(
            "/sleep"
        ):
            assert time.monotonic() < deadline, identity
            time.sleep(0.01)
        assert (identity.uid, identity.directory) == (os.geteuid(), "/usr")
        running.kill()
    assert identify(running.pid) is None


@contextlib.contextmanager
def listening_as(uid: int, path: Path) -> Iterator[None]:
    """A process of another user that listens at `path` and says nothing."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        os.write(sender, b"x")
        signal.pause()
    try:
        assert os.read(receiver, 1) == b"x"
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(receiver)
        os.close(sender)


@needs_root
def test_a_server_that_somebody_else_put_in_place_of_ours_is_not_used(
    server: EmbeddedPostgres,
) -> None:
    """In a directory that was open for a while, and is closed again."""
    server.run.mkdir()
    server.run.chmod(0o777)
    with listening_as(NOBODY, server.run / SOCKET):
        os.chown(server.run, server.uid, -1)
        server.run.chmod(0o700)
        assert listener_uid(server.run / SOCKET) == NOBODY
        with pytest.raises(StoreUnavailable, match=f"user {NOBODY} listens on") as refusal:
            server.ensure()
        assert str(server.run) in refusal.value.hint
    with psycopg.connect(server.ensure()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("name", ["run", "pg", "."])
def test_directories_that_others_can_write_are_refused(server: EmbeddedPostgres, name: str) -> None:
    folder = (server.home / name).resolve()
    folder.mkdir(exist_ok=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(0o777)
    with pytest.raises(StoreUnavailable, match="others can write to") as refusal:
        server.ensure()
    assert f"chmod go-w {folder}" in refusal.value.hint
    folder.chmod(mode)
    server.ensure()


@needs_root
def test_a_directory_of_somebody_else_is_refused(server: EmbeddedPostgres) -> None:
    server.run.mkdir()
    os.chown(server.run, NOBODY, -1)
    server.data.parent.stat()
    with pytest.raises(StoreUnavailable, match="belongs to somebody else"):
        server.ensure()


def foreign(path: Path) -> str:
    path.mkdir()
    os.chown(path, NOBODY, NOBODY)
    return "belongs to another user"


def open_to_all(path: Path) -> str:
    path.mkdir()
    path.chmod(0o777)
    return "others can"


def linked_by_somebody(path: Path) -> str:
    path.with_name("target").mkdir()
    path.symlink_to(path.with_name("target"))
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return "belongs to another user"


SQUATS = [
    pytest.param("state", foreign, marks=needs_root),
    pytest.param("state", open_to_all, marks=pytest.mark.slow),
    pytest.param("state", linked_by_somebody, marks=needs_root),
    pytest.param("run", foreign, marks=[needs_root, pytest.mark.slow]),
    ("run", open_to_all),
    pytest.param("run", linked_by_somebody, marks=needs_root),
]


@pytest.mark.parametrize(("which", "squat"), SQUATS)
def test_no_daemon_starts_in_a_directory_of_somebody_else(
    which: str, squat: Callable[[Path], str]
) -> None:
    """One sentence, an exit code, and nothing written there: by the daemon itself, and by what
    starts it.
    """
    with passing_daemon() as daemon:
        reason = squat(daemon.home / which)
        if which == "run" and squat is linked_by_somebody:
            reason = "a symbolic link is refused"
        started = daemon.launch()
        assert started.wait(60) == 1, daemon.log
        (line,) = [line for line in daemon.log.splitlines() if line.startswith("error: ")]
        assert reason in line
        assert str(daemon.home / which) in line
        assert "hint: " in line
        assert [
            path for path in (daemon.home / which).iterdir() if path.name != "daemon.lock"
        ] == []
        up = daemon.ctl("up", str(daemon.home), check=False)
        assert up.returncode == 69, up.stderr
        assert reason in up.stderr
        if which == "state":
            assert list((daemon.home / "state").iterdir()) == []
        doctor = daemon.ctl("doctor", check=False)
        assert doctor.returncode == 1
        name = {"state": "state directory", "run": "runtime directory"}[which]
        assert f"fail  {name}" in doctor.stdout


def test_a_state_directory_of_ours_may_be_elsewhere(tmp_path: Path) -> None:
    """A link of the user's own, to a larger disk."""
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to(tmp_path / "disk")
    ownership.state_directory(tmp_path / "state")
    (tmp_path / "disk").chmod(0o770)
    with pytest.raises(Failure, match="others can write") as refusal:
        ownership.state_directory(tmp_path / "state")
    assert refusal.value.code == REFUSED
    assert "chmod go-w" in refusal.value.hint


@needs_root
def test_a_client_asks_no_daemon_of_somebody_else(public_state: Path) -> None:
    folder = public_state / "squatted"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    with listening_as(NOBODY, folder / "rpc.sock"):
        with pytest.raises(client.CallFailed, match="belongs to another user") as refusal:
            client.call(str(folder / "rpc.sock"), "status", timeout_s=5)
        assert refusal.value.reason == client.REFUSED_SOCKET
        assert not client.reachable(str(folder / "rpc.sock"))


@needs_root
def test_down_beside_a_socket_of_somebody_else(public_state: Path) -> None:
    """`down` neither asks it nor believes the number of a process that it would tell."""
    with passing_daemon() as daemon:
        (daemon.home / "run").mkdir()
        os.chown(daemon.home / "run", NOBODY, NOBODY)
        with listening_as(NOBODY, daemon.home / "run" / "rpc.sock"):
            with FairClock() as clock:
                down = daemon.ctl("down", check=False)
            assert clock.fair_s < 20
            assert (down.returncode, down.stdout) == (0, "cocosearchd is not running\n")


@needs_root
def test_the_daemon_answers_no_other_user(shared: Daemon) -> None:
    """Even through a socket that was opened to all: the kernel says who asks."""
    run = shared.home / "run"
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in (run, run / "rpc.sock", run / "mcp.sock")
    }
    try:
        for path in modes:
            path.chmod(0o777)
        for name in ("rpc.sock", "mcp.sock"):
            assert as_user(NOBODY, partial(ask, run / name)) == b"", name
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert shared.answers()


def ask(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(path))
        try:
            connection.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            return connection.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            return b""


@pytest.mark.parametrize(
    "uid", [NOBODY if AS_ROOT else None, pytest.param(None, marks=pytest.mark.slow)]
)
def test_down_by_force_spares_a_process_that_a_pid_file_names(
    daemon: Daemon, uid: int | None
) -> None:
    """A frozen daemon and its server are ended, not who got the number of a server of before."""
    assert daemon.process is not None
    server = EmbeddedPostgres(daemon.home / "state" / "postgres", {})
    (server.data / "postmaster.pid").rename(server.data / "kept.pid")
    options = {} if uid is None else account(uid)
    with impostor(server, cwd="/", **options) as program:
        (server.data / "postmaster.pid").write_text(f"{program.pid}\n{server.data}\n")
        os.kill(daemon.process.pid, signal.SIGSTOP)
        done = daemon.ctl("down")
        assert "was ended by force" in done.stderr
        assert program.poll() is None
    server.stop()
    assert not server.running()
