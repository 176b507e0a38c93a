"""Hostile and broken clients of a real daemon: each is refused, and the daemon continues."""

import contextlib
import errno
import http.client
import itertools
import json
import resource
import socket
import time
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from cocosearch_ipc import client, error_codes
from cocosearch_ipc import protocol as p
from cocosearch_ipc.http.app import OPEN_PATHS
from cocosearch_ipc.page import site
from cocosearch_ipc.rpc import openrpc, shapes
from cocosearch_ipc.rpc.methods import METHODS
from tests.daemon import Daemon, lasting_handles, passing_daemon
from tests.ipc.rpc.test_rpc import UnixHTTP
from tests.machine_speed import FairClock
from tests.mcp_messages import initialize_request, message_line

SECRET = "the-launch-code-is-0000"
# SQL, LIKE, tsquery, regular expressions, globs, terminals, shells, formats, JSON, Unicode, length.
NASTY = (
    "'; drop table codeindex; --",
    '" or 1=1 /*',
    "%_\\%%",
    "$1 :a &| !x <-> (",
    "(((((?P<",
    "(a+)+$" + "a" * 40,
    "[[:alpha:]{999999}",
    "**/**/**/**/**/{a,b}[!",
    "\x1b[31m\r\n\x07",
    "$(reboot) `reboot` {0.__class__} %n%s",
    "\N{RIGHT-TO-LEFT OVERRIDE}\u0301\ufeff",
    "a" * 20_000,
    "a" * 400_000,
    "\\x00",  # the escape of NUL in a path of results
    "a/\\x00/b.py",
    "",
)
# Parameters that name files or directories, in any method there is or will be.
FILES = {
    "path",
    "paths",
    "not_paths",
    "under",
    "pattern",
    "cwd",
    "root",
    "why_not",
    "filename",
    "path_prefix",
    "file",
}
# Codes of refusals. INTERNAL_ERROR is none: it would be a defect.
REFUSALS = {
    error_codes.INVALID_PARAMS,
    error_codes.NOT_FOUND,
    error_codes.REFUSED,
    error_codes.CONFLICT,
    error_codes.UNAVAILABLE,
}
ENDING = {"shutdown"}  # does what it says, whatever is sent
INITIALIZE = message_line(initialize_request())


@dataclass
class Target:
    """A real daemon with one index, `it`, and things beside it that nobody may have."""

    daemon: Daemon
    root: Path
    port: int
    token: str

    @property
    def rpc(self) -> str:
        return str(self.daemon.home / "run" / "rpc.sock")

    def traversals(self) -> tuple[str, ...]:
        """Ways to name the secret outside of the root, and the one inside."""
        outside = self.root.parent / "secret.txt"
        return (
            "../secret.txt",
            "a/../../secret.txt",
            "./../secret.txt",
            "....//secret.txt",
            "..\\secret.txt",
            "%2e%2e/secret.txt",
            "a.py/../../secret.txt",
            str(outside),
            f"/{outside}",
            f"file://{outside}",
            "link.txt",
            "away/secret.txt",
            ".env",
            "/proc/self/root" + str(outside),
        )

    def answers(self) -> None:
        """Check that the daemon answers as before."""
        assert "Traceback" not in self.daemon.log, self.daemon.log[-4000:]
        assert "rpc_failed" not in self.daemon.log, self.daemon.log[-4000:]
        reply = client.call(self.rpc, "search", {"query": "found", "index": "it"})
        assert [result["path"] for result in reply["results"]] == ["a.py"]
        assert client.call(self.rpc, "index_stats", {"index": "it"})["files"] == 1


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, cluster: Path) -> Iterator[Target]:
    scratch = tmp_path_factory.mktemp("beside")
    root = scratch / "project"
    root.mkdir()
    (scratch / "secret.txt").write_text(SECRET)
    (root / "a.py").write_text("def found() -> int:\n    return 1\n")
    (root / ".env").write_text(f"KEY={SECRET}\n")
    (root / "link.txt").symlink_to(scratch / "secret.txt")
    (root / "away").symlink_to(scratch)
    with passing_daemon(cluster) as daemon:
        run = daemon.home / "run"
        run.mkdir(mode=0o700)
        for name in ("rpc.sock", "mcp.sock"):  # left by a kill: nobody listens
            stale = socket.socket(socket.AF_UNIX)
            stale.bind(str(run / name))
            stale.close()
        (run / "rpc.lock").touch()
        daemon.start()
        rpc = str(run / "rpc.sock")
        client.call(rpc, "index_codebase", {"path": str(root), "name": "it"})
        list(client.stream(rpc, "follow", {"index": "it"}))
        url = client.call(rpc, "status")["mcp"]["url"]
        token = (daemon.home / "state" / "token").read_text().strip()
        yield Target(daemon, root, int(url.rpartition(":")[2].partition("/")[0]), token)
        daemon.stop()


