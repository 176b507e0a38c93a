"""File systems that are mounted and unmounted below a root; no event announces that they are gone."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from cocosearchd.watching.hints.base import DirtyTreeHint, Hint
from cocosearchd.watching.hints.inotify import InotifyHints
from cocosearchd.watching.scans import mounted_paths
from tests.watching.support import following, in_sync, on_disk
from tests.watching.test_watched_root import held, linux, put

Mount = Callable[[Path], contextlib.AbstractContextManager[None]]


@pytest.fixture
def mounted(tmp_path: Path) -> Mount:
    """Puts an empty file system on a directory; skips where that is not allowed."""

    return lambda directory: mount(directory, "-t", "tmpfs", "-o", "size=1m", "none")


@contextlib.contextmanager
def mount(directory: Path, *arguments: str) -> Iterator[None]:
    done = subprocess.run(["mount", *arguments, directory], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def bind(source: Path, directory: Path) -> contextlib.AbstractContextManager[None]:
    """Show a file or a directory at a second place as well."""
    return mount(directory, "--bind", str(source))


@linux
async def test_mounts_and_unmounts_below_a_root_are_followed(
    tmp_path: Path, mounted: Mount
) -> None:
    root = tmp_path / "root"
    put(root, a="1", sub__hidden="1")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        with mounted(root / "sub"):
            await in_sync(live)
            assert held(index) == {"a.py"}, "what lies under a mount is not there"
            put(root, sub__on_top="1")
            await in_sync(live)
            assert held(index) == {"a.py", "sub/on_top.py"}
        await in_sync(live)
        assert held(index) == {"a.py", "sub/hidden.py"}
        put(root, sub__hidden="2")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


@linux
async def test_a_mount_elsewhere_is_no_reason_to_look(tmp_path: Path, mounted: Mount) -> None:
    root = tmp_path / "root"
    put(root, a="1")
    (tmp_path / "rooted").mkdir()
    async with following(root, tmp_path / "sync") as (live, _):
        await in_sync(live)
        epoch = live.status().clock.epoch
        with mounted(tmp_path / "rooted"):
            await in_sync(live)
        await in_sync(live)
        assert live.status().clock.epoch == epoch


@linux
@pytest.mark.parametrize("source", ["a", "outside"])
async def test_a_directory_that_is_shown_twice_changes_at_both_places(
    tmp_path: Path, source: str
) -> None:
    """The kernel has one watch for it, whatever its paths are."""
    root = tmp_path / "root"
    put(root, a__deep__m="1", a__n="1")
    put(tmp_path / "outside", deep__m="1", n="1")
    source_directory = root / "a" if source == "a" else tmp_path / "outside"
    for name in ("b", "c"):
        (root / name).mkdir()
    with bind(source_directory, root / "b"), bind(source_directory, root / "c"):
        async with following(root, tmp_path / "sync") as (live, index):
            await in_sync(live)
            for number, path in enumerate(
                (source_directory, root / "b", root / "c", source_directory)
            ):
                put(path, deep__m=f"changed {number}", n=f"changed {number}")
                await in_sync(live)
                assert index.contents() == on_disk(os.fsencode(root))
            (source_directory / "deep").rename(source_directory / "moved")
            await in_sync(live)
            put(source_directory, moved__m="2", later__m="2")
            await in_sync(live)
            put(root / "b", moved__m="3", later__m="3")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
            shutil.rmtree(root / "c" / "moved")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


@linux
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_mounted_file_that_is_written_by_its_other_path_is_in_the_next_answer(
    tmp_path: Path, at_once: bool
) -> None:
    """No event names the path below the root."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    put(root, f="0", sub__g="0", h="0")
    put(outside, f="1", g="1")
    with bind(outside / "f.py", root / "f.py"), bind(outside / "g.py", root / "sub" / "g.py"):
        async with following(root, tmp_path / "sync") as (live, index):
            await in_sync(live)
            for number in range(3):
                (outside / "f.py").write_text(f"{number}")  # of one size
                (outside / "g.py").write_text(f"changed {number}")
                if not at_once or live.sync_at_once() is None:
                    await in_sync(live)
                assert index.contents() == on_disk(os.fsencode(root))


