"""The supervisor restarts what fails and what ends, and only cancellation ends it."""

import logging
import socket
from pathlib import Path

import anyio
import pytest

from cocosearchd.runtime import supervise
from cocosearchd.runtime.systemd import Notifier


async def test_failures_and_ends_are_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE_S", 0.001)  # the pauses are not what is tested here
    starts: list[int] = []
    third = anyio.Event()

    async def fails_then_ends_then_stays() -> None:
        starts.append(len(starts))
        if len(starts) == 1:
            raise ValueError("first")
        if len(starts) == 3:
            third.set()
            await anyio.sleep_forever()

    with caplog.at_level(logging.ERROR), anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervise.supervise, "sample", fails_then_ends_then_stays)
            await third.wait()
            tasks.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert [record.message for record in caplog.records] == ["task_failed", "task_ended"]


def test_notifier_speaks_to_the_manager(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(5)
        notifier = Notifier(path)
        notifier.starting("index 1 of 2")
        assert manager.recv(200) == b"STATUS=index 1 of 2\nEXTEND_TIMEOUT_USEC=60000000"
        notifier.ready("2 indexes")
        assert manager.recv(200) == b"READY=1\nSTATUS=2 indexes"
        notifier.stopping()
        assert manager.recv(200) == b"STOPPING=1"
        notifier.reloading()
        assert manager.recv(200).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    notifier.alive()  # nobody listens any more: no error


def test_no_manager_no_message() -> None:
    Notifier().ready("x")