# ---- texts ----


def test_every_text_parameter_of_every_method_takes_or_refuses_anything(target: Target) -> None:
    count = 0
    defects = list[str]()
    for method, name, make in _texts():
        for value in NASTY:
            count += 1
            defects += _defects(target, method, name, make(value))
    assert count > 300
    assert defects == []
    target.answers()


def test_nul_bytes_are_refused_in_every_text_parameter(target: Target) -> None:
    accepted = list[str]()
    for method, name, make in _texts():
        try:
            _first(target, method, make("a\0b"), stream_s=20.0)
            accepted.append(f"{method}.{name}")
        except client.CallFailed as failed:
            if failed.code != error_codes.INVALID_PARAMS:
                accepted.append(f"{method}.{name}: {failed.message}")
    assert accepted == []
    target.answers()


def test_no_file_parameter_reaches_beyond_the_root(target: Target) -> None:
    tools = set[str]()
    for method, name, make in _texts():
        # which is told where to look, by those who may
        if name in FILES and method != "index_codebase":
            tools.add(f"{method}.{name}")
            for value in target.traversals():
                output = ""
                with contextlib.suppress(client.CallFailed):
                    output = json.dumps(_first(target, method, make(value)))
                assert SECRET not in output, (method, name, value)
    assert tools >= {
        "get_file.path",
        "list_files.under",
        "list_files.pattern",
        "find_related.path",
        "grep.under",
        "grep.paths",
        "search.paths",
    }
    unknown = {
        name
        for _, request in METHODS.values()
        for name in typing.get_type_hints(request)
        if {"path", "paths", "file", "files", "dir", "directory", "root"} & set(name.split("_"))
        and name not in FILES
    }
    assert unknown <= {"weights_file"}, "is it the name of a file? then it belongs into FILES"
    target.answers()


async def test_every_text_parameter_of_every_tool_as_well(target: Target) -> None:
    headers = {"Authorization": f"Bearer {target.token}"}
    transport = StreamableHttpTransport(f"http://127.0.0.1:{target.port}/mcp", headers=headers)
    values = (
        NASTY[0],
        NASTY[3],
        NASTY[4],
        NASTY[8],
        "a\0b",
        "\\x00",
        target.traversals()[0],
        str(target.root.parent / "secret.txt"),
    )
    defects = list[str]()
    count = 0
    async with Client(transport) as asking:
        for tool in await asking.list_tools():
            fixed = {
                "query": "found",
                "filename": "a.py",
                "line": 1,
                "path": "/nowhere",
                "timeout_s": 0,
            }
            schema = tool.input_schema
            arguments = {
                name: value for name, value in fixed.items() if name in schema["properties"]
            }
            arguments |= {"index_name": "it"} if "index_name" in schema["properties"] else {}
            for name in (n for n, s in schema["properties"].items() if "string" in json.dumps(s)):
                for value in values:
                    listed = schema["properties"][name].get("anyOf", [{}])[0].get("type") == "array"
                    count += 1
                    given_now = arguments | {name: [value] if listed else value}
                    answer = await asking.call_tool(tool.name, given_now, raise_on_error=False)
                    output = "".join(getattr(block, "text", "") for block in answer.content)
                    if (
                        SECRET in output
                        or output.startswith("Error calling tool")
                        or "internal error" in output
                    ):
                        defects.append(f"{tool.name}({name}={value[:30]!r}): {output[:80]}")
    assert count > 150
    assert defects == []
    target.answers()


