"""Latency of noticing changes and cost of waiting: `python -m benchmarks.watching [FILES ...]`.

Without PostgreSQL and indexing: the index is a dictionary. Beside each figure stands a reference of
the same minute.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import machine, spread, timed
from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.forms.path_forms import path_text
from cocosearchd.model import Fingerprint
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.hints.base import DirtyHint, Hint
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.scans.scan import Scan
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.support import MemoryIndex, following, in_sync

EVENTS, SYNCS, IDLE_S, PER_FOLDER = 200, 500, 10.0, 20


def populate(root: Path, files: int) -> None:
    """`files` small files, 20 in a folder."""
    for number in range(files):
        folder = root / f"package_{number // PER_FOLDER // 50}" / f"part_{number // PER_FOLDER}"
        if number % PER_FOLDER == 0:
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module_{number}.py").write_text(f"value = {number}\n")


def old(root: Path) -> None:
    """Let the files be older than the racy two seconds."""
    time.sleep(2.1)
    os.sync()
    assert root.exists()


async def event_to_dirty(root: Path, sync_dir: Path, backend: str) -> list[float]:
    """Milliseconds from a write's return to the path being named, in the event loop."""
    loop, events = asyncio.get_running_loop(), asyncio.Queue[tuple[bytes, float]]()

    def sink(hints: Sequence[Hint]) -> None:
        for hint in hints:
            if isinstance(hint, DirtyHint):
                loop.call_soon_threadsafe(events.put_nowait, (hint.path, time.perf_counter()))

    settings = WatchingSettings(backend=backend)  # type: ignore[arg-type]
    hints, _ = await asyncio.to_thread(
        open_hints, os.fsencode(root), os.fsencode(sync_dir), settings, sink
    )
    hints.watch(b"")
    durations = []
    for number in range(EVENTS // (1 if hints.exact else 4)):
        path = root / f"event_{number}.py"
        path.write_text("x = 1\n")
        written = time.perf_counter()
        while True:
            name, at = await events.get()
            if name == os.fsencode(path.name):
                break
        durations.append(max(0.0, at - written) * 1000)
        await asyncio.sleep(0.005)
    await asyncio.to_thread(hints.close)
    return durations


async def syncs(live: WatchedRoot, count: int) -> list[float]:
    """Milliseconds of a sync when nothing is pending."""
    durations = []
    for _ in range(count):
        began = time.perf_counter()
        assert (await live.sync(10)).fresh
        durations.append((time.perf_counter() - began) * 1000)
    return durations


async def save_to_applied(live: WatchedRoot, root: Path, count: int) -> list[float]:
    """Milliseconds of write, sync, applied by the index in memory."""
    durations = []
    for number in range(count):
        began = time.perf_counter()
        (root / "saved.py").write_text(f"x = {number}\n")
        assert (await live.sync(10)).fresh
        durations.append((time.perf_counter() - began) * 1000)
    return durations


async def idle_cpu() -> float:
    """Share of a core while nothing happens."""
    cpu_before, began = time.process_time(), time.monotonic()
    await asyncio.sleep(IDLE_S)
    return (time.process_time() - cpu_before) / (time.monotonic() - began)


def reconcile_cpu(root: Path) -> tuple[float, float]:
    """CPU seconds of one comparison that finds nothing, and of only walking and stating (the
    reference).
    """
    raw = os.fsencode(root)
    index = MemoryIndex(raw)
    for directory, _, names in os.walk(raw):
        for name in names:
            index.read(path_text(os.path.relpath(directory + b"/" + name, raw)))
    scope = RootScope(raw, IndexingSettings())
    began = time.process_time()
    result = Scan(scope.renew(), index.files, lambda _: None).run([b""])
    cost = time.process_time() - began
    assert not result.dirty, result.dirty[:3]
    began = time.process_time()
    walk(raw)
    return cost, time.process_time() - began


def walk(root: bytes) -> int:
    """The least that finds in-place edits: list every directory, `lstat` every file."""
    stack, count = [root], 0
    while stack:
        with os.scandir(stack.pop()) as listing:
            for entry in listing:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    Fingerprint.from_status(entry.stat(follow_symlinks=False))
                    count += 1
    return count


async def small(base: Path) -> None:
    """Latencies, on a root of 1,000 files."""
    root = base / "small"
    populate(root, 1000)
    for backend in ("inotify", "watchfiles"):
        print(
            f"event -> dirty, {backend}: {spread(await event_to_dirty(root, base / 'probe', backend))}"
        )
    old(root)
    for backend, count in (("inotify", SYNCS), ("watchfiles", SYNCS // 5), ("polling", SYNCS // 5)):
        async with following(root, base / f"sync-{backend}", backend, WatchingSettings()) as (
            live,
            _,
        ):
            await in_sync(live)
            await asyncio.sleep(2.1)
            await in_sync(live)
            print(f"sync, nothing pending, {backend}: {spread(await syncs(live, count))}")
            print(
                f"write + sync, {backend}: {spread(await save_to_applied(live, root, count // 5))}"
            )
            await asyncio.sleep(2.5)
            await in_sync(live)
            print(f"idle CPU, {backend}: {await idle_cpu():.2%} of a core over {IDLE_S:.0f} s")
    print(
        f"reference, making and removing a file: {spread(timed(lambda: touch_and_remove(base / 'x'), 200))}"
    )


def touch_and_remove(path: Path) -> None:
    """Measure the cost of a cookie for the file system."""
    path.touch()
    path.unlink()


def large(base: Path, files: int) -> None:
    """Cost of a reconcile."""
    root = base / f"large-{files}"
    populate(root, files)
    old(root)
    cost, reference = reconcile_cpu(root)
    print(
        f"reconcile of {files} files, nothing changed: {cost:.2f} CPU s; walk + lstat alone: {reference:.2f} CPU s"
    )
    shutil.rmtree(root)


def main() -> None:
    """Print all figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "files", nargs="*", type=int, default=[10_000, 100_000], help="sizes of roots to reconcile"
    )
    chosen = arguments.parse_args()
    print(machine())
    base = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    try:
        asyncio.run(small(base))
        for files in chosen.files:
            large(base, files)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
