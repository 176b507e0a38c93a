"""The memory that the daemon reports."""

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


def test_the_workers_memory_includes_its_own_workers() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        usage = measure_memory(worker.pid, lambda: ())
        worker.communicate(b"\n")
    assert usage["worker"] > 100_000_000
    assert usage["total"] == usage["daemon"] + usage["worker"]
    assert measure_memory(None, lambda: ())["worker"] == 0
    own_usage = measure_memory(None, lambda: (), [os.getpid()])
    assert own_usage["analysis"] > 1_000_000
    assert own_usage["total"] == own_usage["daemon"] + own_usage["analysis"]
    assert measure_memory(worker.pid, lambda: (os.getpid(),))["worker"] == 0
