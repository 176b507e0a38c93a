"""What the daemon says it takes of memory."""

import os
import subprocess
import sys

from cocosearchd.runtime.process_resources import measure_memory

# A child that takes little, with one of its own that takes 100 MB.
SCRIPT = """
import subprocess, sys
inner = "held = b'x' * 100_000_000; print('ready', flush=True); input()"
subprocess.run([sys.executable, "-c", inner])
"""


def test_the_worker_s_memory_is_its_own_and_its_crew_s() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        found = measure_memory(worker.pid, lambda: ())
        worker.communicate(b"\n")
    assert found["worker"] > 100_000_000
    assert found["total"] == found["daemon"] + found["worker"]
    assert measure_memory(None, lambda: ())["worker"] == 0
    own = measure_memory(None, lambda: (), [os.getpid()])
    assert own["analysis"] > 1_000_000
    assert own["total"] == own["daemon"] + own["analysis"]
    assert measure_memory(worker.pid, lambda: (os.getpid(),))["worker"] == 0
