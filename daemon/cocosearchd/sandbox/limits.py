"""Resource limits of a worker process. The worker sets them itself, before it reads any input.

The kernel enforces them: see setrlimit(2) and PR_SET_NO_NEW_PRIVS(2const). They bound accidents and
memory bombs. They do not stop code that runs in the worker: it has the rights of the user.
"""

import ctypes
import math
import resource
import sys
import time
from dataclasses import astuple, dataclass
from typing import Self

PR_SET_NO_NEW_PRIVS = 38  # <linux/prctl.h>
_TICKS_CLOCK = -8  # ticks of this process: CPUCLOCK_PROF of <linux/posix-timers.h>


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of one worker process.

    `request_cpu_s` is the CPU time of one request, in seconds: the kernel sends SIGXCPU after it,
    within about a second. Address space counts reserved and used memory: a parser process with all
    grammars has 0.15 GiB, a process with NumPy and the embedding model 0.25 GiB (measured). A
    worker that needs more fails to allocate: tree-sitter then aborts, Python raises `MemoryError`.
    The defaults are for parser processes (`PARSER_LIMITS`). `analyser`, `grep_processes` and `word_splitter` have their
    own `LIMITS`.
    """

    address_space_bytes: int = 1 << 30
    request_cpu_s: int = 10
    open_files: int = 64
    file_bytes: int = 0  # largest file that may be written

    def to_argument(self) -> str:
        """Return the limits as one argument of a command line."""
        return ",".join(map(str, astuple(self)))

    @classmethod
    def from_argument(cls, text: str) -> Self:
        """Return the inverse of `to_argument`."""
        return cls(*map(int, text.split(",")))


def apply_limits(limits: ResourceLimits) -> None:
    """Limit this process for good: it cannot raise a limit again, nor gain other rights."""
    _lower(resource.RLIMIT_AS, limits.address_space_bytes)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def allow_cpu(limits: ResourceLimits) -> None:
    """Let this process use CPU time for one more request.

    RLIMIT_CPU counts the whole life of a process.
    """
    end_s = math.ceil(used_cpu_s()) + limits.request_cpu_s
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU, (end_s if hard == resource.RLIM_INFINITY else min(end_s, hard), hard)
    )


def used_cpu_s() -> float:
    """Return the CPU time of this process in seconds, as RLIMIT_CPU counts it.

    For RLIMIT_CPU Linux counts ticks, but exact time in getrusage(2). On a busy virtual machine the
    ticks are up to a fifth more.
    """
    if sys.platform == "linux":
        used_s = time.clock_gettime(_TICKS_CLOCK)
    else:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used_s = usage.ru_utime + usage.ru_stime
    return used_s


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (lowest, lowest))
