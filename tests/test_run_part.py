"""Tests that failed are run once more, and those that then pass are named."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.run_part import MAX_UNSTABLE

PASSES_THE_SECOND_TIME = """
import pathlib
def test_unstable():
    flag = pathlib.Path(__file__).with_name("ran")
    ran = flag.exists()
    flag.touch()
    assert ran
def test_stable():
    count = pathlib.Path(__file__).with_name("count")
    count.write_text((count.read_text() if count.exists() else "") + "x")
"""
VERY_DEEP = """
import os, pathlib
def test_unstable(tmp_path):
    flag = pathlib.Path(__file__).with_name("ran")
    ran = flag.exists()
    flag.touch()
    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=handle)
        below = os.open("a", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    assert ran
"""
SHARED_FAILS_AT_ITS_END = """
import pytest
@pytest.fixture(scope="session")
def shared():
    users = []
    yield users
    assert len(users) < 2
@pytest.mark.parametrize("number", range(2))
def test_user(shared, number):
    shared.append(number)
"""
SKIPPED_THE_SECOND_TIME = """
import pathlib, pytest
def test_unstable():
    flag = pathlib.Path(__file__).with_name("ran")
    if flag.exists():
        pytest.skip("ran")
    flag.touch()
    assert False
"""
HAS_ANOTHER_NAME_EACH_TIME = """
import os, pathlib, pytest
flag = pathlib.Path(__file__).with_name("ran")
@pytest.mark.parametrize("process", [os.getpid()])
def test_unstable(process):
    ran = flag.exists()
    flag.touch()
    assert ran
"""
INTERRUPTED_AT_THE_END = """
import atexit, os, signal
atexit.register(os.kill, os.getppid(), signal.SIGINT)
"""
FAILS = "def test_broken(): assert False\n"
MANY_FAIL_ONCE = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({}))
def test_unstable(number):
    flag = pathlib.Path(__file__).with_name(f"ran{{number}}")
    ran = flag.exists()
    flag.touch()
    assert ran
"""


def run_part(tmp_path: Path, text: str, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, the output, and the names that the end of all parts would show."""
    (tmp_path / "project").mkdir()
    (tmp_path / "files").mkdir()
    (tmp_path / "project" / "test_project.py").write_text(text)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "tests.run_part", str(tmp_path / "files")),
            *("-q", *arguments, str(tmp_path / "project")),
        ],
        cwd=Path(__file__).parents[1],
        env={
            "PATH": "/usr/bin:/bin",
            "TESTS_CLUSTER": str(tmp_path),
            "PYTEST_ADDOPTS": "-c /dev/null",
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    unstable = tmp_path / "unstable.txt"
    return run.returncode, run.stdout, unstable.read_text() if unstable.exists() else ""


def test_a_test_that_passes_the_second_time_is_named_and_no_failure(tmp_path: Path) -> None:
    code, output, unstable = run_part(tmp_path, PASSES_THE_SECOND_TIME)
    assert code == 0
    assert "assert ran" in output, "the first failure is shown"
    assert "test_unstable: failed, and passed when run again" in unstable
    assert unstable in output
    assert "test_stable" not in unstable
    assert (tmp_path / "project" / "count").read_text() == "x", "only failed tests run again"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(FAILS, id="fails again"),
        pytest.param(MANY_FAIL_ONCE.format(MAX_UNSTABLE + 1), id="too many"),
        pytest.param(PASSES_THE_SECOND_TIME + FAILS, id="one of two fails again"),
        pytest.param(SHARED_FAILS_AT_ITS_END, id="all together fail again"),
        pytest.param(SKIPPED_THE_SECOND_TIME, id="skipped when run again"),
        pytest.param(HAS_ANOTHER_NAME_EACH_TIME, id="another name each time"),
    ],
)
def test_other_failures_stay(tmp_path: Path, text: str) -> None:
    code, _, unstable = run_part(tmp_path, text)
    assert (code, unstable) == (1, "")


def test_a_test_with_a_very_deep_directory_runs_again(tmp_path: Path) -> None:
    code, output, unstable = run_part(tmp_path, VERY_DEEP)
    subprocess.run(["rm", "-rf", tmp_path / "files"], check=True)  # Python cannot remove it
    assert code == 0, output
    assert "test_unstable" in unstable


def test_tests_that_never_ran_do_not_pass(tmp_path: Path) -> None:
    code, output, unstable = run_part(tmp_path, PASSES_THE_SECOND_TIME + FAILS, "-x")
    assert (code, unstable) == (1, "")
    assert "Running" not in output


def test_nothing_runs_again_after_ctrl_c(tmp_path: Path) -> None:
    code, output, unstable = run_part(tmp_path, PASSES_THE_SECOND_TIME + INTERRUPTED_AT_THE_END)
    assert (code, unstable) == (1, "")
    assert "Running" not in output


def test_a_module_that_cannot_be_imported_is_a_failure(tmp_path: Path) -> None:
    code, output, unstable = run_part(tmp_path, "import missing_module\n")
    assert (code, unstable) == (2, "")
    assert "Running" not in output
