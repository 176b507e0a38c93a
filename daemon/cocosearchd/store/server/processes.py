"""Processes of this machine: ids, parents, command lines and owners, without a library.

A command line proves nothing: a process chooses its own. `identify` returns the user and the program
of a process, which prove more.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
LINUX = sys.platform == "linux"


@dataclass(frozen=True, slots=True)
class Process:
    """A process. The arguments in `command` are separated by single spaces; a zombie has none.

    `started` distinguishes processes that had the same id: clock ticks since the boot, 0 without
    /proc.
    """

    pid: int
    parent: int
    command: str
    started: int = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties that a process cannot choose freely.

    A path is empty if the caller may not see it.

    As root without CAP_SYS_PTRACE, which is usual in containers, paths of other users' processes
    cannot be seen.
    """

    uid: int
    program: str
    directory: str


def list_processes() -> Iterator[Process]:
    """Yield all processes that the caller may see."""
    if (PROC / "self" / "cmdline").exists():
        for entry in PROC.iterdir():
            if entry.name.isdigit() and (running := read_process(int(entry.name))):
                yield running
        return
    # macOS has no /proc. -ww: do not cut the line at the width of a terminal.
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, check=False
    )
    for line in listing.stdout.decode("utf-8", "surrogateescape").splitlines():
        pid, parent, command = (*line.split(None, 2), "")[:3]
        yield Process(int(pid), int(parent), command)


def read_process(pid: int) -> Process | None:
    """Read a process from Linux's /proc; None when it is gone, and on other systems."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    # "pid (name) state parent ...": the name may hold spaces and parentheses, so count from its
    # end. Field 22 of proc_pid_stat(5) is the start.
    fields = stat[stat.rindex(b")") + 2 :].split()
    text = command.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "surrogateescape")
    return Process(pid, int(fields[1]), text, int(fields[19]))


def identify(pid: int) -> Identity | None:
    """Return owner, program and working directory of a process; None when it is gone."""
    if not (PROC / "self" / "status").exists():
        return _identify_by_ps(pid)
    uid = _uid(pid)
    return None if uid is None else Identity(uid, _link(pid, "exe"), _link(pid, "cwd"))


def uids_in_use() -> frozenset[int]:
    """Return the users of all processes that the caller may see; empty without /proc."""
    if not PROC.exists():
        return frozenset()
    uids = (_uid(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit())
    return frozenset(uid for uid in uids if uid is not None)


def send_signal(target: Process, order: signal.Signals) -> None:
    """Send a signal to exactly this process.

    Nothing happens if it is gone, even if its id belongs to another process by now.
    """
    descriptor = open_process_handle(target.pid)
    if descriptor is None:
        if not hasattr(os, "pidfd_open"):  # macOS
            _kill(target.pid, order)
        return
    try:
        current = read_process(target.pid)
        if current is not None and current.started == target.started:
            signal.pidfd_send_signal(descriptor, order)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def listener_uid(path: Path) -> int | None:
    """Return the user whose process listens on a Unix socket; None if no process does.

    Linux: SO_PEERCRED, see unix(7). macOS: LOCAL_PEERCRED, the second number of an `xucred`.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(os.fspath(path))
        except OSError:
            return None
        if LINUX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return int(struct.unpack("3i", credentials)[1])
        return int(struct.unpack_from("II", connection.getsockopt(0, 1, 76))[1])


def open_process_handle(pid: int) -> int | None:
    """Open a descriptor that becomes readable when the process ends; the caller closes it.

    None if the process is gone, or the system has no such descriptors.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def child_pids(pid: int) -> tuple[int, ...]:
    """List the running processes that `pid` has started, sorted."""
    try:  # most kernels have this list
        listed = (PROC / str(pid) / "task" / str(pid) / "children").read_bytes()
    except OSError:
        return tuple(sorted(running.pid for running in list_processes() if running.parent == pid))
    return tuple(sorted(map(int, listed.split())))


def _uid(pid: int) -> int | None:
    """Read the effective user. The owner of the /proc entry differs for undumpable processes."""
    try:
        status = (PROC / str(pid) / "status").read_bytes()
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith(b"Uid:")), None)
    return None if line is None else int(line.split()[2])


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(PROC / str(pid) / name)  # noqa: PTH115 - Path would normalise it
    except OSError:
        return ""


def _identify_by_ps(pid: int) -> Identity | None:
    listing = subprocess.run(
        ["ps", "-p", str(pid), "-o", "uid=,comm="], capture_output=True, check=False
    )
    uid, _, program = listing.stdout.decode("utf-8", "surrogateescape").strip().partition(" ")
    return Identity(int(uid), program.strip(), "") if uid.isdecimal() else None


def _kill(pid: int, order: signal.Signals) -> None:
    try:
        os.kill(pid, order)
    except ProcessLookupError:
        return
