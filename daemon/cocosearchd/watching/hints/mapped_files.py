"""Files that processes have mapped for writing: a store through a mapping makes no event (Linux).

The kernel reports such a file once, when its last mapping ends (`IN_CLOSE_WRITE`). Until then even
its times do not show each change: they change at the first store to a clean page, and never on
tmpfs. The daemon therefore lists these files from time to time, and each question reads them again.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import anyio

from cocosearchd.forms.path_forms import path_text
from cocosearchd.runtime.ticks import seconds_to_tick
from cocosearchd.watching.hints.process_maps import shared_mappings

LIST_S = 30.0  # one listing costs 0.03 ms of CPU a process with Linux 6.11, 0.15 ms before
MAX_MAPPED = 200  # files of a root that each question reads again
_PROC = Path("/proc")


class MappedRoot(Protocol):
    """A root that follows its mapped files."""

    @property
    def path(self) -> bytes:
        """Its absolute path."""

    def follow_mapped(self, paths: tuple[str, ...]) -> None:
        """Take the paths of files that are mapped for writing now."""


async def watch_mappings(roots: Callable[[], Iterable[MappedRoot]]) -> None:
    """Give each root its mapped files, for ever; to be supervised."""
    while True:
        await anyio.sleep(seconds_to_tick(LIST_S))
        running = tuple(roots())
        mapped = await anyio.to_thread.run_sync(mapped_files, [root.path for root in running])
        for root in running:
            root.follow_mapped(mapped[root.path])


def mapped_files(roots: Iterable[bytes], proc: Path = _PROC) -> Mapping[bytes, tuple[str, ...]]:
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
    for name in os.listdir(proc):
        if name.isdigit():
            yield from shared_mappings(f"{proc}/{name}/maps")
