"""How many processors this process may use, and how many mates that makes sensible."""

import os
from pathlib import Path

MOST_MATES = 4
CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def crew_size(wanted: int | None, cores: int) -> int:
    """The size of the crew: what is wanted, else all cores but one, and two of two; of a single one none.

    One mate was measured to gain nothing on two cores, as the child waits for it; two take a quarter of the time less.
    No more than four: what is left to the child is about half of the work.
    """
    if wanted is not None:
        return wanted
    return min(MOST_MATES, max(2, cores - 1)) if cores > 1 else 0


def usable_cores(cgroups: Path = CGROUPS, own: Path = OWN_CGROUP) -> int:
    """How many cores may be used: the affinity of the process, and no more than quotas of its cgroups."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([count, *_quotas(cgroups, own)]))


def _quotas(cgroups: Path, own: Path) -> list[int]:
    """Quotas of the own cgroup and its parents (version 2, `cpu.max`), in whole cores; none where nothing is known."""
    try:
        path = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    group, found = cgroups / path.lstrip("/"), list[int]()
    for folder in (group, *group.parents):
        if not folder.is_relative_to(cgroups):
            break
        try:
            quota, period = (folder / "cpu.max").read_text().split()
            found.append(int(quota) // int(period))
        except (OSError, ValueError):  # there is no such file in the outermost one; "max" is no number
            continue
    return found
