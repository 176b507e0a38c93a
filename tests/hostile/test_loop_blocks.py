"""Large numbers of anything in a repository do not block the event loop, which serves every root.

Times are those of the thread of the event loop, so that a busy machine does not matter.
"""

import asyncio
import os
import time
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.forms.tree_filter import TreeFilter
from cocosearchd.watching.dirty_records import DirtyTree
from cocosearchd.watching.dirty_set import MAX_TREES
from cocosearchd.watching.hints.base import DirtyHint
from cocosearchd.watching.scans.hard_links import HardLinks, LinkedName
from cocosearchd.watching.scans.scan import ScanResult, UnreadDirectory
from cocosearchd.watching.watched_root import WatchedRoot
from tests.machine_speed import slowness
from tests.watching.support import QUICK, MemoryIndex, git

FOLDERS = 20_000
CHANGED_FILES = 5_000
MAX_HINTS_S = 0.2
MARKERS = 5_000
MAX_CHECK_S = 0.05
NAMES = 20_000
BATCH = 128
MAX_LINKS_S = 0.02


async def root_with_rules(root: Path, sync_dir: Path) -> WatchedRoot:
    """A root that does not run, with rules of many directories, which need not be there."""
    live = WatchedRoot(
        os.fsencode(root), MemoryIndex(os.fsencode(root)), IndexingSettings(), QUICK, sync_dir
    )
    await live._coordinator.open()
    scope = live._coordinator.scope
    assert scope is not None
    for number in range(FOLDERS):
        scope.is_in_scope(b"package/d%d/x.py" % number)
    return live


@pytest.mark.parametrize("batch", [CHANGED_FILES, 1])
async def test_many_changed_ignore_files_do_not_block(tmp_path: Path, batch: int) -> None:
    """One `git pull` may change the ignore file of each directory."""
    root = tmp_path / "root"
    root.mkdir()
    live = await root_with_rules(root, tmp_path / "sync")
    hints = [DirtyHint(b"package/d%d/.gitignore" % number) for number in range(CHANGED_FILES)]
    lost = asyncio.Event()
    began = time.thread_time()
    for start in range(0, len(hints), batch):
        live._absorb(lost, hints[start : start + batch])
    blocked_s = time.thread_time() - began
    limit_s = MAX_HINTS_S * slowness() * (1 if batch > 1 else 4)  # all of it, in many short steps
    assert blocked_s < limit_s
    (tree,) = live._dirty.begin_scan()
    assert tree.path == ""


async def test_a_few_changed_ignore_files_are_read_again_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    live = await root_with_rules(root, tmp_path / "sync")
    scope = live._coordinator.scope
    live._absorb(asyncio.Event(), [DirtyHint(b"package/d%d/.gitignore" % n) for n in (1, 2)])
    assert [tree.path for tree in live._dirty.begin_scan()] == ["package/d1", "package/d2"]
    renewed = live._coordinator.scope
    assert scope is not None
    assert renewed is not None
    assert scope._folders.keys() - renewed._folders.keys() == {b"package/d1", b"package/d2"}


async def test_many_empty_markers_do_not_block(tmp_path: Path) -> None:
    """Directories with a `.git` that is no repository are checked by each tick and question."""
    live = await root_with_rules(tmp_path, tmp_path.with_name("sync"))
    coordinator = live._coordinator
    assert coordinator.scope is not None
    for number in range(MARKERS):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / ".git").touch()
        coordinator.scope.is_in_scope(b"%d/x.py" % number)
    for _ in range(3):
        began = time.thread_time()
        await coordinator.check_rules(local=True)
        assert coordinator.has_unannounced(), "this takes a thread"
        assert time.thread_time() - began < MAX_CHECK_S * slowness()
    repository = tmp_path / f"{MARKERS - 1}"
    (repository / ".git").unlink()
    git(repository, "init", "-q")
    incomplete_scope = coordinator.scope
    await coordinator.check_rules(local=True)
    assert coordinator.scope is not incomplete_scope, "it is noticed all the same"


def linked(number: int, written: int) -> LinkedName:
    return LinkedName(f"d/{number}.py", (1, 2), (0, written, written), NAMES)


def test_many_names_of_one_file_do_not_block() -> None:
    """A batch is compared after each write: of all names or of one, to a file with many names."""
    links = HardLinks()
    links.record_scan(linked(number, 1) for number in range(NAMES))
    times = list[float]()
    for written in range(2, 7):
        began = time.thread_time()
        for number in range(BATCH):
            links.remove(f"d/{number}.py", (1, 2))
            links.update(linked(number, written))
        times.append(time.thread_time() - began)
        assert len(links.suspects()) < BATCH
    assert min(times) < MAX_LINKS_S * slowness()


async def test_many_directories_that_may_not_be_read_do_not_block(tmp_path: Path) -> None:
    """An archive may hold as many; each hint asks whether its directory is unmounted."""
    live = await root_with_rules(tmp_path, tmp_path.with_name("sync"))
    result = ScanResult(
        unreadable={
            b"closed/%d" % number: UnreadDirectory("Permission denied", closed=True)
            for number in range(FOLDERS)
        }
    )
    unread = live._coordinator.unread
    unread.record_scan([DirtyTree("", 1)], result)
    hints = [DirtyHint(b"package/d%d/x.py" % number) for number in range(CHANGED_FILES)]
    began = time.thread_time()
    live._absorb(asyncio.Event(), hints)
    contained = [unread.contains(f"closed/{number}/x.py") for number in range(BATCH)]
    assert time.thread_time() - began < MAX_HINTS_S * slowness()
    assert all(contained)
    assert not unread.contains("closed/x.py")
    assert len(unread.closed) == FOLDERS


def test_a_scan_of_many_trees_selects_the_stored_files_soon() -> None:
    trees = [f"d{number:04}/sub" for number in range(MAX_TREES)]
    scanned = TreeFilter([*trees, f"{trees[7]}/below"], "/")
    began = time.thread_time()
    covered = [
        path for number in range(FOLDERS) if scanned.covers(path := f"d{number:04}/sub/below.py")
    ]
    assert time.thread_time() - began < MAX_HINTS_S * slowness()
    assert len(covered) == MAX_TREES
    assert scanned.covers(trees[7])
    assert not scanned.covers(f"{trees[7]}way/x.py")
    assert not scanned.covers("d0007")
    assert TreeFilter([""], "/").covers("x")
    assert not TreeFilter((), "/").covers("x")
