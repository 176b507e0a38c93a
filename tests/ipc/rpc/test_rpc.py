"""JSON-RPC over the real Unix socket: with our client, with raw bytes and with curl."""

import asyncio
import http.client
import json
import logging
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from cocosearch_ipc import client, error_codes
from cocosearch_ipc import protocol as p
from cocosearch_ipc.rpc import dispatcher as dispatcher_module
from cocosearch_ipc.rpc import openrpc, shapes
from cocosearch_ipc.rpc.dispatcher import Dispatcher
from cocosearch_ipc.rpc.methods import METHODS
from tests.ipc.conftest import Served
from tests.ipc.engine import FixedEngine
from tests.machine_speed import slowness

ENDED_HINT = (
    "ask again; `cocosearchctl up PATH` starts it if it does not run, "
    "`cocosearchctl logs` says why it stopped"
)


class UnixHTTP(http.client.HTTPConnection):
    """The standard library's HTTP client on a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=50)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(50)
        self.sock.connect(self.path)


def post(served: Served, body: bytes, **headers: str) -> tuple[int, Any]:
    connection = UnixHTTP(served.rpc)
    try:
        connection.request("POST", "/rpc", body, {"Content-Type": "application/json"} | headers)
        reply = connection.getresponse()
        data = reply.read()
        is_json = reply.headers.get("content-type", "").startswith("application/json")
        return reply.status, json.loads(data) if is_json else data
    finally:
        connection.close()


def ask(served: Served, method: str, params: object = None, rid: object = 1) -> Any:
    message = {"jsonrpc": "2.0", "id": rid, "method": method} | (
        {} if params is None else {"params": params}
    )
    return post(served, json.dumps(message).encode())[1]


def test_a_search_over_the_socket(served: Served) -> None:
    reply = client.call(
        served.rpc, "search", {"query": "where are retries decided", "index": "demo"}
    )
    assert list(reply)[:2] == ["query", "results"]
    hit = reply["results"][0]
    assert (hit["path"], hit["start_line"], hit["end_line"]) == ("src/retry.py", 3, 5)
    assert reply["as_of"] == {"epoch": "3f0c9a52-0000-4000-8000-000000000000", "seq": 7}
    assert served.engine.requests == [p.SearchRequest("where are retries decided", index="demo")]


def test_the_client_and_the_protocol_are_of_one_version() -> None:
    assert client.SPEAKS == p.PROTOCOL_VERSION
    assert (client.UNAVAILABLE, client.TIMED_OUT) == (
        error_codes.UNAVAILABLE,
        error_codes.TIMED_OUT,
    )


@pytest.mark.parametrize(
    ("params", "message", "hint"),
    [
        ({"query": "x", "limt": 3}, "unknown parameter 'limt'", "did you mean 'limit'?"),
        ({"query": "x", "zzz": 3}, "unknown parameter 'zzz'", "valid parameters: query, index,"),
        ({}, "parameter 'query' is missing", ""),
        ({"query": 3}, "query must be a string, not 3", ""),
        ({"query": "x", "limit": True}, "limit must be an integer, not true", ""),
        ({"query": "x", "limit": "3"}, 'limit must be an integer, not "3"', ""),
        ({"query": "x", "languages": "python"}, "languages is not a list", '["a", "b"]'),
        (
            {"query": "x", "min_score": 10**400},
            "min_score is out of range",
            "the largest number is",
        ),
        (
            {"query": "x", "sync_timeout_ms": 10**400},
            "sync_timeout_ms is out of range",
            "the largest number is",
        ),
        ({"query": "x", "languages": [1]}, "languages must be a string, not 1", ""),
        ({"query": "a\0b"}, "query contains a NUL character", "remove it"),
        ({"query": "\ud800"}, "query is not valid Unicode", "send UTF-8"),
        ({"query": "x", "cwd": "/a\ud800"}, "cwd is not valid Unicode", ""),
        ("x", "params is neither an object nor a list", ""),
        ([1, 2, 3] * 20, "60 parameters are too many", ""),
    ],
)
def test_bad_parameters_are_named(served: Served, params: object, message: str, hint: str) -> None:
    error = ask(served, "search", params)["error"]
    assert error["code"] == error_codes.INVALID_PARAMS
    assert error["message"].startswith(message)
    assert hint in error.get("data", {}).get("hint", "")
    assert served.engine.requests == []


def test_values_that_are_nested_as_deep_as_can_be_read_are_named() -> None:
    dispatcher = Dispatcher(FixedEngine())
    codes = set[int]()
    for depth in range(900, 1000):
        value = "[" * depth + "]" * depth
        for method, params in (
            ("search", f'{{"query": {value}}}'),
            ("dependencies", f'{{"direction": {value}}}'),
        ):
            body = f'{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {params}}}'
            reply = json.loads(asyncio.run(dispatcher.answer(body.encode())) or b"")
            codes.add(reply["error"]["code"])
    assert codes == {error_codes.INVALID_PARAMS, error_codes.PARSE_ERROR}


def test_parameters_by_position_and_file_names_that_are_no_utf8(served: Served) -> None:
    assert ask(served, "search", ["words", "demo"])["result"]["query"] == "words"
    assert "result" in ask(served, "search", {"query": "x", "index": "demo", "cwd": "/srv/\udcff"})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", error_codes.PARSE_ERROR),
        (b"\xff\xfe\xfd", error_codes.PARSE_ERROR),
        (b"[" * 100_000, error_codes.PARSE_ERROR),
        (b"3", error_codes.INVALID_REQUEST),
        (b"[]", error_codes.INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "status"}', error_codes.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "status"}', error_codes.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', error_codes.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "status"}', error_codes.PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1e999, "method": "status"}', error_codes.INVALID_REQUEST),
        (
            json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "status"}] * 101).encode(),
            error_codes.INVALID_REQUEST,
        ),
    ],
)
def test_bodies_that_are_no_requests(served: Served, body: bytes, code: int) -> None:
    status, reply = post(served, body)
    assert status == 200
    assert (reply["id"], reply["error"]["code"]) == (reply["id"], code)


def test_an_unknown_method_gets_the_nearest_name(served: Served) -> None:
    error = ask(served, "serach")["error"]
    assert (error["code"], error["data"]["hint"]) == (
        error_codes.METHOD_NOT_FOUND,
        "did you mean 'search'?",
    )


def test_failures_carry_code_and_hint_and_defects_do_not_leak(served: Served) -> None:
    error = ask(served, "index_stats", {"index": "nothing"})["error"]
    assert error == {
        "code": error_codes.NOT_FOUND,
        "message": "no index 'nothing'",
        "data": {"hint": "there are demo"},
    }
    error = ask(served, "search", {"query": "defect", "index": "demo"})["error"]
    assert (error["code"], error["message"]) == (error_codes.INTERNAL_ERROR, "internal error")
    assert "a defect" not in json.dumps(error)


def test_an_answer_that_has_no_json_is_a_defect_and_costs_no_other(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def endless(request: p.Empty) -> p.ShutdownReply:
        return p.ShutdownReply(pid=math.inf)  # type: ignore[arg-type]

    monkeypatch.setattr(served.engine, "shutdown", endless)
    assert ask(served, "shutdown")["error"]["code"] == error_codes.INTERNAL_ERROR
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": 2, "method": "status"},
    ]
    status, replies = post(served, json.dumps(batch).encode())
    assert (status, ["error" in reply for reply in replies]) == (200, [True, False])
    with pytest.raises(client.CallFailed, match="internal error"):
        list(client.stream(served.rpc, "shutdown"))
    assert "rpc_failed" in caplog.text


def test_a_batch_and_notifications(served: Served) -> None:
    batch = [
        {
            "jsonrpc": "2.0",
            "id": "a",
            "method": "search",
            "params": {"query": "1", "index": "demo"},
        },
        {"jsonrpc": "2.0", "method": "search", "params": {"query": "2", "index": "demo"}},
        {"jsonrpc": "2.0", "id": None, "method": "nothing"},
        7,
    ]
    status, reply = post(served, json.dumps(batch).encode())
    assert status == 200
    assert [(r["id"], r.get("error", {}).get("code")) for r in reply] == [
        ("a", None),
        (None, error_codes.METHOD_NOT_FOUND),
        (None, error_codes.INVALID_REQUEST),
    ]
    assert post(served, json.dumps(batch[1]).encode()) == (204, b"")
    assert len(served.engine.requests) == 3


def test_a_batch_runs_side_by_side(served: Served) -> None:
    served.engine.busy = 2.0
    calls = [
        {"jsonrpc": "2.0", "id": i, "method": "search", "params": ["x", "demo"]} for i in range(20)
    ]
    began = time.monotonic()
    _, reply = post(served, json.dumps(calls).encode())
    assert [r["id"] for r in reply] == list(range(20))
    assert time.monotonic() - began < 20  # one after the other it would be 40 s


def test_http_limits(served: Served) -> None:
    assert post(served, b"{}", **{"Content-Type": "text/plain"})[0] == 415
    status, reply = post(served, b" " * ((1 << 20) + 1))
    assert (status, reply["error"]["message"]) == (413, "a body has at most 1048576 bytes")
    for size in (1 << 20, 4 << 20):  # the second is not taken off the socket to its end
        for ask in (client.call, lambda *arguments: next(client.stream(*arguments))):
            with pytest.raises(
                client.CallFailed, match="a body has at most 1048576 bytes"
            ) as failed:
                ask(str(served.rpc), "search", {"query": "x" * size})
            assert failed.value.reason == ""
    connection = UnixHTTP(served.rpc)
    connection.request("GET", "/rpc")
    assert connection.getresponse().status == 405
    connection.close()


def test_progress_is_streamed_and_ends_with_the_result(served: Served) -> None:
    values = list(client.stream(served.rpc, "follow", {"index": "demo"}))
    assert [v["state"] for v in values] == ["indexing"] * 3 + ["live"]
    assert client.call(served.rpc, "follow", {"index": "demo"})["state"] == "live"
    with pytest.raises(client.CallFailed, match="no index 'x'"):
        list(client.stream(served.rpc, "follow", {"index": "x"}))


def test_each_value_of_a_stream_comes_at_once(served: Served) -> None:
    served.engine.step_s = 30.0
    began = time.monotonic()
    stream = client.stream(served.rpc, "follow", {"index": "demo"})
    next(stream)
    assert time.monotonic() - began < 15
    stream.close()


def test_a_client_that_goes_away_cancels_its_call(served: Served) -> None:
    served.engine.busy = 30
    leaving = UnixHTTP(served.rpc)
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "search", "params": ["x", "demo"]}
    ).encode()
    leaving.request("POST", "/rpc", body, {"Content-Type": "application/json"})
    _until(lambda: len(served.engine.requests) == 1)
    leaving.close()
    _until(lambda: served.engine.cancelled == 1)
    served.engine.steps = 1000
    served.engine.step_s = 0.05
    stream = client.stream(served.rpc, "follow", {"index": "demo"})
    assert next(stream)["state"] == "indexing"
    stream.close()
    _until(lambda: served.engine.cancelled == 2)


def test_a_daemon_that_says_nothing_is_waited_for_as_long_as_asked(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        with pytest.raises(client.CallFailed, match=r"no answer to search within 0\.3 s") as failed:
            client.call(
                str(tmp_path / "silent"), "search", {"query": "x", "index": "demo"}, timeout_s=0.3
            )
    assert failed.value.code == error_codes.TIMED_OUT


def test_a_deadline_of_the_caller_is_kept_by_the_daemon(served: Served) -> None:
    served.engine.busy = 30
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "search", "params": ["x", "demo"]}
    ).encode()
    _, reply = post(served, body, **{"X-Cocosearch-Deadline-Ms": "100"})
    assert (reply["error"]["code"], served.engine.cancelled) == (error_codes.TIMED_OUT, 1)


@pytest.mark.parametrize("deadline", ["9" * 400, "9" * 5000, "soon", "-1"])
def test_a_deadline_that_is_none_is_the_longest(served: Served, deadline: str) -> None:
    status, reply = post(
        served,
        b'{"jsonrpc": "2.0", "id": 1, "method": "status"}',
        **{"X-Cocosearch-Deadline-Ms": deadline},
    )
    assert (status, "result" in reply) == (200, True)


def test_the_table_of_methods_is_published(served: Served) -> None:
    document = ask(served, "rpc.discover")["result"]
    assert [method["name"] for method in document["methods"]] == list(METHODS)
    search = next(method for method in document["methods"] if method["name"] == "search")
    assert search["params"][0] == {"name": "query", "required": True, "schema": {"type": "string"}}
    assert set(search["result"]["schema"]["required"]) >= {"query", "results", "fresh", "cache"}
    assert all(method["summary"] for method in document["methods"])
    assert set(openrpc.ERRORS) >= {
        error_codes.TIMED_OUT,
        error_codes.UNAVAILABLE,
        error_codes.CONFLICT,
    }


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
@pytest.mark.parametrize("document", ["rpc.md", "observability.md"])
def test_the_documented_curl_examples(served: Served, document: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / document).read_text("utf-8")
    blocks = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    script = "\n".join(block for block in blocks if "curl" in block or "SOCKET=" in block)
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "cocosearch").symlink_to(served.run)
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    done = subprocess.run(
        ["bash", "-euc", script.replace("curl ", "curl --fail -w '\\n' ")],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")
    assert script.count("curl ") >= (6 if document == "rpc.md" else 1)
    if document == "rpc.md":
        assert json.loads(answers[0])["result"]["results"][0]["path"] == "src/retry.py"
        assert [reply["id"] for reply in json.loads(answers[1])] == [1, 2]
        assert json.loads(answers[2])["method"] == "$/progress"
        assert "error" not in done.stdout.partition('"openrpc"')[0]
    else:
        assert "cocosearch_index_chunks" in done.stdout


def test_every_method_has_an_example_that_is_understood() -> None:
    for method, (_, request) in METHODS.items():
        shapes.decode(request, openrpc.EXAMPLES.get(method, {}))
    assert set(openrpc.EXAMPLES) <= set(METHODS)


def test_the_client_alone_is_enough(served: Served, tmp_path: Path) -> None:
    shutil.copy(Path(str(client.__file__)), tmp_path / "vendored.py")
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "import vendored\n"
        "print(vendored.call(sys.argv[2], 'search', {'query': 'x', 'index': 'demo'})['results'][0]['path'])\n"
        "print([e['state'] for e in vendored.stream(sys.argv[2], 'follow', {'index': 'demo'})][-1])\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path), served.rpc]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "src/retry.py\nlive\n", done.stderr


def test_health_readiness_and_metrics(served: Served) -> None:
    statuses = {}
    for path in ("/healthz", "/readyz", "/metrics", "/nothing", "/sse"):
        connection = UnixHTTP(served.rpc)
        connection.request("GET", path)
        reply = connection.getresponse()
        statuses[path] = (reply.status, reply.read().decode())
        connection.close()
    assert statuses["/healthz"] == (200, "ok\n")
    assert statuses["/readyz"] == (200, "ready\n")
    assert 'cocosearch_index_chunks{index="demo"} 5\n' in statuses["/metrics"][1]
    assert (statuses["/nothing"][0], statuses["/sse"][0]) == (404, 404)


def test_no_daemon_says_how_to_start_one(tmp_path: Any) -> None:
    with pytest.raises(client.CallFailed, match="cocosearchd is not running") as failed:
        client.call(str(tmp_path / "rpc.sock"), "status")
    assert (failed.value.reason, failed.value.hint) == (
        client.NOT_RUNNING,
        "start it with `cocosearchctl up PATH`",
    )
    left_over = socket.socket(socket.AF_UNIX)
    left_over.bind(str(tmp_path / "rpc.sock"))
    left_over.close()
    with pytest.raises(client.CallFailed, match="cocosearchd is not running"):
        list(client.stream(str(tmp_path / "rpc.sock"), "follow"))


def test_something_else_on_the_socket_is_said(tmp_path: Path) -> None:
    with (
        _answering_once(tmp_path, b"220 mail.example ESMTP\r\n") as path,
        pytest.raises(client.CallFailed, match=r"cocosearchd answered 220 mail\.example"),
    ):
        client.call(path, "status")


@pytest.mark.parametrize(
    "answer",
    [b"", b'HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{"jsonrpc": "2.0", "id": 1, "res'],
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_daemon_that_is_killed_before_or_in_an_answer_is_said_to_have_stopped(
    tmp_path: Path, answer: bytes, is_streamed: bool
) -> None:
    with (
        _answering_once(tmp_path, answer) as path,
        pytest.raises(client.CallFailed, match="stopped during the answer") as failed,
    ):
        list(client.stream(path, "follow")) if is_streamed else client.call(path, "status")
    assert (failed.value.reason, failed.value.hint) == (client.NOT_RUNNING, ENDED_HINT)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_connection_that_is_reset_is_said_to_have_ended_and_what_to_do(
    tmp_path: Path, is_streamed: bool
) -> None:
    """A server that closes a Unix socket with unread data resets the connection."""
    with (
        _answering_once(tmp_path, b"", flags=socket.MSG_PEEK) as path,
        pytest.raises(client.CallFailed) as failed,
    ):
        list(client.stream(path, "follow")) if is_streamed else client.call(path, "status")
    assert (
        failed.value.message == "cocosearchd stopped before the answer (Connection reset by peer)"
    )
    assert (failed.value.reason, failed.value.hint) == (client.NOT_RUNNING, ENDED_HINT)


def test_a_daemon_that_is_killed_while_it_writes_is_said_to_have_stopped(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n"
    with (
        _answering_once(tmp_path, head + b'{"jsonrpc": "2.0", "m') as path,
        pytest.raises(client.CallFailed, match="stopped during the answer"),
    ):
        list(client.stream(path, "follow"))


@contextmanager
def _answering_once(directory: Path, answer: bytes, flags: int = 0) -> Iterator[str]:
    """Run a server that sends some bytes to its first client and hangs up; yield its socket.

    `flags` are those of its receipt of the request.
    """
    path = str(directory / "rpc.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def send_answer() -> None:
            connection, _ = server.accept()
            connection.recv(65536, flags)
            connection.sendall(answer)
            connection.close()

        thread = threading.Thread(target=send_answer)
        thread.start()
        yield path
        thread.join()


def _until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_example_in_python_compiles() -> None:
    example = re.search(r"  In Python:\n\n((?: {6}.*\n|\n)+)", openrpc.reference())
    assert example is not None
    code = textwrap.dedent(example[1])
    assert code.startswith("from cocosearch_ipc import")
    assert "session.clear(" in code
    compile(code, "docs/rpc.md", "exec")


def test_the_reference_is_current() -> None:
    written = (Path(__file__).parents[3] / "docs" / "rpc.md").read_text("utf-8")
    assert written == openrpc.reference(), "python -m cocosearch_ipc.rpc.openrpc > docs/rpc.md"
    for link in re.findall(r"\]\(#(\w+)\)", written):
        assert re.search(rf"^### {link}$", written, re.MULTILINE | re.IGNORECASE), link


def test_a_request_has_an_id_in_the_answer_and_in_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    request_ids = list[str]()

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            merged = structlog.contextvars.merge_contextvars(
                None, "info", {"event": record.getMessage()}
            )
            request_ids.append(f"{merged['event']} {merged.get('request_id')}")

    handler = Recorder()
    logging.getLogger("cocosearch_ipc.rpc.dispatcher").addHandler(handler)
    connection = UnixHTTP(served.rpc)
    body = '{"jsonrpc": "2.0", "id": 1, "method": "search", "params": ["defect", "demo"]}'
    connection.request("POST", "/rpc", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    reply.read()
    connection.close()
    logging.getLogger("cocosearch_ipc.rpc.dispatcher").removeHandler(handler)
    assert request_ids == [f"rpc_failed {reply.headers['x-request-id']}"]


def answer(body: object) -> bytes:
    reply = asyncio.run(Dispatcher(FixedEngine()).answer(json.dumps(body).encode()))
    assert reply is not None
    return reply


def call_of(method: str, params: object = None, rid: int = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": rid, "method": method, "params": params or {}}


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("s" * 900_000, {}, "no method 'sss"),
        ("search", {"q" * 900_000: 1}, "unknown parameter 'qqq"),
        ("search", {"query": "x", "indexes": ["a"] * 200_000}, "indexes has 200,000 items"),
        ("dependencies", {"direction": "d" * 900_000}, "direction is 'ddd"),
        *(
            (method, {"query": "x", name: "d" * 900_000}, f"{name} has 900,000 characters")
            for method, name in (("search", "profile"), ("search", "index"), ("map", "cwd"))
        ),
        ("search", {"query": "x", "topics": ["d" * 900_000]}, "topics has 900,000 characters"),
    ],
)
def test_long_names_and_lists_are_refused_in_few_words(
    method: str, params: dict[str, object], message: str
) -> None:
    body = json.dumps(call_of(method, params)).encode()
    dispatcher = Dispatcher(FixedEngine())
    began = time.process_time()
    reply = asyncio.run(dispatcher.answer(body)) or b""
    used = time.process_time() - began
    assert len(reply) < 1200
    assert json.loads(reply)["error"]["message"].startswith(message)
    assert used < 0.1 * slowness(), "parsing a megabyte takes some milliseconds"


async def _stream_discover() -> list[bytes]:
    lines = Dispatcher(FixedEngine()).stream(json.dumps(call_of("rpc.discover")).encode())
    return [line async for line in lines]


def test_the_document_can_be_streamed() -> None:
    progress, response = map(json.loads, asyncio.run(_stream_discover()))
    assert progress["params"]["value"] == response["result"]
    assert response["result"] == json.loads(shapes.to_json(openrpc.document()))


def test_the_document_is_encoded_once() -> None:
    single = answer(call_of("rpc.discover"))
    assert json.loads(single)["result"] == json.loads(shapes.to_json(openrpc.document()))
    assert openrpc.encoded_document() is openrpc.encoded_document()


def test_the_replies_of_a_batch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(answer(call_of("rpc.discover")))
    monkeypatch.setattr(dispatcher_module, "MAX_BATCH_REPLY_BYTES", 3 * size)
    body = [call_of("rpc.discover", rid=number) for number in range(10)]
    replies = json.loads(answer(body))
    assert [reply["id"] for reply in replies] == list(range(10))
    refused = [reply["error"] for reply in replies if "error" in reply]
    assert 6 <= len(refused) <= 7
    assert {error["code"] for error in refused} == {error_codes.INVALID_REQUEST}
    assert len(answer(body)) < 5 * size
    assert "result" in json.loads(answer(call_of("rpc.discover")))
