"""Runs pytest, and runs a few tests that failed once more: `python -m tests.run_part ARGUMENTS`.

A test that fails, and then passes, is unstable: it is named at the end of all parts, with its first
failure in the output above. It is a fault to mend, in the test or in the product, but not one of
the change that is tested.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

# A change that breaks more tests than these is not merely unlucky.
MAX_UNSTABLE = 3
TESTS_FAILED = (
    1  # the exit code of pytest, https://docs.pytest.org/en/stable/reference/exit-codes.html
)


def run_pytest(arguments: Sequence[str], *, cache: str) -> int:
    """Return the exit code of pytest, which keeps the names of failed tests in `cache`.

    Ctrl-C reaches pytest as well, which tidies up: this process only waits for it.
    """
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    signal.signal(signal.SIGINT, lambda *_: None)
    with subprocess.Popen(command) as process:
        return process.wait()


def read_failed(cache: str) -> list[str]:
    """Return the names of the tests that failed in the last run."""
    with contextlib.suppress(FileNotFoundError):
        return list(json.loads(Path(cache, "v", "cache", "lastfailed").read_text()))
    return []


def report_unstable(tests: Sequence[str]) -> None:
    """Name unstable tests, at the end of all parts too where `tests.common_cluster` runs them."""
    lines = "".join(f"UNSTABLE {test}: failed, and passed when run again\n" for test in tests)
    print(lines, end="", flush=True)
    if folder := os.environ.get("TESTS_CLUSTER"):
        with Path(folder, "unstable.txt").open("a") as file:
            file.write(lines)


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of pytest: of the second run, where there is one."""
    with tempfile.TemporaryDirectory(prefix="cocosearch-pytest-") as cache:
        code = run_pytest(arguments, cache=cache)
        failed = read_failed(cache)
        if code != TESTS_FAILED or not 0 < len(failed) <= MAX_UNSTABLE:
            return code
        print(f"Running the {len(failed)} failed again", flush=True)
        code = run_pytest([*arguments, "--last-failed"], cache=cache)
        if code == 0:
            report_unstable(failed)
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
