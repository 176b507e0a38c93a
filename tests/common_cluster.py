"""Runs a command whose tests begin with one cluster, in place of one of each run of pytest:
`python -m tests.common_cluster COMMAND`. The first test that needs it makes it (`tests.conftest`).

Not in a shell: that holds SIGTERM back until the command has ended by itself, and would reach `make`
alone, not the tests that it runs.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

STATE_PREFIX = f"cocosearch-tests-{os.geteuid()}-"  # of directories that the next run removes


def make_state() -> Path:
    """A new directory that every account may enter: as root, PostgreSQL runs as another one."""
    path = Path(tempfile.mkdtemp(prefix=f"{STATE_PREFIX}{os.getpid()}-", dir="/tmp"))
    path.chmod(0o711)
    return path


def read_unstable(folder: Path) -> str:
    """Return the lines about tests that passed only when they were run again."""
    with contextlib.suppress(FileNotFoundError):
        return (folder / "unstable.txt").read_text()
    return ""


def main() -> int:
    """Return the exit code of the command, 128 + its number for a signal.

    Each signal to end interrupts all processes of the command like Ctrl-C, so that tests tidy up.
    """
    folder = make_state()
    environment = os.environ | {"TESTS_CLUSTER": str(folder)}
    try:
        process = subprocess.Popen(sys.argv[1:], env=environment, process_group=0)

        def interrupt(*_: object) -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        code = process.wait()
        print(read_unstable(folder), end="", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
