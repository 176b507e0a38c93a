"""The stdio bridge against daemons that stop, refuse, or answer nonsense."""

import io
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from cocosearch_ipc import error_codes
from cocosearch_ipc.cli.running.bridge import SessionRelay
from cocosearch_ipc.http import serve
from tests.ipc.conftest import Served
from tests.mcp_messages import initialize_request, message_line

DEEP = b"[" * 5000 + b"]" * 5000


def line_of(**message: Any) -> bytes:
    return message_line({"jsonrpc": "2.0"} | message)


class OtherEnd:
    """The other end of a relay: its client, or a connection to its daemon."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer = reader, writer

    def write(self, line: bytes) -> None:
        self._writer.write(line)
        self._writer.flush()

    def read(self) -> dict[str, Any]:
        message = json.loads(self._reader.readline())
        assert isinstance(message, dict)
        return message

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class Daemons:
    """Listens where daemons do, and speaks for each of them."""

    def __init__(self, run: Path) -> None:
        run.mkdir(mode=0o700)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(run / "mcp.sock"))
        self._listening.listen(5)
        self._listening.settimeout(60)

    def accept(self) -> OtherEnd:
        """Accept a connection that says something, and read its first line."""
        while True:
            connection, _ = self._listening.accept()
            with connection:
                connection.settimeout(60)
                reader = connection.makefile("rb")
                if reader.readline():
                    return OtherEnd(reader, connection.makefile("wb"))

    def close(self) -> None:
        self._listening.close()


class Session:
    """A relay in a thread, its client and its daemons."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        run = directory / "run"
        self.daemons = stack.enter_context(closing(Daemons(run)))
        env = {"COCOSEARCH_STATE_DIR": str(directory), "COCOSEARCH_RUNTIME_DIR": str(run)}
        (source, up), (down, target) = os.pipe(), os.pipe()
        relayed_source, relayed_target = os.fdopen(source, "rb"), os.fdopen(target, "wb")
        self.client = OtherEnd(os.fdopen(down, "rb"), os.fdopen(up, "wb"))
        relay = SessionRelay(env, {"cwd": "/srv"}, relayed_source, relayed_target)
        self._thread = threading.Thread(target=relay.run)
        self._relayed = (relayed_source, relayed_target)
        self._thread.start()

    def close(self) -> None:
        self.client.close()
        self._thread.join(30)
        assert not self._thread.is_alive()
        for file in self._relayed:
            file.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with ExitStack() as stack:
        yield stack.enter_context(closing(Session(tmp_path, stack)))


def test_an_approval_reaches_only_the_daemon_that_asked(session: Session) -> None:
    client = session.client
    client.write(line_of(id=1, method="initialize", params={}))
    with closing(session.daemons.accept()) as first:
        assert first.read()["id"] == 1
        first.write(line_of(id=0, method="elicitation/create", params={"message": "Index a?"}))
        early = client.read()
        first.write(line_of(id=1, result={}))
        assert client.read()["id"] == 1
    taken_back = client.read()
    assert (taken_back["method"], taken_back["params"]["requestId"]) == (
        "notifications/cancelled",
        early["id"],
    )
    client.write(line_of(id=2, method="tools/call", params={}))
    with closing(session.daemons.accept()) as second:
        assert [second.read()["method"] for _ in range(2)] == ["initialize", "tools/call"]
        second.write(line_of(id=0, method="elicitation/create", params={"message": "Delete b?"}))
        late = client.read()
        for client_id in (early["id"], 0, "0", None):
            client.write(line_of(id=client_id, result={"action": "accept"}))
        client.write(line_of(id=late["id"], result={"action": "decline"}))
        assert second.read() == {"jsonrpc": "2.0", "id": 0, "result": {"action": "decline"}}
        client.write(line_of(id=late["id"], result={"action": "accept"}))  # an answer is one
        second.write(line_of(id=1, method="roots/list"))
        question = client.read()
        second.write(line_of(method="notifications/cancelled", params={"requestId": 1}))
        assert client.read()["params"]["requestId"] == question["id"]
        client.write(line_of(id=question["id"], result={}))
        client.write(line_of(id=3, method="ping"))
        assert second.read()["id"] == 3
        for rid in (2, 3):
            second.write(line_of(id=rid, result={}))
            assert client.read()["id"] == rid


def test_messages_too_deep_to_read_end_nothing(session: Session) -> None:
    client = session.client
    client.write(line_of(id=1, method="initialize", params={}))
    client.write(b'{"jsonrpc": "2.0", "id": 2, "method": "x", "params": %s}\n' % DEEP)
    client.write(b'{"jsonrpc": "2.0", "id": %s, "method": "x"}\n' % (b"[" * 900 + b"]" * 900))
    client.write(b'{"jsonrpc": "2.0", "id": "a", "result": %s}\n' % DEEP)
    client.write(line_of(id=3, method="ping"))
    with closing(session.daemons.accept()) as daemon:
        assert daemon.read()["id"] == 1
        for _ in range(3):
            daemon._reader.readline()  # as they came
        assert daemon.read()["id"] == 3
        daemon.write(b'{"jsonrpc": "2.0", "method": "x", "params": %s}\n' % DEEP)
        for rid in (1, 3):
            daemon.write(line_of(id=rid, result={}))
        client._reader.readline()
        assert [client.read()["id"] for _ in range(2)] == [1, 3]


def test_a_last_line_needs_no_line_break(tmp_path: Path) -> None:
    with closing(Daemons(tmp_path / "run")) as daemons:
        env = {
            "COCOSEARCH_STATE_DIR": str(tmp_path),
            "COCOSEARCH_RUNTIME_DIR": str(tmp_path / "run"),
        }
        target = io.BytesIO()
        last = line_of(id=1, method="ping").rstrip(b"\n")
        relay = threading.Thread(target=SessionRelay(env, {}, io.BytesIO(last), target).run)
        relay.start()
        with closing(daemons.accept()) as daemon:
            assert daemon.read()["id"] == 1
            daemon.write(line_of(id=1, result={}))
            relay.join(10)  # less than it waits for an answer that never comes
            assert not relay.is_alive()
    assert json.loads(target.getvalue()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


class SlowRelay(SessionRelay):
    """It sends a message only after the daemon has ended the session."""

    def _get_connection(self, *, start: bool = True) -> socket.socket:
        connection = super()._get_connection(start=start)
        assert self._down is not None
        self._down.join(10)
        return connection


@pytest.mark.parametrize("kind", [SessionRelay, SlowRelay])
def test_a_session_too_many_is_told_why(
    served: Served, monkeypatch: pytest.MonkeyPatch, kind: type[SessionRelay]
) -> None:
    monkeypatch.setattr(serve, "MAX_BRIDGES", 1)
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(str(served.run / "mcp.sock"))
        first.sendall(message_line(initialize_request()))
        assert first.recv(1), "it is served"
        target = io.BytesIO()
        source = io.BytesIO(message_line(initialize_request()))
        kind(served.environment, {}, source, target).run()
    reply = json.loads(target.getvalue())
    assert (reply["id"], reply["error"]["code"]) == (1, error_codes.UNAVAILABLE)
    assert "assistants already" in reply["error"]["message"]
