"""Cookies, which tell how far hints have come, and the schedule of periodic scans."""

import asyncio
import os
import random
import time
from itertools import count

import anyio

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.runtime.ticks import seconds_to_tick

JITTER = 0.2  # share of the period, so that many roots do not scan at once
QUIET_S = 10.0  # without a hint; checks that no hint replaces may then be rarer
SLEPT_S = 5.0  # a smaller jump between the clocks is their own drift or a busy machine


class CookieVoid(Exception):
    """The watch that should have seen the cookie has ended."""


class Cookies:
    """Files dropped into a watched directory outside of the root.

    When the hints backend reports a cookie, it has reported all that changed before.
    """

    def __init__(self, sync_dir: bytes) -> None:
        self._sync_dir = sync_dir
        self._waiting: dict[bytes, asyncio.Future[None]] = {}
        self._numbers = count(1)

    async def sync(self) -> None:
        """Wait until every change before the call has been reported.

        Raises `CookieVoid`, and `OSError` if the cookie cannot be dropped.
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

    def resolve(self, name: bytes) -> None:
        """End the wait for a cookie that the hints backend has reported."""
        future = self._waiting.get(name)
        if future is not None and not future.done():
            future.set_result(None)

    def void(self) -> None:
        """Fail all waits: no cookie that is out now will be reported."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(CookieVoid())


class Schedule:
    """The times at which a scan of the whole root is due although nothing asks for it."""

    def __init__(self, settings: WatchingSettings, now: float) -> None:
        self._settings = settings
        self._sleep_gap = _sleep_gap()
        self._slept = False
        self._active_at: float | None = None  # None after the scan for this activity
        self._last_active_at = now
        self._activity = asyncio.Event()
        self.record_scan(now)

    def record_scan(self, now: float) -> None:
        """Plan the next periodic scan: the root was scanned."""
        self._due_at = now + self._settings.rescan_s * random.uniform(1 - JITTER, 1 + JITTER)

    def record_activity(self, now: float) -> None:
        """Note that something changed in the root."""
        self._active_at = now
        self._last_active_at = now
        self._activity.set()

    async def wait_tick(self, period_s: float, quiet_s: float, *, quiet: bool) -> None:
        """Wait for the next tick, after `period_s`.

        While `quiet` and nothing changes, after `quiet_s`.
        """
        if quiet and time.monotonic() - self._last_active_at > QUIET_S:
            self._activity.clear()
            with anyio.move_on_after(seconds_to_tick(quiet_s)):
                await self._activity.wait()
        else:
            await anyio.sleep(seconds_to_tick(period_s))

    def slept(self) -> bool:
        """Return whether the machine slept, or its clock was set, since the last scan for that."""
        gap = _sleep_gap()
        self._slept |= abs(gap - self._sleep_gap) > SLEPT_S
        self._sleep_gap = gap
        return self._slept

    def due(self, now: float) -> str | None:
        """Return why a scan is due now; None if none is. Each reason is returned once."""
        if self.slept():
            self._slept = False
            return "the machine was asleep, or its clock was set"
        if self._active_at is not None and now - self._active_at >= self._settings.idle_rescan_s:
            self._active_at = None
            return "quiet after changes"
        if now >= self._due_at:
            self.record_scan(now)
            return "it is time"
        return None


def _sleep_gap() -> float:
    """Return the difference of two clocks in seconds; it jumps when the machine was suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return time.time() - time.monotonic()
