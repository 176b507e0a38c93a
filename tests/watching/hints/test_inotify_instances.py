"""Roots that share instances of inotify: each gets all of its own hints."""

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching.hints import inotify_instances
from cocosearchd.watching.hints.base import (
    Cookie,
    DirtyHint,
    DirtyTreeHint,
    Hint,
    HintsLost,
    HintsUnavailable,
)
from cocosearchd.watching.hints.inotify import InotifyHints
from cocosearchd.watching.hints.inotify_instances import InotifyInstances, default_limit
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.watched_root import WatchedRoot
from tests.waiting import until
from tests.watching.hints.heard import Heard, watch_all
from tests.watching.support import QUICK, MemoryIndex, Mutator, following, in_sync, on_disk

if sys.platform == "linux":
    import inotify_simple

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify exists on Linux only")

PYTHON = IndexingSettings(include=("*.py",))


class SharedRoot:
    """A root with its directory for syncs, its hints, and what they say."""

    def __init__(self, path: Path, instances: InotifyInstances) -> None:
        self.path = path
        self.heard = Heard()
        self.sync = path.parent / f"{path.name}.sync"
        self.sync.mkdir()
        self.hints = InotifyHints(os.fsencode(path), os.fsencode(self.sync), instances)
        self.hints.start(self.heard)
        watch_all(self.hints, path)

    def wait_for_cookie(self, name: str) -> None:
        """Wait until all earlier changes are said."""
        (self.sync / name).touch()
        self.heard.wait(lambda hints: Cookie(os.fsencode(name)) in hints)

    def changes(self) -> set[Hint]:
        """Every hint but cookies, of whatever part of a save."""
        return {
            DirtyHint(hint.path) if isinstance(hint, DirtyHint) else hint
            for hint in self.heard.hints
            if not isinstance(hint, Cookie)
        }


@contextlib.contextmanager
def sharing(*paths: Path, limit: int = 1) -> Iterator[Sequence[SharedRoot]]:
    """Roots in at most `limit` instances."""
    for path in paths:  # before the first watch: a new entry of a parent is a replaced root
        path.mkdir(exist_ok=True, parents=True)
    instances = InotifyInstances(limit)
    roots = [SharedRoot(path, instances) for path in paths]
    try:
        yield roots
    finally:
        for root in roots:
            root.hints.close()
    assert instances.instance_count == 0


def count_watches() -> int:
    """Return the number of inotify watches of this process, as the kernel counts them."""
    count = 0
    for handle in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(FileNotFoundError):
            count += Path(f"/proc/self/fdinfo/{handle}").read_text().count("inotify wd:")
    return count


def count_instances() -> int:
    """Return the number of inotify instances of this process, as the kernel counts them."""
    count = 0
    for handle in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += "inotify" in os.readlink(f"/proc/self/fd/{handle}")
    return count


def test_each_root_is_told_its_own_changes(tmp_path: Path) -> None:
    with sharing(*(tmp_path / name for name in "abc")) as roots:
        assert count_instances() == 1
        for number, root in enumerate(roots):
            (root.path / f"{number}.py").write_text("1")
        for number, root in enumerate(roots):
            root.wait_for_cookie("end")
            assert root.changes() == {DirtyHint(b"%d.py" % number)}
            assert root.hints.batches_sent() == root.heard.batches


def test_a_root_within_a_root_and_its_parent_hear_both_roles(tmp_path: Path) -> None:
    """The kernel has one watch of a directory that is a parent of one root and a part of another."""
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    with sharing(tmp_path / "outer", tmp_path / "outer" / "inner") as (outer, inner):
        (inner.path / "a.py").write_text("1")
        inner.path.chmod(0o700)  # an event of an entry of its parent; the root is the same
        (outer.path / "b.py").write_text("1")
        inner.wait_for_cookie("one")
        outer.wait_for_cookie("one")
        assert {DirtyHint(b"inner/a.py"), DirtyHint(b"b.py")} <= outer.changes()
        assert inner.changes() == {DirtyHint(b"a.py"), DirtyTreeHint(b"")}
        inner.path.rename(tmp_path / "away")
        inner.heard.wait(lambda _: bool(inner.heard.losses()))
        outer.wait_for_cookie("two")
        assert not outer.heard.losses()
        assert DirtyTreeHint(b"inner") in outer.changes()


def test_a_replaced_root_is_told_to_that_root_alone(tmp_path: Path) -> None:
    with sharing(tmp_path / "a", tmp_path / "b") as (first, second):
        first.path.rename(tmp_path / "away")
        first.path.mkdir()
        first.heard.wait(lambda _: bool(first.heard.losses()))
        second.wait_for_cookie("end")
        assert second.changes() == set()


