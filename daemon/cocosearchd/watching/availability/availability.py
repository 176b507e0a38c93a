"""Whether the files of a root can be there at all: a root may be missing, and a file system not
mounted.

Where a file system is to be mounted lies an empty directory. That it is empty says nothing of the
files, so they are kept as those of a missing root are. It is told from a directory that was emptied
by the devices of what was indexed: those files were on another one than the directory is now.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Set
from typing import Protocol

from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import encode_path
from cocosearchd.runtime.files.nofollow import (
    Identity,
    directory_identity,
    first_link,
    opened_directory,
)
from cocosearchd.runtime.ticks import seconds_to_tick
from cocosearchd.watching.availability.mountpoints import is_bare, is_mounted
from cocosearchd.watching.availability.single_flight import SingleFlight
from cocosearchd.watching.root_threads import RootThreads

# Questions look by themselves, so the beat is for those that follow an index, and for its state.
POLL_S, CALM_POLL_S, CALM_AFTER = 0.25, 1.0, 40

SILENT = "the file system of the root does not answer"
MISSING = "the root is missing; what was indexed of it is kept"
REDIRECTED = (
    "{link} is a symbolic link now, so the root is not the directory that was registered and is not read: put that"
    " directory back, or clear this index and add the directory that you mean; what was indexed is kept"
)
UNMOUNTED = (
    "the root is empty, and what was indexed of it is on another file system: mount that again, or put something into"
    " the directory if it is to be indexed as it is; what was indexed is kept"
)


class KnownDevices(Protocol):
    """What must be known of the index."""

    async def devices(self) -> Set[int]:
        """The devices (`st_dev`) that its files were on when they were read."""


class RootAvailability:
    """Looks for one root, for one event loop."""

    def __init__(
        self, root: bytes, known: KnownDevices, threads: RootThreads | None = None
    ) -> None:
        threads = threads or RootThreads()
        self._root, self._known = root, known
        self._judged: tuple[Identity, str | None] | None = None  # of an empty directory
        self._asked, self._looked, self._looks = asyncio.Event(), asyncio.Event(), 0
        self._placing = SingleFlight(lambda: directory_identity(root), threads)
        self._looking = SingleFlight(lambda: _seen(root), threads)
        self._found: Identity | None = None
        # whether what the root says of itself holds: not while it is missing, or not known to be
        self.there = False
        # a root that is there is watched once this says so
        self.admit: Callable[[], Awaitable[bool]] = _at_once

    async def wait(self, missing: Callable[[str], None]) -> None:
        """Returns when the root is there and admitted; `missing` is told why it is not there, at
        each look.
        """
        while True:
            found = await self.look()
            self.there = not isinstance(found, str)
            if isinstance(found, str):
                missing(found)
            else:
                self._found = found
                if await self.admit():
                    break
            await self.rest()
        self._looks = 0
        self._tell()

    def same(self) -> bool:
        """Whether the root is the directory that it was when it was found. Blocking."""
        return directory_identity(self._root) == self._found

    async def still(self) -> bool:
        """As `same`, for a root whose file system may never answer."""
        return await self._placing.seen() == self._found

    async def answers(self) -> None:
        """Returns when the file system of the root has said anything of it."""
        await self._placing.seen()

    @property
    def silent(self) -> str | None:
        """What to say of a file system that does not answer."""
        return SILENT if self._placing.silent or self._looking.silent else None

    async def look(self) -> Identity | str:
        """Which directory the root is, or why its files are not there."""
        found = await self._looking.seen()
        if found is None or isinstance(found, str):
            return found or MISSING
        place, bare = found
        if not bare:
            self._judged = None
            return place
        if self._judged is None or self._judged[0] != place:
            try:
                devices = await self._known.devices()
            except StoreUnavailable as error:
                return (
                    f"the root is empty, and whether files are to be there cannot be told: {error}"
                )
            self._judged = place, UNMOUNTED if devices and place[0] not in devices else None
        return self._judged[1] or place

    async def rest(self) -> None:
        """Until the next look at a root that is not there."""
        self._looks += 1
        self._tell()
        self._asked.clear()
        try:
            async with asyncio.timeout(
                seconds_to_tick(POLL_S if self._looks < CALM_AFTER else CALM_POLL_S)
            ):
                await self._asked.wait()
        except TimeoutError:
            return

    async def again(self) -> None:
        """Returns when the next look has ended; it begins at once."""
        self._asked.set()
        await self._looked.wait()

    def _tell(self) -> None:
        event, self._looked = self._looked, asyncio.Event()
        event.set()


async def _at_once() -> bool:
    return True


def _seen(root: bytes) -> tuple[Identity, bool] | str | None:
    """Which directory the root is, and whether something may be to be mounted there.

    A sentence for a root that is reached through a symbolic link, None for a missing one.
    """
    place = directory_identity(root)
    if place is None:
        return redirected(root)
    try:
        with opened_directory(root) as handle, os.scandir(handle) as listing:
            return place, is_bare(listing) and not is_mounted(root, place[0])
    except OSError:
        return place, False  # a scan says why


def redirected(root: bytes) -> str | None:
    """What to say of a root that a symbolic link leads away from; None if there is no link in its
    path. Blocking.
    """
    link = first_link(root)
    return None if link is None else REDIRECTED.format(link=encode_path(link))
