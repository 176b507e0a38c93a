"""What a restart costs when nothing has changed, and what waiting costs: a root of many small files.

    python -m benchmarks.restart [FILES]

CPU seconds are those of all processes (daemon, worker, PostgreSQL) from their start until `sync` says fresh.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import cpu_seconds, machine
from benchmarks.spine import everything, idling, restarting, say
from tests.daemon import make_daemon


def main() -> None:
    """Index once, then restart three times."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    root = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    for number in range(files):
        path = root / f"package_{number // 100}" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'"""Module {number}."""\n\n\ndef function_{number}(value):\n    return value * {number}\n')
    daemon = make_daemon()
    sys.stdout.write(f"{machine()}\n")
    try:
        daemon.start()
        cpu, began = cpu_seconds(everything(daemon)), time.perf_counter()
        daemon.ctl("up", str(root), "--name", "bench", "--wait", limit_s=3600)
        wall = time.perf_counter() - began
        cpu = cpu_seconds(everything(daemon)) - cpu
        say(f"initial index of {files} files", f"{wall:.1f} s wall, {cpu:.1f} s CPU, {files / wall:.0f} files/s")
        for _ in range(3):
            time.sleep(3)  # files younger than two seconds are read again, because their times prove nothing
            restarting(daemon)
        time.sleep(10)  # the daemon loads MCP three seconds after its start
        idling(daemon)
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
