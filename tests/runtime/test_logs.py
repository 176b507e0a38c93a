"""The log of a daemon stays below its bound, whichever process writes to it."""

import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from cocosearchd.runtime import logs

log = logging.getLogger("test")


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, whose handlers a test may replace."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_full_log_is_put_aside_and_others_go_on_writing(
    root: logging.Logger, tmp_path: Path
) -> None:
    path = tmp_path / "cocosearchd.log"
    with path.open("w") as stream:  # not for appending, as launchd opens it
        logs.configure("info", "auto", path, stream)
        (handler,) = root.handlers
        assert isinstance(handler, logs.BoundedHandler)
        handler.max_bytes = 2000
        for number in range(100):
            log.info("event", extra={"number": number})
            assert path.stat().st_size <= handler.max_bytes
        command = [sys.executable, "-c", "import sys; sys.stderr.write('of a library\\n')"]
        subprocess.run(command, stderr=stream, check=True)
        log.info("last")
    lines = path.read_text().splitlines()
    assert lines[-2] == "of a library"
    assert json.loads(lines[-1])["event"] == "last"
    assert "\0" not in path.read_text()
    older_log = path.with_name("cocosearchd.log.1")
    numbers = [json.loads(line)["number"] for line in older_log.read_text().splitlines()]
    numbers += [json.loads(line)["number"] for line in lines[:-2]]
    assert numbers == list(range(numbers[0], 100)), "nothing is lost between the two files"
    assert older_log.stat().st_size <= handler.max_bytes + 300


def test_the_log_is_cut_even_when_it_cannot_be_kept(root: logging.Logger, tmp_path: Path) -> None:
    path = tmp_path / "cocosearchd.log"
    (tmp_path / "cocosearchd.log.1").mkdir()
    (tmp_path / "cocosearchd.log.1" / "cocosearchd.log").mkdir()
    with path.open("a") as stream:
        logs.configure("info", "auto", path, stream)
        assert isinstance(root.handlers[0], logs.BoundedHandler)
        root.handlers[0].max_bytes = 500
        for _ in range(20):
            log.info("event")
    assert path.stat().st_size <= 500


@pytest.mark.parametrize("kind", ["another file", "a pipe", "no file"])
def test_log_files_of_others_are_not_cut(root: logging.Logger, tmp_path: Path, kind: str) -> None:
    path, other_path = tmp_path / "cocosearchd.log", tmp_path / "mine.log"
    if kind != "no file":
        path.touch()
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") if kind == "a pipe" else other_path.open("a") as stream:
        logs.configure("info", "auto", path, stream)
        assert type(root.handlers[0]) is logging.StreamHandler
    os.close(reading)


def test_a_copy_is_as_private_as_the_log(root: logging.Logger, tmp_path: Path) -> None:
    path = tmp_path / "cocosearchd.log"
    path.touch(0o600)
    with path.open("a") as stream:
        logs.configure("info", "auto", path, stream)
        assert isinstance(root.handlers[0], logs.BoundedHandler)
        root.handlers[0].max_bytes = 1
        log.info("event")
    assert stat.S_IMODE((tmp_path / "cocosearchd.log.1").stat().st_mode) == 0o600


@pytest.mark.parametrize("style", ["json", "console"])
def test_an_error_is_logged_without_the_values_around_it(
    root: logging.Logger, tmp_path: Path, style: Literal["json", "console"]
) -> None:
    def fail(secret: str) -> None:
        raise ValueError("why")

    path = tmp_path / "other.log"
    with path.open("w") as stream:
        logs.configure("info", style, None, stream)
        try:
            fail("hunter2" + "0")
        except ValueError:
            log.exception("failed")
    text = path.read_text()
    assert "why" in text
    assert "test_logs.py" in text
    assert "hunter2" not in text.replace('fail("hunter2" + "0")', "")
