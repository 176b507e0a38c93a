"""Faults below a watched root: limits of the kernel, hints that lie, clocks that jump."""

import asyncio
import errno
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import FileRecord
from cocosearchd.runtime.files.nofollow import directory_identity, open_absolute
from cocosearchd.watching import watched_root
from cocosearchd.watching.availability import availability
from cocosearchd.watching.dirty_records import DirtyBatch
from cocosearchd.watching.hints import backend_choice
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.hints.base import Cookie, Hint, Hints, HintsLost, Sink
from cocosearchd.watching.hints.inotify_instances import InotifyInstances
from cocosearchd.watching.scans import scan_coordinator, scan_schedule
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.operations import Operations, as_git_sees, difference
from tests.watching.support import QUICK, MemoryIndex, Mutator, following, git, in_sync, on_disk
from tests.watching.test_watched_root import PYTHON, held, linux, put

HERE = Path(__file__)
inotify_simple = pytest.importorskip("inotify_simple", reason="on Linux only")


def liar(seed: int, *, tells: float, repeats: float) -> Callable[..., tuple[Hints, str | None]]:
    """A backend that leaves out hints, repeats and reorders the others, and still calls itself
    exact.
    """
    rng = random.Random(seed)

    def open_lying(
        root: bytes,
        sync: bytes,
        settings: WatchingSettings,
        sink: Sink,
        instances: InotifyInstances,
    ) -> tuple[Hints, str | None]:
        def lie(hints: Sequence[Hint]) -> None:
            remaining = [
                hint
                for hint in hints
                if isinstance(hint, Cookie | HintsLost) or rng.random() < tells
            ]
            repeated = remaining + [
                hint for hint in remaining for _ in range(3) if rng.random() < repeats
            ]
            rng.shuffle(repeated)
            sink(repeated)

        return open_hints(root, sync, settings, lie, instances)

    return open_lying


async def converged(root: Path, holds: Callable[[], bool], limit_s: float = 60) -> None:
    with anyio.fail_after(limit_s):
        while not holds():
            await anyio.sleep(0.01)


async def test_half_of_the_hints_are_enough_in_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks and nobody scans by hand: the scans that come by the clock do."""
    monkeypatch.setattr(watched_root, "open_hints", liar(3, tells=0.5, repeats=0.3))
    monkeypatch.setattr(watched_root, "TICK_S", 0.02)
    mutator = Mutator(os.fsencode(root), 11, replace_root=False)
    async with following(
        root, tmp_path / "sync", watching=replace(QUICK, rescan_s=0.2), indexing=PYTHON
    ) as (_, index):
        for _ in range(4):
            await asyncio.to_thread(mutator.steps, 80)
            await converged(root, lambda: index.contents() == on_disk(os.fsencode(root)))


async def test_repeated_and_reordered_hints_are_as_good_as_any(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left out, so a sync need not scan; cookies are not overtaken, as they are of
    another batch.
    """

    def open_shuffling(
        root: bytes,
        sync: bytes,
        settings: WatchingSettings,
        sink: Sink,
        instances: InotifyInstances,
    ) -> tuple[Hints, str | None]:
        rng = random.Random(5)

        def shuffle(hints: Sequence[Hint]) -> None:
            doubled = [hint for hint in hints if not isinstance(hint, Cookie)] * 2
            rng.shuffle(doubled)
            sink(doubled)
            sink([hint for hint in hints if isinstance(hint, Cookie)])

        return open_hints(root, sync, settings, shuffle, instances)

    monkeypatch.setattr(watched_root, "open_hints", open_shuffling)
    mutator = Mutator(os.fsencode(root), 13, replace_root=False)
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        for _ in range(6):
            await asyncio.to_thread(mutator.steps, 60)
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


@linux
async def test_the_watch_limit_reached_and_raised_while_running(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, a="1")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        monkeypatch.setattr(live._group.instances, "budget", live._group.instances.watch_count + 2)
        for text in ("1", "2"):
            put(root, **{f"p{number}__deep__m": text for number in range(6)})
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
        assert live.status().state == "degraded"
        assert "sysctl fs.inotify.max_user_watches" in (live.status().reason or "")
        monkeypatch.setattr(live._group.instances, "budget", 1000)
        await in_sync(live)  # which looks at all that is not watched, and so watches it
        await in_sync(live)
        assert (live.status().state, live.status().reason) == ("live", None)
        put(root, p5__deep__m="3")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


