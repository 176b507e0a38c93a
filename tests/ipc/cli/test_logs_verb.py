"""`cocosearchctl logs`: the end of the log, for people and programs, and `-f`."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ipc.cli.test_cli import CTL

RECORD = {
    "event": "ready",
    "level": "info",
    "logger": "cocosearchd",
    "timestamp": "2026-01-02T03:04:05.6Z",
    "port": 7,
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    variables = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return variables | {"COCOSEARCH_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}


def logs(env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CTL, "logs", *options], env=env, capture_output=True, text=True, timeout=120
    )


def test_without_a_log(env: dict[str, str], tmp_path: Path) -> None:
    done = logs(env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"error: there is no log at {tmp_path}/cocosearchd.log — hint: start the daemon"
    )


def test_the_last_records_are_readable(env: dict[str, str], tmp_path: Path) -> None:
    lines = [
        *(json.dumps(RECORD | {"port": n}) for n in range(30)),
        "a library's \x1b[31mline",
        json.dumps(RECORD),
    ]
    (tmp_path / "cocosearchd.log").write_text("".join(f"{line}\n" for line in lines))
    assert logs(env, "-n", "2").stdout.splitlines() == [
        r"a library's \x1b[31mline",
        "2026-01-02T03:04:05 info    ready logger=cocosearchd port=7",
    ]
    assert len(logs(env).stdout.splitlines()) == 32
    assert json.loads(logs(env, "--json", "-n", "1").stdout) == RECORD
    assert logs(env, "-n", "0").stdout == ""


@pytest.fixture
def following(env: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "cocosearchd.log").write_text("before\n")
    with subprocess.Popen(
        [*CTL, "logs", "-f"], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_following_goes_on_after_the_daemon_has_cut_its_log(
    following: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert following.stdout is not None
    assert following.stdout.readline() == "before\n"
    with (tmp_path / "cocosearchd.log").open("a") as log:
        log.write("ha")
        log.flush()
        threading.Event().wait(0.3)  # half a line is not shown
        log.write("lf\nnext\n")
        log.flush()
        assert [following.stdout.readline() for _ in range(2)] == ["half\n", "next\n"]
        log.truncate(0)
        threading.Event().wait(0.5)
        log.write("after\n")
        log.flush()
    assert following.stdout.readline() == "after\n"


def test_following_goes_on_after_the_log_was_put_aside(
    following: subprocess.Popen[str], tmp_path: Path
) -> None:
    """A start does so with a large one: nothing more comes to the old file."""
    assert following.stdout is not None
    assert following.stdout.readline() == "before\n"
    log = tmp_path / "cocosearchd.log"
    with log.open("a") as old:
        old.write("last\n")
    log.replace(tmp_path / "cocosearchd.log.1")
    log.write_text("first of another\n")
    assert [following.stdout.readline() for _ in range(2)] == ["last\n", "first of another\n"]


@pytest.mark.parametrize("level", ["\x1b[2J", ["\x1b[2J"], {"a": 1}, None])
def test_no_level_of_a_record_controls_the_terminal(
    env: dict[str, str], tmp_path: Path, level: object
) -> None:
    (tmp_path / "cocosearchd.log").write_text(json.dumps(RECORD | {"level": level}) + "\n")
    done = logs(env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("ready logger=cocosearchd port=7\n")
    assert done.stdout.removesuffix("\n").isprintable()
