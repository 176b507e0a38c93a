"""Files that processes have mapped for writing: a store through a mapping makes no event (Linux).

The kernel reports such a file once, when its last mapping ends (`IN_CLOSE_WRITE`). Until then even
its times do not show each change: they change at the first store to a clean page, and never on
tmpfs. The daemon therefore lists these files for questions, and each question reads them again.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio

from cocosearchd.forms.path_forms import path_text
from cocosearchd.runtime.supervise import attempt
from cocosearchd.runtime.ticks import seconds_to_tick
from cocosearchd.watching.hints.process_maps import shared_mappings

# No question uses an older listing. One costs 0.03 ms of CPU a process with Linux 6.11, 0.15 ms before.
LIST_S = 30.0
PACE_S = 20.0  # between two listings while questions come, which then need not wait for one
ASKED_S = 60.0  # time without a question after which nothing is listed
WAIT_S = 1.0  # from the start of a listing, then questions go on without it
MAX_MAPPED = 200  # files of a root that each question reads again
_PROC = Path("/proc")

MappedPaths = Mapping[bytes, tuple[str, ...]]  # of files below each root


class MappedRoot(Protocol):
    """A root that follows its mapped files."""

    @property
    def path(self) -> bytes:
        """Its absolute path."""

    def follow_mapped(self, paths: tuple[str, ...]) -> None:
        """Take the paths of files that are mapped for writing now."""


class MappedFiles:
    """Gives the roots of a daemon their mapped files, while questions come.

    One listing takes milliseconds, so none is made at rest: the first question after a rest waits
    for one. For one event loop.
    """

    def __init__(
        self,
        roots: Callable[[], Iterable[MappedRoot]],
        list_files: Callable[[Iterable[bytes]], MappedPaths],
    ) -> None:
        """`list_files` is called in a thread: `mapped_files`, except in tests."""
        self._roots = roots
        self._list_files = list_files
        self._listed_at = -math.inf  # when the last listing that has ended began
        self._asked_at = -math.inf
        self._began = -math.inf  # when the last listing began
        self._listing: asyncio.Task[Exception | None] | None = None

    async def watch(self) -> None:
        """List again and again while questions come; to be supervised."""
        while True:
            await anyio.sleep(seconds_to_tick(PACE_S))
            if time.monotonic() - self._asked_at < ASKED_S:
                await self._start()

    def note_question(self) -> bool:
        """Record a question. Return whether the last listing is recent enough for it."""
        self._asked_at = time.monotonic()
        return self._asked_at - self._listed_at < LIST_S

    async def refresh(self) -> None:
        """List again for a question if the last listing is too old.

        Questions wait until `WAIT_S` after the start of a listing: a stuck process may hold it up.
        """
        if not self.note_question():
            listing = self._start()
            remaining_s = self._began + WAIT_S - time.monotonic()
            await asyncio.wait({listing}, timeout=max(0.0, remaining_s))

    def _start(self) -> "asyncio.Task[Exception | None]":
        """Return the listing that is running, or a new one; it logs its error."""
        if self._listing is None or self._listing.done():
            self._began = time.monotonic()
            listing = attempt("mapped files", partial(self._list, self._began))
            self._listing = asyncio.create_task(listing)
        return self._listing

    async def _list(self, began: float) -> None:
        running = tuple(self._roots())
        paths = [root.path for root in running]
        mapped = await anyio.to_thread.run_sync(self._list_files, paths, abandon_on_cancel=True)
        for root in running:
            root.follow_mapped(mapped[root.path])
        self._listed_at = began


def mapped_files(roots: Iterable[bytes], proc: Path = _PROC) -> MappedPaths:
    """Return at most `MAX_MAPPED` files below each root that a process has mapped for writing.

    Only processes with readable maps count: those of the same user, and for root all. Blocking.
    """
    paths = set(_mapped_paths(proc))
    return {root: _paths_below(root, paths) for root in roots}


def _paths_below(root: bytes, paths: Iterable[bytes]) -> tuple[str, ...]:
    prefix = root.rstrip(b"/") + b"/"
    inside = sorted(path.removeprefix(prefix) for path in paths if path.startswith(prefix))
    return tuple(path_text(path) for path in inside[:MAX_MAPPED])


def _mapped_paths(proc: Path) -> Iterator[bytes]:
    if not proc.is_dir():  # another system: nobody tells
        return
    for name in os.listdir(proc):
        if name.isdigit():
            yield from shared_mappings(f"{proc}/{name}/maps")
