"""How long the last answers took, for people and graphs. Counts since the start, a window of
times.
"""

from collections import deque
from typing import Any

WINDOW = 120  # a sparkline's width; a percentile of more would speak of yesterday


class Latency:
    """Records answers. Times are milliseconds."""

    def __init__(self) -> None:
        self._count = 0
        self._recent = deque[float](maxlen=WINDOW)

    def add(self, took_ms: float) -> None:
        """One answer more."""
        self._count += 1
        self._recent.append(took_ms)

    def summary(self) -> dict[str, Any]:
        """`count`, and of the last `WINDOW` answers `p50_ms`, `p95_ms` (nearest rank) and all, the
        oldest first.
        """
        if not self._recent:
            return {"count": self._count, "recent_ms": []}
        ranked = sorted(self._recent)
        at = {f"p{percent}_ms": ranked[(len(ranked) - 1) * percent // 100] for percent in (50, 95)}
        return {"count": self._count, **at, "recent_ms": list(self._recent)}
