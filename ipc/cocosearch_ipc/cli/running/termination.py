"""Ends a daemon that does not stop when it is asked: frozen, stopped by a signal, or held up inside
of a library.

A daemon that is killed loses nothing: what was not stored is found again by the next start. Its
indexing process and their workers end with it by themselves (`PR_SET_PDEATHSIG`); its PostgreSQL
does not, and is stopped here.
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

# see `cocosearchd.runtime.watchdog`
WATCHDOG_MARK = "watchdog.pid"
WATCHDOG_PROGRAM = "watchdog_process.py"
POLL_S = 0.05
# for a process to end after SIGTERM, and after SIGKILL
TERM_S = 3.0
KILL_S = 3.0
# PostgreSQL's fast shutdown writes a checkpoint; an immediate one leaves recovery to the next start
# (pg_ctl(1)).
FAST_S = 3.0
IMMEDIATE_S = 1.0


class DaemonHolder(NamedTuple):
    """The daemon that holds the state: its process, its socket, and since when (`time.time`)."""

    pid: int
    socket: str
    since: float


def state_lock(env: Env) -> Path:
    """The file that a daemon locks for as long as it runs."""
    return Path(address.state_dir(env), "daemon.lock")


def holder(env: Env) -> DaemonHolder | None:
    """Who holds the state, as the lock file says; None where nobody does, or a daemon of a former
    version.
    """
    path = state_lock(env)
    try:
        content = os.fsdecode(path.read_bytes())
        since = path.stat().st_mtime
    except OSError:
        return None
    pid, _, socket = content.partition(" ")
    if not (pid.isdecimal() and socket and alive(int(pid)) and locked(path)):
        return None
    return DaemonHolder(int(pid), socket, since)


def force(pid: int, env: Env, say: Callable[[str], object]) -> None:
    """End the daemon and its PostgreSQL, by SIGKILL if need be. Raises `client.CallFailed` if that
    has no effect.

    Takes ten seconds at most. The manager of an installed service is told first, or it would start
    another.
    """
    say(f"cocosearchd (pid {pid}) does not answer; ending it ...")
    call_off_restart(env)
    service_manager.expect_end(env)
    if not _ended(pid, signal.SIGTERM, TERM_S) and not _ended(pid, signal.SIGKILL, KILL_S):
        message = f"cocosearchd (pid {pid}) does not end, not even by SIGKILL"
        hint = "it waits for a disk or a file server: mend that, or restart the machine"
        raise client.CallFailed(message, hint, code=0)
    _stop_postgres(Path(address.state_dir(env), "postgres", "pg", "data"))
    say(f"cocosearchd (pid {pid}) was ended by force; nothing is lost")


def forbid_restart(env: Env) -> None:
    """Tell the watchdog of a daemon that is to stop not to start another, should it freeze just
    now.
    """
    pid = _process_of(Path(address.state_dir(env), WATCHDOG_MARK), WATCHDOG_PROGRAM)
    if pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGUSR1)


def call_off_restart(env: Env) -> bool:
    """End the watchdog of a daemon that is frozen or gone: it would start another. Whether there
    was one.
    """
    pid = _process_of(Path(address.state_dir(env), WATCHDOG_MARK), WATCHDOG_PROGRAM)
    return pid is not None and _ended(pid, signal.SIGKILL, KILL_S)


def _stop_postgres(data: Path) -> None:
    """Stop the embedded server whose data this is: fast, then at once, then by SIGKILL."""
    pid = _process_of(data / "postmaster.pid", str(data), directory=data)
    for number, wait_s in (
        (signal.SIGINT, FAST_S),
        (signal.SIGQUIT, IMMEDIATE_S),
        (signal.SIGKILL, IMMEDIATE_S),
    ):
        if pid is None or _ended(pid, number, wait_s):
            return


def _process_of(file: Path, word: str, directory: Path | None = None) -> int | None:
    """The process that a file names, if it is the one that wrote it: numbers are used again.

    It is of the file's owner, its command line holds a word, and it runs in a directory where one
    is given. A command line alone proves nothing: a process chooses its own.
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
    """Compare the working directory of a process; True where it cannot be seen."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(directory)
    except OSError:  # no /proc, or no right to look
        return True


def _user_and_command(pid: int) -> tuple[int, str]:
    """The user and the command line of a process; (-1, "") when it is gone. Slim containers have no
    `ps`.
    """
    place = f"/proc/{pid}"
    try:
        if os.path.isdir("/proc/self"):
            with open(f"{place}/cmdline", "rb") as file:
                return os.stat(place).st_uid, os.fsdecode(file.read().replace(b"\0", b" "))
        listing = subprocess.run(
            ["ps", "-p", str(pid), "-o", "uid=,args="], capture_output=True, check=False
        )
    except OSError:
        return -1, ""
    uid, _, command = os.fsdecode(listing.stdout).strip().partition(" ")
    return (int(uid), command) if uid.isdecimal() else (-1, "")


def _ended(pid: int, number: int, within_s: float) -> bool:
    """Send a signal; whether the process is gone in that time."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    end = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < end:
        time.sleep(POLL_S)
    return not alive(pid)


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped by its parent does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        # gone meanwhile; without /proc the signal's word counts
        return not Path("/proc/self").exists()
    return state != "Z"


def locked(path: Path) -> bool:
    """Whether a daemon holds the lock file at `path`: it comes, goes, or is there."""
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
