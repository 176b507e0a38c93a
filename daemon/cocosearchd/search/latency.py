"""Records the durations of answers: a count since the start, and a window of the latest durations."""

from collections import deque
from typing import Any

WINDOW = 120  # answers: the width of a sparkline; percentiles of more answers would be outdated


class Latency:
    """The durations of the latest answers, in milliseconds."""

    def __init__(self) -> None:
        self._count = 0
        self._recent = deque[float](maxlen=WINDOW)

    def add(self, duration_ms: float) -> None:
        """Add the duration of one answer."""
        self._count += 1
        self._recent.append(duration_ms)

    def summary(self) -> dict[str, Any]:
        """Return `count`, and percentiles and durations of the last `WINDOW` answers.

        `p50_ms` and `p95_ms` use the nearest rank. `recent_ms` lists the durations, oldest first.
        Without answers there are no percentiles.
        """
        if not self._recent:
            return {"count": self._count, "recent_ms": []}
        ranked = sorted(self._recent)
        percentiles = {
            f"p{percent}_ms": ranked[(len(ranked) - 1) * percent // 100] for percent in (50, 95)
        }
        return {"count": self._count, **percentiles, "recent_ms": list(self._recent)}