def _texts() -> Iterator[tuple[str, str, Any]]:
    """Each method and text parameter, also inside of lists and objects, and what makes parameters
    of a value.
    """
    for method, (_, request) in METHODS.items():
        if method in ENDING:
            continue
        for name, kind in typing.get_type_hints(request).items():
            for wrap in _wraps(kind):
                yield (
                    method,
                    name,
                    lambda value, n=name, r=request, w=wrap: _around(r, n) | {n: w(value)},
                )


def _wraps(kind: Any) -> Iterator[Any]:
    """Yield functions that put a text into a value of this kind."""
    arguments = [a for a in typing.get_args(kind) if a is not types.NoneType]
    origin = typing.get_origin(kind)
    if kind is str:
        yield lambda value: value
    elif origin in (types.UnionType, typing.Union):
        for argument in arguments:
            yield from _wraps(argument)
    elif origin is tuple:
        for inner in _wraps(arguments[0]):
            yield lambda value, i=inner: [i(value)]
    elif is_dataclass(kind):
        for name, field in typing.get_type_hints(kind).items():
            for inner in _wraps(field):
                yield lambda value, n=name, i=inner, k=kind: _around(k, n) | {n: i(value)}


def _around(request: type, name: str) -> dict[str, object]:
    """Plain values for the other parameters."""
    plain: dict[str, object] = {
        "query": "found",
        "path": "/nowhere",
        "paths": ["/nowhere"],
        "index": "it",
        "line": 1,
        "session": "none",
        "text": "x",
        "sync_timeout_ms": 0,
        "timeout_ms": 0,
    }
    if name in ("indexes", "topics", "cwd"):
        # the other way to say which; and so nothing that is tried clears the index of these tests
        del plain["index"]
    if request is p.SearchRequest:
        del plain["paths"]  # there they are globs
    hints = typing.get_type_hints(request)
    return {key: value for key, value in plain.items() if key in hints and key != name}


def _first(target: Target, method: str, params: dict[str, Any], stream_s: float = 0.3) -> Any:
    """The answer; of a stream what comes first, if it comes within `stream_s`."""
    if not openrpc.streams(method):
        return client.call(target.rpc, method, params, 20.0)
    stream = client.stream(target.rpc, method, params, stream_s)
    try:
        return next(stream, None)
    except client.CallFailed as failed:
        if failed.code == error_codes.TIMED_OUT:
            return None  # it is subscribed, and nothing happens
        raise
    finally:
        stream.close()


def _defects(target: Target, method: str, name: str, params: dict[str, Any]) -> list[str]:
    try:
        _first(target, method, params)
    except client.CallFailed as failed:
        if failed.code not in REFUSALS:
            return [f"{method}.{name} {str(params)[:80]}: {failed.code} {failed.message}"]
    return []


# ---- HTTP ----

BIG = b" " * (10 << 20)


