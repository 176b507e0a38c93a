"""What runs on this machine: process ids, parents and command lines, without a library."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process. The arguments in `command` are separated by single spaces; it is empty for a zombie."""

    pid: int
    parent: int
    command: str


def processes() -> Iterator[Process]:
    """All processes the caller may see."""
    if (PROC / "self" / "cmdline").exists():
        for entry in PROC.iterdir():
            if entry.name.isdigit() and (found := process(int(entry.name))):
                yield found
        return
    # macOS has no /proc. -ww: do not cut the line at the width of a terminal.
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, check=False)
    for line in listing.stdout.decode("utf-8", "surrogateescape").splitlines():
        pid, parent, command = (*line.split(None, 2), "")[:3]
        yield Process(int(pid), int(parent), command)


def process(pid: int) -> Process | None:
    """One process, from Linux's /proc; None when it is gone, and on other systems."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    # "pid (name) state parent ...": the name may hold spaces and parentheses, so count from its end.
    parent = int(stat[stat.rindex(b")") + 2 :].split()[1])
    return Process(pid, parent, command.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "surrogateescape"))


def handle(pid: int) -> int | None:
    """A descriptor that can be read once the process has ended, to be closed; None where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def children(pid: int) -> tuple[int, ...]:
    """The processes that `pid` has started and that still run, sorted."""
    try:  # most kernels keep a list
        listed = (PROC / str(pid) / "task" / str(pid) / "children").read_bytes()
    except OSError:
        return tuple(sorted(found.pid for found in processes() if found.parent == pid))
    return tuple(sorted(map(int, listed.split())))
