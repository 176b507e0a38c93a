"""Saves through a memory mapping whose descriptor is closed: the event comes when the mapping ends."""

import mmap
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cocosearchd.model import hash_content
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.watching.hints.mapped_files import LIST_S, mapped_files
from cocosearchd.watching.hints.process_maps import shared_mappings
from tests.daemon import Daemon
from tests.hostile.mapper import mapping
from tests.watching.support import digest, following, in_sync

BEFORE, FIRST, SECOND = (f"def mapped_{word}(): pass\n" for word in ("before", "first1", "second"))


@pytest.fixture(params=["disk", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """On tmpfs not even the times of a file tell of such a store; on disks those of the first one
    to a page do.
    """
    directory = tmp_path / "root"
    if request.param == "memory":
        shared = Path("/dev/shm")
        if not os.access(shared, os.W_OK):
            pytest.skip("there is no tmpfs")
        directory = shared / f"cocosearch-test-{os.getpid()}"
    directory.mkdir()
    (directory / "a.py").write_text(BEFORE)
    yield directory
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


def test_mapped_files_are_named_while_they_are_mapped(root: Path) -> None:
    raw = os.fsencode(root)
    assert mapped_files([raw]) == {raw: ()}
    with mapping(root / "a.py"):
        assert mapped_files([raw, b"/nowhere", raw[:-1]]) == {
            raw: ("a.py",),
            b"/nowhere": (),
            raw[:-1]: (),
        }
        (root / "a.py").rename(root / "new\nline.py")
        assert mapped_files([raw])[raw] == ("new\nline.py",)
    assert mapped_files([raw]) == {raw: ()}


def test_private_and_read_only_mappings_are_no_saves(tmp_path: Path) -> None:
    """Each program maps its libraries so: nothing is written by that."""
    process = tmp_path / "7"
    process.mkdir()
    lines = [
        "7f00-7f01 rw-p 00000000 fe:00 1 /project/private.py",
        "7f01-7f02 r--s 00000000 fe:00 2 /project/read.py",
        "7f02-7f03 rw-s 00000000 00:01 3 /project/saved file.py",
        "7f03-7f04 rw-s 00000000 00:01 4 anon_inode:[perf_event]",
        "7f04-7f05 rw-s 00000000 00:01 5 ",
    ]
    (process / "maps").write_text("\n".join(lines))
    (tmp_path / "self").symlink_to("7")
    assert mapped_files([b"/project"], tmp_path) == {b"/project": ("saved file.py",)}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc")
def test_the_kernel_answers_as_its_text_reads(root: Path) -> None:
    """A mapping of each kind in this process: only the one that is shared and written counts."""
    (root / "b.py").write_text(BEFORE)
    (root / "new\nline.py").write_text(BEFORE)
    accesses = {
        "a.py": mmap.ACCESS_WRITE,
        "b.py": mmap.ACCESS_COPY,
        "new\nline.py": mmap.ACCESS_WRITE,
    }
    with ExitStack() as stack:
        for name, access in accesses.items():
            file = stack.enter_context((root / name).open("r+b"))
            stack.enter_context(mmap.mmap(file.fileno(), 0, access=access))
        read_only = stack.enter_context((root / "b.py").open("rb"))
        stack.enter_context(mmap.mmap(read_only.fileno(), 0, access=mmap.ACCESS_READ))
        text = root / "maps"
        text.write_bytes(Path("/proc/self/maps").read_bytes())
        expected = {os.fsencode(root / name) for name in ("a.py", "new\nline.py")}
        for maps in ("/proc/self/maps", str(text)):
            below = {path for path in shared_mappings(maps) if path.startswith(os.fsencode(root))}
            assert below == expected


async def test_a_question_sees_each_store_to_a_file_that_is_known_to_be_mapped(
    root: Path, tmp_path: Path
) -> None:
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        with mapping(root / "a.py") as mapper:
            live.follow_mapped(mapped_files([live.path])[live.path])
            for text in (FIRST, SECOND, FIRST):
                mapper.store(text.rstrip("\n"))
                await in_sync(live)
                assert index.files["a.py"].content_hash == digest(text.encode())
        live.follow_mapped(())


async def test_the_end_of_a_mapping_is_told_by_an_event(root: Path, tmp_path: Path) -> None:
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        with mapping(root / "a.py") as mapper:
            mapper.store(FIRST.rstrip("\n"))
        await in_sync(live)
        assert index.files["a.py"].content_hash == digest(FIRST.encode())


def test_content_that_changed_behind_its_stamp_is_read_and_not_taken_for_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has the second content already; the first was read under the same stamp."""
    # as if both were long ago
    monkeypatch.setattr("cocosearchd.search.answers.disk_files.SETTLED_NS", -(10**12))
    disk, raw = VerifiedFiles(), os.fsencode(root)
    with mapping(root / "a.py") as mapper:
        previous_time = 0
        while previous_time != (root / "a.py").stat().st_ctime_ns:  # the kernel may write between
            mapper.store(FIRST.rstrip("\n"))
            assert disk.verified(raw, "a.py", hash_content(FIRST.encode())) is not None
            previous_time = (root / "a.py").stat().st_ctime_ns
            mapper.store(SECOND.rstrip("\n"))  # to a page that is dirty already
        text = disk.verified(raw, "a.py", hash_content(SECOND.encode()))
        assert text is not None
        assert text.data == SECOND.encode()


def test_a_store_that_only_the_times_tell_of_is_never_shown_as_it_was(
    shared: Daemon, tmp_path: Path
) -> None:
    """Before the mapping is known: an answer with the file sees its times, says that it changed,
    and has it read.
    """
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.py").write_text(BEFORE)
    shared.ctl("up", str(root), "--name", "root", "--wait")
    os.sync()  # so that the page is clean
    previous_time = (root / "a.py").stat().st_ctime_ns
    with mapping(root / "a.py") as mapper:
        mapper.store(FIRST.rstrip("\n"))
        if (root / "a.py").stat().st_ctime_ns == previous_time:
            pytest.skip("the times of this file system do not tell")
        answer = shared.call("search", query="mapped_before", index="root")
        assert not answer["fresh"] or "mapped_first1" in answer["results"][0]["content"]
        answer = shared.call("search", query="mapped_first1", index="root")
        assert answer["fresh"], answer["stale_reason"]
        assert "mapped_first1" in answer["results"][0]["content"]


@pytest.mark.slow
def test_a_mapping_is_found_within_half_a_minute(shared: Daemon, root: Path) -> None:
    shared.ctl("up", str(root), "--name", "root", "--wait")
    with mapping(root / "a.py") as mapper:
        time.sleep(LIST_S + 5)
        for text in (FIRST, SECOND):
            mapper.store(text.rstrip("\n"))
            word = text.split()[1].removesuffix("():")
            answer = shared.call("search", query=word, index="root")
            assert answer["fresh"]
            assert word in answer["results"][0]["content"]
