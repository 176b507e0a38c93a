"""Roots and directories whose file system is not mounted: their rows stay, and are not called
fresh.

With real mounts where they are allowed; beside them with an index that says its files were on
another device.
"""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import anyio
import pytest

from cocosearchd.model import FileRecord, Fingerprint
from cocosearchd.watching.availability import availability
from cocosearchd.watching.availability.unmounted_directories import unmounted
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.availability.test_mounts import Mount, mounted
from tests.watching.support import (
    BACKENDS,
    MemoryIndex,
    digest,
    following,
    in_sync,
    on_disk,
)
from tests.watching.test_watched_root import held, linux, put

__all__ = ["mounted"]

AWAY = "mount that again"


def remembered(root: Path, *names: str, device: int | None = None) -> MemoryIndex:
    """An index of before a restart, whose files were on a device: by default on one that is not the
    root's.
    """
    index = MemoryIndex(os.fsencode(root))
    stored_print = Fingerprint.from_status(root.stat())
    stored_device = stored_print.device + 1 if device is None else device
    for name in names:
        index.files[name] = FileRecord(
            name, digest(b"1"), stored_print._replace(device=stored_device), 1, 1, "text"
        )
    return index


class Slow(MemoryIndex):
    """Says what it knows when it is told to."""

    def __init__(self, root: bytes) -> None:
        super().__init__(root)
        self.known = asyncio.Event()
        self.known.set()

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        await self.known.wait()
        return await super().file_records(under)


async def state(live: WatchedRoot, expected: str) -> None:
    with anyio.fail_after(60):
        while live.status().state != expected:
            await anyio.sleep(0.01)


async def says_away(live: WatchedRoot) -> None:
    await state(live, "root_missing")
    answer = await live.sync(5)
    assert (answer.fresh, AWAY in (answer.reason or "")) == (False, True), answer
    assert AWAY in (live.status().reason or "")


@linux
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_root_that_is_unmounted_and_mounted_again(
    root: Path, tmp_path: Path, mounted: Mount, backend: str
) -> None:
    """The file system that is mounted again has other files; nothing of the two is lost or kept for
    too long.
    """
    async with following(root, tmp_path / "sync", backend) as (live, index):
        with mounted(root):
            put(root, a="1", b__c="1")
            await in_sync(live)
            assert held(index) == {"a.py", "b/c.py"}
        await says_away(live)
        assert held(index) == {"a.py", "b/c.py"}, "what is not mounted was not deleted"
        with mounted(root):
            put(root, a="2")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
        await says_away(live)
        put(root, in_its_place="1")
        await in_sync(live)
        assert held(index) == {"in_its_place.py"}, (
            "whoever puts a file there means the directory as it is"
        )


@linux
async def test_a_restart_before_the_mount(root: Path, tmp_path: Path, mounted: Mount) -> None:
    index = MemoryIndex(os.fsencode(root))
    with mounted(root):
        put(root, a="1")
        async with following(root, tmp_path / "sync", index=index) as (live, _):
            await in_sync(live)
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await says_away(live)
        assert held(index) == {"a.py"}
        with mounted(root):
            put(root, a="1", b="1")
            assert (await live.sync(20)).fresh, "the first question after the mount sees it"
            assert held(index) == {"a.py", "b.py"}


@linux
async def test_changes_pending_at_an_unmount_delete_nothing(
    root: Path, tmp_path: Path, mounted: Mount
) -> None:
    async with following(root, tmp_path / "sync") as (live, index):
        with mounted(root):
            put(root, a="1", sub__b="1")
            await in_sync(live)
            index.failing["a.py"] = "the store went away"
            put(root, a="2")
            with contextlib.suppress(TimeoutError):
                await live.sync(0.3)
        index.failing.clear()
        await says_away(live)
        await anyio.sleep(0.3)  # longer than any retry
        assert held(index) == {"a.py", "sub/b.py"}


@linux
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_file_system_below_the_root(
    root: Path, tmp_path: Path, mounted: Mount, backend: str
) -> None:
    """Like with a directory that may not be read: its files stay, are named, and spoil no other
    answer.
    """
    put(root, a="1")
    (root / "data").mkdir()
    async with following(root, tmp_path / "sync", backend) as (live, index):
        with mounted(root / "data"):
            put(root, data__b="1", data__sub__c="1")
            await in_sync(live)
        put(root, a="2")
        await in_sync(live)
        assert held(index) == {"a.py", "data/b.py", "data/sub/c.py"}
        assert index.files["a.py"].content_hash == digest((root / "a.py").read_bytes())
        assert live.status().unreadable == ("data/",)
        assert "not mounted: 1, the first at data/" in (live.status().reason or "")
        live.rescan("a periodic one")
        await in_sync(live)
        assert held(index) == {"a.py", "data/b.py", "data/sub/c.py"}
        with mounted(root / "data"):
            put(root, data__b="2")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
            assert (live.status().unreadable, live.status().reason) == ((), None)
        await in_sync(live)
        assert live.status().unreadable == ("data/",)
        put(root, data__in_its_place="1")
        await in_sync(live)
        assert held(index) == {"a.py", "data/in_its_place.py"}


