"""Random and nearly right requests over every front end: each is answered within 2 s, none is an
internal error.
"""

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cocosearch_ipc import error_codes
from cocosearch_ipc.rpc import openrpc
from cocosearch_ipc.rpc.methods import METHODS
from tests.daemon import Daemon
from tests.mcp_messages import INITIALIZED, initialize_request, message_line

# Hypothesis warns of a failure with a long body in place of showing it.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]

WITHIN_S = 2.0
DEADLINE_MS = "1000"
SHORT = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
LONG = settings(
    max_examples=10_000,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# Without a slash: no random path is that of a directory, which a request could have indexed.
TEXT = st.text(st.characters(exclude_characters="/"), max_size=30) | st.sampled_from(
    [
        "",
        "\0",
        "a" * 5000,
        "\u202e",
        "\ufeff",
        "..",
        "~",
        "*" * 500,
        "{" * 300,
        "(((((",
        "'; drop table x; --",
        "𝔘" * 99,
    ]
)
NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.sampled_from([0, -1, 10**30, 1e308])
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
NAMES = sorted(name for name in METHODS if name != "shutdown" and not openrpc.streams(name))
PARAMETERS = sorted(
    {
        "query",
        "index",
        "indexes",
        "topics",
        "path",
        "paths",
        "cwd",
        "limit",
        "session",
        "languages",
        "timeout_ms",
        "name",
    }
    | {
        "line",
        "pattern",
        "cursor",
        "budget_tokens",
        "sync_timeout_ms",
        "explain",
        "why_not",
        "profile",
        "min_score",
    }
)
PARAMS = st.dictionaries(st.sampled_from(PARAMETERS) | TEXT, VALUES, max_size=5) | VALUES
CALLS = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": st.integers(0, 9) | SCALARS,
        "method": st.sampled_from(NAMES),
        "params": PARAMS,
    }
)
BROKEN = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": VALUES,
        "id": VALUES,
        "method": VALUES,
        "params": VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)
MESSAGES = CALLS | BROKEN | st.lists(CALLS | BROKEN, max_size=3) | VALUES


