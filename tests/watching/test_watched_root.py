"""A running root: after any change, a sync that says `fresh` means that the index equals the disk."""

import asyncio
import contextlib
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.freshness import MAX_PENDING, StaleReason, stale_reason
from cocosearchd.model import RACY_NS, FileRecord
from cocosearchd.watching import watched_root
from cocosearchd.watching.dirty_records import DirtyBatch
from cocosearchd.watching.dirty_set import DirtySet
from cocosearchd.watching.git import checkout_hold
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.hints.base import (
    Cookie,
    DirtyHint,
    DirtyTreeHint,
    Hint,
    Hints,
    HintsLost,
    Sink,
)
from cocosearchd.watching.hints.inotify import InotifyHints
from cocosearchd.watching.hints.inotify_instances import InotifyInstances
from cocosearchd.watching.ignore.outside_stamps import OutsideStamps
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.root_status import MAX_LISTED_FAILURES
from cocosearchd.watching.scans import scan_coordinator
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.scans.scan import ComparedPaths, Scan, compare_paths
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.support import (
    BACKENDS,
    QUICK,
    MemoryIndex,
    Mutator,
    digest,
    following,
    git,
    in_sync,
    on_disk,
)

PYTHON = IndexingSettings(include=("*.py",))
LIMIT = Path("/proc/sys/fs/inotify/max_queued_events")
linux = pytest.mark.skipif(not LIMIT.exists(), reason="inotify exists on Linux only")


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def held(index: MemoryIndex) -> set[str]:
    return {path for path in index.files if path.endswith(".py")}


async def rounds(where: Path, backend: str, seed: int, count: int, operations: int) -> None:
    root = where / f"root{seed}"
    root.mkdir()
    mutator = Mutator(os.fsencode(root), seed)
    async with following(root, where / f"sync{seed}", backend, indexing=PYTHON) as (live, index):
        for number in range(count):
            for _ in range(operations):
                mutator.step()
                if mutator.rng.random() < 0.1:
                    await asyncio.sleep(mutator.rng.random() * 0.003)
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root)), (
                f"{backend}, seed {seed}, round {number}"
            )


@pytest.mark.parametrize("backend", BACKENDS)
async def test_after_random_operations_the_index_equals_the_disk(
    tmp_path: Path, backend: str
) -> None:
    for seed in (1, 2):
        await rounds(tmp_path, backend, seed, count=5, operations=80)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(100, 110))
async def test_after_many_random_operations_too(tmp_path: Path, backend: str, seed: int) -> None:
    await rounds(tmp_path, backend, seed, count=12 if backend == "inotify" else 5, operations=400)


async def test_while_somebody_else_keeps_writing(root: Path, tmp_path: Path) -> None:
    """Changes written before the sync are there after it, although the tree never rests."""
    mutator, stop = Mutator(os.fsencode(root), 7, replace_root=False), asyncio.Event()

    async def keep_writing() -> None:
        while not stop.is_set():
            await asyncio.to_thread(mutator.steps, 20)
            await asyncio.sleep(0.002)

    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        writing = asyncio.create_task(keep_writing())
        checked, began = 0, time.monotonic()
        for number in range(150):
            if checked > 50 and time.monotonic() - began > 20:
                break  # a busy machine
            mine = root / f"mine{number % 5}.py"
            mine.write_text(f"x = {number}\n")
            if (await live.sync(5)).fresh:
                checked += 1
                assert index.files[mine.name].content_hash == digest(mine.read_bytes())
        stop.set()
        await writing
        assert checked > 50
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


# -- what is said when it is not known


async def test_nothing_is_fresh_before_it_was_compared(root: Path, tmp_path: Path) -> None:
    put(root, a="1")
    index = MemoryIndex(os.fsencode(root))
    index.paused.clear()
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        answer = await live.sync(0.3)
        assert not answer.fresh
        assert answer.pending == ("a.py",)
        assert answer.reason
        assert not live.freshness().fresh
        index.paused.set()
        await in_sync(live)
        assert live.status().state == "live"
        assert (live.status().done, live.status().total, live.status().pending) == (1, 1, 0)
        assert not live.freshness().fresh, "without looking it is never known"


async def test_clocks_advance_within_an_epoch(root: Path, tmp_path: Path) -> None:
    async with following(root, tmp_path / "sync") as (live, _):
        await in_sync(live)
        previous = (await live.sync(1)).as_of
        put(root, a="1")
        after = (await live.sync(1)).as_of
        assert after.epoch == previous.epoch
        assert after.seq > previous.seq