# In a user namespace of its own the kernel's limits can be set for one program, if that is allowed.
LIMITED = """
import asyncio, sys
from pathlib import Path
from tests.watching.support import following, in_sync, on_disk
from tests.watching.test_watched_root import put

async def main(base):
    root = base / "root"
    root.mkdir()
    put(root, a="1")
    async with following(root, base / "sync") as (live, index):
        await in_sync(live)
        for text in ("1", "2"):
            put(root, **{f"p{number}__deep__m": text for number in range(12)})
            await in_sync(live)
            assert index.contents() == on_disk(bytes(root)), "differs"
        print(live.status().state, live.status().reason, live.status().watcher)

Path("/proc/sys/user/max_inotify_watches").write_text(sys.argv[2])
Path("/proc/sys/user/max_inotify_instances").write_text(sys.argv[3])
asyncio.run(main(Path(sys.argv[1])))
"""


@linux
@pytest.mark.parametrize(
    ("watches", "instances", "expected"),
    [
        ("10", "100", "the kernel has no more inotify watches"),
        ("1000", "0", "no inotify instances are left"),
    ],
)
def test_the_kernels_own_limits(
    tmp_path: Path, watches: str, instances: str, expected: str
) -> None:
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        sys.executable,
        "-c",
        LIMITED,
        str(tmp_path),
        watches,
        instances,
    ]
    places = os.pathsep.join(str(HERE.parents[2] / part) for part in ("daemon", "ipc", "."))
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr or "Permission denied" in done.stderr or "Read-only" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("degraded"), done.stdout
    assert expected in done.stdout
    assert "sysctl" in done.stdout


@linux
async def test_the_better_backend_is_tried_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File handles or inotify instances may be free again after a while."""
    full = True

    def refuse(**options: object) -> object:
        if full:
            raise OSError(24, "Too many open files")
        return inotify_simple.INotify(**options)

    monkeypatch.setattr("cocosearchd.watching.hints.inotify_instances.INotify", refuse)
    monkeypatch.setattr(watched_root, "TICK_S", 0.02)
    async with following(root, tmp_path / "sync", watching=replace(QUICK, rescan_s=0.1)) as (
        live,
        index,
    ):
        await in_sync(live)
        assert live.status().watcher.startswith("polling (inotify: no inotify instances are left")
        assert live.status().state == "degraded"
        put(root, a="1")
        await in_sync(live)
        full = False
        await converged(
            root, lambda: live.status().watcher == "inotify" and live.status().state == "live"
        )
        put(root, a="2")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


class SlowIndex(MemoryIndex):
    """Takes longer for a scan than the period of periodic scans."""

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        await anyio.sleep(0.6)
        return await super().file_records(under)


@linux
@pytest.mark.parametrize("kind", [MemoryIndex, SlowIndex])
async def test_the_better_backend_is_tried_again_whatever_scans_take(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[MemoryIndex]
) -> None:
    """A polled root is scanned more often than once a period. A longer scan goes on to its end."""
    monkeypatch.setattr(watched_root, "TICK_S", 0.02)
    put(root, a="1")
    (tmp_path / "state").touch()
    index = kind(os.fsencode(root))
    often = replace(QUICK, rescan_s=0.3, poll_s=0.02)
    sync_dir = tmp_path / "state" / "sync"
    async with following(root, sync_dir, watching=often, index=index) as (live, _):
        await converged(root, lambda: bool(index.files))
        assert live.status().watcher.startswith("polling")
        (tmp_path / "state").unlink()
        await converged(root, lambda: live.status().watcher == "inotify")


class PausedIndex(MemoryIndex):
    """Lets a scan go on once `go` is set."""

    def __init__(self, root: bytes) -> None:
        super().__init__(root)
        self.go = anyio.Event()
        self.go.set()
        self.is_asked = anyio.Event()

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        self.is_asked.set()
        await self.go.wait()
        return await super().file_records(under)


@linux
async def test_files_are_read_again_once_for_each_review_whatever_scans_take(
    root: Path, tmp_path: Path
) -> None:
    """Another way to watch waits for the end of the scan; the review itself does not come again."""
    put(root, a="1")
    (tmp_path / "state").touch()
    index = PausedIndex(os.fsencode(root))
    sync_dir = tmp_path / "state" / "sync"
    async with following(root, sync_dir, index=index) as (live, _):
        await in_sync(live)
        (tmp_path / "state").unlink()
        index.go, index.is_asked = anyio.Event(), anyio.Event()
        live.rescan("for the test")
        with anyio.fail_after(60):
            await index.is_asked.wait()
        live._schedule._review_at = 0.0
        live._review_if_due()
        assert live._coordinator.audit_due
        live._coordinator.audit_due = False  # as a scan does that marks these files
        live._review_if_due()
        assert not live._coordinator.audit_due
        assert live.status().watcher.startswith("polling")
        index.go.set()
        with anyio.fail_after(60):
            while live.status().watcher != "inotify":
                await anyio.sleep(0.01)


async def test_a_root_that_only_polling_suits_stays_polled(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_root, "TICK_S", 0.02)
    monkeypatch.setattr(backend_choice, "file_system", lambda _: "nfs4")
    often = replace(QUICK, rescan_s=0.1, poll_s=0.02)
    async with following(root, tmp_path / "sync", "auto", watching=often) as (live, _):
        await in_sync(live)
        epoch = live.clock().epoch
        await anyio.sleep(0.5)
        assert live.clock().epoch == epoch


async def test_files_of_a_polled_root_are_read_again_in_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored content is changed in place of the file's, as by a store that leaves all stamps."""
    monkeypatch.setattr(watched_root, "TICK_S", 0.02)
    monkeypatch.setattr("cocosearchd.watching.scans.scan.RACY_NS", 0)
    monkeypatch.setattr(scan_coordinator, "AUDIT_SHARE", 2)
    put(root, a="1", b="2", c="3")
    often = replace(QUICK, rescan_s=0.3, poll_s=0.02)
    async with following(root, tmp_path / "sync", "polling", watching=often) as (live, index):
        await in_sync(live)
        index.files = {
            path: record._replace(content_hash=b"another") for path, record in index.files.items()
        }
        await converged(root, lambda: index.contents() == on_disk(os.fsencode(root)))