def as_bytes(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A message; cut, doubled, with bytes changed, or nested without end."""
    body = as_bytes(draw(MESSAGES))
    kind = draw(
        st.sampled_from(["whole", "whole", "whole", "cut", "doubled", "changed", "nested", "noise"])
    )
    position = draw(st.integers(0, max(0, len(body) - 1)))
    match kind:
        case "cut":
            return body[:position]
        case "doubled":
            return body[:position] + body[: position + 1] + body[position:]
        case "changed":
            return body[:position] + draw(st.binary(min_size=1, max_size=3)) + body[position + 1 :]
        case "nested":
            return draw(st.sampled_from([b"[", b'{"a":', b'[{"params":'])) * draw(
                st.integers(1, 50_000)
            )
        case "noise":
            return draw(st.binary(max_size=200))
    return body


def check(daemon: Daemon, ask: Callable[[], list[dict[str, Any]]]) -> None:
    """Ask; on a busy machine once more before an answer counts as late."""
    for attempt in (1, 2):
        began = time.monotonic()
        replies = ask()
        if (took := time.monotonic() - began) < WITHIN_S:
            break
        assert attempt == 1, f"answered after {took:.1f} s"
    codes = [reply["error"]["code"] for reply in replies if isinstance(reply.get("error"), dict)]
    assert error_codes.INTERNAL_ERROR not in codes, replies
    assert "rpc_failed" not in daemon.log, daemon.log[-3000:]


def answers_still(daemon: Daemon) -> None:
    assert daemon.call("status")["pid"] == (daemon.process.pid if daemon.process else 0)
    assert "Traceback" not in daemon.log, daemon.log[-4000:]


def listed(payload: bytes) -> list[dict[str, Any]]:
    if not payload:
        return []
    reply = json.loads(payload)
    return reply if isinstance(reply, list) else [reply]


# ---- JSON-RPC ----


def ask_rpc(daemon: Daemon, body: bytes) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    connection.sock.connect(str(daemon.home / "run" / "rpc.sock"))
    headers = {"Content-Type": "application/json", "X-Cocosearch-Deadline-Ms": DEADLINE_MS}
    try:
        connection.request("POST", "/rpc", body, headers)
        reply = connection.getresponse()
        assert reply.status in (200, 204), (reply.status, reply.read(2000))
        return listed(reply.read())
    finally:
        connection.close()


def fuzz_rpc(daemon: Daemon, limits: settings) -> None:
    @limits
    @given(bodies())
    def run(body: bytes) -> None:
        check(daemon, lambda: ask_rpc(daemon, body))

    run()
    answers_still(daemon)


def test_json_rpc(shared: Daemon) -> None:
    fuzz_rpc(shared, SHORT)


@pytest.mark.slow
def test_json_rpc_for_long(shared: Daemon) -> None:
    fuzz_rpc(shared, LONG)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """HTTP that is nearly right: methods, paths, lengths and encodings that do not fit the body."""
    body = draw(bodies())[:5000]
    lines = [
        draw(
            st.sampled_from(
                [
                    b"POST /rpc HTTP/1.1",
                    b"GET /rpc HTTP/1.1",
                    b"POST /rpc HTTP/1.0",
                    b"POST  /rpc",
                    b"\xff",
                ]
            )
        ),
        b"Host: localhost",
        b"Content-Type: application/json",
        b"Connection: close",
        draw(
            st.sampled_from(
                [
                    b"Content-Length: %d" % len(body),
                    b"Content-Length: 3",
                    b"Content-Length: -1",
                    b"Content-Length: 9" * 9,
                    b"Transfer-Encoding: chunked",
                    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
                    b"X: \x00",
                    b"",
                ]
            )
        ),
        draw(
            st.sampled_from(
                [
                    b"X-Cocosearch-Deadline-Ms: 100",
                    b"X-Cocosearch-Deadline-Ms: -1",
                    b"X-A: " + b"b" * 9000,
                ]
            )
        ),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@SHORT
@given(frame=frames())
def test_http_frames(shared: Daemon, frame: bytes) -> None:
    def ask() -> list[dict[str, Any]]:
        with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(ConnectionError, TimeoutError):
            s.settimeout(WITHIN_S / 4)
            s.connect(str(shared.home / "run" / "rpc.sock"))
            s.sendall(frame)
            s.shutdown(socket.SHUT_WR)
            while s.recv(1 << 16):
                pass
        return []

    check(shared, ask)
    answers_still(shared)


# ---- MCP ----

TOOLS = (
    "search_code",
    "list_indexes",
    "index_stats",
    "clear_index",
    "get_file",
    "list_files",
    "find_related",
    "grep",
    "search",
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        [
            "query",
            "index_name",
            "filename",
            "line",
            "limit",
            "path_prefix",
            "pattern",
            "cursor",
            "topic",
        ]
    )
    | TEXT,
    VALUES,
    max_size=4,
)
MCP_CALLS = st.one_of(
    st.fixed_dictionaries(
        {"method": st.just("tools/call")},
        optional={
            "params": st.fixed_dictionaries(
                {"name": st.sampled_from(TOOLS) | TEXT, "arguments": ARGUMENTS}
            )
        },
    ),
    st.fixed_dictionaries(
        {
            "method": st.sampled_from(
                [
                    "tools/list",
                    "resources/list",
                    "resources/read",
                    "resources/subscribe",
                    "prompts/get",
                    "ping",
                    "completion/complete",
                    "logging/setLevel",
                    "initialize",
                    "notifications/cancelled",
                    "nothing",
                ]
            )
        },
        optional={
            "params": st.dictionaries(
                st.sampled_from(["uri", "name", "arguments", "cursor"]) | TEXT, VALUES
            )
        },
    ),
)


def fuzz_mcp(daemon: Daemon, limits: settings) -> None:
    with session(daemon) as (s, lines):

        @limits
        @given(MCP_CALLS | bodies().map(lambda body: {"raw": body.replace(b"\n", b" ")}))
        def run(call: dict[str, Any]) -> None:
            def ask() -> list[dict[str, Any]]:
                line = (
                    call["raw"]
                    if "raw" in call
                    else as_bytes({"jsonrpc": "2.0", "id": "it", **call})
                )
                s.sendall(line + b"\n" + b'{"jsonrpc": "2.0", "id": "after", "method": "ping"}\n')
                return list(_until(lines, "after"))

            check(daemon, ask)

        run()
    answers_still(daemon)


def _until(lines: Any, rid: str) -> Iterator[dict[str, Any]]:
    """Read replies up to that of the last request: answers may overtake each
    other.
    """
    for line in lines:
        reply = json.loads(line)
        if reply.get("id") == rid:
            return
        yield reply
    pytest.fail("the session has ended")


@contextlib.contextmanager
def session(daemon: Daemon) -> Iterator[tuple[socket.socket, Any]]:
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(daemon.home / "run" / "mcp.sock"))
        lines = s.makefile("rb")
        s.sendall(
            as_bytes({"cocosearch": {"cwd": "/"}}) + b"\n" + message_line(initialize_request())
        )
        assert b"serverInfo" in lines.readline()
        s.sendall(message_line(INITIALIZED))
        yield s, lines
        lines.close()


def test_mcp_over_the_bridge(shared: Daemon) -> None:
    fuzz_mcp(shared, SHORT)


@pytest.mark.slow
def test_mcp_over_the_bridge_for_long(shared: Daemon) -> None:
    fuzz_mcp(shared, LONG)


@SHORT
@given(
    body=MCP_CALLS.map(lambda call: as_bytes({"jsonrpc": "2.0", "id": 1, **call})) | bodies(),
    modern=st.booleans(),
)
def test_mcp_over_http(shared: Daemon, body: bytes, modern: bool) -> None:
    url = shared.call("status")["mcp"]["url"]
    token = (shared.home / "state" / "token").read_text().strip()
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    } | ({"MCP-Protocol-Version": "2026-07-28"} if modern else {})

    def ask() -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]), timeout=60
        )
        connection.request("POST", "/mcp", body, headers)
        reply = connection.getresponse()
        assert reply.status < 500, (reply.status, reply.read(2000))
        connection.close()
        return []

    check(shared, ask)
