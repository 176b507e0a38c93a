"""A frozen daemon: `down` and `restart` end it by force, say so, and leave nothing."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cocosearch_ipc.client import CallFailed
from tests.daemon import Daemon, passing_daemon
from tests.hostile.neighbour import Neighbour, settle

WITHIN_S = 15.0


def stop_process(daemon: Daemon) -> None:
    os.kill(daemon.call("status")["pid"], signal.SIGSTOP)


def family(daemon: Daemon) -> list[psutil.Process]:
    """The daemon, what it started, and its PostgreSQL."""
    process = psutil.Process(daemon.call("status")["pid"])
    return [process, *process.children(recursive=True), *daemon.postgres()]


def runs(pid: int) -> bool:
    """Return whether the process still runs, instead of being a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_stopped_daemon_is_ended_by_force(daemon: Daemon, neighbour: Neighbour) -> None:
    """`restart` goes on where it was; `down` leaves nothing."""
    neighbour.watch(daemon)
    stop_process(daemon)
    (neighbour.root / "meanwhile.py").write_text("def saved_while_it_was_frozen():\n    pass\n")
    done = daemon.ctl("restart")
    assert "was ended by force; nothing is lost" in done.stderr
    daemon.ctl("sync", "--index", neighbour.root.name)
    assert daemon.paths("saved_while_it_was_frozen")[:1] == ["meanwhile.py"]

    processes = family(daemon)
    assert len(processes) > 4, "an indexing process and PostgreSQL should run"
    stop_process(daemon)
    began = time.monotonic()
    done = daemon.ctl("down")
    assert time.monotonic() - began < WITHIN_S
    assert "was ended by force; nothing is lost" in done.stderr
    _, alive = psutil.wait_procs(processes, 30)
    assert [process for process in alive if runs(process.pid)] == []


LIMIT_S = 4.0  # of the watchdog in these tests; 30 by default
FREEZING = {
    "COCOSEARCH_SERVER_WATCHDOG_S": str(LIMIT_S),
    "PYTHONPATH": str(Path(__file__).parent / "freezing"),
}


@pytest.fixture
def guarded(cluster: Path) -> Iterator[Daemon]:
    """A running daemon with a quick watchdog, in which SIGUSR2 has C code hold the interpreter's
    lock.
    """
    with passing_daemon(cluster, **FREEZING) as daemon:
        daemon.start()
        yield daemon
        daemon.ctl("down", check=False)


def freeze(daemon: Daemon, number: int) -> int:
    """Send a signal that freezes the daemon; its process."""
    pid = int(daemon.call("status")["pid"])
    os.kill(pid, number)
    return pid


def await_successor(daemon: Daemon, former: int, within_s: float = 60.0) -> int:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not runs(former):
            try:
                return int(daemon.call("status")["pid"])
            except CallFailed:
                pass  # it starts
        time.sleep(0.1)
    raise AssertionError(f"no daemon came after the frozen one: {daemon.log[-3000:]}")


LOCK_HELD = pytest.param(signal.SIGUSR2, id="interpreter lock held", marks=pytest.mark.slow)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGSTOP, id="stopped"), LOCK_HELD])
def test_a_frozen_daemon_is_ended_with_its_stacks_and_started_again(
    guarded: Daemon, neighbour: Neighbour, number: int
) -> None:
    """In the short form a daemon whose interpreter's lock is held is the one that a file froze,
    below.
    """
    neighbour.watch(guarded)
    former, began = freeze(guarded, number), time.monotonic()
    current = await_successor(guarded, former)
    assert current != former
    assert time.monotonic() - began > LIMIT_S
    assert_ended_with_stacks(guarded, former)
    guarded.ctl("sync", "--index", neighbour.root.name)
    settle(guarded, neighbour)
    neighbour.assert_fresh(guarded)
    assert guarded.process is not None
    assert guarded.process.wait(60) in (-signal.SIGABRT, -signal.SIGKILL)

    assert freeze(guarded, signal.SIGUSR2) == current
    # its watchdog first, else that would start a daemon that nobody wants any more
    guarded.ctl("down")
    time.sleep(LIMIT_S + 2)
    assert not guarded.answers()
    assert not runs(current)
    assert watchdogs(guarded) == []


