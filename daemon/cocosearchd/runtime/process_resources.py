"""Resources of the daemon: memory and file handles. Works even if none are left."""

import errno
import os
import resource
from collections.abc import Callable, Iterable

import psutil

# Open files that the daemon asks for: what the units of its service allow, then what macOS grants
# any process (OPEN_MAX). 1,000 indexes take about 6,000.
OPEN_FILES = (65_536, 10_240)


def measure_memory(
    worker: int | None, postgres: Callable[[], tuple[int, ...]], analysis: Iterable[int] = ()
) -> dict[str, int]:
    """Return the bytes of memory of each part of the daemon; 0 for a part that cannot be read.

    `worker` is the process id of the indexer; the part includes its pool. `postgres` returns process
    ids, `analysis` are the process ids of the analysers. Processes of PostgreSQL share memory, so
    their proportional sizes are added up if the system has them.
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


def raise_file_limit(limits: Iterable[int] = OPEN_FILES) -> None:
    """Raise the soft limit of open files of this process and its children, up to the hard limit.

    A shell often gives 1,024, for the sake of programs that use select(2); each index takes about
    six. The first of these limits that the system grants is taken, never a lower one than now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in limits:
        granted = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        if soft == resource.RLIM_INFINITY or granted <= soft:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
        except (OSError, ValueError):  # macOS: more than kern.maxfilesperproc
            continue
        return


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