async def test_a_file_that_fails_is_retried_shown_and_stops_nothing(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1", bad="1")
    index = MemoryIndex(os.fsencode(root))
    index.failing["bad.py"] = "no grammar survives this"
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        answer = await live.sync(5)
        assert not answer.fresh
        assert answer.pending == ("bad.py",)
        assert "no grammar survives this" in (answer.reason or "")
        assert held(index) == {"a.py"}
        assert live.status().pending == 0
        (failed,), count = live.status().failed, live.status().failed_count
        assert count == 1
        assert (failed.path, failed.tries >= 1) == ("bad.py", True)
        del index.failing["bad.py"]
        await in_sync(live)
        assert held(index) == {"a.py", "bad.py"}


async def test_without_an_embedder_a_status_names_some_files_and_counts_all(
    root: Path, tmp_path: Path
) -> None:
    names = [f"file{number}" for number in range(MAX_LISTED_FAILURES + 5)]
    put(root, **dict.fromkeys(names, "1"))
    index = MemoryIndex(os.fsencode(root))
    index.failing |= {f"{name}.py": "the embedder does not answer" for name in names}
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        answer = await live.sync(5)
        assert f"could not be indexed: {len(names)}, the first is" in (answer.reason or "")
        assert len(answer.pending) == MAX_PENDING
        status = live.status()
        assert (len(status.failed), status.failed_count) == (MAX_LISTED_FAILURES, len(names))


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_quarantined_file_comes_back_when_it_changes(
    root: Path, tmp_path: Path, backend: str
) -> None:
    put(root, a="1")
    async with following(root, tmp_path / "sync", backend) as (live, index):
        await in_sync(live)
        index.failing["a.py"] = "it kills"
        index.harmful.add("a.py")
        put(root, a="2")
        await live.sync(5)
        index.batches.clear()
        for _ in range(12):
            live.rescan("test", force=False)
            await live.sync(5)
        # Each scan would try it. Late events of the write do, and again if a scan ends meanwhile.
        assert sum("a.py" in batch.paths for batch in index.batches) < 12
        assert not (await live.sync(5)).fresh
        index.failing.clear()
        put(root, a="22")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


async def test_a_store_that_is_away_loses_nothing(root: Path, tmp_path: Path) -> None:
    class Away(MemoryIndex):
        away = True

        async def file_records(self, under: str = "") -> Sequence[FileRecord]:
            if self.away:
                raise StoreUnavailable("PostgreSQL does not answer")
            return await super().file_records(under)

    put(root, a="1")
    index = Away(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        answer = await live.sync(0.3)
        assert (answer.fresh, answer.reason) == (False, "PostgreSQL does not answer")
        (root / "a.py").unlink()
        put(root, b__c="1")
        index.away = False
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


async def test_a_scan_that_fails_as_the_store_comes_back_is_retried_at_once(
    root: Path, tmp_path: Path
) -> None:
    """The daemon hears of the return while the scan still waits for its lost connection."""
    put(root, a="1")
    index = MemoryIndex(os.fsencode(root))
    read_records, has_failed = index.file_records, False

    async def fail_once(under: str = "") -> Sequence[FileRecord]:
        nonlocal has_failed
        if has_failed:
            return await read_records(under)
        has_failed = True
        live.retry()
        raise StoreUnavailable("away")

    index.file_records = fail_once  # type: ignore[method-assign]
    watching = replace(QUICK, retry_base_s=3600, retry_max_s=3600)
    async with following(root, tmp_path / "sync", watching=watching, index=index) as (live, _):
        await in_sync(live)
        assert held(index) == {"a.py"}


async def test_a_write_through_one_hard_link_is_there_under_the_others(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1", lib__b="2")
    os.link(root / "a.py", root / "lib" / "other.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        for number in range(3):
            with (root / "a.py").open("a") as file:
                file.write(f"# {number}\n")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
        # a name that comes later, of a file that had one
        os.link(root / "lib" / "b.py", root / "new.py")
        with (root / "new.py").open("a") as file:
            file.write("# 3\n")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        (root / "moved.py").hardlink_to(root / "new.py")
        (root / "new.py").unlink()
        (root / "lib" / "b.py").write_text("# 4\n")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        index.batches.clear()
        await in_sync(live)
        assert not index.batches  # names do not go on telling of each other


@linux
@pytest.mark.parametrize("end", ["removed", "replaced", "linked to another", "moved out"])
async def test_a_write_through_a_hard_link_that_goes_is_there_under_the_others(
    root: Path, tmp_path: Path, end: str
) -> None:
    put(root, a="1", lib__b="2", lib__c="3", lib__d="4")
    os.link(root / "a.py", root / "lib" / "other.py")
    os.link(root / "lib" / "c.py", root / "lib" / "d2.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        (root / "a.py").write_text("# written by the name that goes\n")
        if end == "removed":
            (root / "a.py").unlink()
        elif end == "replaced":
            (root / "lib" / "b.py").replace(root / "a.py")
        elif end == "linked to another":
            (root / "lib" / "c.py").replace(root / "a.py")
        else:
            (root / "a.py").rename(tmp_path / "a.py")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        index.batches.clear()
        await in_sync(live)
        assert not index.batches


# -- roots that go


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_missing_root_keeps_its_rows_and_is_picked_up_again(
    root: Path, tmp_path: Path, backend: str
) -> None:
    put(root, a="1", b__c="1")
    async with following(root, tmp_path / "sync", backend) as (live, index):
        await in_sync(live)
        root.rename(tmp_path / "away")
        with anyio.fail_after(60):
            while live.status().state != "root_missing":
                await live.sync(0.2)
        answer = await live.sync(5)
        assert not answer.fresh
        assert "missing" in (answer.reason or "")
        assert answer.pending == ("./",), (
            "the root as one would write it, not that of the file system"
        )
        assert held(index) == {"a.py", "b/c.py"}
        put(tmp_path / "away", d="1")
        (tmp_path / "away").rename(root)
        await returned(live)
        await in_sync(live)
        assert held(index) == {"a.py", "b/c.py", "d.py"}
        shutil.rmtree(root)
        put(root, other="1")
        await returned(live)
        await in_sync(live)
        assert held(index) == {"other.py"}


class Idle(MemoryIndex):
    """Applies nothing."""

    async def follow(self, live: WatchedRoot, limit: int = 16) -> None:
        await anyio.sleep_forever()


async def test_files_that_failed_while_the_root_was_away_are_retried_when_it_is_back(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1", b="1")
    index = MemoryIndex(os.fsencode(root))
    index.failing = dict.fromkeys(("a.py", "b.py"), "the root cannot be opened")
    watching = replace(QUICK, retry_base_s=600, retry_max_s=600)
    async with following(root, tmp_path / "sync", watching=watching, index=index) as (live, _):
        assert (await live.sync(10)).code == "files_failed"
        index.failing = {}
        live._end_epoch(stale_reason("root_replaced"))
        await in_sync(live)
        assert held(index) == {"a.py", "b.py"}


async def test_the_status_and_an_answer_give_the_same_reason(root: Path, tmp_path: Path) -> None:
    async with following(root, tmp_path / "sync") as (live, _):
        live._reason = stale_reason("root_replaced")
        live._scan_error = stale_reason("scan_failed", error="no memory")
        assert live.status().reason == live.freshness().reason == "no memory"


async def test_a_question_that_waits_hears_that_the_root_went(root: Path, tmp_path: Path) -> None:
    put(root, a="1")
    async with (
        following(root, tmp_path / "sync", index=Idle(os.fsencode(root))) as (live, _),
        anyio.create_task_group(),
    ):
        waiting = asyncio.ensure_future(live.sync(3600))
        while live.status().state != "indexing":
            await anyio.sleep(0.01)
        root.rename(tmp_path / "away")
        answer = await asyncio.wait_for(waiting, 60)
        assert (answer.fresh, answer.reason) == (
            False,
            "the root is missing; what was indexed of it is kept",
        )


async def test_a_question_hears_that_its_epoch_ended_with_the_batch_of_its_cookie(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1")
    async with (
        following(root, tmp_path / "sync", index=Idle(os.fsencode(root))) as (live, _),
        anyio.create_task_group(),
    ):
        while live.status().state != "indexing":
            await anyio.sleep(0.01)
        sync_cookies = live._cookies.sync

        async def sync_and_lose_the_root() -> None:
            await sync_cookies()
            root.rename(tmp_path / "away")
            live._end_epoch(stale_reason("root_replaced"))

        live._cookies.sync = sync_and_lose_the_root  # type: ignore[method-assign]
        answer = await asyncio.wait_for(live.sync(3600), 60)
        assert not answer.fresh
        assert live.status().state == "root_missing"


async def test_a_question_that_waits_hears_that_the_root_went_while_its_run_had_ended(
    root: Path, tmp_path: Path
) -> None:
    """The supervisor runs it again after an error."""
    put(root, a="1")
    index = Idle(os.fsencode(root))
    live = WatchedRoot(os.fsencode(root), index, PYTHON, QUICK, tmp_path / "sync")
    waiting = asyncio.ensure_future(live.sync(3600))
    async with anyio.create_task_group() as life:
        life.start_soon(live.run)
        with anyio.fail_after(60):
            while live.status().state != "indexing" or not live._dirty.clock._waiting:
                await anyio.sleep(0.01)
        life.cancel_scope.cancel()
    root.rename(tmp_path / "away")
    async with anyio.create_task_group() as life:
        life.start_soon(live.run)
        answer = await asyncio.wait_for(waiting, 60)
        assert not answer.fresh
        assert live.status().state == "root_missing"
        life.cancel_scope.cancel()


async def returned(live: WatchedRoot) -> None:
    with anyio.fail_after(60):
        while (await live.sync(1)).reason == "the root is missing; what was indexed of it is kept":
            await anyio.sleep(0.02)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("end", ["excluded", "moved", "removed"])
@pytest.mark.parametrize("is_harmful", [True, False])
async def test_a_failed_file_that_leaves_the_root_is_no_failure_any_more(
    root: Path, tmp_path: Path, backend: str, end: str, is_harmful: bool
) -> None:
    """The message of a harmful file says: change it, or exclude it. It was never stored."""
    put(root, sub__a="1", b="1")
    index = MemoryIndex(os.fsencode(root))
    index.failing = {"sub/a.py": "it does harm"}
    if is_harmful:
        index.harmful.add("sub/a.py")
    patient = replace(QUICK, retry_base_s=300.0)
    async with following(root, tmp_path / "sync", backend, patient, index=index) as (live, _):
        answer = await live.sync(10)
        assert (answer.code, answer.pending) == ("files_failed", ("sub/a.py",))
        if end == "excluded":
            (root / ".gitignore").write_text("a.py\n")
        elif end == "moved":
            (root / "sub").rename(tmp_path / "sub")
        else:
            (root / "sub" / "a.py").unlink()
        index.failing = {}
        answer = await live.sync(10)
        assert answer.fresh, answer
        assert held(index) == {"b.py"}


async def test_deletes_are_not_believed_while_the_root_is_away(root: Path, tmp_path: Path) -> None:
    """The root vanishes between the hint and the look."""
    put(root, a="1", b="1")
    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        root.rename(tmp_path / "away")
        for path in ("a.py", "b.py"):
            live._dirty.mark(path, may_be_stored=True)
        await anyio.sleep(0.3)
        assert held(index) == {"a.py", "b.py"}


@linux
async def test_a_root_that_was_away_with_a_directory_above_it_while_somebody_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, away = tmp_path / "some" / "where" / "root", tmp_path / "away"
    root.mkdir(parents=True)
    put(root, a="1")

    def looked(scope: RootScope, paths: Mapping[str, bytes]) -> ComparedPaths:
        monkeypatch.undo()
        root.parents[1].rename(away)
        try:
            return compare_paths(scope, paths)
        finally:
            away.rename(root.parents[1])

    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        monkeypatch.setattr("cocosearchd.watching.watched_root.compare_paths", looked)
        put(root, a="2")
        await in_sync(live)  # a question of before the renaming: it may be told of the moment of it
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


@linux
async def test_a_root_whose_watch_began_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link above the root for the moment in which the watch begins, and again for each look."""
    root, link = tmp_path / "some" / "where" / "root", tmp_path / "some"
    outside = tmp_path / "outside"
    (outside / "where" / "root").mkdir(parents=True)
    put(root, a="1")

    @contextlib.contextmanager
    def replaced() -> Iterator[None]:
        link.rename(tmp_path / "away")
        link.symlink_to(outside)
        try:
            yield
        finally:
            link.unlink()
            (tmp_path / "away").rename(link)

    def open_behind_link(*arguments: Any) -> tuple[Hints, str | None]:
        monkeypatch.setattr("cocosearchd.watching.watched_root.open_hints", open_hints)
        with replaced():
            return open_hints(*arguments)

    def look_behind_link(scope: RootScope, paths: Mapping[str, bytes]) -> ComparedPaths:
        monkeypatch.undo()
        with replaced():
            return compare_paths(scope, paths)

    monkeypatch.setattr("cocosearchd.watching.watched_root.open_hints", open_behind_link)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        monkeypatch.setattr("cocosearchd.watching.watched_root.compare_paths", look_behind_link)
        put(root, a="2")
        await in_sync(live)  # a question of before the replacement: see above
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


@linux
async def test_a_question_does_not_wait_for_a_cookie_that_nobody_sees(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, a="1")

    async def check_rules(_: scan_coordinator.ScanCoordinator, *, local: bool) -> None:
        """Until the epoch has ended; the next one begins a moment later."""
        monkeypatch.undo()
        hints = live._hints
        live._end_epoch(stale_reason("root_replaced"))
        assert isinstance(hints, InotifyHints)
        while not hints._closed:
            await anyio.sleep(0.001)

    async with following(root, tmp_path / "sync") as (live, _):
        await in_sync(live)
        monkeypatch.setattr(scan_coordinator.ScanCoordinator, "check_rules", check_rules)
        assert (await live.sync(5)).fresh


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_directory_that_becomes_a_link_to_itself(
    root: Path, tmp_path: Path, backend: str
) -> None:
    put(root, a__sub__x="1", b__y="1")
    async with following(root, tmp_path / "sync", backend) as (live, index):
        await in_sync(live)
        (root / "a").rename(root / "b" / "a")
        (root / "a").symlink_to("b/a")
        live._dirty.mark_tree("a/sub")
        await in_sync(live)
        assert held(index) == {"b/a/sub/x.py", "b/y.py"}
        hints = live._hints
        assert hints is not None
        hints.watch(b"a/sub")  # a scan that was about to enter when the link was made
        put(root, b__a__sub__x="2")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


# -- ignore rules


@pytest.mark.parametrize("backend", BACKENDS)
async def test_editing_ignore_files(root: Path, tmp_path: Path, backend: str) -> None:
    git(root, "init", "-q")
    put(root, a="1", gen__x="1", src__deep__y="1")
    async with following(root, tmp_path / "sync", backend) as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py", "gen/x.py", "src/deep/y.py"}
        (root / ".gitignore").write_text("gen/\n")
        await in_sync(live)
        assert held(index) == {"a.py", "src/deep/y.py"}
        (root / "src" / ".cocosearchignore").write_text("deep/\n")
        await in_sync(live)
        assert held(index) == {"a.py"}
        put(root, gen__later="1", src__deep__later="1")  # not watched now
        (root / ".gitignore").unlink()
        (root / "src" / ".cocosearchignore").unlink()
        await in_sync(live)
        assert held(index) == {
            "a.py",
            "gen/x.py",
            "gen/later.py",
            "src/deep/y.py",
            "src/deep/later.py",
        }
        put(root, gen__x="changed", src__deep__y="changed")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


async def test_rules_outside_of_the_tree(root: Path, tmp_path: Path) -> None:
    git(root, "init", "-q")
    put(root, a="1", b="1", c="1")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        (root / ".git" / "info" / "exclude").write_text("a.py\n")
        await in_sync(live)
        assert held(index) == {"b.py", "c.py"}
        (root / ".git" / "mine").write_text("b.py\n")
        git(root, "config", "core.excludesFile", ".git/mine")
        await in_sync(live)
        assert held(index) == {"c.py"}
        git(root, "add", "-f", "a.py")
        await in_sync(live)
        assert held(index) == {"a.py", "c.py"}


async def test_rules_that_change_at_the_end_of_a_check(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check for an earlier question has read the stamps: it does not count for this question."""
    reached, released = threading.Event(), threading.Event()
    is_outdated = RootScope.outdated

    def wait_at_the_end(
        scope: RootScope, limit: int | None = None, outside: OutsideStamps | None = None
    ) -> bool | None:
        outdated = is_outdated(scope, limit, outside)
        if outdated is False and is_held:
            reached.set()
            released.wait(120)
        return outdated

    is_held = False
    monkeypatch.setattr(RootScope, "outdated", wait_at_the_end)
    monkeypatch.setattr(scan_coordinator, "MAX_CHECKED_AT_ONCE", -1)  # as with many repositories
    monkeypatch.setattr(watched_root, "TICK_S", 3600.0)
    git(root, "init", "-q")
    put(root, a="1", b="1")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        is_held = True
        git(root, "add", "a.py")
        first = asyncio.create_task(live.sync(20))
        await asyncio.to_thread(reached.wait, 60)
        (root / ".git" / "info" / "exclude").write_text("b.py\n")
        second = asyncio.create_task(live.sync(20))
        await asyncio.sleep(0.2)
        is_held = False
        released.set()
        assert (await second).fresh
        assert held(index) == {"a.py"}
        await first


async def test_a_repository_that_begins_later(root: Path, tmp_path: Path) -> None:
    put(root, sub__a="1", sub__b="1")
    (root / ".gitignore").write_text("a.py\n")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"sub/b.py"}
        git(root / "sub", "init", "-q")  # the rules of what is around it end here
        await in_sync(live)
        await wait_until(lambda: held(index) == {"sub/a.py", "sub/b.py"}, live)


async def wait_until(holds: Callable[[], bool], live: WatchedRoot) -> None:
    with anyio.fail_after(60):
        while not holds():
            await live.sync(1)
            await anyio.sleep(0.02)


async def test_an_ignore_file_edited_while_its_files_are_being_indexed(
    root: Path, tmp_path: Path
) -> None:
    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        index.delay_s = 0.05
        put(root, a="1", b="1")
        await asyncio.sleep(0.03)  # handed out under the old rules
        (root / ".gitignore").write_text("a.py\n")
        await in_sync(live)
        assert held(index) == {"b.py"}


# -- git


@pytest.mark.parametrize("backend", BACKENDS)
async def test_checkouts_rebases_and_stashes(root: Path, tmp_path: Path, backend: str) -> None:
    git(root, "init", "-q")
    put(root, **{f"p{n}__m{n}": f"x = {n}" for n in range(60)})
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "checkout", "-q", "-b", "other")
    shutil.rmtree(root / "p3")
    put(
        root,
        **{f"p{n}__m{n}": f"y = {n}" for n in range(10, 50)},
        **{f"q{n}__deep__z": "1" for n in range(20)},
    )
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "two")
    async with following(root, tmp_path / "sync", backend) as (live, index):
        await in_sync(live)
        for command in (
            ["checkout", "-q", "main"],
            ["checkout", "-q", "other"],
            ["reset", "-q", "--hard", "HEAD~1"],
            ["merge", "-q", "ORIG_HEAD"],
            ["rebase", "-q", "main"],
        ):
            await asyncio.to_thread(git, root, *command)
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root)), command
        put(root, p1__m1="stashed = 1")
        await asyncio.to_thread(git, root, "stash", "-q")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        await asyncio.to_thread(git, root, "worktree", "add", "-q", str(root / "tree"), "main")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        assert "tree/p3/m3.py" in held(index)


async def test_batches_wait_for_git_but_not_for_long(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "init", "-q")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        cap_s = checkout_hold.CAP_S
        monkeypatch.setattr(checkout_hold, "CAP_S", 60.0)  # however late this test goes on
        (root / ".git" / "index.lock").touch()
        put(root, a="1")
        answer = await live.sync(0.5)
        assert (answer.fresh, answer.reason) == (False, "git is working")
        assert live.status().state == "git_batch"
        assert held(index) == set()
        (root / ".git" / "index.lock").unlink()
        await in_sync(live)
        monkeypatch.setattr(checkout_hold, "CAP_S", cap_s)
        monkeypatch.setattr(checkout_hold, "LOCK_S", 3600.0)
        (root / ".git" / "index.lock").touch()
        put(root, b="1")
        await in_sync(live)
        assert held(index) == {"a.py", "b.py"}


async def test_a_cookie_that_cannot_be_made_is_replaced_by_a_scan(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)

        async def full(_: object) -> None:  # filling the disk of the machine is not for a test
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("cocosearchd.watching.cookies.Cookies.sync", full)
        put(root, a="1")
        assert (await live.sync(5)).fresh
        assert held(index) == {"a.py"}


# -- start, doubt, force


async def test_changes_while_nobody_watched(root: Path, tmp_path: Path) -> None:
    put(root, a="1", b__c="1", same="1")
    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
    shutil.rmtree(root / "b")
    status = (root / "a.py").stat()
    put(root, a="2", new__d="1")
    os.utime(root / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


async def test_nothing_is_done_again_for_files_that_rest(root: Path, tmp_path: Path) -> None:
    put(root, a="1", b__c="1")
    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        await anyio.sleep(2.1)  # the racy time
    index.batches.clear()
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        live.rescan("test")
        await in_sync(live)
        assert index.batches == []


async def test_force_and_damage(root: Path, tmp_path: Path) -> None:
    put(root, a="1", b="1", c="1")
    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        await anyio.sleep(2.1)
    index.batches.clear()
    index.damaged = ("b.py",)
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        assert [(batch.paths, batch.force) for batch in index.batches] == [(("b.py",), True)]
        index.batches.clear()
        live.rescan("test", force=True)
        assert live.status().state == "scanning", "whoever follows it must not take it for done"
        await in_sync(live)
        assert sorted(p for batch in index.batches if batch.force for p in batch.paths) == [
            "a.py",
            "b.py",
            "c.py",
        ]


async def test_files_that_leave_the_scope_between_runs_are_deleted(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1", b="1")
    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
    async with following(
        root, tmp_path / "s2", index=index, indexing=IndexingSettings(exclude=("a.py",))
    ) as (live, _):
        await in_sync(live)
        assert held(index) == {"b.py"}


async def test_an_edit_overtakes_the_first_indexing(root: Path, tmp_path: Path) -> None:
    put(root, **{f"p{n % 20}__m{n}": str(n) for n in range(600)})
    index = MemoryIndex(os.fsencode(root))
    index.delay_s = 0.1  # longer than an event takes on a busy machine
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        while len(index.batches) < 2:
            await anyio.sleep(0.005)
        put(root, p1__edited="1")
        at = len(index.batches)
        while not any("p1/edited.py" in batch.paths for batch in index.batches):
            await anyio.sleep(0.002)
        assert len(index.batches) - at < 6
        assert live.status().state == "indexing"
        index.delay_s = 0.0
        await in_sync(live)
        assert len(index.files) == 601


async def test_directories_that_cannot_be_read_are_not_empty(tmp_path: Path) -> None:
    """A path longer than the kernel takes cannot be listed by anybody; permissions would not stop
    root.

    Below the root it is shorter than what is left out for its length.
    """
    root = tmp_path.joinpath(*["r" * 250] * 8)
    root.mkdir(parents=True)
    put(root, a="1")
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(10):
        os.mkdir(b"d" * 250, dir_fd=descriptor)
        descriptor, parent = os.open(b"d" * 250, os.O_RDONLY, dir_fd=descriptor), descriptor
        os.close(parent)
    os.close(descriptor)
    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        assert "may not be read" in (live.status().reason or "")
        below = "/".join(["d" * 250] * 10) + "/x.py"
        index.files[below] = index.files["a.py"]._replace(path=below)
        live.rescan("test")
        assert (await live.sync(5)).fresh, "nobody can see what is there"
        assert below in index.files, "what cannot be seen is not deleted"
        assert len(live.status().unreadable) == 1


async def test_unreadable_files_are_tried_at_every_scan(root: Path, tmp_path: Path) -> None:
    """The right to read a file depends on the process as well, and no change of the file tells of
    that.
    """
    put(root, a="1", b="1")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        await asyncio.sleep(RACY_NS / 1e9)  # until then any file is tried again
        live.rescan("test")
        await in_sync(live)
        index.files["a.py"] = index.files["a.py"]._replace(skip_reason="unreadable")
        index.batches.clear()
        live.rescan("test")
        await in_sync(live)
        assert [path for batch in index.batches for path in batch.paths] == ["a.py"]


@linux
async def test_directories_without_a_watch_are_polled(root: Path, tmp_path: Path) -> None:
    put(root, **{f"p{n}__deep__m": "1" for n in range(6)})
    group = RootGroup(
        InotifyInstances(budget=len(root.parents) + 4)
    )  # of which some are above the root
    async with following(root, tmp_path / "sync", group=group) as (live, index):
        await in_sync(live)
        assert live.status().state == "degraded"
        assert "sysctl" in (live.status().reason or "")
        for text in ("2", "3"):
            put(
                root,
                **{f"p{n}__deep__m": text for n in range(6)},
                **{f"p{n}__new{text}__m": text for n in range(6)},
            )
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


# -- hints that lie, and mutants of the code that the tests above must catch


def lying(rng: random.Random) -> Callable[..., tuple[Hints, str | None]]:
    """A backend that drops half of its hints, repeats and reorders the rest, and still calls itself
    exact.
    """

    def open_lying(
        root: bytes,
        sync: bytes,
        settings: WatchingSettings,
        sink: Sink,
        instances: InotifyInstances,
    ) -> tuple[Hints, str | None]:
        def lie(hints: Sequence[Hint]) -> None:
            remaining = [
                h for h in hints if isinstance(h, Cookie | HintsLost) or rng.random() < 0.5
            ]
            repeated = remaining + [h for h in remaining if rng.random() < 0.3]
            rng.shuffle(repeated)
            sink(repeated)

        return open_hints(root, sync, settings, lie, instances)

    return open_lying


async def test_half_of_the_hints_are_enough_after_a_scan(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_root, "open_hints", lying(random.Random(3)))
    mutator = Mutator(os.fsencode(root), 11, replace_root=False)
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        wrong = 0
        for _ in range(5):
            for _ in range(80):
                mutator.step()
            await in_sync(live)
            wrong += index.contents() != on_disk(os.fsencode(root))
            live.rescan("test")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
        assert wrong, "the backend did not lie enough to be noticed"


class WatchesLate(Scan):
    """Mutant: lists a directory before it is watched."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._real, self._late = self._watch, list[bytes]()
        self._watch = self._later

    def _later(self, directory: bytes) -> None:
        for listed in self._late:
            self._real(listed)
        self._late = [directory]

    def run(self, trees: Any) -> Any:
        result = super().run(trees)
        self._later(b"")
        return result


class IgnoresLoss(WatchedRoot):
    """Mutant: lost hints are not a reason for anything."""

    def _end_epoch(self, reason: StaleReason) -> None:
        pass


class RemovesWithoutComparing(DirtySet):
    """Mutant: a settled path is clean, whatever happened since it was handed out."""

    def settle(self, number: int, failed: Mapping[str, str], now: float) -> None:
        for path, seq in self._in_flight[number].seqs.items() if number in self._in_flight else ():
            self._entries[path].seq = seq
        super().settle(number, failed, now)


@linux
@pytest.mark.parametrize("mutant", [False, True])
async def test_directories_are_watched_before_they_are_listed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    real = InotifyHints.watch

    def raced(self: InotifyHints, directory: bytes) -> None:
        """Somebody writes at the worst moment: just before the watch."""
        path = os.path.join(os.fsencode(root), directory, b"raced.py")
        if directory and not os.path.exists(path):
            with contextlib.suppress(OSError), open(path, "wb") as file:
                file.write(b"x = 1\n")
        real(self, directory)

    monkeypatch.setattr(InotifyHints, "watch", raced)
    if mutant:
        monkeypatch.setattr(scan_coordinator, "Scan", WatchesLate)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        for number in range(5):
            (root / f"new{number}").mkdir()
            await in_sync(live)
        equal = index.contents() == on_disk(os.fsencode(root))
        assert equal is not mutant


@linux
@pytest.mark.parametrize("mutant", [False, True])
async def test_an_overflow_loses_nothing(root: Path, tmp_path: Path, mutant: bool) -> None:
    put(root, a="1", noise="1")
    kind = IgnoresLoss if mutant else WatchedRoot
    async with following(root, tmp_path / "sync", kind=kind) as (live, index):
        await in_sync(live)
        hints = live._hints
        assert isinstance(hints, InotifyHints)
        with hints.instance.lock:  # the thread of the backend cannot read
            for number in range(int(LIMIT.read_text()) + 100):
                os.utime(root / ("a.py" if number % 2 else "noise.py"))
            put(root, a="2", unseen="1")
        with anyio.fail_after(60):
            while not (await live.sync(2)).fresh and not mutant:
                pass
        equal = index.contents() == on_disk(os.fsencode(root))
        assert equal is not mutant


@linux
async def test_hints_that_could_not_be_taken_in_are_lost(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the defect is: a cookie that comes after them must not say that they were heard."""
    original = scan_coordinator.ScanCoordinator.take_hints

    def broken(
        self: scan_coordinator.ScanCoordinator, hints: Sequence[DirtyHint | DirtyTreeHint]
    ) -> None:
        if any(hint.path == b"a.py" for hint in hints):
            raise RuntimeError("a defect")
        original(self, hints)

    messages, loop = list[str](), asyncio.get_running_loop()
    monkeypatch.setattr(
        loop, "call_exception_handler", lambda context: messages.append(str(context["exception"]))
    )
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        monkeypatch.setattr(scan_coordinator.ScanCoordinator, "take_hints", broken)
        put(root, a="1", b="1")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
    assert set(messages) == {"a defect"}


@pytest.mark.parametrize("mutant", [False, True])
async def test_a_change_between_reading_and_settling_is_seen(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    if mutant:
        monkeypatch.setattr(watched_root, "DirtySet", RemovesWithoutComparing)

    class Changes(WatchedRoot):
        def settle(self, batch: DirtyBatch, failed: Mapping[str, str]) -> None:
            asyncio.get_running_loop().create_task(self.later(batch, failed))

        async def later(self, batch: DirtyBatch, failed: Mapping[str, str]) -> None:
            if "a.py" in batch.paths and (root / "a.py").read_text() == "1":
                seq = self._dirty.clock.seq
                put(root, a="2")
                while self._dirty.clock.seq == seq:
                    await anyio.sleep(0.001)
            super().settle(batch, failed)

    async with following(root, tmp_path / "sync", kind=Changes) as (live, index):
        await in_sync(live)
        put(root, a="1")
        await in_sync(live)
        await in_sync(live)  # the second change came after the first sync had begun
        equal = index.contents() == on_disk(os.fsencode(root))
        assert equal is not mutant


async def test_a_failed_run_can_be_run_again(root: Path, tmp_path: Path) -> None:
    """The supervisor does so after an error."""
    put(root, a="1")
    index = MemoryIndex(os.fsencode(root))
    live = WatchedRoot(os.fsencode(root), index, PYTHON, QUICK, tmp_path / "sync")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.follow, live)
        for text in ("2", "3"):
            async with anyio.create_task_group() as life:
                life.start_soon(live.run)
                await in_sync(live)
                life.cancel_scope.cancel()
            answer = await live.sync(0.1)
            assert (answer.fresh, live.status().state) == (False, "failed")
            assert "starts again" in (answer.reason or "")
            put(root, a=text, **{f"b{text}__c": text})
        async with anyio.create_task_group() as life:
            life.start_soon(live.run)
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
            life.cancel_scope.cancel()
        tasks.cancel_scope.cancel()


@linux
async def test_a_root_is_never_said_to_be_fresh_at_once_before_a_save_is_in(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="0", b="0")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        for number in range(1000):
            text = f"{number}"
            put(root, **{("a", "b")[number % 2]: text})
            if number % 3 == 0:
                await anyio.sleep(0.001 * (number % 5))
            if live.sync_at_once() is not None:
                path = f"{('a', 'b')[number % 2]}.py"
                assert index.files[path].content_hash == digest(text.encode())
        await in_sync(live)
        await known_at_once(live)


async def known_at_once(live: WatchedRoot) -> None:
    """Wait until nothing has to be waited for: at rest, that is soon."""
    with anyio.fail_after(60):
        while live.sync_at_once() is None:
            await anyio.sleep(0.01)


@linux
async def test_nothing_is_known_at_once_of_a_root_that_is_replaced(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="0")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, _):
        await in_sync(live)
        await known_at_once(live)
        root.rename(tmp_path / "away")
        (tmp_path / "root").mkdir()
        assert live.sync_at_once() is None
