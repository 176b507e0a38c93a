"""Mapped files are listed for questions: no answer uses an old listing, and none is made at rest."""

import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from cocosearchd.watching.hints import mapped_files
from cocosearchd.watching.hints.mapped_files import MappedFiles, MappedPaths
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.watched_root import WatchedRoot
from tests.hostile.mapper import mapping
from tests.watching.support import digest, following, in_sync

LONG_S = 3600.0
LIMIT_S = 60.0


class Lister:
    """Lists no files, and counts how often; waits for `may_end`."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, roots: Iterable[bytes]) -> MappedPaths:
        self.count += 1
        self.may_end.wait(LIMIT_S)
        return dict.fromkeys(roots, ())


@pytest.fixture
def lister() -> Lister:
    return Lister()


@pytest.fixture
def mapped(lister: Lister, monkeypatch: pytest.MonkeyPatch) -> MappedFiles:
    monkeypatch.setattr(mapped_files, "WAIT_S", LIMIT_S)  # a busy machine starts a thread late
    return MappedFiles(list, lister)


async def watch_passes(mapped: MappedFiles, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the watch until it has paused this many times."""
    paused, enough = 0, anyio.Event()

    def note_pause(_: float) -> float:
        nonlocal paused
        paused += 1
        if paused == count:
            enough.set()
        return 0.0

    monkeypatch.setattr(mapped_files, "seconds_to_tick", note_pause)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mapped.watch)
        with anyio.fail_after(LIMIT_S):
            await enough.wait()
        tasks.cancel_scope.cancel()


async def test_questions_share_a_listing_until_it_is_old(
    mapped: MappedFiles, lister: Lister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_files, "LIST_S", LONG_S)
    assert not mapped.note_question()
    await mapped.refresh()
    assert mapped.note_question()
    await mapped.refresh()
    assert lister.count == 1
    monkeypatch.setattr(mapped_files, "LIST_S", 0.0)
    assert not mapped.note_question()
    await mapped.refresh()
    assert lister.count == 2


async def test_nothing_is_listed_without_questions(
    mapped: MappedFiles, lister: Lister, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watch_passes(mapped, 10, monkeypatch)
    assert lister.count == 0
    mapped.note_question()
    monkeypatch.setattr(mapped_files, "ASKED_S", 0.0)
    await watch_passes(mapped, 10, monkeypatch)
    assert lister.count == 0, "the last question was long ago"


async def test_listings_go_on_while_questions_come(
    mapped: MappedFiles, lister: Lister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_files, "ASKED_S", LONG_S)
    mapped.note_question()
    await watch_passes(mapped, 5, monkeypatch)
    assert lister.count >= 4, "one after each pause but the last"


async def test_a_stuck_listing_holds_up_no_question(
    mapped: MappedFiles, lister: Lister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_files, "WAIT_S", 0.01)
    monkeypatch.setattr(mapped_files, "LIST_S", LONG_S)
    lister.may_end.clear()
    try:
        with anyio.fail_after(LIMIT_S / 2):
            await mapped.refresh()
            await mapped.refresh()
        assert not mapped.note_question()
    finally:
        lister.may_end.set()
    with anyio.fail_after(LIMIT_S):
        while not mapped.note_question():
            await anyio.sleep(0.01)
    assert lister.count == 1, "the listing went on, and no further one was started"


async def test_a_listing_that_fails_is_logged_and_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """For example without a free file handle; no question fails by it."""
    count = 0

    def fail_once(roots: Iterable[bytes]) -> MappedPaths:
        nonlocal count
        count += 1
        if count == 1:
            raise OSError(24, "Too many open files")
        return dict.fromkeys(roots, ())

    mapped = MappedFiles(list, fail_once)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped_files, "WAIT_S", LIMIT_S)
        await mapped.refresh()
        assert not mapped.note_question()
        assert [record.getMessage() for record in caplog.records] == ["task_failed"]
        await mapped.refresh()
        assert mapped.note_question()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc")
async def test_a_question_lists_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other task lists: an answer sees a store to a file that was mapped since the last one."""
    monkeypatch.setattr(mapped_files, "LIST_S", 0.0)
    monkeypatch.setattr(mapped_files, "WAIT_S", LIMIT_S)
    roots = list[WatchedRoot]()
    group = RootGroup(mapped=MappedFiles(lambda: roots, mapped_files.mapped_files))
    path = tmp_path / "root" / "a.py"
    path.parent.mkdir()
    path.write_text("old = 1\n")
    async with following(path.parent, tmp_path / "sync", group=group) as (live, index):
        roots.append(live)
        await in_sync(live)
        with mapping(path) as mapper:
            for text in ("new = 1\n", "new = 2\n"):
                mapper.store(text.rstrip("\n"))
                assert live.sync_at_once() is None
                await in_sync(live)
                assert index.files["a.py"].content_hash == digest(text.encode())
