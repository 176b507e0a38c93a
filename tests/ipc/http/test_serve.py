"""Sockets, peers and the stop of the daemon on a machine with other users."""

import fcntl
import http.client
import json
import logging
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from cocosearch_ipc import client, error_codes
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.http import app, guard, serve
from cocosearch_ipc.http.sockets import PortTaken, bind, inherited, lock
from cocosearch_ipc.trust.credentials import TokenFile
from cocosearch_ipc.trust.ownership import private_directory
from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served, start
from tests.mcp_messages import initialize_request, message_line

pytestmark = SDK_LEAVES_STREAMS

AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
s.connect(sys.argv[1])
try:
    s.sendall(b"POST /rpc HTTP/1.0\\r\\nContent-Length: 0\\r\\n\\r\\n")
    print(repr(s.recv(100)))
except OSError as error:
    print(repr(b""))
"""


def answers(served: Served) -> bool:
    return bool(client.call(served.rpc, "search", {"query": "x", "index": "demo"})["results"])


def test_the_sockets_are_private(served: Served) -> None:
    assert stat.S_IMODE(served.run.stat().st_mode) == 0o700
    for name in ("rpc.sock", "mcp.sock", "rpc.lock"):
        assert stat.S_IMODE((served.run / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((served.state / "token").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("name", ["rpc.sock", "mcp.sock"])
def test_another_user_is_refused_even_where_modes_would_let_them_in(
    served: Served, name: str
) -> None:
    for path in (served.run, *served.run.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    (served.run / name).chmod(0o666)
    command = [sys.executable, "-c", AS_NOBODY, str(served.run / name)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert refused.stdout.strip() == "b''", refused.stderr
    assert answers(served)


def test_a_client_refuses_a_socket_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "rpc.sock"))
    listening.listen()
    # For root every peer is root or an account that this test would have to own; the kernel's word
    # is replaced here.
    monkeypatch.setattr(client, "peer_uid", lambda _: 4_000_000)
    with pytest.raises(client.CallFailed, match="belongs to another user"):
        client.call(str(tmp_path / "rpc.sock"), "status")
    listening.close()


def test_directories_that_others_can_use_are_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(Failure, match="others can enter") as failed:
        private_directory(tmp_path / "open")
    assert failed.value.hint == f"chmod 700 {tmp_path / 'open'}"
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(Failure, match="a symbolic link is refused"):
        private_directory(tmp_path / "link")
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match="is not a directory"):
        private_directory(tmp_path / "file")
    if os.geteuid() == 0:
        (tmp_path / "foreign").mkdir(mode=0o700)
        os.chown(tmp_path / "foreign", 65534, 65534)
        with pytest.raises(Failure, match="belongs to another user"):
            private_directory(tmp_path / "foreign")


def test_a_second_daemon_is_refused_and_a_left_over_socket_is_not(tmp_path: Path) -> None:
    first = bind(tmp_path / "run" / "rpc.sock", tmp_path / "run" / "mcp.sock", port=0)
    with pytest.raises(Failure, match="is already running") as failed:
        bind(tmp_path / "run" / "rpc.sock", tmp_path / "run" / "mcp.sock", port=0)
    assert failed.value.code == error_codes.CONFLICT
    first.close()
    assert not (tmp_path / "run" / "rpc.sock").exists()
    leftover = socket.socket(socket.AF_UNIX)
    leftover.bind(str(tmp_path / "run" / "rpc.sock"))
    leftover.close()
    second = bind(tmp_path / "run" / "rpc.sock", tmp_path / "run" / "mcp.sock", port=None)
    assert client.reachable(str(tmp_path / "run" / "rpc.sock"))
    assert (second.port, second.urls()) == (None, {})
    second.close()
    second.close()


def test_a_taken_port_is_an_error_that_names_its_holder_and_never_another_port(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(
            PortTaken, match=rf"port {port} of 127\.0\.0\.1 is held by .*\(pid {os.getpid()}, user "
        ):
            bind(run / "rpc.sock", run / "mcp.sock", port=port)
        bound = bind(run / "rpc.sock", run / "mcp.sock", port=port, port_needed=False)
        assert (bound.tcp, bound.port) == (None, None)
        assert bound.tcp_error.startswith(
            f"MCP over TCP is off, because port {port} of 127.0.0.1 is held by "
        )
        assert (bound.warnings, bound.urls()) == ((bound.tcp_error,), {"error": bound.tcp_error})
        bound.close()
    with pytest.raises(Failure, match=r"cannot listen on 203\.0\.113\.1:80"):
        bind(run / "rpc.sock", run / "mcp.sock", host="203.0.113.1", port=80)
    bind(run / "rpc.sock", run / "mcp.sock", port=0).close()  # nothing was left locked


def test_a_path_too_long_for_the_kernel_is_a_sentence(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    with pytest.raises(Failure, match="is longer than"):
        bind(deep / "rpc.sock", deep / "mcp.sock", port=0)


def test_sockets_of_a_service_manager_are_used_and_left_in_place(tmp_path: Path) -> None:
    path = tmp_path / "run" / "rpc.sock"
    path.parent.mkdir(mode=0o700)
    code = (
        "import os, sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from cocosearch_ipc.http.sockets import bind, inherited\n"
        "os.environ['LISTEN_PID'] = str(os.getpid())\n"
        "found = inherited(os.environ, os.getpid())\n"
        "run = Path(sys.argv[1])\n"
        "bound = bind(run / 'rpc.sock', run / 'mcp.sock', port=None, inherited=found)\n"
        "print(sorted(found), bound.port, [p.name for p in bound.owned], os.get_inheritable(3))\n"
        "bound.close()\n"
    )
    listening = socket.socket(socket.AF_UNIX)
    tcp = socket.create_server(("127.0.0.1", 0))
    listening.bind(str(path))
    listening.listen()
    environment = os.environ | {"LISTEN_FDS": "2", "LISTEN_FDNAMES": "rpc:mcp"}

    def as_systemd() -> None:
        os.dup2(os.dup(listening.fileno()), 3)
        os.dup2(os.dup(tcp.fileno()), 4)

    command = [sys.executable, "-c", code, str(path.parent), *sys.path]
    done = subprocess.run(
        command,
        env=environment,
        preexec_fn=as_systemd,
        close_fds=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    expected = f"['mcp', 'rpc'] {tcp.getsockname()[1]} ['mcp.sock'] False"
    assert done.stdout.strip() == expected, done.stderr
    assert path.exists()
    assert inherited({"LISTEN_PID": "1", "LISTEN_FDS": "2"}, os.getpid()) == {}
    listening.close()
    tcp.close()


@pytest.mark.parametrize("content", ["", "short"])
def test_a_token_file_that_is_no_secret_is_refused(tmp_path: Path, content: str) -> None:
    token = TokenFile(tmp_path / "token")
    assert token.ensure() == token.ensure()
    assert not token.accepts(b"")
    (tmp_path / "token").write_text(content)
    assert not token.accepts(content.encode())
    with pytest.raises(Failure, match="empty or too short"):
        token.ensure()
    token.rotate()
    (tmp_path / "token").chmod(0o644)
    assert not token.accepts((tmp_path / "token").read_bytes().strip())
    with pytest.raises(Failure, match="others can read"):
        token.ensure()


def test_a_stop_with_open_streams_and_a_query_in_flight(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with anyio.from_thread.start_blocking_portal() as portal:
        (tmp_path / "state").mkdir()
        served = start(tmp_path / "run", tmp_path / "state", portal)
        served.engine.busy = 0.5
        streams = [_sse(served) for _ in range(3)]
        idle = socket.create_connection(("127.0.0.1", served.bound.port or 0))
        answer = list[Any]()

        def ask() -> None:
            answer.append(client.call(served.rpc, "search", {"query": "x", "index": "demo"}))

        asking = threading.Thread(target=ask)
        asking.start()
        while not served.engine.requests:
            time.sleep(0.01)
        began = time.monotonic()
        served.stop()
        took = time.monotonic() - began
        asking.join(30)
        rest = [stream.read() for _, stream in streams]
        for connection, _ in streams:
            connection.close()
    assert took < 10
    assert answer[0]["results"], "what was asked before the stop is answered"
    # and they end as HTTP says
    assert [text.startswith(b"data: /messages/") for text in rest] == [True] * 3
    assert [
        r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING or r.exc_info
    ] == []
    idle.close()
    with pytest.raises(client.CallFailed, match="is not running"):
        client.call(served.rpc, "status")


def test_the_daemon_answers_before_mcp_is_loaded(served: Served) -> None:
    code = "import sys, cocosearch_ipc.http.serve; print(sorted({'mcp', 'fastmcp', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
    assert answers(served)
    assert served.front._mcp._mcp is None


def test_mcp_is_loaded_without_a_client_where_one_has_used_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that no assistant ever uses spares its CPU and its memory."""
    monkeypatch.setattr(app, "MCP_AFTER_S", 0.01)
    (tmp_path / "state").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        unused = start(tmp_path / "run", tmp_path / "state", portal)
        assert answers(unused)
        portal.call(anyio.sleep, 0.3)
        assert unused.front._mcp._mcp is None
        portal.call(unused.front._mcp.loaded)
        unused.stop()
        used = start(tmp_path / "run", tmp_path / "state", portal)
        end = time.monotonic() + 60
        while used.front._mcp._mcp is None:
            assert time.monotonic() < end, "it is not loaded"
            time.sleep(0.02)
        used.stop()


