"""What the daemon uses of the machine, and what it runs out of. Answers when it has run out,
too.
"""

import errno
import os
from collections.abc import Callable, Iterable

import psutil


def measure_memory(
    worker: int | None, postgres: Callable[[], tuple[int, ...]], analysis: Iterable[int] = ()
) -> dict[str, int]:
    """Bytes of memory; 0 where it cannot be seen. The worker's include its crew's; `postgres` gives
    process ids.

    `analysis` are the process ids of those that analyse texts.

    PostgreSQL's processes share theirs, so their private parts are added up where that is known.
    """
    sizes = {
        "daemon": _memory(os.getpid()),
        "worker": sum(map(_memory, _family(worker))) if worker else 0,
    }
    sizes["analysis"] = sum(map(_memory, analysis))
    try:
        sizes["postgres"] = sum(_memory(pid) for pid in postgres())
    except OSError:  # no handles are left for the list of processes
        sizes["postgres"] = 0
    return sizes | {"total": sum(sizes.values())}


def handle_warning() -> str | None:
    """What to say when this process can open no more files."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return "no file handles are left; raise the daemon's limit (ulimit -n, LimitNOFILE= in its unit)"
    return None


def _family(pid: int) -> list[int]:
    """The process and its children."""
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
