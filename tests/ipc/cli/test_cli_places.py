"""`cocosearchctl` in unusual surroundings: closed streams, no current directory, a daemon
elsewhere.
"""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from cocosearch_ipc import address
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.questions import editor
from cocosearch_ipc.cli.running import daemon_process
from cocosearch_ipc.client import CallFailed
from cocosearch_ipc.render import answers, line_range, output
from cocosearchd.forms.path_forms import path_text
from tests.ipc.cli.test_cli import CTL, ctl
from tests.ipc.conftest import Served
from tests.ipc.render.test_render import hit, reply

# Presses Ctrl-C as a module is looked for that the program imports before its first line runs.
INTERRUPTED_IMPORT = """
import signal, sys

class Interruption:
    def find_spec(self, name, *_):
        if name == "{module}":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interruption())
from cocosearch_ipc.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["client", "render.output", "cli.parser"])
def test_an_interrupt_while_the_program_is_loaded_leaves_no_traceback(module: str) -> None:
    script = INTERRUPTED_IMPORT.format(module=f"cocosearch_ipc.{module}")
    done = subprocess.run(
        [sys.executable, "-c", script, "languages"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (exits.INTERRUPTED, "", "")


def test_a_start_that_shall_wait_and_not_wait_is_refused(served: Served, tmp_path: Path) -> None:
    done = ctl(served, "up", str(tmp_path), "--wait", "--no-wait")
    assert (done.returncode, done.stdout) == (exits.USAGE, "")
    assert done.stderr == (
        "error: argument --no-wait: not allowed with argument --wait — hint: cocosearchctl up --help\n"
    )
    assert not served.engine.requests


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("line", ["status", "query x --index nope", "clear demo"])
def test_a_standard_stream_that_is_closed_goes_nowhere(
    served: Served, closed: str, line: str
) -> None:
    usual = ctl(served, *line.split(), stdin=subprocess.DEVNULL)
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *CTL, *line.split()]
    done = subprocess.run(
        command, env=served.environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == usual.returncode
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "line", ["up .", "query retry --index demo --format grep", "init", "config show"]
)
def test_a_current_directory_that_is_gone_is_said_to_be(
    served: Served, tmp_path: Path, line: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *CTL, *line.split()]
    done = subprocess.run(
        command, env=served.environment, capture_output=True, text=True, timeout=120, cwd=gone
    )
    message = (
        "error: the current directory no longer exists — hint: change to a directory that exists\n"
    )
    assert (done.returncode, done.stderr) == (exits.FAILED, message)


def test_up_takes_no_directory_from_a_variable_that_is_empty(
    served: Served, tmp_path: Path
) -> None:
    done = ctl(served, "up", "", cwd=tmp_path)
    message = "error: there is no directory '' — hint: give the project's directory\n"
    assert (done.returncode, done.stderr) == (exits.USAGE, message)


@pytest.mark.parametrize(
    "name", [b"bad\xff.go", b"a\\b.go", "\xe4.go".encode(), b"plain.go", b"\\x41.go"]
)
def test_open_and_links_name_a_file_as_the_disk_does(
    monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    monkeypatch.setattr("cocosearch_ipc.cli.daemon_calls.roots", lambda _: {"demo": "/srv"})
    result = hit("x") | {"index": "demo", "path": path_text(name)}
    assert os.fsencode(editor.editor_command(result, "x", {})[-1]) == b"/srv/" + name
    lines = answers.text(
        reply("x", result), output.Style(colour=False, links=True), {"demo": "/srv"}
    )
    assert f"file://{quote_from_bytes(b'/srv/' + name)}" in next(lines)
    assert line_range.on_disk(path_text(name)) == os.fsdecode(name)


@pytest.fixture
def holder_path(tmp_path: Path) -> Iterator[Path]:
    """The state directory of a daemon that has it; this process stands for the daemon."""
    with (tmp_path / "daemon.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield tmp_path


@pytest.mark.parametrize("does", [daemon_process.ensure_running, daemon_process.stop])
@pytest.mark.parametrize(
    ("location", "message", "hint"),
    [
        pytest.param(
            "there",
            r"its sockets in .*there and not in .*here",
            "COCOSEARCH_RUNTIME_DIR=",
            id="elsewhere",
        ),
        pytest.param(
            "here",
            r"its socket .*here/rpc\.sock is gone",
            f"`kill {os.getpid()}` loses no data",
            id="nowhere",
        ),
    ],
)
def test_a_daemon_that_listens_elsewhere_or_nowhere(
    holder_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: Callable[..., object],
    location: str,
    message: str,
    hint: str,
) -> None:
    (holder_path / "daemon.lock").write_text(f"{os.getpid()} {holder_path / location / 'rpc.sock'}")
    # The program itself is replaced: what is tested is what is said when it refuses to be a second
    # one.
    refusing = [sys.executable, "-c", f"import sys; sys.exit({exits.ALREADY_RUNNING})"]
    monkeypatch.setattr("cocosearch_ipc.cli.program.command", lambda _: refusing)
    monkeypatch.setattr("cocosearch_ipc.cli.running.daemon_process.STOP_S", 0.2)
    monkeypatch.setattr("cocosearch_ipc.cli.running.daemon_process.START_S", 5.0)
    environment = {
        "COCOSEARCH_STATE_DIR": str(holder_path),
        "COCOSEARCH_RUNTIME_DIR": str(holder_path / "here"),
        "HOME": "/",
    }
    messages = list[str]()
    with pytest.raises(CallFailed, match=message) as failed:
        does(environment, messages.append)
    assert failed.value.hint.startswith(hint)
    assert failed.value.reason


def test_an_interrupt_while_the_process_of_the_daemon_begins_is_not_silent_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process goes on, whatever becomes of the one that starts it."""
    environment = {
        "COCOSEARCH_RUNTIME_DIR": str(tmp_path / "run"),
        "COCOSEARCH_STATE_DIR": str(tmp_path / "state"),
        "HOME": "/",
    }
    start = subprocess.Popen
    started = list["subprocess.Popen[bytes]"]()

    def start_and_interrupt(_: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        started.append(start([sys.executable, "-c", ""], **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_and_interrupt)
    messages = list[str]()
    with pytest.raises(KeyboardInterrupt):
        daemon_process.ensure_running(environment, messages.append)
    assert started[0].wait(60) == 0
    assert messages[1:] == [
        "cocosearchd continues to start in the background; `cocosearchctl down` stops it"
    ]


def test_a_daemon_that_is_there_and_says_nothing_is_waited_for_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a frozen daemon, but it hangs up, so that the test need not wait until it is given
    up.
    """
    environment = {
        "COCOSEARCH_RUNTIME_DIR": str(tmp_path),
        "COCOSEARCH_STATE_DIR": str(tmp_path),
        "HOME": "/",
    }
    monkeypatch.setattr("cocosearch_ipc.cli.running.daemon_process.START_S", 3.0)
    monkeypatch.setattr("cocosearch_ipc.cli.running.daemon_process.LONG_S", 0.1)
    messages = list[str]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address.rpc_socket(environment))
        listener.listen()
        threading.Thread(target=_hang_up, args=(listener,), daemon=True).start()
        with pytest.raises(CallFailed, match=r"did not answer within 3 s"):
            daemon_process.ensure_running(environment, messages.append)
        listener.shutdown(socket.SHUT_RDWR)
    assert messages == ["waiting for cocosearchd, which runs but does not answer yet ..."]


def _hang_up(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the test is over
        while True:
            listener.accept()[0].close()
