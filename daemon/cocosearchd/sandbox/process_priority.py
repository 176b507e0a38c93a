"""The priority of processes that work in the background, and how they end with the process that
started them.
"""

import contextlib
import ctypes
import os
import platform
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
# the number of the system call, by machine: <asm/unistd.h>
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}


def renice(nice: int) -> None:
    """Make all threads of this process, and what they start, as nice as this."""
    threads = Path("/proc/self/task")
    if threads.exists():  # on Linux, niceness is a thread's; libraries have started some by now
        for thread in threads.iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
    else:
        os.nice(nice)


def die_with_parent(parent: int) -> None:
    """Exit when the parent process ends, or has ended already."""
    if sys.platform == "linux":
        # End of file says the same, but a thread that is stuck in native code does not read.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def offer_to_oom_killer() -> None:
    """Have the kernel end this process first when memory is used up, in place of a database; only
    on Linux.

    See oom_score_adj in proc_pid_oom_score_adj(5). Who started the process may have set it higher
    already.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def lower_io_priority() -> None:
    """Give this thread the lowest best-effort I/O priority (`ionice -c2 -n7`); only on Linux."""
    number = IOPRIO_SET.get(platform.machine())
    if number is not None and sys.platform == "linux":
        # this thread; best effort, the last of eight levels
        ctypes.CDLL(None).syscall(number, 1, 0, (2 << 13) | 7)
