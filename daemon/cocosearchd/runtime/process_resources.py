"""Resources of the daemon: memory and file handles. Answers also when none are left."""

import errno
import os
from collections.abc import Callable, Iterable

import psutil


def measure_memory(
    worker: int | None, postgres: Callable[[], tuple[int, ...]], analysis: Iterable[int] = ()
) -> dict[str, int]:
    """Return bytes of memory by part of the daemon, 0 where they cannot be read.

    `worker` is the process id of the indexer, whose pool is included; `postgres` returns process
    ids, and `analysis` are those of the analysers. Processes of PostgreSQL share memory, so their
    proportional sizes are added up where the system tells them.
    """
    sizes = {
        "daemon": _memory(os.getpid()),
        "worker": sum(map(_memory, _family(worker))) if worker else 0,
    }
    sizes["analysis"] = sum(map(_memory, analysis))
    try:
        sizes["postgres"] = sum(_memory(pid) for pid in postgres())
    except OSError:  # no file handle is left to list the processes
        sizes["postgres"] = 0
    return sizes | {"total": sum(sizes.values())}


def handle_warning() -> str | None:
    """Return a warning if this process cannot open another file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return "no file handles are left; raise the daemon's limit (ulimit -n, LimitNOFILE= in its unit)"
    return None


def _family(pid: int) -> list[int]:
    """Return the process and its children."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children())]
    except (psutil.Error, OSError):
        return [pid]


def _memory(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        return int(getattr(process.memory_full_info(), "pss", 0) or process.memory_info().rss)
    except (psutil.Error, OSError):
        return 0
