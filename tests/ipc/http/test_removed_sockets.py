"""Sockets, lock or their directory are removed while the daemon runs: later clients reach it again."""

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from cocosearch_ipc import client
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.http import serve
from cocosearch_ipc.http.sockets import bind, renew
from tests.ipc.conftest import Served
from tests.mcp_messages import INITIALIZE_PARAMS
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "SOCKET_CHECK_S", 0.05)


class Session:
    """One over the bridge's socket."""

    def __init__(self, run: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(50)
        self._socket.connect(str(run / "mcp.sock"))
        self._answers = self._socket.makefile("rb")
        self.ask("initialize", INITIALIZE_PARAMS)

    def ask(self, method: str, params: dict[str, object]) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        assert "result" in json.loads(self._answers.readline())

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


def remade(served: Served) -> bool:
    return client.reachable(served.rpc) and client.reachable(str(served.run / "mcp.sock"))


@pytest.mark.parametrize("what", ["the directory", "rpc.sock", "mcp.sock"])
def test_the_daemon_is_reached_again(served: Served, what: str) -> None:
    stays = Session(served.run)
    previous = handles()
    for _ in range(3):
        if what == "the directory":
            shutil.rmtree(served.run)
        else:
            (served.run / what).unlink()
        wait_until(lambda: remade(served))
        assert client.call(served.rpc, "search", {"query": "x", "index": "demo"})["results"]
        Session(served.run).close()
        stays.ask("ping", {})
        with pytest.raises(Failure, match="is already running"):
            bind(served.run / "rpc.sock", served.run / "mcp.sock", port=None)
    wait_until(lambda: handles() <= previous)
    stays.close()
    for name in ("rpc.sock", "mcp.sock", "rpc.lock"):
        assert (served.run / name).stat().st_mode & 0o777 == 0o600
    served.stop()
    assert {path.name for path in served.run.iterdir()} == {"rpc.lock"}


def test_a_lock_that_was_cleaned_away_is_taken_again(served: Served) -> None:
    (served.run / "rpc.lock").unlink()
    wait_until((served.run / "rpc.lock").exists)
    with pytest.raises(Failure, match="is already running"):
        bind(served.run / "rpc.sock", served.run / "mcp.sock", port=None)
    assert remade(served)


def test_a_directory_that_cannot_be_made_is_made_when_it_can(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The directory of a session is gone while its user is not logged in: what was above it is not the
    daemon's to make.
    """
    served.stop()
    above = tmp_path / "session"
    bound = bind(above / "run" / "rpc.sock", above / "run" / "mcp.sock", port=None)
    shutil.rmtree(above)
    with pytest.raises(FileNotFoundError):
        renew(bound)
    assert not above.exists()
    above.mkdir()
    renewed = renew(bound)
    assert renewed is not bound
    assert client.reachable(str(above / "run" / "rpc.sock"))
    assert renew(renewed) is renewed
    bound.close()
    assert client.reachable(str(above / "run" / "rpc.sock")), "it closes what is its own"
    renewed.close()
    assert not (above / "run" / "rpc.sock").exists()


def test_the_place_of_another_daemon_is_left_to_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = bind(run / "rpc.sock", run / "mcp.sock", port=None)
    shutil.rmtree(run)
    second = bind(run / "rpc.sock", run / "mcp.sock", port=None)
    with pytest.raises(Failure, match="is already running"):
        renew(first)
    first.close()
    assert client.reachable(str(run / "rpc.sock"))
    assert renew(second) is second
    second.close()


def test_the_socket_of_a_service_manager_is_made_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(run / "rpc.sock"))
    listener.listen()
    shutil.rmtree(run)  # before the daemon was started by it
    bound = bind(run / "rpc.sock", run / "mcp.sock", port=None, inherited={"rpc": listener})
    assert not client.reachable(str(run / "rpc.sock"))
    renewed = renew(bound)
    assert client.reachable(str(run / "rpc.sock"))
    renewed.close()
    listener.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user's")
def test_a_directory_of_another_user_is_not_taken(tmp_path: Path) -> None:
    run = tmp_path / "run"
    bound = bind(run / "rpc.sock", run / "mcp.sock", port=None)
    shutil.rmtree(run)
    run.mkdir(mode=0o700)
    os.chown(run, 65534, 65534)
    with pytest.raises(Failure, match="belongs to another user"):
        renew(bound)
    bound.close()
