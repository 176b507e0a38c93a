"""Counts the processors that this process may use, and sizes pools and queues by them."""

import os
from pathlib import Path

MAX_BULK_WORKERS = 4
CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def bulk_pool_size(configured: int | None, cores: int) -> int:
    """Return the number of bulk workers: as configured, else all cores but one.

    Two cores have two workers, one core has none. Measured on two cores: one worker saves no time,
    because the indexer process waits for it; two workers save a quarter. The maximum is four: about
    half of the work remains in the indexer process.
    """
    if configured is not None:
        return configured
    return min(MAX_BULK_WORKERS, max(2, cores - 1)) if cores > 1 else 0


def extra_unsettled_batches(cores: int) -> int:
    """Return the number of answered bulk batches that may wait to be searchable.

    The lexical index takes them in while the indexer process works on the next batches. With a quota
    of four cores, a switch of branches took 3 to 11 % less time (n=3, in turns). On two cores it
    takes the same time, and the p95 of saves meanwhile was 191 to 215 ms instead of 143 to 167 (n=3,
    in turns).
    """
    return 2 if cores > 2 else 0


def count_usable_cores(cgroups: Path = CGROUPS, own_cgroup: Path = OWN_CGROUP) -> int:
    """Return the number of usable cores: the affinity of the process, capped by cgroup quotas."""
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min([count, *_quotas(cgroups, own_cgroup)]))


def _quotas(cgroups: Path, own_cgroup: Path) -> list[int]:
    """Return the quotas of our cgroup and its parents, in whole cores, of either cgroup version.

    The list is empty if the cgroup is unknown.

    See cgroup-v2.rst (`cpu.max`) and scheduler/sched-bwc.rst (`cpu.cfs_quota_us`) of the kernel's
    documentation.
    """
    try:
        lines = own_cgroup.read_text().splitlines()
    except OSError:
        return []
    quotas = list[int]()
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:
            quotas += _quotas_along(cgroups, path, "cpu.max")
        elif "cpu" in controllers.split(","):
            quotas += _quotas_along(
                cgroups / controllers, path, "cpu.cfs_quota_us", "cpu.cfs_period_us"
            )
    return quotas


def _quotas_along(root: Path, path: str, *names: str) -> list[int]:
    """Return the quotas of a group and its parents below a root, in whole cores.

    `names` are the files that hold quota and period, in microseconds.
    """
    group = root / path.lstrip("/")
    quotas = list[int]()
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root):
            break
        try:
            quota, period = (
                int(number) for name in names for number in (folder / name).read_text().split()
            )
        # the outermost group has no such file; "max" is no number
        except (OSError, ValueError):
            continue
        if quota > 0:  # -1: no quota
            quotas.append(quota // period)
    return quotas
