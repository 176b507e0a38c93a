"""Common ticks for periodic work: an idle machine then wakes once for all parts."""

import time

# The period of the watchdog, and of checks for a caller who watches a part.
LIVENESS_TICK_S = 5.0
# The period of checks at rest. Longer periods are multiples of it.
REST_TICK_S = 10.0
# libuv's timers end up to a millisecond early. Work that ran then would run again at the tick.
EARLY_S = 0.005


def seconds_to_tick(period_s: float) -> float:
    """Return the seconds to the next multiple of a period on the monotonic clock.

    A multiple that is less than `EARLY_S` away counts as reached.
    """
    remaining_s = period_s - time.monotonic() % period_s
    return remaining_s + period_s if remaining_s < EARLY_S else remaining_s
