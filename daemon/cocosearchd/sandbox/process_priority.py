"""Priority of background processes, and their end with the parent process."""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
# the number of the system call, by machine: <asm/unistd.h>
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}


def renice(nice: int) -> None:
    """Set the niceness of all threads of this process. Processes that they start inherit it."""
    threads = Path("/proc/self/task")
    # On Linux each thread has its own niceness, and libraries have already started threads.
    if threads.exists():
        for thread in threads.iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
    else:
        os.nice(nice)


def die_with_parent(parent: int) -> None:
    """Exit when the parent process ends, or has ended already."""
    if sys.platform == "linux":
        # A worker also exits at the end of its input, but not while it is stuck in native code.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def offer_to_oom_killer() -> None:
    """Let the kernel end this process first if memory runs out, not a database; only on Linux.

    See proc_pid_oom_score_adj(5). The parent may have set a higher value already.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def lower_io_priority() -> None:
    """Give this thread the lowest best-effort I/O priority (`ionice -c2 -n7`); only on Linux."""
    number = IOPRIO_SET.get(os.uname().machine)
    if number is not None and sys.platform == "linux":
        # 1: IOPRIO_WHO_PROCESS with 0: this thread. Class 2 is best effort, 7 its lowest level.
        ctypes.CDLL(None).syscall(number, 1, 0, (2 << 13) | 7)