async def test_questions_about_a_root_that_hangs_hold_one_thread(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of files that went away answers nobody: who asks about another root needs threads
    too.
    """
    answers = threading.Event()
    answers.set()

    def hangs(path: bytes) -> object:
        answers.wait(120)
        return directory_identity(path)

    monkeypatch.setattr(availability, "directory_identity", hangs)
    async with following(root, tmp_path / "sync", "polling") as (live, index):
        await in_sync(live)
        answers.clear()
        try:
            for _ in range(40):
                assert not (await live.sync(0.01)).fresh
            async with asyncio.timeout(60):
                await asyncio.to_thread(int)
        finally:
            answers.set()
        put(root, a="1")
        await in_sync(live)
        assert held(index) == {"a.py"}


async def test_a_machine_that_slept_looks_at_everything(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happened meanwhile on a mount, no event told of it."""
    gap = 0.0
    monkeypatch.setattr(scan_schedule, "_sleep_gap", lambda: gap)
    monkeypatch.setattr(watched_root, "TICK_S", 0.02)
    monkeypatch.setattr(watched_root, "open_hints", liar(1, tells=0.0, repeats=0.0))
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        put(root, a="1")
        await anyio.sleep(0.3)
        assert index.contents() == {}, "nothing was told, and it is not time yet"
        gap = 3600.0
        await converged(root, lambda: index.contents() == on_disk(os.fsencode(root)))


async def test_the_first_answer_after_a_sleep_has_looked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not depend on a timer being faster than the question."""
    gap = 0.0
    monkeypatch.setattr(scan_schedule, "_sleep_gap", lambda: gap)
    monkeypatch.setattr(watched_root, "TICK_S", 3600.0)
    monkeypatch.setattr(watched_root, "open_hints", liar(1, tells=0.0, repeats=0.0))
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        put(root, a="1")
        await in_sync(live)
        assert index.contents() == {}, "nothing was told"
        gap = 3600.0
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


async def test_a_root_at_rest_is_looked_at_when_it_stirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_schedule, "QUIET_S", 0.0)
    schedule = scan_schedule.ScanSchedule(QUICK, time.monotonic())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(schedule.wait_tick, 3600.0, 7200.0, quiet=True))
        await anyio.wait_all_tasks_blocked()
        schedule.record_activity(time.monotonic())
    monkeypatch.setattr(scan_schedule, "QUIET_S", 3600.0)
    with anyio.fail_after(60):
        await schedule.wait_tick(0.01, 3600.0, quiet=True)  # it has just stirred


@linux
async def test_changes_without_a_watch_are_found_without_a_question(
    root: Path, tmp_path: Path
) -> None:
    put(root, one__deep__m="1", two__deep__m="1")
    group = RootGroup(InotifyInstances(budget=1))
    async with following(root, tmp_path / "sync", group=group) as (live, index):
        await in_sync(live)
        for text in ("2", "3", "4"):
            put(root, one__deep__m=text, two__deep__m=text)
            await converged(root, lambda: index.contents() == on_disk(os.fsencode(root)))


async def test_a_wall_clock_that_jumps_hides_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, a="1", b="1")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        for hours in (-2, 2, 0):
            shift = hours * 3600
            monkeypatch.setattr("cocosearchd.watching.scans.scan.time.time_ns", _shifted_ns(shift))
            put(root, a=f"after {hours}", new=str(hours))
            for name in ("a.py", "new.py"):
                now = (root / name).stat().st_mtime + shift
                os.utime(root / name, (now, now))
            live.rescan("test")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


def _shifted_ns(seconds: int) -> Callable[[], int]:
    return lambda: int((time.time() + seconds) * 1e9)


# -- a store that goes away after it has written, before it could say so


class Unsure(MemoryIndex):
    """Applies what it is given, and now and then says all the same that it could not: PostgreSQL
    went away.

    Then it often cannot say what it holds either.
    """

    def __init__(self, root: bytes, seed: int, share: float) -> None:
        super().__init__(root)
        self._rng, self.share = random.Random(seed), share

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        if self._rng.random() < self.share:
            raise StoreUnavailable("PostgreSQL does not answer")
        return await super().file_records(under)

    async def follow(self, live: WatchedRoot, limit: int = 16) -> None:
        settle = live.settle

        def unsure(batch: DirtyBatch, failed: Mapping[str, str]) -> None:
            lost = self._rng.random() < self.share
            settle(
                batch,
                dict.fromkeys((*batch.paths, *batch.gone), "PostgreSQL went away")
                if lost
                else failed,
            )

        live.settle = unsure  # type: ignore[method-assign]
        await super().follow(live, limit)


async def test_rows_of_an_unconfirmed_write_are_deleted_outside_the_scope(
    root: Path, tmp_path: Path
) -> None:
    index = Unsure(os.fsencode(root), 0, 0.0)
    patient = replace(QUICK, retry_base_s=0.5)
    async with following(root, tmp_path / "sync", index=index, watching=patient) as (live, _):
        await in_sync(live)
        index.failing["a.py"] = "PostgreSQL went away"
        (root / "a.py").write_text("1")  # known by an event, by no scan
        assert not (await live.sync(5)).fresh
        index.read("a.py")  # written all the same
        (root / ".gitignore").write_text("a.py\n")
        # a scan has seen the row by now, and that the file is as it was when it failed
        await live.sync(5)
        index.failing.clear()
        await in_sync(live)
        assert "a.py" not in index.files


SOME = [("plain", 1), ("repository", 2), ("replaced", 3)]
MORE = [(kind, seed) for kind in ("plain", "repository", "replaced") for seed in range(4, 30)]


@pytest.mark.parametrize(
    ("kind", "seed"), [*SOME, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)]
)
async def test_whatever_happens_while_nobody_knows_what_was_written(
    tmp_path: Path, kind: str, seed: int
) -> None:
    where, scratch = tmp_path / "root", os.fsencode(tmp_path / "scratch")
    where.mkdir()
    git(tmp_path, "init", "-q", "--bare", os.fsdecode(scratch))
    hands = Operations(
        os.fsencode(where), seed, replace_root=kind == "replaced", repository=kind == "repository"
    )
    hands.begin()
    index = Unsure(os.fsencode(where), seed, 0.3)
    kinds = IndexingSettings(include=("*.py", "*.PY", "*.md", "*.MD"))
    async with following(where, tmp_path / "sync", index=index, indexing=kinds) as (live, _):
        for number in range(5):
            index.share = 0.3
            for _ in range(80):
                hands.step()
                if hands.rng.random() < 0.2:
                    await asyncio.sleep(hands.rng.random() * 0.01)
            index.share = 0.0
            await in_sync(live)
            disk = as_git_sees(os.fsencode(where), scratch)
            contents = {
                path: content
                for path, content in index.contents().items()
                if path.lower().endswith((b".py", b".md"))
            }
            assert contents == disk, (
                f"round {number}: {difference(contents, disk)}; {hands.said[-40:]}"
            )


async def test_rules_that_cannot_be_read_for_a_while(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server fails when the root begins to be watched: its words are said, and nothing is
    started again.
    """
    put(root, a="1")
    (root / ".gitignore").write_text("b.py\n")
    failing = [True]

    def open_failing(path: bytes, flags: int) -> int:
        if failing and path == os.fsencode(root / ".gitignore"):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
        return open_absolute(path, flags)

    # No file system of this machine fails when it is told to.
    monkeypatch.setattr("cocosearchd.runtime.files.regular_files.open_absolute", open_failing)
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        answer = await live.sync(0.5)
        assert not answer.fresh
        assert "Stale file handle" in (answer.reason or "")
        assert "Stale file handle" in (live.status().reason or "")
        failing.clear()
        await in_sync(live)
        assert held(index) == {"a.py"}
