"""A service manager in front of the real daemon: it opens the sockets, the first question starts the program."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from cocosearch_ipc import client
from tests.daemon import Daemon, make_daemon

pytestmark = [
    pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="no systemd on this machine"),
    pytest.mark.timeout(120),
]


@pytest.fixture
def idle() -> Iterator[Daemon]:
    daemon = make_daemon()
    yield daemon
    daemon.sweep()
    shutil.rmtree(daemon.home, ignore_errors=True)


def test_the_first_question_starts_the_daemon_and_the_manager_is_told(idle: Daemon) -> None:
    (idle.home / "run").mkdir(mode=0o700, exist_ok=True)
    rpc, told = idle.home / "run" / "rpc.sock", idle.home / "notify"
    notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notifications.bind(str(told))
    notifications.settimeout(60)
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    environment = idle.environment | {"NOTIFY_SOCKET": str(told), "WATCHDOG_USEC": "4000000"}
    names = [f"--setenv={name}" for name in environment]
    listens = [f"--listen={rpc}", f"--listen=127.0.0.1:{port}", "--fdname=rpc:mcp"]
    with (idle.home / "log").open("wb") as log:
        manager = subprocess.Popen(
            ["systemd-socket-activate", *listens, *names, str(idle.bin / "cocosearchd")],
            env=environment,
            stderr=log,
            start_new_session=True,
        )
    idle.process = manager  # it becomes the daemon
    end = time.monotonic() + 20
    while not rpc.exists():
        assert time.monotonic() < end, idle.log
        time.sleep(0.02)
    status = client.call(str(rpc), "status")
    assert status["pid"] == manager.pid
    assert status["mcp"]["url"] == f"http://127.0.0.1:{port}/mcp"
    seen = _until(notifications, "READY=1")
    assert "STATUS=" in seen
    assert "WATCHDOG=1" in _until(notifications, "WATCHDOG=1")
    manager.send_signal(signal.SIGTERM)
    assert "STOPPING=1" in _until(notifications, "STOPPING=1")
    assert manager.wait(30) == 0, idle.log[-2000:]
    assert rpc.exists(), "the manager's socket is the manager's to remove"
    notifications.close()


def _until(notifications: socket.socket, wanted: str) -> str:
    text = ""
    while wanted not in text:
        text += notifications.recv(4096).decode() + "\n"
    return text
