"""`cocosearchctl bench` through a real daemon: figures of everything, and nothing left behind."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import Daemon


@pytest.fixture
def scratch(shared: Daemon) -> Iterator[Path]:
    """A directory for the scratch directories of a measurement."""
    directory = Path(tempfile.mkdtemp(prefix="cocosearch-test-"))
    shared.variables["TMPDIR"] = str(directory)
    yield directory
    del shared.variables["TMPDIR"]
    directory.rmdir()


def begun(daemon: Daemon, *options: str) -> "subprocess.Popen[bytes]":
    """A run that has made its index."""
    process = subprocess.Popen(
        [daemon.bin / "cocosearchctl", "bench", *options],
        env=daemon.environment,
        stderr=subprocess.PIPE,
    )
    while not any(
        "cocosearch-bench-" in index["name"] for index in daemon.call("list_indexes")["indexes"]
    ):
        assert process.poll() is None
        time.sleep(0.05)
    return process


def test_a_run_measures_everything_and_leaves_nothing(
    shared: Daemon, project: Path, scratch: Path
) -> None:
    shared.ctl("up", str(project))
    killed = begun(shared, "--files", "20")
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=120)
    assert len(list(scratch.iterdir())) == 1
    report = shared.json("bench", "--files", "20")
    assert report["asked"] == "project"
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert {
        "index: files",
        "index: CPU of a file",
        "index: CPU of a MB",
        "index: rows, to the files",
        "save to answer",
        "question, cold",
        "question, cached",
        "cocosearchctl query: CPU",
    } <= set(figures)
    assert all(figure["p50"] > 0 for figure in figures.values())
    assert (figures["save to answer"]["n"], figures["question, cold"]["n"]) == (10, 30)
    assert report["machine"]["cpus"] >= 1
    assert report["rss_bytes"]["total"] > 0
    assert shared.ctl("list", "--names").stdout == "project\n", (
        "what the killed run left is gone as well"
    )
    assert list(scratch.iterdir()) == []


def test_ctrl_c_leaves_nothing(shared: Daemon, scratch: Path) -> None:
    process = begun(shared, "--files", "20")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120)[1] == b""
    assert process.returncode == 130
    assert shared.ctl("list", "--names").stdout == ""
    assert list(scratch.iterdir()) == []


def test_a_directory_of_the_user_is_measured_in_a_copy(
    shared: Daemon, project: Path, scratch: Path
) -> None:
    (project / ".git").mkdir(exist_ok=True)
    (project / ".git" / "large").write_bytes(bytes(1 << 20))
    os.mkfifo(project / "pipe.py")
    (project / os.fsdecode(b"odd\xff.py")).write_text("def odd():\n    return 1\n")
    paths = sorted(project.rglob("*"))
    report = shared.json("bench", "--tree", str(project))
    figures = {figure["name"]: figure["p50"] for figure in report["figures"]}
    assert 0 < figures["index: CPU of a file"] < 10_000
    assert figures["index: rows, to the files"] > 0
    assert sorted(project.rglob("*")) == paths
    assert list(scratch.iterdir()) == []
    missing = shared.ctl("bench", "--tree", str(project / "missing"), check=False)
    assert missing.returncode != 0
    assert "cannot be copied: No such file or directory — hint" in missing.stderr
    assert list(scratch.iterdir()) == []
