"""Runs pytest, and runs a few tests that failed once more:
`python -m tests.run_part FOLDER ARGUMENTS`, with temporary files of the tests in `FOLDER`.

A test that fails, and then passes, is unstable: it is named at the end of all parts, with its first
failure in the output above. It is a fault to mend, in the test or in the product, but not one of
the change that is tested.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

# A change that breaks more tests than these is not merely unlucky.
MAX_UNSTABLE = 3
# The exit code of pytest: https://docs.pytest.org/en/stable/reference/exit-codes.html
TESTS_FAILED = 1
CACHE_KEY = "part/outcomes"


class Outcomes(NamedTuple):
    """The tests of one run that failed, and those that passed."""

    failed: list[str]
    passed: list[str]
    has_shared_failure: bool  # at the end of what several tests share, such as a daemon


class OutcomePlugin:
    """Writes the outcomes to the cache of pytest, unless the run stopped early."""

    def __init__(self) -> None:
        """Start without tests."""
        self._failed = dict[str, None]()
        self._passed = dict[str, None]()
        self._is_last_of_file = False
        self._has_shared_failure = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Note whether fixtures that several tests share may end now."""
        self._is_last_of_file = nextitem is None or nextitem.path != item.path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a step of a test."""
        if report.failed:
            self._failed[report.nodeid] = None
            self._has_shared_failure |= report.when == "teardown" and self._is_last_of_file
        elif report.passed and report.when == "call":
            self._passed[report.nodeid] = None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the outcomes: `-x` leaves tests out."""
        if session.config.cache is not None and not session.shouldfail:
            outcomes = Outcomes(list(self._failed), list(self._passed), self._has_shared_failure)
            session.config.cache.set(CACHE_KEY, outcomes)


def pytest_configure(config: pytest.Config) -> None:
    """Note the outcomes of the tests: this module is a plugin as well."""
    config.pluginmanager.register(OutcomePlugin())


def run_pytest(arguments: Sequence[str], folder: Path, number: int) -> tuple[int, Outcomes]:
    """Return the exit code of pytest, and the outcomes of a run to its end.

    Each run has a directory of its own: pytest cannot remove a very deep one.
    """
    outcomes = folder / "cache" / "v" / CACHE_KEY
    outcomes.unlink(missing_ok=True)
    plugin = ["-p", "tests.run_part", "-o", f"cache_dir={folder / 'cache'}"]
    base = ["--basetemp", str(folder / str(number))]
    with subprocess.Popen([sys.executable, "-m", "pytest", *plugin, *arguments, *base]) as process:
        code = process.wait()
    if not outcomes.exists():
        return code, Outcomes([], [], has_shared_failure=False)
    return code, Outcomes(*json.loads(outcomes.read_text()))


def report_unstable(tests: Sequence[str]) -> None:
    """Name unstable tests, at the end of all parts too where `tests.common_cluster` runs them."""
    lines = "".join(f"UNSTABLE {test}: failed, and passed when run again\n" for test in tests)
    print(lines, end="", flush=True)
    if folder := os.environ.get("TESTS_CLUSTER"):
        with Path(folder, "unstable.txt").open("a") as file:
            file.write(lines)


def run_again(arguments: Sequence[str], folder: Path, first: Outcomes) -> int:
    """Run what failed once more; return 0 if all of it passes.

    What several tests share may fail at its end by what any of them did: all run again.
    """
    print(f"Running the {len(first.failed)} failed again", flush=True)
    selection = [] if first.has_shared_failure else ["--last-failed"]
    code, second = run_pytest([*arguments, *selection], folder, 2)
    if code == 0 and not set(first.failed) <= set(second.passed):
        print("Not all of them ran again to their end", flush=True)
        return TESTS_FAILED
    if code == 0:
        report_unstable(first.failed)
    return code


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Return the exit code of pytest: of the second run, where there is one.

    Ctrl-C reaches pytest as well, which tidies up: this process only waits for it.
    """
    interruptions = list[int]()
    signal.signal(signal.SIGINT, lambda number, _: interruptions.append(number))
    code, outcomes = run_pytest(arguments, folder, 1)
    is_unlucky = code == TESTS_FAILED and 0 < len(outcomes.failed) <= MAX_UNSTABLE
    if interruptions or not is_unlucky:
        return code
    return run_again(arguments, folder, outcomes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
