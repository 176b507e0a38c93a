"""Stamps of files with coarse or foreign clocks, where no event announces a change."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from cocosearchd.model import RACY_NS
from tests.watching.support import QUICK, following, in_sync, on_disk

SECOND_NS = 1_000_000_000
SELDOM = replace(QUICK, poll_s=60.0)  # only questions look


@pytest.fixture
def in_seconds(tmp_path: Path) -> Iterator[Path]:
    """A root on a file system whose stamps are whole seconds: ext3 and older, and as sshfs and HFS+
    have them.
    """
    make, image, path = (
        shutil.which("mke2fs", path="/usr/sbin:/sbin"),
        tmp_path / "image",
        tmp_path / "mounted",
    )
    if not sys.platform.startswith("linux") or make is None or os.geteuid():
        pytest.skip("no file system can be mounted")
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(1 << 20)
    subprocess.run([make, "-q", "-t", "ext2", "-I", "128", image], check=True, capture_output=True)
    if subprocess.run(
        ["mount", "-o", "loop", image, path], check=False, capture_output=True
    ).returncode:
        pytest.skip("no file system can be mounted")
    try:
        (path / "root").mkdir()
        yield path / "root"
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.parametrize("behind_s", [0, 10])
async def test_a_second_change_within_one_step_is_found_later(
    in_seconds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind_s: int
) -> None:
    """The file was read between the two, and looks as it did then; nobody looked while it was
    young.

    The clock of a file server may be behind: then its stamps are never young by ours.
    """
    now_ns = time.time_ns
    # The machine's clock cannot be set for a test; that ours is ahead is the same.
    monkeypatch.setattr(
        "cocosearchd.watching.scans.scan.time.time_ns", lambda: now_ns() + behind_s * SECOND_NS
    )
    path = in_seconds / "a.py"
    async with following(in_seconds, tmp_path / "sync", "polling", SELDOM) as (live, index):
        await in_sync(live)
        while True:  # both changes in one second
            await anyio.sleep((SECOND_NS - now_ns() % SECOND_NS) / 1e9 + 0.05)
            path.write_text("x = 1\n")
            first = path.stat()
            await in_sync(live)
            path.write_text("x = 2\n")
            if path.stat().st_ctime_ns == first.st_ctime_ns:
                break
        assert index.contents() != on_disk(os.fsencode(in_seconds)), (
            "it was read before the second change"
        )
        await anyio.sleep(RACY_NS / 1e9 + 1)
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(in_seconds))


async def test_files_of_a_server_whose_clock_is_ahead_are_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, now_ns = tmp_path / "root", time.time_ns
    root.mkdir()
    # The machine's clock cannot be set for a test; that it is behind is the same.
    monkeypatch.setattr(
        "cocosearchd.watching.scans.scan.time.time_ns", lambda: now_ns() - 3600 * SECOND_NS
    )
    async with following(root, tmp_path / "sync", "polling", SELDOM) as (live, index):
        (root / "a.py").write_text("x = 1\n")
        await in_sync(live)
        (root / "a.py").write_text("x = 2\n")
        await in_sync(live)
        await anyio.sleep(RACY_NS / 1e9)
        await in_sync(live)
        read = len(index.batches)
        for _ in range(3):
            await in_sync(live)
        assert len(index.batches) == read, "it was read after its stamp could not come again"
        (root / "a.py").write_text("x = 3\n")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
