"""A command with a cluster for all of its tests ends as the command alone would, and leaves nothing."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = """
import os, pathlib, signal, sys
folder = pathlib.Path(os.environ["TESTS_CLUSTER"])
(folder / "made").mkdir()
print(folder, flush=True)
(folder / "unstable.txt").write_text("UNSTABLE test\\n" * (sys.argv[1:] == ["unstable"]))
if sys.argv[1:] == ["waits"]:
    signal.pause()
sys.exit(3)
"""


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """The running command, and its directory."""
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.common_cluster", *command],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def test_the_exit_code_of_the_command_is_returned() -> None:
    with running() as (process, folder):
        assert process.wait(60) == 3
    assert folder.name.startswith("cocosearch-tests-")
    assert not folder.exists()


def test_unstable_tests_are_named_at_the_end() -> None:
    with running("unstable") as (process, _):
        assert process.stdout is not None
        assert process.stdout.read() == "UNSTABLE test\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_interrupts_what_the_command_runs(number: signal.Signals) -> None:
    with running("waits") as (process, folder):
        assert folder.is_dir()
        process.send_signal(number)
        assert process.wait(60) == 128 + signal.SIGINT
        assert process.stdout is not None
        assert process.stdout.read() == "", "nobody has it open any more"
    assert not folder.exists()