@linux
async def test_a_restart_before_the_mount_below_the_root(
    root: Path, tmp_path: Path, mounted: Mount
) -> None:
    """With changes that were not applied before: they are looked at while the first scan still
    runs.
    """
    put(root, a="1")
    (root / "data").mkdir()
    index = Slow(os.fsencode(root))
    with mounted(root / "data"):
        put(root, data__b="1", data__sub__c="1")
        async with following(root, tmp_path / "sync", index=index) as (live, _):
            await in_sync(live)
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        index.known.clear()
        live._dirty.mark("data/sub/c.py")
        live._dirty.mark("data/b.py")
        with anyio.fail_after(60):
            while live._dirty.pending():
                await anyio.sleep(0.01)
        assert held(index) == {"a.py", "data/b.py", "data/sub/c.py"}
        index.known.set()
        await in_sync(live)
        await in_sync(live)
        assert held(index) == {"a.py", "data/b.py", "data/sub/c.py"}


# -- without mounts: the index says that its files were elsewhere


async def test_an_index_of_files_of_another_device(root: Path, tmp_path: Path) -> None:
    async with following(root, tmp_path / "sync", index=remembered(root, "a.py", "b/c.py")) as (
        live,
        index,
    ):
        await says_away(live)
        assert held(index) == {"a.py", "b/c.py"}
        (root / "README").symlink_to("/nowhere")  # how to mount it
        (root / ".keep").touch()
        await says_away(live)
        put(root, a="1")
        await in_sync(live)
        assert held(index) == {"a.py"}


@pytest.mark.parametrize("restart", [False, True])
async def test_a_directory_that_was_emptied_is_an_empty_index(
    root: Path, tmp_path: Path, restart: bool
) -> None:
    put(root, a="1", b__c="1")
    index = MemoryIndex(os.fsencode(root))

    @contextlib.asynccontextmanager
    async def followed() -> AsyncIterator[WatchedRoot]:
        async with following(root, tmp_path / "sync", index=index) as (live, _):
            await in_sync(live)
            yield live

    def empty() -> None:
        shutil.rmtree(root / "b")
        (root / "a.py").unlink()

    async with followed() as live:
        if not restart:
            empty()
            await in_sync(live)
            assert index.files == {}
            return
    empty()
    async with followed() as live:
        assert index.files == {}
        assert live.status().state == "live"


async def test_a_root_that_nobody_asks_about_is_looked_at_now_and_then(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file system comes, and no question: the index follows all the same, without a look at
    every turn.
    """
    monkeypatch.setattr(availability, "ROOT_POLL_S", 0.02)
    looks = 0
    inspect: Callable[[bytes], object] = availability._inspect

    def counted(root: bytes) -> object:
        nonlocal looks
        looks += 1
        return inspect(root)

    monkeypatch.setattr(availability, "_inspect", counted)
    async with following(root, tmp_path / "sync", index=remembered(root, "a.py")) as (live, index):
        await state(live, "root_missing")
        former_looks, began = looks, time.monotonic()
        with anyio.fail_after(60):
            while looks < former_looks + 6:
                await anyio.sleep(0.02)
        most = (time.monotonic() - began) / availability.ROOT_POLL_S
        assert looks - former_looks < 2 * most + 10, "not at every turn"
        put(root, new="1")
        await state(live, "live")
        with anyio.fail_after(60):
            while held(index) != {"new.py"}:
                await anyio.sleep(0.01)


def below(root: Path, **devices: int) -> tuple[str, ...]:
    """Return the bare directories that count as unmounted, by the stored files: name -> device."""
    records = dict[str, FileRecord]()
    for name, device in devices.items():
        records |= remembered(root, f"{name.replace('__', '/')}.py", device=device).files
    for folder in ("one", "two/three"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    return unmounted(
        os.fsencode(root), ("one", "two/three"), [p for p in records if "/" in p], records
    )


def test_which_directories_were_mounted_on(root: Path) -> None:
    device = root.stat().st_dev
    assert below(root, a=device, one__b=device + 1, one__sub__c=device + 1) == ("one",)
    assert below(root, a=device, two__three__b=device + 1, one__b=device) == ("two/three",)
    assert below(root, a=device, one__b=device + 1, two__three__b=device + 2) == (
        "one",
        "two/three",
    )
    assert below(root, one__b=device + 1) == ("one",)
    assert below(root, a=device, one__b=device, two__three__b=device) == (), "they were emptied"
    assert below(root, a=device + 5, one__b=device + 5) == (), (
        "the numbers are others since a restart"
    )
    assert below(root, a=device + 5, two__b=device + 5) == (), "no file was in a bare directory"


@linux
def test_an_empty_file_system_that_is_mounted_is_empty(root: Path, mounted: Mount) -> None:
    device = root.stat().st_dev
    (root / "one").mkdir()
    with mounted(root / "one"):
        assert below(root, a=device, one__b=device) == ()
        assert below(root, a=device, one__b=(root / "one").stat().st_dev + 1) == (), (
            "it has taken the place of another"
        )
