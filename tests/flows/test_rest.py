"""A daemon at rest sleeps: its periodic work shares few wake-ups."""

import sys
import time
from pathlib import Path

import pytest

from tests.daemon import Daemon

SETTLE_S = 15.0  # ticks are rare 10 s after the last save
MEASURED_S = 25.0  # a multiple of the tick at rest
# 0.76 a second on a machine with a load of 15. When periodic tasks had pauses of their own, and ran
# twice at a tick, there were 2.68.
MAX_WAKE_UPS = 1.6


def count_waits(thread: int) -> int:
    """Return how often a thread has waited of its own accord since it began."""
    lines = Path(f"/proc/{thread}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt")).split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts the waits of a thread")
def test_the_event_loop_of_a_daemon_at_rest_wakes_rarely(daemon: Daemon, project: Path) -> None:
    daemon.index(project, "resting")
    (project / "src" / "retry.py").write_text("def resting_word(): ...\n")
    assert daemon.paths("resting_word")
    loop_thread = daemon.call("status")["pid"]
    time.sleep(SETTLE_S)
    waits_before = count_waits(loop_thread)
    time.sleep(MEASURED_S)
    assert (count_waits(loop_thread) - waits_before) / MEASURED_S <= MAX_WAKE_UPS
