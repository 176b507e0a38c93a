"""Measures and prints figures: percentiles, CPU seconds of process trees, and the machine."""

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil


def machine() -> str:
    """One line that belongs above every table."""
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    command = " ".join([Path(sys.argv[0]).stem, *sys.argv[1:]])
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, load {load}, {time.strftime('%Y-%m-%d')}, {command}"
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


def spread(values: Sequence[float], unit: str = "ms") -> str:
    """p50/p95/max with the number of measurements."""
    p50, p95 = percentile(values, 0.5), percentile(values, 0.95)
    return f"p50 {p50:.2f} {unit}, p95 {p95:.2f} {unit}, max {max(values):.2f} {unit} (n={len(values)})"


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """User and system time of the processes and of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def timed(run: Callable[[], object], n: int) -> list[float]:
    """Wall milliseconds of n calls."""
    durations = []
    for _ in range(n):
        began = time.perf_counter()
        run()
        durations.append((time.perf_counter() - began) * 1000)
    return durations


def command_cost(
    command: Sequence[str], n: int, environment: dict[str, str], cwd: Path
) -> tuple[list[float], float]:
    """Wall milliseconds of n runs of a command, and the mean of their CPU milliseconds."""
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    walls = timed(
        lambda: subprocess.run(command, env=environment, cwd=cwd, capture_output=True, check=True),
        n,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    return walls, cpu / n * 1000


def tree_bytes(root: Path, largest: int = 1 << 20) -> tuple[int, int]:
    """(files, bytes) below a directory; `.git` and files above the daemon's default size limit are
    left out.
    """
    files = (p for p in root.rglob("*") if p.is_file() and ".git" not in p.relative_to(root).parts)
    sizes = [size for size in (p.stat().st_size for p in files) if size <= largest]
    return len(sizes), sum(sizes)


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