def assert_ended_with_stacks(daemon: Daemon, former: int) -> None:
    assert f"cocosearchd (pid {former}) was frozen for {LIMIT_S:g} s and was ended" in daemon.log
    assert "Fatal Python error: Aborted" in daemon.log
    assert "(most recent call first)" in daemon.log


def test_a_watchdog_that_died_is_replaced_and_one_of_a_daemon_that_ended_ends(
    guarded: Daemon,
) -> None:
    """A daemon that is stopped or killed is not started again."""
    (previous,) = watchdogs(guarded)
    previous.kill()
    end = time.monotonic() + 60
    while (now := watchdogs(guarded)) in ([], [previous]) and time.monotonic() < end:
        time.sleep(0.1)
    assert len(now) == 1
    assert now != [previous]

    guarded.kill()
    end = time.monotonic() + 60
    while watchdogs(guarded) and time.monotonic() < end:
        time.sleep(0.1)
    assert watchdogs(guarded) == []
    assert not guarded.answers()
    guarded.start()
    assert guarded.stop() == 0
    assert watchdogs(guarded) == []


def test_systemd_hears_nothing_of_a_daemon_whose_interpreter_lock_is_held(
    cluster: Path, tmp_path: Path
) -> None:
    """Systemd then sends SIGABRT, which writes all stacks. It starts the daemon again itself: there
    is no watchdog.
    """
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        variables = FREEZING | {
            "NOTIFY_SOCKET": address,
            "WATCHDOG_USEC": str(int(LIMIT_S * 1_000_000 / 2)),
        }
        with passing_daemon(cluster, **variables) as daemon:
            daemon.start()
            assert watchdogs(daemon) == []
            while b"WATCHDOG=1" not in manager.recv(4096):
                pass
            freeze(daemon, signal.SIGUSR2)
            manager.settimeout(LIMIT_S)
            end = time.monotonic() + 60
            with contextlib.suppress(TimeoutError):  # as systemd hears nothing for so long
                while manager.recv(4096):
                    assert time.monotonic() < end
            assert daemon.process is not None
            daemon.process.send_signal(signal.SIGABRT)
            assert daemon.process.wait(60) == -signal.SIGABRT
            assert "sitecustomize.py" in daemon.log


def watchdogs(daemon: Daemon) -> list[psutil.Process]:
    """Watchdog processes of this daemon."""
    mark = str(daemon.home / "state" / "watchdog.pid")
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if mark in (process.info["cmdline"] or [])
    ]


def test_a_file_that_froze_the_daemon_is_left_out_until_it_changes(
    cluster: Path, tmp_path: Path, hostile_root: Path, neighbour: Neighbour
) -> None:
    switch = tmp_path / "freeze"
    variables = FREEZING | {"FREEZE_AT": "poison.py", "FREEZE_WHILE": str(switch)}
    (hostile_root / "other.py").write_text("def beside_the_poison():\n    pass\n")
    with passing_daemon(cluster, **variables) as daemon:
        daemon.start()
        neighbour.watch(daemon)
        daemon.ctl("up", str(hostile_root), "--wait")
        former = int(daemon.call("status")["pid"])
        switch.touch()
        (hostile_root / "poison.py").write_text("def poisoned():\n    pass\n")
        assert await_successor(daemon, former) != former
        assert_ended_with_stacks(daemon, former)
        settle(daemon, neighbour)
        neighbour.assert_fresh(daemon)
        (status,) = [
            index
            for index in daemon.call("status")["indexes"]
            if index["name"] == hostile_root.name
        ]
        notes = " ".join(status["notes"])
        assert (
            "poison.py is not searched: the daemon stopped answering while it worked on it" in notes
        )
        answer = daemon.call("search", query="beside_the_poison", index=hostile_root.name)
        assert [result["path"] for result in answer["results"]] == ["other.py"]
        assert "searched poison.py not at all" in " ".join(answer["notes"])
        switch.unlink()
        (hostile_root / "poison.py").write_text("def mended():\n    pass\n")
        daemon.ctl("sync", "--index", hostile_root.name)
        answer = daemon.call("search", query="mended", index=hostile_root.name)
        assert [result["path"] for result in answer["results"]][:1] == ["poison.py"]
        (status,) = [
            index
            for index in daemon.call("status")["indexes"]
            if index["name"] == hostile_root.name
        ]
        assert "left out" not in " ".join(status["notes"])
        daemon.ctl("down")
