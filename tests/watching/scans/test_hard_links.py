"""Hard links from outside of a root or of its scope: a write through them makes no event."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching import watched_root
from cocosearchd.watching.hints.base import HintsLost
from cocosearchd.watching.scans import hard_links, scan_coordinator
from tests.watching.support import BACKENDS, following, in_sync, on_disk

PYTHON = IndexingSettings(include=("*.py",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a", "b", "c"):
        (root / f"{name}.py").write_text(f"# {name}\n")
    return root


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_write_through_a_name_outside_is_in_the_next_answer(
    root: Path, tmp_path: Path, backend: str
) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    async with following(root, tmp_path / "sync", backend, indexing=PYTHON) as (live, index):
        await in_sync(live)
        for number in range(3):
            outside.write_text(f"# {number}\n")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


async def test_nothing_is_read_again_without_a_change(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        outside.write_text("# other\n")
        await in_sync(live)
        index.batches.clear()
        await in_sync(live)
        assert not index.batches
        outside.unlink()
        await in_sync(live)
        index.batches.clear()
        await in_sync(live)
        assert not index.batches


@pytest.mark.parametrize("change", [lambda outside: outside.write_text("# other\n"), Path.unlink])
async def test_a_look_that_ends_late_tells_nothing_that_was_taken_in_since(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    late = LateLook()
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        change(outside)
        monkeypatch.setattr(scan_coordinator, "changed_suspects", late.written)
        look = asyncio.ensure_future(live._coordinator.check_stamps(local=True))
        await asyncio.to_thread(late.seen.wait, 10)
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        index.batches.clear()
        late.goes_on.set()
        await look
        await in_sync(live)
        assert not index.batches


def test_a_look_that_ends_late_tells_what_was_written_since(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    links = hard_links.HardLinks()
    links.record_scan(filter(None, [hard_links.linked_name("a.py", (root / "a.py").lstat())]))
    suspects = links.suspects()
    outside.write_text("# other\n")
    between = hard_links.linked_name("a.py", (root / "a.py").lstat())
    assert between is not None
    outside.write_text("# and once more\n")
    names = hard_links.changed_suspects(os.fsencode(root), suspects)
    links.update(between)
    assert links.not_recorded(names) == ["a.py"]


async def test_a_name_that_is_moved_out_of_what_is_indexed_is_followed(
    root: Path, tmp_path: Path
) -> None:
    (root / ".ignored").mkdir()
    (root / ".gitignore").write_text(".ignored/\n")
    os.link(root / "b.py", root / "b2.py")
    os.link(root / "c.py", root / "c2.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        (root / "b2.py").rename(tmp_path / "out.py")
        (root / "c2.py").rename(root / ".ignored" / "c2.py")
        await in_sync(live)
        (tmp_path / "out.py").write_text("# written outside\n")
        (root / ".ignored" / "c2.py").write_text("# written where nothing is indexed\n")
        await in_sync(live)
        contents = on_disk(os.fsencode(root))
        del contents[b".ignored/c2.py"]
        assert index.contents() == contents


async def test_a_name_whose_directory_is_left_out_later_is_followed(
    root: Path, tmp_path: Path
) -> None:
    """Its directory is still watched, but not after the watches were lost."""
    (root / "sub").mkdir()
    os.link(root / "b.py", root / "sub" / "b.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        (root / ".gitignore").write_text("sub/\n")
        await in_sync(live)
        live._absorb(live._lost, [HintsLost("events were lost")])
        await in_sync(live)
        (root / "sub" / "b.py").write_text("# written where nothing is indexed\n")
        await in_sync(live)
        contents = on_disk(os.fsencode(root))
        del contents[b"sub/b.py"]
        assert index.contents() == contents


async def test_a_write_through_another_name_is_seen_without_a_question(
    root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        outside.write_text("# other\n")
        with anyio.fail_after(60):
            while index.contents() != on_disk(os.fsencode(root)):
                await anyio.sleep(0.05)


async def test_a_tick_looks_at_so_many_files_at_most_and_a_question_at_all(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_root, "MAX_CHECKED", 2)
    monkeypatch.setattr(watched_root, "TICK_S", 0.02)
    outside = [tmp_path / f"{name}.py" for name in ("a", "b", "c")]
    for path in outside:
        path.hardlink_to(root / path.name)
    checked = list[list[str]]()

    def look(raw_root: bytes, suspects: Iterable[hard_links.Suspect]) -> list[hard_links.Suspect]:
        names = list(suspects)
        checked.append([path for path, _ in names])
        return hard_links.changed_suspects(raw_root, names)

    monkeypatch.setattr(scan_coordinator, "changed_suspects", look)
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        checked.clear()
        live._schedule.record_activity(time.monotonic())
        with anyio.fail_after(60):
            while not checked:
                await anyio.sleep(0.01)
        assert len(checked[0]) == 2
        for path in outside:
            path.write_text("# written by its other name\n")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


async def test_a_name_made_outside_is_known_from_an_answer_or_a_scan_on(
    root: Path, tmp_path: Path
) -> None:
    """The kernel tells nobody of a link: one of the two exceptions of docs/design/freshness.md."""
    answered, scanned = tmp_path / "a.py", tmp_path / "b.py"
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        answered.hardlink_to(root / "a.py")
        scanned.hardlink_to(root / "b.py")
        answered.write_text("# written outside\n")
        live.mark_possibly_changed(
            ["a.py"]
        )  # as an answer does whose file is not as it was indexed
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        for path in (answered, scanned):
            path.write_text("# and again\n")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


def linked(number: int, written: int, names: int) -> hard_links.LinkedName:
    return hard_links.LinkedName(f"{number}.py", (1, 2), (0, written, written), names)


def test_of_many_names_a_scan_decides_once_for_each_change() -> None:
    links, names = hard_links.HardLinks(), hard_links.MAX_NAMES + 1
    links.record_scan(linked(number, 1, names) for number in range(names))
    assert links.update(linked(0, 1, names), since=5) == frozenset()
    assert links.update(linked(0, 2, names), since=5) is None
    assert links.update(linked(1, 2, names), since=6) == frozenset(), "the same scan covers it"
    # a question between the two changes does not wait for the scan of the later one
    assert links.update(linked(2, 2, names), since=4) is None
    assert links.update(linked(2, 3, names), since=9) is None
    links.record_scan(linked(number, 3, names) for number in range(names))
    assert links.update(linked(3, 3, names), since=1) == frozenset()
    # a scan of a directory alone says nothing of the names elsewhere
    links.record_scan(linked(number, 4, names) for number in range(5))
    assert links.update(linked(0, 4, names), since=12) is None


def test_of_many_names_a_scan_decides_when_one_goes() -> None:
    links, names = hard_links.HardLinks(), hard_links.MAX_NAMES + 2
    links.record_scan(linked(number, 1, names) for number in range(names))
    assert links.remove("0.py", None) is None
    assert links.remove("1.py", None) == frozenset()
    assert links.remove("2.py", None) == frozenset()


async def test_a_write_to_a_file_with_many_names_is_in_the_next_answer(
    root: Path, tmp_path: Path
) -> None:
    for number in range(hard_links.MAX_NAMES + 20):
        (root / f"a{number}.py").hardlink_to(root / "a.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        for name in ("a.py", "a7.py"):
            (root / name).write_text(f"# by {name}\n")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
        (root / "a3.py").write_text("# before it goes\n")
        (root / "a3.py").unlink()
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


class LateLook:
    """Looks at files with other names; the first look is as late with its answer as a busy machine
    may make it.
    """

    def __init__(self) -> None:
        self.seen, self.goes_on = threading.Event(), threading.Event()

    def written(
        self, root: bytes, suspects: Iterable[hard_links.Suspect]
    ) -> list[hard_links.Suspect]:
        """Return the changed names, like `links.written`."""
        names = hard_links.changed_suspects(root, suspects)
        if not self.seen.is_set():
            self.seen.set()
            assert self.goes_on.wait(60)
        return names
