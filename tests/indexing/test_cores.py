"""The number of worker processes, by the usable cores."""

import os
from pathlib import Path

import pytest

from cocosearchd.indexing.cores import bulk_pool_size, count_usable_cores, extra_unsettled_batches


@pytest.mark.parametrize(
    ("usable", "cores", "size"),
    [
        (None, 1, 0),
        (None, 2, 2),
        (None, 3, 2),
        (None, 4, 3),
        (None, 5, 4),
        (None, 64, 4),
        (0, 8, 0),
        (6, 2, 6),
    ],
)
def test_all_cores_but_one_and_two_of_two(usable: int | None, cores: int, size: int) -> None:
    assert bulk_pool_size(usable, cores) == size


@pytest.mark.parametrize(
    ("outer", "inner", "share"),
    [
        ("max 100000", "max 100000", 64),
        ("max 100000", "150000 100000", 1),
        ("200000 100000", "max 100000", 2),
    ],
)
def test_a_quota_counts_as_whole_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outer: str, inner: str, share: int
) -> None:
    """Quotas of the own cgroup and of its parents count."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    (tmp_path / "user" / "session").mkdir(parents=True)
    (tmp_path / "user" / "cpu.max").write_text(outer)
    (tmp_path / "user" / "session" / "cpu.max").write_text(inner)
    own_cgroup = tmp_path / "own"
    own_cgroup.write_text("0::/user/session\n")
    assert count_usable_cores(tmp_path, own_cgroup) == share


@pytest.mark.parametrize(
    ("outer", "inner", "share"),
    [(("-1", "100000"), ("-1", "100000"), 64), (("250000", "100000"), ("-1", "100000"), 2)],
)
def test_a_quota_of_the_first_version_counts_as_well(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outer: tuple[str, str],
    inner: tuple[str, str],
    share: int,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    group = tmp_path / "cpu,cpuacct" / "docker"
    group.mkdir(parents=True)
    for folder, (quota, period) in ((group.parent, outer), (group, inner)):
        (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (folder / "cpu.cfs_period_us").write_text(f"{period}\n")
    own_cgroup = tmp_path / "own"
    own_cgroup.write_text("5:cpuset:/\n4:cpu,cpuacct:/docker/0123abcd\n0::/\n")
    assert count_usable_cores(tmp_path, own_cgroup) == share


@pytest.mark.parametrize(("cores", "batches"), [(1, 0), (2, 0), (3, 2), (64, 2)])
def test_batches_wait_beside_others_where_there_is_a_core_for_it(cores: int, batches: int) -> None:
    assert extra_unsettled_batches(cores) == batches


def test_without_groups_it_is_the_affinity(tmp_path: Path) -> None:
    assert count_usable_cores(tmp_path, tmp_path / "none") == len(os.sched_getaffinity(0))
    (tmp_path / "own").write_text("3:cpu:/elsewhere\n0::/not/there\n")
    assert count_usable_cores(tmp_path, tmp_path / "own") == len(os.sched_getaffinity(0))