@pytest.mark.parametrize("path", ["/mcp", "/messages/", site.RPC])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_ten_megabytes_over_tcp(target: Target, path: str, chunked: bool, is_known: bool) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=50)
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {target.token}"} if is_known else {}
    )
    body = (BIG[i : i + (1 << 20)] for i in range(0, len(BIG), 1 << 20)) if chunked else BIG
    status = 0
    with contextlib.suppress(ConnectionError):  # refused before all of it was sent
        connection.request("POST", path, body, headers, encode_chunked=chunked)
        status = connection.getresponse().status
    connection.close()
    assert status in (0, 413 if is_known else 401)
    target.answers()


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes_over_the_unix_sockets(target: Target, chunked: bool) -> None:
    connection = UnixHTTP(target.rpc)
    body = (BIG[i : i + (1 << 20)] for i in range(0, len(BIG), 1 << 20)) if chunked else BIG
    status = 0
    with contextlib.suppress(ConnectionError):
        connection.request(
            "POST", "/rpc", body, {"Content-Type": "application/json"}, encode_chunked=chunked
        )
        status = connection.getresponse().status
    connection.close()
    assert status in (0, 413)
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(50)
    line.connect(str(target.daemon.home / "run" / "mcp.sock"))
    with contextlib.suppress(ConnectionError):
        line.sendall(BIG)  # no end of line
        assert line.recv(100) == b""
    line.close()
    target.answers()


FORGED = [
    ({"Host": "evil.example"}, 421),
    ({"Host": "127.0.0.1.nip.io"}, 421),
    ({"Host": "localhost@evil.example"}, 421),
    ({"Host": ""}, 421),
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://localhost:3000"}, 403),
    ({"Authorization": ""}, 401),
    ({"Authorization": "Bearer"}, 401),
    ({"Authorization": "Bearer ."}, 401),
    ({"Authorization": "Bearer " + "A" * 8000}, 401),
    ({"Authorization": "Basic {token}"}, 401),
    ({"Authorization": "Bearer {token}x"}, 401),
    ({"Authorization": "Bearer {half}"}, 401),
    (
        {
            "X-Forwarded-For": "127.0.0.1",
            "X-Forwarded-Host": "localhost",
            "Authorization": "Bearer x",
        },
        401,
    ),
]


@pytest.mark.parametrize(("forged", "status"), FORGED)
def test_forged_headers_on_every_path(target: Target, forged: dict[str, str], status: int) -> None:
    half = target.token[: len(target.token) // 2]
    headers = {"Authorization": f"Bearer {target.token}"}
    headers |= {name: value.format(token=target.token, half=half) for name, value in forged.items()}
    for path in ("/mcp", "/sse", "/messages/", "/metrics", site.RPC, *sorted(OPEN_PATHS)):
        for method in ("GET", "POST"):
            connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=50)
            connection.request(method, path, b"{}" if method == "POST" else None, headers)
            status_code = connection.getresponse().status
            connection.close()
            if status == 401 and path in OPEN_PATHS:
                assert status_code in (200, 405)
            else:
                assert status_code == status, (method, path)
    target.answers()


def test_the_token_is_not_taken_from_the_address(target: Target) -> None:
    for path in (
        f"/metrics?token={target.token}",
        f"/metrics?access_token={target.token}",
        f"/{target.token}/metrics",
    ):
        connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=50)
        connection.request("GET", path)
        assert connection.getresponse().status == 401
        connection.close()
    assert target.token not in target.daemon.log


@pytest.mark.parametrize(
    "path",
    ["/%00", "/status/%2e%2e/site.py", "/status/..%2f..%2ftls.py", "//etc/passwd", "/status//rpc"],
)
def test_odd_paths(target: Target, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=50)
    connection.request("GET", path, headers={"Authorization": f"Bearer {target.token}"})
    assert connection.getresponse().status in (404, 405)
    connection.close()


# ---- connections ----


@pytest.mark.parametrize("unix", [False, True])
def test_a_thousand_idle_connections_and_fifty_slow_ones(target: Target, unix: bool) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    connections = list[socket.socket]()
    try:
        for number in range(1000):
            s = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
            s.settimeout(50)
            s.connect(target.rpc if unix else ("127.0.0.1", target.port))
            if number >= 950:
                s.sendall(b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            connections.append(s)
        for drop in b"abc":
            for s in connections[950:]:
                with contextlib.suppress(ConnectionError):
                    s.send(bytes([drop]))
            target.answers()
        with FairClock() as clock:
            connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=50)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
            connection.close()
        assert clock.fair_s < 5
    finally:
        for s in connections:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    target.answers()


