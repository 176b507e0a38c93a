"""Resources of the daemon: memory, CPU and file handles. Works even if none are left."""

import errno
import os
import resource
from collections.abc import Callable, Iterable, Sequence

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
        part: sum(map(_memory, pids)) for part, pids in _parts(worker, postgres, analysis).items()
    }
    return sizes | {"total": sum(sizes.values())}


def measure_cpu(
    worker: int | None, postgres: Callable[[], tuple[int, ...]], analysis: Iterable[int] = ()
) -> dict[str, float]:
    """Return the CPU seconds that each part of the daemon has used, with its ended children.

    The parameters are those of `measure_memory`. An indexer process or an analyser that has ended
    counts for "daemon", its parent. The system counts in steps of about 10 ms.
    """
    seconds = {
        part: round(sum(map(_cpu, pids)), 2)
        for part, pids in _parts(worker, postgres, analysis).items()
    }
    return seconds | {"total": round(sum(seconds.values()), 2)}


def _parts(
    worker: int | None, postgres: Callable[[], tuple[int, ...]], analysis: Iterable[int]
) -> dict[str, Sequence[int]]:
    """Return the process ids of each part of the daemon."""
    try:
        servers = postgres()
    except OSError:  # no file handle is left to list the processes
        servers = ()
    return {
        "daemon": (os.getpid(),),
        "worker": _family(worker) if worker else (),
        "analysis": tuple(analysis),
        "postgres": servers,
    }


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


def _cpu(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except (psutil.Error, OSError):
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