def test_a_moved_directory_above_two_roots_is_told_to_both(tmp_path: Path) -> None:
    with sharing(tmp_path / "above" / "a", tmp_path / "above" / "b") as roots:
        (tmp_path / "above").rename(tmp_path / "away")
        for root in roots:
            root.heard.wait(lambda _, root=root: bool(root.heard.losses()))  # type: ignore[misc]


def test_a_directory_that_moves_from_one_root_to_the_other_is_heard_there(tmp_path: Path) -> None:
    (tmp_path / "a" / "sub").mkdir(parents=True)
    with sharing(tmp_path / "a", tmp_path / "b") as (first, second):
        (first.path / "sub").rename(second.path / "sub")
        second.hints.watch(b"sub")  # perhaps before the thread has read that it left the other root
        first.wait_for_cookie("one")
        second.wait_for_cookie("one")
        (second.path / "sub" / "x.py").write_text("1")
        second.wait_for_cookie("two")
        assert DirtyHint(b"sub/x.py") in second.changes()
        assert DirtyHint(b"sub/x.py") not in first.changes()


def test_an_overflow_is_told_to_all_roots(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with sharing(tmp_path / "a", tmp_path / "b") as roots:
        first = roots[0]
        for name in ("x.py", "y.py"):
            (first.path / name).touch()
        with first.hints.instance.lock:  # the thread cannot read
            for number in range(limit + 100):
                os.utime(first.path / ("x.py" if number % 2 else "y.py"))
        for root in roots:
            root.heard.wait(lambda _, root=root: bool(root.heard.losses()))  # type: ignore[misc]
            assert "overflow" in root.heard.losses()[0]


def test_a_root_that_leaves_frees_its_watches_and_no_others(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / "a" / name).mkdir(parents=True)
    watches, instances, handles = (
        count_watches(),
        count_instances(),
        len(os.listdir("/proc/self/fd")),
    )
    threads = threading.active_count()
    with sharing(tmp_path / "a", tmp_path / "b", limit=1) as (first, second):
        of_both = count_watches() - watches
        first.hints.close()
        of_second = count_watches() - watches
        assert of_both - of_second == 1 + 6 + 1, (
            "the root, six directories, the directory for syncs"
        )
        (second.path / "x.py").touch()
        second.wait_for_cookie("end")
        assert DirtyHint(b"x.py") in second.changes()
        assert not first.heard.losses()
    assert (count_watches(), count_instances()) == (watches, instances)
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (handles, threads)


@pytest.mark.parametrize("end", ["close", "move"])
def test_a_large_root_that_leaves_costs_the_others_no_event(tmp_path: Path, end: str) -> None:
    """The kernel queues an event for each watch that ends, and has room for a limited number."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(limit + 1000):
        os.makedirs(tmp_path / "large" / "all" / str(number))
    with sharing(tmp_path / "large", tmp_path / "b") as (large, small):
        of_both = count_watches()
        assert small.hints.instance.watch_count > limit
        if end == "close":
            large.hints.close()
        else:
            (tmp_path / "large" / "all").rename(tmp_path / "b.all")
            large.heard.wait(lambda hints: DirtyTreeHint(b"all") in hints)
        (small.path / "x.py").touch()
        small.wait_for_cookie("end")
        assert small.changes() == {DirtyHint(b"x.py")}
        assert not large.heard.losses()
        end_at = time.monotonic() + 60
        while count_watches() > of_both - limit and time.monotonic() < end_at:
            time.sleep(0.05)
        assert count_watches() <= of_both - limit, "the kernel has ended them as well"


def test_roots_share_what_they_have_when_the_user_has_no_more_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_instance, free = inotify_simple.INotify, [2]

    def open_limited(**options: bool) -> object:
        """Refuse, as the kernel does, when other programs have taken the rest."""
        if not free[0]:
            raise OSError(errno.EMFILE, "Too many open files")
        free[0] -= 1
        return open_instance(**options)

    monkeypatch.setattr(inotify_instances, "INotify", open_limited)
    with sharing(*(tmp_path / name for name in "abcde"), limit=16) as roots:
        assert len({root.hints.instance for root in roots}) == 2
        for root in roots:
            (root.path / "x.py").touch()
            root.wait_for_cookie("end")
            assert root.changes() == {DirtyHint(b"x.py")}
    with pytest.raises(HintsUnavailable, match="max_user_instances"):
        InotifyHints(os.fsencode(tmp_path / "a"), os.fsencode(tmp_path / "a.sync")).start(Heard())


def test_the_first_roots_have_an_instance_each(tmp_path: Path) -> None:
    assert 1 <= default_limit() <= inotify_instances.MAX_INSTANCES
    with sharing(*(tmp_path / name for name in "abc"), limit=2) as (first, second, third):
        assert first.hints.instance is not second.hints.instance
        assert third.hints.instance in (first.hints.instance, second.hints.instance)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_fails_is_told_to_its_roots_and_used_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = InotifyInstances(limit=1)
    for name in "abc":
        (tmp_path / name).mkdir()
    roots = [SharedRoot(tmp_path / name, instances) for name in "ab"]

    def fail(_: object, event: object, hints: object) -> None:
        raise ValueError(event)

    with monkeypatch.context() as patch:
        patch.setattr(InotifyHints, "translate", fail)
        (roots[0].path / "x.py").touch()
        for root in roots:
            root.heard.wait(lambda hints: any(isinstance(hint, HintsLost) for hint in hints))
    successor = SharedRoot(tmp_path / "c", instances)
    (successor.path / "x.py").touch()
    successor.wait_for_cookie("end")
    assert successor.changes() == {DirtyHint(b"x.py")}
    for root in (*roots, successor):
        root.hints.close()
    assert instances.instance_count == 0


def test_a_directory_that_cannot_be_opened_now_stops_no_other_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that hangs, say, mounted a moment ago."""
    answered, opening = threading.Event(), threading.Event()
    open_at_once = os.open

    def open_late(path: bytes, flags: int, mode: int = 0o777) -> int:
        if os.fsencode(path).endswith(b"/slow"):
            opening.set()
            answered.wait(120)
        return open_at_once(path, flags, mode)

    with sharing(tmp_path / "a", tmp_path / "b") as (first, second):
        (first.path / "slow").mkdir()
        with monkeypatch.context() as patch:
            patch.setattr("cocosearchd.watching.hints.inotify.os.open", open_late)
            thread = threading.Thread(target=first.hints.watch, args=(b"slow",))
            thread.start()
            assert opening.wait(60)
            (second.path / "x.py").touch()
            second.wait_for_cookie("end")
            assert second.hints.batches_sent() == second.heard.batches
            answered.set()
            thread.join()
        (first.path / "slow" / "y.py").touch()
        first.wait_for_cookie("end")
        assert DirtyHint(b"slow/y.py") in first.changes()


async def test_any_changes_in_roots_that_share_an_instance_are_found(tmp_path: Path) -> None:
    group = RootGroup(InotifyInstances(limit=1))
    async with contextlib.AsyncExitStack() as stack:
        followed = list[tuple[WatchedRoot, MemoryIndex, Mutator]]()
        for number in range(4):
            root = tmp_path / f"root{number}"
            root.mkdir()
            live, index = await stack.enter_async_context(
                following(root, tmp_path / f"sync{number}", indexing=PYTHON, group=group)
            )
            followed.append((live, index, Mutator(os.fsencode(root), 31 + number)))
        for _ in range(6):
            async with anyio.create_task_group() as tasks:
                for _, _, mutator in followed:
                    tasks.start_soon(anyio.to_thread.run_sync, mutator.steps, 40)
            for live, index, _ in followed:
                await in_sync(live)
                assert index.contents() == on_disk(index.root)


async def test_two_hundred_roots_are_watched_with_three_instances(tmp_path: Path) -> None:
    group = RootGroup(InotifyInstances(limit=3))
    watches = count_watches()
    async with contextlib.AsyncExitStack() as stack:
        followed = list[tuple[Path, WatchedRoot, MemoryIndex]]()
        for number in range(200):
            root = tmp_path / f"root{number}"
            (root / "sub").mkdir(parents=True)
            live, index = await stack.enter_async_context(
                following(root, tmp_path / f"sync{number}", watching=QUICK, group=group)
            )
            followed.append((root, live, index))
        for _, live, _ in followed:
            await in_sync(live, 60)
            assert live.status().watcher == "inotify"
        assert group.instances.instance_count == 3
        for number, (root, _, _) in enumerate(followed):
            (root / "sub" / "x.py").write_text(f"x = {number}\n")
        for _, live, index in followed:
            await in_sync(live, 60)
            assert index.contents() == on_disk(index.root)
            # it needs no cookie at rest
            await until(lambda live=live: live.sync_at_once() is not None)  # type: ignore[misc]
    with anyio.fail_after(60):
        while count_watches() > watches:
            await anyio.sleep(0.05)
