"""Batches are held while git works. Times are given, except those of git's own files."""

import os
import time
from pathlib import Path

import pytest

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.watching.git.checkout_hold import (
    CAP_S,
    LOCK_S,
    PASS_S,
    QUIET_S,
    CheckoutHold,
    any_busy,
    is_git_working,
)
from cocosearchd.watching.git.repository import repository_around, repository_at
from cocosearchd.watching.scans.scan_schedule import ScanSchedule
from tests.watching.support import git


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path / ".git"


def wait(gate: CheckoutHold, git_dir: Path, now: float) -> float:
    return gate.wait_s(any_busy([os.fsencode(git_dir)]), now)


def test_open_when_git_does_nothing(git_dir: Path) -> None:
    assert wait(CheckoutHold(), git_dir, 0) == 0


def test_closed_while_the_index_is_locked_and_a_little_longer(git_dir: Path) -> None:
    gate = CheckoutHold()
    (git_dir / "index.lock").touch()
    assert wait(gate, git_dir, 10.0) > 0
    (git_dir / "index.lock").unlink()
    assert wait(gate, git_dir, 10.0 + QUIET_S / 2) > 0
    assert wait(gate, git_dir, 10.0 + QUIET_S) == 0


def test_a_lock_that_stays_holds_nothing_for_ever(git_dir: Path) -> None:
    gate = CheckoutHold()
    (git_dir / "index.lock").touch()
    assert wait(gate, git_dir, 10) > 0
    assert wait(gate, git_dir, 10 + CAP_S) == 0
    assert wait(gate, git_dir, 10 + CAP_S + PASS_S / 2) == 0
    assert wait(gate, git_dir, 10 + CAP_S + PASS_S) > 0


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock"])
def test_a_lock_that_has_rested_for_long_holds_nothing(git_dir: Path, lock: str) -> None:
    """Left over by a git that was killed, or kept while `git commit -a` waits for its message."""
    (git_dir / lock).touch()
    assert wait(CheckoutHold(), git_dir, 10) > 0
    for moment in (time.time() - LOCK_S - 1, time.time() + 3600):
        os.utime(git_dir / lock, (moment, moment))
        assert wait(CheckoutHold(), git_dir, 10) == 0


def test_a_rebase_counts_only_while_it_moves(git_dir: Path) -> None:
    (git_dir / "rebase-merge").mkdir()
    os.utime(git_dir / "HEAD")
    assert is_git_working(os.fsencode(git_dir))
    for moment in (1.0, time.time() + 3600):  # long ago, or before the clock was set back
        for name in ("HEAD", "index"):
            (git_dir / name).touch()
            os.utime(git_dir / name, (moment, moment))
        assert not is_git_working(os.fsencode(git_dir))


def test_a_worktree_has_a_git_directory_of_its_own(tmp_path: Path, git_dir: Path) -> None:
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "worktree", "add", "-q", str(tmp_path / "tree"))
    repository = repository_at(os.fsencode(tmp_path / "tree"))
    assert repository is not None
    assert repository.git_dir == os.fsencode(git_dir / "worktrees" / "tree")
    assert repository.common_dir == os.fsencode(git_dir)
    assert repository_around(os.fsencode(tmp_path / "tree" / "deep")) == repository


def test_scans_are_due_by_the_clock_and_after_activity() -> None:
    schedule = ScanSchedule(WatchingSettings(rescan_s=600, idle_rescan_s=60), now=0)
    assert schedule.due(300) is None
    schedule.record_activity(310)
    assert schedule.due(369) is None
    assert schedule.due(370) == "quiet after changes"
    assert schedule.due(400) is None
    assert schedule.due(721) == "it is time"
    assert schedule.due(722) is None
    schedule.record_scan(1000)
    assert schedule.due(1479) is None
    assert schedule.due(1721, scanning=True) is None
    assert schedule.due(1721) == "it is time"


def test_scans_do_not_postpone_reviews() -> None:
    schedule = ScanSchedule(WatchingSettings(rescan_s=600), now=0)
    reviews = 0
    for second in range(0, 86_400, 2):
        schedule.record_scan(second)
        if schedule.is_review_due(second):
            reviews += 1
            schedule.record_review(second)
    assert 120 <= reviews <= 180


def test_a_scan_is_due_when_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    # A test cannot put the machine to sleep.
    monkeypatch.setattr("cocosearchd.watching.scans.scan_schedule._sleep_gap", lambda: 1.0)
    schedule = ScanSchedule(WatchingSettings(), now=0)
    assert schedule.due(1) is None
    monkeypatch.setattr("cocosearchd.watching.scans.scan_schedule._sleep_gap", lambda: 3600.0)
    assert schedule.due(2) is not None
    assert schedule.due(3) is None
