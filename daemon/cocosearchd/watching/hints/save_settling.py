"""Decides how long a batch of changed files waits for the end of a save. Pure."""

import math
from collections.abc import Iterable

from cocosearchd.watching.hints.base import DirtyHint, DirtyTreeHint

# A save is a truncation, some writes and a close, or a new file that replaces the old one, within
# microseconds. Wait for its end: indexing the empty file in between would be waste.
SAVE_SETTLE_S = 0.003
# Hints with shorter pauses belong to one burst: a program that writes many files is no single save.
BURST_S = 0.05


class SaveSettling:
    """Follows the hints of one root. Times are of one monotonic clock, in seconds.

    A save has ended if one file alone was written in place and is closed. The end of any other save
    is not known: then the pause runs from the last hint.
    """

    def __init__(self) -> None:
        self._hinted_at = -math.inf
        self._burst: set[bytes] = set()  # the first two paths of a burst
        self._in_place = True  # all hints of the burst are writes and closes
        self._closed = False

    def record(self, hints: Iterable[DirtyHint | DirtyTreeHint], hinted_at: float) -> None:
        """Take in hints that came together, in their order."""
        if hinted_at - self._hinted_at > BURST_S:
            self._burst.clear()
            self._in_place = True
        self._hinted_at = hinted_at
        for hint in hints:
            if len(self._burst) < 2:
                self._burst.add(hint.path)
            part = hint.part if isinstance(hint, DirtyHint) else "entry"
            self._in_place = self._in_place and part != "entry"
            self._closed = part == "close"

    def pause(self, time_now: float) -> float:
        """Return the pause in seconds until the batch may be taken; 0 if the save has ended."""
        if self._closed and self._in_place and len(self._burst) == 1:
            return 0.0
        return max(0.0, self._hinted_at + SAVE_SETTLE_S - time_now)
