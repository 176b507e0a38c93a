"""A daemon at rest sleeps: its periodic work shares few wake-ups."""

import sys
import time
from pathlib import Path

import pytest

from tests.daemon import Daemon

SETTLE_S = 15.0  # ticks are rare 10 s after the last save
MEASURED_S = 30.0  # a multiple of the ticks at rest
SAMPLE_S = 0.05
# The work of one wake-up waits often, for other threads and for PostgreSQL: waits that follow each
# other within this time are of one wake-up.
PAUSE_S = 0.5
# 0.36 a second on a quiet machine when all ticks came every 5 s: the ticks, and a few other timers.
# A task that ticks each second adds 1 unless it shares.
MAX_WAKE_UPS = 0.8
# A busy machine ends the work after a save late; a daemon that never rests fails each time.
MEASUREMENTS = 6


def count_waits(thread: int) -> int:
    """Return how often a thread has waited of its own accord since it began."""
    lines = Path(f"/proc/{thread}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt")).split()[1])


def measure_wake_ups(thread: int) -> float:
    """Return how often a second a thread wakes up after a pause."""
    end = time.monotonic() + MEASURED_S
    wake_ups = 0
    waits = count_waits(thread)
    changed_at = -PAUSE_S
    while (sampled_at := time.monotonic()) < end:
        if waits != (waits := count_waits(thread)):
            wake_ups += sampled_at - changed_at > PAUSE_S
            changed_at = sampled_at
        time.sleep(SAMPLE_S)
    return wake_ups / MEASURED_S


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts the waits of a thread")
def test_the_event_loop_of_a_daemon_at_rest_wakes_rarely(daemon: Daemon, project: Path) -> None:
    daemon.index(project, "resting")
    (project / "src" / "retry.py").write_text("def resting_word(): ...\n")
    assert daemon.paths("resting_word")
    loop_thread = daemon.call("status")["pid"]
    time.sleep(SETTLE_S)
    rates = [measure_wake_ups(loop_thread)]
    while rates[-1] > MAX_WAKE_UPS and len(rates) < MEASUREMENTS:
        rates.append(measure_wake_ups(loop_thread))
    assert rates[-1] <= MAX_WAKE_UPS, rates
