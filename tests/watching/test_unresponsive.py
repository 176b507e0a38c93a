"""A root whose file system stops answering: only the threads of this root wait for it."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching import watched_root
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.hints.base import Hints
from cocosearchd.watching.root_threads import THREADS_PER_ROOT
from cocosearchd.watching.watched_root import WatchedRoot
from tests.unresponsive_files import UnresponsiveFileSystem
from tests.watching.support import QUICK, MemoryIndex


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[Path, UnresponsiveFileSystem]]:
    """A mounted root, and its server."""
    directory = tmp_path / "far"
    directory.mkdir()
    server = UnresponsiveFileSystem({b"a.py": b"x = 1\n", b"b.py": b"y = 1\n"})
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(server.mounted(directory))
        except OSError as error:
            pytest.skip(f"nothing can be mounted here: {error}")
        yield directory, server


class Ticker:
    """Measures how late the event loop is."""

    def __init__(self) -> None:
        self.latest_s = 0.0

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            self.latest_s = max(self.latest_s, time.monotonic() - began)


async def test_a_batch_that_fails_never_stops_the_event_loop(
    far: tuple[Path, UnresponsiveFileSystem], tmp_path: Path
) -> None:
    directory, server = far
    raw = os.fsencode(directory)
    live = WatchedRoot(raw, MemoryIndex(raw), IndexingSettings(), QUICK, tmp_path / "sync")
    ticker = Ticker()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live.run)
        with anyio.fail_after(60):
            batch = await live.next_batch()
        assert set(batch.paths) == {"a.py", "b.py"}
        tasks.start_soon(ticker.run)
        await asyncio.sleep(0.1)
        server.answers.clear()
        rescue = threading.Timer(20, server.answers.set)  # of an event loop that waits for it
        rescue.start()
        live.settle(batch, dict.fromkeys(batch.paths, "its file system does not answer"))
        live.set_aside("a.py", "it kills")
        await asyncio.sleep(0.1)
        assert ticker.latest_s < 10, "as late as a busy machine makes it, not as its file system"
        rescue.cancel()
        server.answers.set()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("while_opening", [False, True])
async def test_a_root_ends_while_all_its_threads_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, while_opening: bool
) -> None:
    (tmp_path / "root").mkdir()
    raw = os.fsencode(tmp_path / "root")
    answer, opening, opened = threading.Event(), threading.Event(), list[Hints]()

    def open_slowly(*arguments: Any) -> tuple[Hints, str | None]:
        opening.set()
        if while_opening:
            answer.wait(120)
        hints, reason = open_hints(*arguments)
        opened.append(hints)
        return hints, reason

    monkeypatch.setattr(watched_root, "open_hints", open_slowly)
    with ThreadPoolExecutor(2 * THREADS_PER_ROOT) as executor:
        live = WatchedRoot(
            raw, MemoryIndex(raw), IndexingSettings(), QUICK, tmp_path / "sync", executor
        )
        running = asyncio.ensure_future(live.run())
        await asyncio.to_thread(opening.wait, 60)
        if not while_opening:
            await live.sync(60)
        waiting = [
            asyncio.ensure_future(live.threads.run(answer.wait)) for _ in range(THREADS_PER_ROOT)
        ]
        await asyncio.sleep(0.2)
        running.cancel()
        ended, _ = await asyncio.wait({running}, timeout=watched_root.CLOSE_S + 60)
        answer.set()
        assert ended
        await asyncio.gather(*waiting)
        with anyio.fail_after(60):
            while not (opened and opened[0].batches_sent() is None):  # it is closed
                await asyncio.sleep(0.01)
