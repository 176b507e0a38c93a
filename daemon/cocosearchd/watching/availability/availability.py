"""Availability of a root: it may be missing, not mounted, or not answering.

The mount point of a file system that is not mounted is an empty directory. An empty root therefore
does not prove that its files were deleted: they stay in the index, like those of a missing root.
The devices of the indexed files tell the two cases apart: the files of an unmounted file system
were on another device than the directory is now.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Set
from typing import Protocol

from cocosearchd.errors import StoreUnavailable
from cocosearchd.forms.path_forms import path_text
from cocosearchd.freshness import StaleReason, stale_reason
from cocosearchd.runtime.files.nofollow import (
    Identity,
    directory_identity,
    first_link,
    opened_directory,
)
from cocosearchd.runtime.ticks import seconds_to_tick
from cocosearchd.watching.availability.single_flight import SingleFlight
from cocosearchd.watching.availability.unmounted_directories import is_bare, is_mounted
from cocosearchd.watching.root_threads import RootThreads

# A question checks the root itself. These checks are for the status, and for clients that follow an
# index.
ROOT_POLL_S = 0.25
CALM_POLL_S = 1.0
CALM_AFTER = 40  # checks


class KnownDevices(Protocol):
    """The devices of the index."""

    async def devices(self) -> Set[int]:
        """Return the devices (`st_dev`) that the files were on when they were read."""


class RootAvailability:
    """Checks one root, for one event loop.

    `available` is False while the root is missing, and until its first check: the status of the
    root does not hold then. A root that exists is watched once `admit` returns True.
    """

    def __init__(self, root: bytes, known_devices: KnownDevices, threads: RootThreads) -> None:
        self._root = root
        self._known_devices = known_devices
        self._bare_result: tuple[Identity, StaleReason | None] | None = (
            None  # of an empty directory
        )
        self._asked = asyncio.Event()
        self._checked = asyncio.Event()  # replaced after each check
        self._checks = 0
        self._identity_flight = SingleFlight(lambda: directory_identity(root), threads)
        self._check_flight = SingleFlight(lambda: _inspect(root), threads)
        self._identity: Identity | None = None
        self.available = False
        self.admit: Callable[[], Awaitable[bool]] = _admit

    async def wait(self, report_missing: Callable[[StaleReason], None]) -> None:
        """Wait until the root is there and admitted.

        `report_missing` is called at each check that fails, with the reason.
        """
        while True:
            result = await self.check()
            self.available = not isinstance(result, StaleReason)
            if isinstance(result, StaleReason):
                report_missing(result)
            else:
                self._identity = result
                if await self.admit():
                    break
            await self._rest()
        self._checks = 0
        self._announce_check()

    def is_same(self) -> bool:
        """Return whether the root is the directory that `wait` met. Blocking."""
        return directory_identity(self._root) == self._identity

    async def check_same(self) -> bool:
        """Do as `is_same`, for a root whose file system may never answer."""
        return await self._identity_flight.run() == self._identity

    async def wait_response(self) -> None:
        """Wait until the file system of the root answers."""
        await self._identity_flight.run()

    @property
    def unresponsive(self) -> StaleReason | None:
        """The reason to report while the file system does not answer, else None."""
        unresponsive = self._identity_flight.unresponsive or self._check_flight.unresponsive
        return stale_reason("root_unresponsive") if unresponsive else None

    async def check(self) -> Identity | StaleReason:
        """Return the identity of the root, or why its files are not there."""
        result = await self._check_flight.run()
        if result is None or isinstance(result, StaleReason):
            return result or stale_reason("root_missing")
        identity, bare = result
        if not bare:
            self._bare_result = None
            return identity
        if self._bare_result is None or self._bare_result[0] != identity:
            try:
                self._bare_result = (identity, await self._unmounted_reason(identity))
            except StoreUnavailable as error:
                return stale_reason("root_unverified", error=error)
        return self._bare_result[1] or identity

    async def _unmounted_reason(self, identity: Identity) -> StaleReason | None:
        devices = await self._known_devices.devices()
        return stale_reason("root_unmounted") if devices and identity[0] not in devices else None

    async def _rest(self) -> None:
        """Wait until the next check of a root that is not there."""
        self._checks += 1
        self._announce_check()
        self._asked.clear()
        pause_s = ROOT_POLL_S if self._checks < CALM_AFTER else CALM_POLL_S
        try:
            async with asyncio.timeout(seconds_to_tick(pause_s)):
                await self._asked.wait()
        except TimeoutError:
            return

    async def check_again(self) -> None:
        """Start the next check at once, and wait until it has ended."""
        self._asked.set()
        await self._checked.wait()

    def _announce_check(self) -> None:
        event = self._checked
        self._checked = asyncio.Event()
        event.set()


async def _admit() -> bool:
    return True


def _inspect(root: bytes) -> tuple[Identity, bool] | StaleReason | None:
    """Return the identity of the root, and whether it looks like an unused mount point.

    A reason for a root that is reached through a symbolic link, None for a missing one.
    """
    identity = directory_identity(root)
    if identity is None:
        return redirected(root)
    try:
        with opened_directory(root) as handle, os.scandir(handle) as listing:
            return identity, is_bare(listing) and not is_mounted(root, identity[0])
    except OSError:
        return identity, False  # a scan says why


def redirected(root: bytes) -> StaleReason | None:
    """Describe the symbolic link in the path of a root; None if there is none. Blocking."""
    link = first_link(root)
    return None if link is None else stale_reason("root_redirected", link=path_text(link))
