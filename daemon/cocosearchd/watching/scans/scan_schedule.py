"""The schedule of scans that no hint starts, and of reviews, which no scan postpones."""

import asyncio
import random
import time

import anyio

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.runtime.ticks import seconds_to_tick

JITTER = 0.2  # share of the period, so that many roots do not scan at once
QUIET_S = 10.0  # after this time without a hint, ticks may be rarer
SLEPT_S = 5.0  # a smaller jump between the clocks is drift, or shows a busy machine


class ScanSchedule:
    """The times at which a scan of the whole root is due without a hint or a request.

    A scan for another reason postpones the next periodic scan: a polled root never has one. A
    review is due once a period all the same.
    """

    def __init__(self, settings: WatchingSettings, now: float) -> None:
        self._settings = settings
        self._sleep_gap = _sleep_gap()
        self._slept = False
        self._active_at: float | None = None  # None after the scan for this activity
        self._last_active_at = now
        self._activity = asyncio.Event()
        self.record_scan(now)
        self.record_review(now)

    def record_scan(self, now: float) -> None:
        """Plan the next periodic scan: the root was scanned."""
        self._due_at = now + self._random_period_s()

    def record_review(self, now: float) -> None:
        """Plan the next review."""
        self._review_at = now + self._random_period_s()

    def is_review_due(self, now: float) -> bool:
        """Return whether a period has passed since the last review."""
        return now >= self._review_at

    def record_activity(self, now: float) -> None:
        """Record that the root has changed."""
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
        """Return whether the machine slept, or its clock was set, since `due` last gave this reason."""
        gap = _sleep_gap()
        self._slept |= abs(gap - self._sleep_gap) > SLEPT_S
        self._sleep_gap = gap
        return self._slept

    def due(self, now: float, *, scanning: bool = False) -> str | None:
        """Return why a scan is due now; None if none is. Each reason is returned once.

        While the root is `scanning`, no periodic scan is due: after a scan that took longer than a
        period, the next one would begin at once.
        """
        if self.slept():
            self._slept = False
            return "the machine was asleep, or its clock was set"
        if self._active_at is not None and now - self._active_at >= self._settings.idle_rescan_s:
            self._active_at = None
            return "quiet after changes"
        if now >= self._due_at and not scanning:
            self.record_scan(now)
            return "it is time"
        return None

    def _random_period_s(self) -> float:
        return self._settings.rescan_s * random.uniform(1 - JITTER, 1 + JITTER)


def _sleep_gap() -> float:
    """Return the difference of two clocks in seconds; it jumps when the machine was suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return time.time() - time.monotonic()
