"""git switches branches under a watching daemon: every row of every table is what a fresh index of the disk holds."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.daemon import Daemon, git
from tests.flows.test_crash import digest, in_sync, populate, write

FILES = 120


def two_branches(root: Path) -> None:
    """`main` and `other`: files edited, moved with their directory, deleted and new."""
    rng = random.Random(20261121)
    root.mkdir()
    populate(root, rng, FILES)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "main")
    git(root, "switch", "--quiet", "--create", "other")
    for number in range(0, FILES, 3):
        write(root, rng, number)
    git(root, "mv", "package6", "moved")
    shutil.rmtree(root / "package5")
    for number in range(FILES, FILES + 20):
        write(root, rng, number)
    git(root, "add", "--all", ".")
    git(root, "commit", "--quiet", "--message", "other")
    git(root, "switch", "--quiet", "main")


def computed(daemon: Daemon) -> int:
    number = daemon.call("status")["worker"]["computed"]
    assert isinstance(number, int)
    return number


def fresh_digest(daemon: Daemon, root: Path) -> tuple[object, ...]:
    daemon.ctl("clear", "sample", "--yes", check=False)
    daemon.ctl("up", str(root), "--name", "sample", "--wait")
    in_sync(daemon)
    return digest(daemon)


@pytest.mark.timeout(180)
def test_there_and_back(daemon: Daemon, other_daemon: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "root"
    two_branches(root)
    daemon.ctl("up", str(root), "--name", "sample", "--wait")
    in_sync(daemon)
    before = digest(daemon)
    other_daemon.start()

    git(root, "switch", "--quiet", "other")
    in_sync(daemon)
    there, known = digest(daemon), computed(daemon)
    assert there != before
    assert there == fresh_digest(other_daemon, root)

    git(root, "switch", "--quiet", "main")
    in_sync(daemon)
    assert digest(daemon) == before
    assert before == fresh_digest(other_daemon, root)
    assert computed(daemon) == known  # nothing was embedded to come back

    git(root, "switch", "--quiet", "other")
    in_sync(daemon)
    assert digest(daemon) == there
    assert computed(daemon) == known


def test_another_worktree_embeds_nothing(daemon: Daemon, tmp_path: Path) -> None:
    root, worktree = tmp_path / "root", tmp_path / "worktree"
    two_branches(root)
    daemon.ctl("up", str(root), "--name", "sample", "--wait")
    known = computed(daemon)
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", worktree, "main"], cwd=root, check=True)
    daemon.ctl("up", str(worktree), "--name", "worktree", "--wait")
    assert {index["name"]: index["files"] for index in daemon.json("status")["indexes"]} == {
        "sample": FILES,
        "worktree": FILES,
    }
    assert computed(daemon) == known
