"""Times of the latest answers: a count since the start, and a window of times."""

from collections import deque
from typing import Any

WINDOW = 120  # answers: a sparkline's width; percentiles of more would be about yesterday


class Latency:
    """Records answers. Times are milliseconds."""

    def __init__(self) -> None:
        self._count = 0
        self._recent = deque[float](maxlen=WINDOW)

    def add(self, duration_ms: float) -> None:
        """Add the time of one answer."""
        self._count += 1
        self._recent.append(duration_ms)

    def summary(self) -> dict[str, Any]:
        """Return `count`, and percentiles and times of the last `WINDOW` answers.

        `p50_ms` and `p95_ms` are by nearest rank; `recent_ms` lists the times, oldest first.
        Without answers there are no percentiles.
        """
        if not self._recent:
            return {"count": self._count, "recent_ms": []}
        ranked = sorted(self._recent)
        percentiles = {
            f"p{percent}_ms": ranked[(len(ranked) - 1) * percent // 100] for percent in (50, 95)
        }
        return {"count": self._count, **percentiles, "recent_ms": list(self._recent)}
