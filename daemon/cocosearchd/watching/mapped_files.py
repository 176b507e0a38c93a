"""Files that processes have mapped for writing: a store through a mapping makes no event (Linux).

The kernel tells of such a file once, when its last mapping ends (`IN_CLOSE_WRITE`). Until then not
even its times say that it changed: they do at the first store to a page that is clean, on tmpfs
never. So these files are looked for from time to time, and each question has them read again.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import anyio

from cocosearchd.model import encode_path
from cocosearchd.runtime.ticks import seconds_to_tick

LOOK_S = 30.0  # one look costs 0.15 ms of CPU a process: 25 ms for 170 processes
FOLLOWED = 200  # files of a root that each question has read again
_PROC = Path("/proc")
_SHARED = b" rw-s "  # proc_pid_maps(5): may be read and written, and others see it


class MappedRoot(Protocol):
    """A root that wants to know of its mapped files."""

    @property
    def place(self) -> bytes:
        """Its absolute path."""

    def follow_mapped(self, paths: tuple[str, ...]) -> None:
        """Take the paths of files that are mapped for writing now."""


async def watch_mappings(roots: Callable[[], Iterable[MappedRoot]]) -> None:
    """Tell each root of its mapped files, for ever; to be supervised."""
    while True:
        await anyio.sleep(seconds_to_tick(LOOK_S))
        running = tuple(roots())
        found = await anyio.to_thread.run_sync(mapped_files, [root.place for root in running])
        for root in running:
            root.follow_mapped(found[root.place])


def mapped_files(roots: Iterable[bytes], proc: Path = _PROC) -> Mapping[bytes, tuple[str, ...]]:
    """For each root, at most `FOLLOWED` files below it that a process has mapped for writing.
    Blocking.

    Only processes whose maps may be read count: those of the same user, and for root all.
    """
    places = set(_mapped(proc))
    return {root: _below(root, places) for root in roots}


def _below(root: bytes, places: Iterable[bytes]) -> tuple[str, ...]:
    lead = root.rstrip(b"/") + b"/"
    inside = sorted(place.removeprefix(lead) for place in places if place.startswith(lead))
    return tuple(encode_path(path) for path in inside[:FOLLOWED])


def _mapped(proc: Path) -> Iterator[bytes]:
    for name in os.listdir(proc):
        if name.isdigit():
            yield from _mapped_by(proc / name / "maps")


def _mapped_by(maps: Path) -> Iterator[bytes]:
    try:
        content = maps.read_bytes()
    except OSError:  # of another user, or just gone
        return
    if _SHARED not in content:
        return
    for line in content.split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1] == b"rw-s" and fields[5].startswith(b"/"):
            yield fields[5].replace(rb"\012", b"\n")
