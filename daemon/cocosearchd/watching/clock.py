"""When: cookies that tell a reader how far hints have come, and the times at which a root is
scanned anyway.
"""

import asyncio
import os
import random
import time
from itertools import count

import anyio

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.runtime.ticks import seconds_to_tick

JITTER = 0.2  # share of the period, so that many roots do not scan at once
QUIET_S = 10.0  # without a hint; looks that no hint replaces may then be rarer
SLEPT_S = 5.0  # a smaller jump between the clocks is their own drift or a busy machine


class CookieVoid(Exception):
    """The watch that should have seen the cookie is no more."""


class Cookies:
    """Files dropped into a watched directory outside of the root: when a cookie is seen, so is all
    before it.
    """

    def __init__(self, sync_dir: bytes) -> None:
        self._sync_dir = sync_dir
        self._waiting: dict[bytes, asyncio.Future[None]] = {}
        self._numbers = count(1)

    async def sync(self) -> None:
        """Returns when every change before the call has been told. Raises `CookieVoid`, and
        `OSError` from the drop.
        """
        name = b"%d-%d" % (os.getpid(), next(self._numbers))
        self._waiting[name] = future = asyncio.get_running_loop().create_future()
        try:
            path = os.path.join(self._sync_dir, name)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            os.unlink(path)
            await future
        finally:
            del self._waiting[name]

    def seen(self, name: bytes) -> None:
        """The hints backend has reached this cookie."""
        future = self._waiting.get(name)
        if future is not None and not future.done():
            future.set_result(None)

    def void(self) -> None:
        """No cookie that is out now will be seen."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(CookieVoid())


class Schedule:
    """When a scan of the whole root is due although nothing asks for it."""

    def __init__(self, settings: WatchingSettings, now: float) -> None:
        self._settings = settings
        self._gap = _sleep_gap()
        self._slept = False
        self._active_at: float | None = None
        self._stirred_at, self._stirred = now, asyncio.Event()
        self.scanned(now)

    def scanned(self, now: float) -> None:
        """The root was scanned."""
        self._due_at = now + self._settings.rescan_s * random.uniform(1 - JITTER, 1 + JITTER)

    def active(self, now: float) -> None:
        """Something changed in the root."""
        self._active_at = self._stirred_at = now
        self._stirred.set()

    async def rest(self, period_s: float, quiet_s: float, *, quiet: bool) -> None:
        """Returns at the next beat: of `quiet_s` while `quiet` and nothing changes, else of
        `period_s`.
        """
        if quiet and time.monotonic() - self._stirred_at > QUIET_S:
            self._stirred.clear()
            with anyio.move_on_after(seconds_to_tick(quiet_s)):
                await self._stirred.wait()
        else:
            await anyio.sleep(seconds_to_tick(period_s))

    def slept(self) -> bool:
        """Whether the machine was asleep, or its clock set, since the last scan that was due to
        that.
        """
        gap = _sleep_gap()
        self._slept |= abs(gap - self._gap) > SLEPT_S
        self._gap = gap
        return self._slept

    def due(self, now: float) -> str | None:
        """Why a scan is due now; None if none is. Each reason is given once."""
        if self.slept():
            self._slept = False
            return "the machine was asleep, or its clock was set"
        if self._active_at is not None and now - self._active_at >= self._settings.idle_rescan_s:
            self._active_at = None
            return "quiet after changes"
        if now >= self._due_at:
            self.scanned(now)
            return "it is time"
        return None


def _sleep_gap() -> float:
    """Seconds; jumps when the machine was suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return time.time() - time.monotonic()
