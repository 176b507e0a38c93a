"""Common ticks for periodic work: an idle machine then wakes once for all parts."""

import time


def seconds_to_tick(period_s: float) -> float:
    """Return the seconds to the next multiple of a period on the monotonic clock."""
    return period_s - time.monotonic() % period_s