@linux
@pytest.mark.parametrize("name", [".gitignore", "sub/.cocosearchignore"])
async def test_a_mounted_ignore_file_that_is_written_by_its_other_path_is_followed(
    tmp_path: Path, name: str
) -> None:
    root = tmp_path / "root"
    put(root, sub__a="0", sub__b="0")
    (root / name).touch()
    rules = tmp_path / "rules"
    rules.touch()
    with bind(rules, root / name):
        async with following(root, tmp_path / "sync") as (live, index):
            await in_sync(live)
            for left_out in ("a.py", "b.py"):
                rules.write_text(f"{left_out}\n")
                await in_sync(live)
                assert held(index) == {"sub/a.py", "sub/b.py"} - {f"sub/{left_out}"}


@linux
async def test_a_mounted_file_that_rests_costs_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    put(root, f="0")
    put(outside, f="1")
    monkeypatch.setattr("cocosearchd.watching.scans.mounted_paths.RACY_NS", 0)
    with bind(outside / "f.py", root / "f.py"):
        async with following(root, tmp_path / "sync") as (live, index):
            await in_sync(live)
            index.batches.clear()
            assert (answer := live.sync_at_once()) is not None
            assert answer.fresh
            await in_sync(live)
            assert not index.batches


@linux
async def test_a_mounted_ignore_file_from_before_the_clock_was_set_back_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ctime lies in the future: the next write gets another one."""
    root = tmp_path / "root"
    put(root, a="0", b="0")
    (root / ".gitignore").touch()
    rules = tmp_path / "rules"
    rules.write_text("a.py\n")
    clock_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: clock_ns() - 3_600_000_000_000)
    with bind(rules, root / ".gitignore"):
        async with following(root, tmp_path / "sync") as (live, index):
            await in_sync(live)
            with anyio.fail_after(60):
                while live.sync_at_once() is None:
                    await anyio.sleep(0.01)
            rules.write_text("b.py\n")
            await in_sync(live)
            assert held(index) == {"a.py"}
            with anyio.fail_after(60):
                while live.sync_at_once() is None:
                    await anyio.sleep(0.01)
            # A change at the time of the last one leaves its stamp: it may have come meanwhile.
            monkeypatch.setattr(time, "time_ns", lambda: clock_ns() + 3_600_000_000_000)
            assert live.sync_at_once() is None
            await in_sync(live)
            await in_sync(live)
            with anyio.fail_after(60):
                while live.sync_at_once() is None:
                    await anyio.sleep(0.01)


def test_a_path_without_ctime_that_rests_is_not_noticed(tmp_path: Path) -> None:
    """Each question would scan a mounted directory, and one that cannot be reached."""
    (tmp_path / "directory").mkdir()
    root = os.fsencode(tmp_path)
    mounted = mounted_paths.MountedPaths(root)
    mounted.replace(mounted_paths._stamp_path(root, path) for path in (b"directory", b"missing"))
    assert not mounted.changed()
    (tmp_path / "directory").chmod(0o711)
    (tmp_path / "missing").mkdir()
    assert {entry.path for entry in mounted.changed()} == {"directory", "missing"}


def test_a_change_just_before_the_clock_was_set_back_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have come after the stamp was read, within the same tick of the clock."""
    put(tmp_path, a="1")
    root = os.fsencode(tmp_path)
    mounted = mounted_paths.MountedPaths(root)
    written_ns = (tmp_path / "a.py").stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: written_ns)
    mounted.replace([mounted_paths._stamp_path(root, b"a.py")])
    monkeypatch.setattr(time, "time_ns", lambda: written_ns - 3_600_000_000_000)
    assert [entry.path for entry in mounted.record(mounted.changed())] == ["a.py"]
    assert not mounted.changed(), "it has been read since"


@linux
async def test_the_mode_of_a_mounted_directory_is_heard_without_a_question(
    tmp_path: Path, mounted: Mount
) -> None:
    """Its mode makes no event in the directory that it is mounted in."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    batches = list[Sequence[Hint]]()
    with mounted(root / "sub"):
        hints = InotifyHints(os.fsencode(root), os.fsencode(tmp_path))
        hints.start(batches.append)
        for directory in (b"", b"sub"):
            hints.watch(directory)
        (root / "sub").chmod(0o700)
        with anyio.fail_after(60):
            while not batches:
                await anyio.sleep(0.01)
        hints.close()
    assert set(batches[0]) == {DirtyTreeHint(b"sub")}