def test_a_first_line_too_deep_to_read_ends_its_own_bridge_alone(target: Target) -> None:
    with bridge(target) as bridge_socket, bridge(target) as deep:
        deep.sendall(b"[" * 200_000 + b"\n")
        assert b'"error"' in deep.recv(1 << 16)
        bridge_socket.sendall(INITIALIZE)
        assert b"serverInfo" in bridge_socket.recv(1 << 16)
    target.answers()


@pytest.mark.parametrize(
    ("line", "rid"),
    [
        (rb'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "\udce9"}}', 7),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": 3}', "a"),
        (b'{"id": true}', None),
        (b'{"jsonrpc": "2.0", "id": 7, "meth', None),
        (b"\xff", None),
    ],
)
def test_a_line_that_is_no_message_is_answered_and_the_session_goes_on(
    target: Target, line: bytes, rid: Any
) -> None:
    with bridge(target) as s:
        s.sendall(line + b"\n")
        reply = json.loads(s.recv(1 << 16))
        assert (
            reply["id"],
            reply["error"]["code"] in (error_codes.PARSE_ERROR, error_codes.INVALID_REQUEST),
        ) == (
            rid,
            True,
        )
        s.sendall(INITIALIZE)
        assert b"serverInfo" in s.recv(1 << 16)
    target.answers()


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process: Linux only"
)
def test_a_bridge_that_comes_when_no_file_handle_is_left_is_served_later(target: Target) -> None:
    pid = client.call(target.rpc, "status")["pid"]
    previous_limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = lasting_handles(pid)
    free = next(number for number in itertools.count() if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, previous_limits[1]))
    try:
        with bridge(target) as waiting:
            waiting.sendall(INITIALIZE)
            end = time.monotonic() + 60
            while "bridge_not_accepted" not in target.daemon.log:
                assert time.monotonic() < end
                time.sleep(0.02)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, previous_limits)
            assert b"serverInfo" in waiting.recv(1 << 16)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, previous_limits)
    target.answers()


@contextlib.contextmanager
def bridge(target: Target) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(target.daemon.home / "run" / "mcp.sock"))
        yield s


def test_more_bridges_than_there_is_room_for(target: Target) -> None:
    bridges = list[socket.socket]()
    try:
        for _ in range(400):
            bridges.append(socket.socket(socket.AF_UNIX))
            bridges[-1].settimeout(50)
            while (
                bridges[-1].connect_ex(str(target.daemon.home / "run" / "mcp.sock")) == errno.EAGAIN
            ):
                time.sleep(0.01)  # the kernel's queue is full
        target.answers()
        with bridges[-1].makefile("rb") as lines:  # turned away; the first ones may still speak
            assert "64 assistants" in json.loads(lines.readline())["error"]["message"]
            assert lines.readline() == b""
    finally:
        for s in bridges:
            s.close()
    target.answers()


# ---- the runtime directory ----


# more of them in test_serve.py, below the daemon
@pytest.mark.parametrize("kind", ["symbolic link", "world-writable"])
def test_a_daemon_does_not_start_in_a_runtime_directory_of_others(
    tmp_path: Path, kind: str
) -> None:
    with passing_daemon() as daemon:
        run = daemon.home / "run"
        if kind == "symbolic link":
            (tmp_path / "real").mkdir(mode=0o700)
            run.symlink_to(tmp_path / "real")
        else:
            run.mkdir()
            run.chmod(0o777)
        done = daemon.run()
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        assert "hint: " in line
        assert not (daemon.home / "state" / "postgres").exists()


def test_names_of_files_are_known_to_the_decoder() -> None:
    """A file name may hold bytes that are no UTF-8, in every parameter that names one."""
    assert {"path", "paths", "cwd", "root"} <= shapes._FILE_NAMES
