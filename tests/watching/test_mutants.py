"""Deliberate mistakes: for each, a test fails that passes without it.

`mutant` is whether the mistake is made. What is compared at the end must then be wrong, and must be
right without it.
"""

import errno
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.model import FileRecord
from cocosearchd.runtime.files.nofollow import opened_directory, status_of
from cocosearchd.watching import watched_root
from cocosearchd.watching.cookies import Cookies
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.hints.base import Hint, Hints, Sink
from cocosearchd.watching.hints.inotify_instances import InotifyInstances
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.scans import scan_coordinator
from cocosearchd.watching.scans.scan import ComparedPaths, Scan, ScanResult, compare_paths
from cocosearchd.watching.scans.scan_coordinator import ScanCoordinator
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.support import QUICK, MemoryIndex, following, in_sync, on_disk
from tests.watching.test_watched_root import held, linux, put

MUTANT = pytest.mark.parametrize("mutant", [False, True])


class DeletesUnseen(Scan):
    """Mutant: what was not listed is gone, whether it could be listed or not."""

    def run(self, trees: Iterable[bytes]) -> ScanResult:
        result = super().run(trees)
        result.dirty += [path for path in self._missing if path not in result.dirty]
        result.unreadable.clear()
        return result


def look_and_believe(scope: RootScope, paths: Mapping[str, bytes]) -> ComparedPaths:
    """Mutant: what cannot be seen is gone."""
    compared = compare_paths(scope, paths)
    compared.gone += compared.closed
    compared.closed.clear()
    return compared


@MUTANT
async def test_a_directory_that_could_not_be_listed_is_not_deleted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    put(root, a="1", b__c="1")
    failing = False

    def of_b(path: bytes) -> bool:
        return failing and path.startswith(os.fsencode(root / "b"))

    def refused(path: bytes) -> AbstractContextManager[int]:
        """Root may read everything, and a broken disk cannot be had."""
        if of_b(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened_directory(path)

    def status(path: bytes) -> os.stat_result:
        if of_b(path) and path.endswith(b"c.py"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return status_of(path)

    monkeypatch.setattr("cocosearchd.watching.scans.scan.opened_directory", refused)
    monkeypatch.setattr("cocosearchd.watching.scans.scan.status_of", status)
    if mutant:
        monkeypatch.setattr(scan_coordinator, "Scan", DeletesUnseen)
        monkeypatch.setattr(watched_root, "compare_paths", look_and_believe)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        failing = True
        live.rescan("test")
        await in_sync(live)
        assert (held(index) == {"a.py", "b/c.py"}) is not mutant


@linux
@MUTANT
async def test_a_sync_waits_for_what_is_still_on_its_way(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    put(root, a="1")

    async def at_once(_: Cookies) -> None:
        """Mutant: nobody waits for the cookie."""

    through = threading.Event()
    through.set()

    def slow(
        root: bytes,
        sync: bytes,
        settings: WatchingSettings,
        sink: Sink,
        instances: InotifyInstances,
    ) -> tuple[Hints, str | None]:
        """Its thread is held up with what it has read."""

        def hold(hints: Sequence[Hint]) -> None:
            through.wait()
            sink(hints)

        return open_hints(root, sync, settings, hold, instances)

    monkeypatch.setattr(watched_root, "open_hints", slow)
    if mutant:
        monkeypatch.setattr(Cookies, "sync", at_once)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        through.clear()
        put(root, b="1")
        # The mutant answers at once, as far as a busy machine lets it.
        answer = await live.sync(10.0 if mutant else 0.3)
        assert (answer.fresh and "b.py" not in index.files) is mutant
        through.set()


@MUTANT
async def test_rows_of_before_the_start_are_not_believed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    put(root, a="1", b="1")

    class Believes(WatchedRoot):
        """Mutant: after a start everything is clean until a hint says otherwise."""

        async def _scan_for_ever(self) -> None:
            trees = self._dirty.begin_scan()
            self._dirty.finish_scan(trees, ())
            await super()._scan_for_ever()

    index = MemoryIndex(os.fsencode(root))
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
    (root / "a.py").unlink()
    async with following(
        root, tmp_path / "sync", index=index, kind=Believes if mutant else WatchedRoot
    ) as (live, _):
        await in_sync(live)
        assert (held(index) == {"b.py"}) is not mutant


@MUTANT
async def test_every_file_is_read_again_in_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    """A write through a mapping or below an overlay makes no event, and may leave every time stamp
    as it was.

    The stored content is changed instead of the file's: to the comparison of the two that is the
    same.
    """
    put(root, **{f"m{number}": str(number) for number in range(40)})
    monkeypatch.setattr(watched_root, "TICK_S", 0.05)
    # young files are read again at every scan
    monkeypatch.setattr("cocosearchd.watching.scans.scan.RACY_NS", 0)
    monkeypatch.setattr(scan_coordinator, "AUDIT_SHARE", 10)
    if mutant:  # nothing is ever due to be read again
        monkeypatch.setattr(
            ScanCoordinator, "audit_due", property(lambda _: False, lambda *_: None), raising=False
        )
    index = Counting(os.fsencode(root))
    often = replace(QUICK, rescan_s=0.01)
    async with following(root, tmp_path / "sync", watching=often, index=index) as (live, _):
        await in_sync(live)
        # what is applied during a scan is read again after it
        while live.status().pending or live._dirty.scans.is_active():
            await anyio.sleep(0.001)
        index.files = {
            path: record._replace(content_hash=b"another") for path, record in index.files.items()
        }
        index.scans = 0
        with anyio.fail_after(60):
            while index.scans < 14 or live.status().pending:
                await anyio.sleep(0.01)
        assert (index.contents() == on_disk(os.fsencode(root))) is not mutant


class Counting(MemoryIndex):
    """Counts scans."""

    scans = 0

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        self.scans += 1
        return await super().file_records(under)