def test_a_query_that_does_not_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "DRAIN_S", 0.2)
    with anyio.from_thread.start_blocking_portal() as portal:
        (tmp_path / "state").mkdir()
        served = start(tmp_path / "run", tmp_path / "state", portal)
        served.engine.busy = 60
        failed = list[client.CallFailed]()

        def ask() -> None:
            try:
                client.call(served.rpc, "search", {"query": "x", "index": "demo"})
            except client.CallFailed as error:
                failed.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        while not served.engine.requests:
            time.sleep(0.01)
        served.stop()
        asking.join(30)
    assert (failed[0].message, failed[0].code) == (
        "cocosearchd is stopping",
        error_codes.UNAVAILABLE,
    )
    assert served.engine.cancelled == 1


def test_many_idle_connections_leave_the_daemon_answering(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "MAX_CONNECTIONS", 20)
    idle = [socket.create_connection(("127.0.0.1", served.bound.port or 0), 60) for _ in range(100)]
    assert answers(served)
    connection = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=120)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    connection.close()
    for s in idle:
        s.settimeout(60)
    assert sum(_closed(s) for s in idle[:80]) == 80, "the oldest made room"
    for s in idle:
        s.close()


def test_half_a_second_request_is_let_go(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEADER_TIMEOUT_S", 1.0)
    slow = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=120)
    for _ in range(2):
        slow.request("GET", "/healthz")
        assert slow.getresponse().read() == b"ok\n"
        time.sleep(1.5)
    slow.sock.sendall(b"GET /hea")
    assert _closed(slow.sock)
    slow.close()


