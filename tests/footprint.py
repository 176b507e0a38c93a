"""Memory of a running daemon by role, in bytes, read from `/proc/PID/smaps_rollup` (Linux;
proc(5)).

PSS counts a page shared by n processes as 1/n in each, so a sum over processes is what they take of
the machine. PostgreSQL's shared memory (shared_buffers) is left out: its size is a setting, filled
by reading and never given back.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.daemon import Daemon

KIB = 1024
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes by role. `indexer` is the child; `workers` are its children and the daemon's other
    processes.
    """

    daemon: int
    indexer: int
    workers: int
    postgres: int

    @property
    def total(self) -> int:
        """All processes together."""
        return self.daemon + self.indexer + self.workers + self.postgres

    def __str__(self) -> str:
        parts = [
            f"{name} {getattr(self, name) / MB:.1f}"
            for name in ("daemon", "indexer", "workers", "postgres")
        ]
        return f"{self.total / MB:.1f} MB ({', '.join(parts)})"


def measured_footprint(daemon: Daemon) -> Footprint:
    """Measure the memory of this moment."""
    assert daemon.process is not None
    servers = {process.pid for process in daemon.postgres()}
    indexer, workers = 0, 0
    for process in psutil.Process(daemon.process.pid).children(recursive=True):
        if process.pid in servers:
            continue
        if _is_indexer(process):
            indexer += _pss(process.pid)
        else:
            workers += _pss(process.pid)
    return Footprint(_pss(daemon.process.pid), indexer, workers, sum(map(_unshared, servers)))


def state_bytes(daemon: Daemon) -> dict[str, int]:
    """Bytes on disk below the state directory, by its first level."""
    sizes = dict[str, int]()
    state = daemon.home / "state"
    for directory, folders, files in os.walk(state):  # what is removed meanwhile is left out
        for path in (Path(directory, name) for name in (*folders, *files)):
            with contextlib.suppress(FileNotFoundError):
                size = path.lstat().st_blocks * 512
                first = path.relative_to(state).parts[0]
                sizes[first] = sizes.get(first, 0) + size
    return sizes


def _is_indexer(process: psutil.Process) -> bool:
    try:
        return "cocosearchd.indexing.indexer.indexer" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _pss(pid: int) -> int:
    return _fields(pid).get("Pss", 0)


def _unshared(pid: int) -> int:
    fields = _fields(pid)
    return fields.get("Pss", 0) - fields.get("Pss_Shmem", 0)


def _fields(pid: int) -> dict[str, int]:
    """Sizes in bytes by name; none of a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {line.split(":")[0]: int(line.split()[1]) * KIB for line in lines}
