"""Socket activation: a service manager opens the sockets, and the first question starts the daemon."""

import asyncio
import contextlib
import ctypes
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from cocosearch_ipc import client
from cocosearch_ipc.http import sockets
from cocosearchd import service
from cocosearchd.config.layers import load_settings
from cocosearchd.config.settings import LoadedSettings, Settings
from cocosearchd.runtime.systemd import Notifier
from cocosearchd.service import DaemonEnvironment
from cocosearchd.store.connection.database import Connection, Database
from tests.api.test_cancelled_requests import Away
from tests.daemon import Daemon, make_daemon


@pytest.fixture
def idle() -> Iterator[Daemon]:
    daemon = make_daemon()
    yield daemon
    daemon.sweep()
    shutil.rmtree(daemon.home, ignore_errors=True)


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None, reason="no systemd on this machine"
)
def test_the_first_question_starts_the_daemon_and_the_manager_is_told(idle: Daemon) -> None:
    (idle.home / "run").mkdir(mode=0o700, exist_ok=True)
    rpc = idle.home / "run" / "rpc.sock"
    socket_path = idle.home / "notify"
    notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notifications.bind(str(socket_path))
    notifications.settimeout(60)
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    environment = idle.environment | {"NOTIFY_SOCKET": str(socket_path), "WATCHDOG_USEC": "4000000"}
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
    end = time.monotonic() + 60
    while not rpc.exists():
        assert time.monotonic() < end, idle.log
        time.sleep(0.02)
    status = client.call(str(rpc), "status")
    assert status["pid"] == manager.pid
    assert status["mcp"]["url"] == f"http://127.0.0.1:{port}/mcp"
    messages = _until(notifications, "READY=1")
    assert "STATUS=" in messages
    assert "WATCHDOG=1" in _until(notifications, "WATCHDOG=1")
    manager.send_signal(signal.SIGTERM)
    assert "STOPPING=1" in _until(notifications, "STOPPING=1")
    assert manager.wait(60) == 0, idle.log[-2000:]
    assert rpc.exists(), "the manager's socket is the manager's to remove"
    notifications.close()


def test_a_frozen_store_starves_the_watchdog_and_a_reload_is_told(idle: Daemon) -> None:
    socket_path = idle.home / "notify"
    notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notifications.bind(str(socket_path))
    notifications.settimeout(60)
    every_s = 0.5
    idle.variables |= {
        "NOTIFY_SOCKET": str(socket_path),
        "WATCHDOG_USEC": str(int(every_s * 2_000_000)),
    }
    idle.process = idle.launch()
    _until(notifications, "READY=1")
    _until(notifications, "WATCHDOG=1")
    idle.process.send_signal(signal.SIGHUP)
    assert "MONOTONIC_USEC=" in _until(notifications, "RELOADING=1")
    _until(notifications, "READY=1")
    with idle.freezing_postgres():
        # A daemon whose store hangs is restarted by its manager, which hears nothing for so long.
        # Questions from before the stop may still be answered.
        notifications.settimeout(every_s * 3)
        end = time.monotonic() + 60
        with contextlib.suppress(TimeoutError):
            while notifications.recv(4096):
                assert time.monotonic() < end
    notifications.settimeout(60)
    _until(notifications, "WATCHDOG=1")
    assert idle.stop() == 0
    notifications.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[Notifier, socket.socket]]:
    """The daemon's notifier, and the socket that receives its messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(1)
        yield Notifier(str(tmp_path / "notify")), receiver


class Frozen(Away):
    """PostgreSQL that has stopped answering what it was asked."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        await anyio.sleep_forever()
        async with super().connection() as never:
            yield never


@pytest.mark.parametrize(("database", "alive"), [(None, True), (Away(), True), (Frozen(), False)])
async def test_a_store_that_is_away_is_no_reason_to_end_the_daemon(
    manager: tuple[Notifier, socket.socket], database: Database | None, alive: bool
) -> None:
    notifier, receiver = manager
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service._watchdog, notifier, 0.01, database)
        if alive:
            receiver.settimeout(60)
            assert await anyio.to_thread.run_sync(receiver.recv, 4096) == b"WATCHDOG=1"
        else:
            await anyio.sleep(0.1)
            receiver.setblocking(False)
            with pytest.raises(BlockingIOError):
                receiver.recv(4096)
        tasks.cancel_scope.cancel()


async def test_a_reload_before_the_start_has_ended_does_not_end_it(
    manager: tuple[Notifier, socket.socket],
) -> None:
    notifier, receiver = manager
    running = cast(
        service.RunningParts, SimpleNamespace(environment=SimpleNamespace(notifier=notifier))
    )
    stop = anyio.Event()
    no_engine = asyncio.Future[service.StartedEngine]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service._handle_signals, stop, running, no_engine)
        await anyio.sleep(0.05)  # until it listens to signals; before, they would end this process
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        with anyio.fail_after(60):
            await stop.wait()
        tasks.cancel_scope.cancel()
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.recv(4096)


async def test_a_reload_that_fails_keeps_the_settings_and_the_daemon(
    manager: tuple[Notifier, socket.socket],
) -> None:
    notifier, receiver = manager
    followed = list[object]()

    async def refuse(loaded: LoadedSettings) -> None:
        raise RuntimeError("Could not determine home directory.")

    loaded = load_settings(None, {}, {})
    environment = SimpleNamespace(
        notifier=notifier, reload=lambda: loaded, log=None, api_key="", database_password=""
    )
    running = SimpleNamespace(environment=environment, settings=loaded.settings)
    started = SimpleNamespace(
        engine=SimpleNamespace(configure=followed.append), indexes=SimpleNamespace(configure=refuse)
    )
    await service._reload(cast(service.RunningParts, running), cast(service.StartedEngine, started))
    assert followed == []
    assert receiver.recv(4096).startswith(b"RELOADING=1")
    assert receiver.recv(4096).startswith(b"READY=1")


def test_sockets_of_launchd_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    handles = (ctypes.c_int * 1)(listening.detach())

    class Library:
        """The behaviour of launch_activate_socket(3): launchd exists only on macOS."""

        freed = 0

        def launch_activate_socket(self, name: bytes, descriptors: Any, count: Any) -> int:
            if name != b"mcp":
                return errno.ENOENT
            descriptors._obj.contents = handles._type_.from_buffer(handles)
            count._obj.value = 1
            return 0

        def free(self, descriptors: object) -> None:
            self.freed += 1

    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    sockets_by_name = sockets.launchd(("rpc", "mcp"))
    assert set(sockets_by_name) == {"mcp"}
    assert sockets_by_name["mcp"].getsockname()[1] == port
    assert not sockets_by_name["mcp"].get_inheritable()
    assert library.freed == 1
    paths = DaemonEnvironment.from_environment(
        {"COCOSEARCH_STATE_DIR": "/nowhere"}, Settings(), 1, lambda: LoadedSettings(Settings(), {})
    )
    assert paths.sockets["mcp"].fileno() == sockets_by_name["mcp"].fileno(), (
        "the daemon asks launchd where systemd gave none"
    )
    paths.sockets["mcp"].detach()
    sockets_by_name["mcp"].close()


def test_without_launchd_there_are_no_sockets_of_it() -> None:
    assert (sockets.launchd(("rpc", "mcp")) == {}) or sys.platform == "darwin"


def _until(notifications: socket.socket, expected: str) -> str:
    text = ""
    while expected not in text:
        text += notifications.recv(4096).decode() + "\n"
    return text