def test_a_connection_that_is_used_makes_no_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago it was made: its client would meet its end with its next question."""
    monkeypatch.setattr(serve, "MAX_CONNECTIONS", 5)
    used, *idle = [
        http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=120) for _ in range(12)
    ]
    for idle_connection in idle:
        for connection in (used, idle_connection):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
            connection.auto_open = 0
    used.close()
    for idle_connection in idle:
        idle_connection.close()


def test_a_client_that_sends_too_slowly_is_let_go(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "HEADER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(guard, "BODY_TIMEOUT_S", 1.0)
    silent = socket.create_connection(("127.0.0.1", served.bound.port or 0), 60)
    half = socket.create_connection(("127.0.0.1", served.bound.port or 0), 60)
    half.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
    slow = socket.socket(socket.AF_UNIX)
    slow.settimeout(60)
    slow.connect(served.rpc)
    slow.sendall(
        b"POST /rpc HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    assert _closed(silent)
    assert _closed(half)
    assert b" 408 " in slow.recv(1000)
    assert answers(served)
    for s in (silent, half, slow):
        s.close()


@pytest.mark.parametrize("header_s", [1.0, 15.0])
def test_a_connection_stays_for_its_next_request(
    served: Served, monkeypatch: pytest.MonkeyPatch, header_s: float
) -> None:
    """For longer than its client would use it, who cannot know that it is just being closed."""
    monkeypatch.setattr(serve, "HEADER_TIMEOUT_S", header_s)
    connection = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=120)
    for pause_s in (0.0, 1.5 if header_s < 15 else 5.5):
        time.sleep(pause_s)
        connection.request("GET", "/healthz")
        port = connection.sock.getsockname()[1]
        assert connection.getresponse().read() == b"ok\n"
    assert port == connection.sock.getsockname()[1]
    connection.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /rpc HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /rpc HTTP/1.1\r\nContent-Length: 99999999999999999999\r\nContent-Type: application/json\r\n\r\n",
        b"POST /rpc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /%00%2e%2e HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
def test_garbage_is_refused(served: Served, garbage: bytes) -> None:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(served.rpc)
    s.sendall(garbage)
    status = s.recv(12)
    assert status[9:10] in (b"4", b""), status
    s.close()
    assert answers(served)


def test_bad_lines_on_the_bridge_are_answered_or_ignored(served: Served) -> None:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(str(served.run / "mcp.sock"))
    s.sendall(b"not json\n\xff\xfe\n")
    s.sendall(message_line(initialize_request()))
    with s.makefile("rb") as lines:
        replies = [json.loads(lines.readline())]
        while replies[-1].get("id") != 1:
            replies.append(json.loads(lines.readline()))
    assert replies[-1]["result"]["serverInfo"]["name"] == "cocosearch"
    s.close()
    assert answers(served)


def _sse(served: Served) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=50)
    connection.request("GET", "/sse", headers={"Authorization": f"Bearer {served.token}"})
    reply = connection.getresponse()
    assert reply.status == 200
    assert reply.readline().startswith(b"event: endpoint")
    return connection, reply


def _closed(s: socket.socket) -> bool:
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_reader_of_the_lock_does_not_keep_a_daemon_from_starting(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("a") as mine, (tmp_path / "lock").open("a") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        # as late as a busy machine may make it
        timer = threading.Timer(0.5, fcntl.flock, (looker, fcntl.LOCK_UN))
        timer.start()
        assert lock(mine.fileno())
        timer.join()
        with (tmp_path / "lock").open("a") as handle:
            assert not lock(handle.fileno())
