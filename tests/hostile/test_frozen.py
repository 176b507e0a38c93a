"""A way out of a frozen daemon: `down` and `restart` end it by force, and say so; nothing of it is left."""

import os
import signal
import time

import psutil

from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour

WITHIN_S = 15.0


def stop_process(daemon: Daemon) -> None:
    assert daemon.process is not None
    os.kill(daemon.process.pid, signal.SIGSTOP)


def family(daemon: Daemon) -> list[psutil.Process]:
    """The daemon, what it started, and its PostgreSQL."""
    assert daemon.process is not None
    process = psutil.Process(daemon.process.pid)
    return [process, *process.children(recursive=True), *daemon.postgres()]


def test_down_ends_a_stopped_daemon_by_force(daemon: Daemon, neighbour: Neighbour) -> None:
    neighbour.watch(daemon)
    processes = family(daemon)
    assert len(processes) > 4, "an indexing process and PostgreSQL should run"
    stop_process(daemon)
    began = time.monotonic()
    done = daemon.ctl("down")
    assert time.monotonic() - began < WITHIN_S
    assert "was ended by force; nothing is lost" in done.stderr
    _, alive = psutil.wait_procs(processes, 5)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def test_restart_of_a_stopped_daemon_goes_on_where_it_was(daemon: Daemon, neighbour: Neighbour) -> None:
    neighbour.watch(daemon)
    stop_process(daemon)
    (neighbour.root / "meanwhile.py").write_text("def saved_while_it_was_frozen():\n    pass\n")
    done = daemon.ctl("restart")
    assert "was ended by force; nothing is lost" in done.stderr
    daemon.ctl("sync", "--index", neighbour.root.name)
    assert daemon.paths("saved_while_it_was_frozen")[:1] == ["meanwhile.py"]
    daemon.ctl("down")
