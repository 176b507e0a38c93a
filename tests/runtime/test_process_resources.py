"""The memory that the daemon reports."""

import os
import subprocess
import sys

import pytest

from cocosearchd.runtime.process_resources import measure_cpu, measure_memory

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


# A child that uses a tenth of a second, by a child of its own that has ended.
BUSY = """
import subprocess, sys
inner = "import time\\nwhile time.process_time() < .2: pass"
subprocess.run([sys.executable, "-c", inner])
print("ready", flush=True); input()
"""


def test_the_workers_cpu_includes_workers_that_have_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        usage = measure_cpu(worker.pid, lambda: (), [os.getpid()])
        worker.communicate(b"\n")
    assert usage["worker"] >= 0.15  # the system counts in steps
    assert usage["analysis"] >= usage["daemon"] > 0
    assert usage["postgres"] == 0
    parts = usage["daemon"] + usage["worker"] + usage["analysis"]
    assert usage["total"] == pytest.approx(parts, abs=0.01)
    assert measure_cpu(worker.pid, lambda: ())["worker"] == 0


RAISE_LIMIT = """
import resource, sys
from cocosearchd.runtime.process_resources import raise_file_limit
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
raise_file_limit((512, 400))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("limits", "raised"),
    [((64, 300), 300), ((64, 900), 512), ((700, 900), 700), ((450, 450), 450)],
    ids=["to the hard limit", "to the wanted limit", "never lower", "no more to have"],
)
def test_raises_the_limit_of_open_files(limits: tuple[int, int], raised: int) -> None:
    soft, hard = limits
    output = subprocess.run(
        [sys.executable, "-c", RAISE_LIMIT, str(soft), str(hard)], check=True, capture_output=True
    ).stdout
    assert output.split() == [b"%d" % raised, b"%d" % hard]
