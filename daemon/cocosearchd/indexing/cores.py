"""How many processors this process may use, and how much at once that makes sensible."""

import os
from pathlib import Path

MAX_BULK_WORKERS = 4
CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def bulk_pool_size(wanted: int | None, cores: int) -> int:
    """The size of the crew: what is wanted, else all cores but one, and two of two; of a single one
    none.

    One mate was measured to gain nothing on two cores, as the child waits for it; two take a
    quarter of the time less. No more than four: what is left to the child is about half of the
    work.
    """
    if wanted is not None:
        return wanted
    return min(MAX_BULK_WORKERS, max(2, cores - 1)) if cores > 1 else 0


def extra_unsettled_batches(cores: int) -> int:
    """How many bulk batches the child may have done that are not found yet, beside those that it
    works on.

    The lexical index takes in what has come while the child goes on. With quotas in place of four
    cores, a switch of branches was done 3 to 11 % sooner (n=3, in turns). On two cores it takes as
    long, and the p95 of saves meanwhile was 191 to 215 ms in place of 143 to 167 (n=3, in turns).
    """
    return 2 if cores > 2 else 0


def count_usable_cores(cgroups: Path = CGROUPS, own: Path = OWN_CGROUP) -> int:
    """How many cores may be used: the affinity of the process, and no more than quotas of its
    cgroups.
    """
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min([count, *_quotas(cgroups, own)]))


def _quotas(cgroups: Path, own: Path) -> list[int]:
    """Quotas of the own cgroup and its parents, in whole cores, of either version; none where
    nothing is known.

    See cgroup-v2.rst (`cpu.max`) and scheduler/sched-bwc.rst (`cpu.cfs_quota_us`) of the kernel's
    documentation.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found = list[int]()
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:
            found += _quotas_along(cgroups, path, "cpu.max")
        elif "cpu" in controllers.split(","):
            found += _quotas_along(
                cgroups / controllers, path, "cpu.cfs_quota_us", "cpu.cfs_period_us"
            )
    return found


def _quotas_along(root: Path, path: str, *names: str) -> list[int]:
    """The quotas below a root, of a group and its parents, by what its files say of quota and
    period.
    """
    group, found = root / path.lstrip("/"), list[int]()
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root):
            break
        try:
            quota, period = (
                int(number) for name in names for number in (folder / name).read_text().split()
            )
        # there is no such file in the outermost one; "max" is no number
        except (OSError, ValueError):
            continue
        if quota > 0:  # -1: there is none
            found.append(quota // period)
    return found
