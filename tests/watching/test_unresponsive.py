"""A root whose file system stops answering: only the threads of this root wait for it."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings
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
        with anyio.fail_after(20):
            batch = await live.next_batch()
        assert set(batch.paths) == {"a.py", "b.py"}
        tasks.start_soon(ticker.run)
        await asyncio.sleep(0.1)
        server.answers.clear()
        rescue = threading.Timer(3, server.answers.set)  # of an event loop that waits for it
        rescue.start()
        live.settle(batch, dict.fromkeys(batch.paths, "its file system does not answer"))
        live.set_aside("a.py", "it kills")
        await asyncio.sleep(0.1)
        assert ticker.latest_s < 0.2
        rescue.cancel()
        server.answers.set()
        tasks.cancel_scope.cancel()
