"""Ends a daemon that ignores a stop request: frozen, stopped by a signal, or blocked.

A killed daemon loses nothing: the next start finds the changes that were not stored. The indexer
process and its workers end with the daemon (`PR_SET_PDEATHSIG`). PostgreSQL does not, so it is
stopped here.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cocosearch_ipc import address, client
from cocosearch_ipc.cli.running import service_manager

Env = Mapping[str, str]

# See `cocosearchd.runtime.watchdog`.
WATCHDOG_MARK = "watchdog.pid"
WATCHDOG_PROGRAM = "watchdog_process.py"
END_POLL_S = 0.05
# Time for a process to end after SIGTERM, and after SIGKILL.
TERM_S = 3.0
KILL_S = 3.0
# PostgreSQL's fast shutdown writes a checkpoint; after an immediate shutdown the next start needs
# recovery (pg_ctl(1)).
FAST_S = 3.0
IMMEDIATE_S = 1.0


class DaemonHolder(NamedTuple):
    """The daemon that holds the state: its process, its socket, and its start (`time.time`)."""

    pid: int
    socket: str
    since: float


def state_lock(env: Env) -> Path:
    """Return the file that a daemon locks while it runs."""
    return Path(address.state_dir(env), "daemon.lock")


def holder(env: Env) -> DaemonHolder | None:
    """Return the daemon that holds the state, according to the lock file.

    Return None if no daemon does, or a daemon of an older version.
    """
    path = state_lock(env)
    try:
        content = os.fsdecode(path.read_bytes())
        since = path.stat().st_mtime
    except OSError:
        return None
    pid, _, socket = content.partition(" ")
    if not (pid.isdecimal() and socket and is_alive(int(pid)) and is_locked(path)):
        return None
    return DaemonHolder(int(pid), socket, since)


def force_stop(pid: int, env: Env, say: Callable[[str], object]) -> None:
    """End the daemon and its PostgreSQL, with SIGKILL if necessary, within ten seconds.

    Notifies the manager of an installed service first: otherwise it would start another daemon.
    Raises `client.CallFailed` if even SIGKILL has no effect.
    """
    say(f"cocosearchd (pid {pid}) does not answer; killing it ...")
    cancel_restart(env)
    service_manager.announce_stop(env)
    if not _signal_and_wait(pid, signal.SIGTERM, TERM_S) and not _signal_and_wait(
        pid, signal.SIGKILL, KILL_S
    ):
        message = f"cocosearchd (pid {pid}) does not end, not even after SIGKILL"
        hint = "it waits for a disk or a file server: repair that, or restart the machine"
        raise client.CallFailed(message, hint, code=0)
    _stop_postgres(Path(address.state_dir(env), "postgres", "pg", "data"))
    say(f"cocosearchd (pid {pid}) was ended by force; nothing is lost")


def forbid_restart(env: Env) -> None:
    """Tell the watchdog not to start another daemon if the daemon freezes while it stops."""
    pid = _process_of(Path(address.state_dir(env), WATCHDOG_MARK), WATCHDOG_PROGRAM)
    if pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGUSR1)


def cancel_restart(env: Env) -> bool:
    """Kill the watchdog of a frozen or dead daemon before it starts another; True if one ran."""
    pid = _process_of(Path(address.state_dir(env), WATCHDOG_MARK), WATCHDOG_PROGRAM)
    return pid is not None and _signal_and_wait(pid, signal.SIGKILL, KILL_S)


def _stop_postgres(data: Path) -> None:
    """Stop the embedded server of a data directory: fast, then immediate, then with SIGKILL."""
    pid = _process_of(data / "postmaster.pid", str(data), directory=data)
    for number, wait_s in (
        (signal.SIGINT, FAST_S),
        (signal.SIGQUIT, IMMEDIATE_S),
        (signal.SIGKILL, IMMEDIATE_S),
    ):
        if pid is None or _signal_and_wait(pid, number, wait_s):
            return


def _process_of(file: Path, word: str, directory: Path | None = None) -> int | None:
    """Return the process that a pid file names, if that process wrote the file: pids are reused.

    The process must belong to the file's owner, have `word` in its command line, and run in
    `directory`, if one is given. A command line alone proves nothing, because each process sets its
    own.
    """
    try:
        first = file.read_text("utf-8", "replace").split("\n", 1)[0].strip()
        owner = file.stat().st_uid
    except OSError:
        return None
    if not first.isdecimal():
        return None
    uid, command = _user_and_command(int(first))
    if uid != owner or word not in command:
        return None
    return int(first) if directory is None or _runs_in(int(first), directory) else None


def _runs_in(pid: int, directory: Path) -> bool:
    """Compare the working directory of a process; True if it is not visible."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(directory)
    except OSError:  # no /proc, or no permission
        return True


def _user_and_command(pid: int) -> tuple[int, str]:
    """Return the user and the command line of a process; (-1, "") if it is gone.

    Prefers /proc, because minimal containers have no `ps`.
    """
    directory = f"/proc/{pid}"
    try:
        if os.path.isdir("/proc/self"):
            with open(f"{directory}/cmdline", "rb") as file:
                return os.stat(directory).st_uid, os.fsdecode(file.read().replace(b"\0", b" "))
        listing = subprocess.run(
            ["ps", "-p", str(pid), "-o", "uid=,args="], capture_output=True, check=False
        )
    except OSError:
        return -1, ""
    uid, _, command = os.fsdecode(listing.stdout).strip().partition(" ")
    return (int(uid), command) if uid.isdecimal() else (-1, "")


def _signal_and_wait(pid: int, number: int, within_s: float) -> bool:
    """Send a signal; return True if the process ends in time."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    end = time.monotonic() + within_s
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(END_POLL_S)
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Return True if a process runs. A zombie does not run: it only waits for its parent."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        # the process has ended; without /proc, the result of the signal counts
        return not Path("/proc/self").exists()
    return state != "Z"


def is_locked(path: Path) -> bool:
    """Return True if a daemon holds the lock file at `path`: it is starting, running or stopping."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
