"""Real MCP clients (the SDK's and fastmcp's) over every transport, and refused clients."""

import http.client
import io
import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.shared.exceptions import MCPDeprecationWarning

from cocosearch_ipc import error_codes, workspace_protocol
from cocosearch_ipc import protocol as p
from cocosearch_ipc.cli.running import bridge
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.mcp import client_project, compact_text, tool_calls
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.mcp.server import McpServer
from cocosearch_ipc.render.visible import CONTENT_NOTICE, NAMES_NOTICE
from cocosearch_ipc.rpc import openrpc
from cocosearch_ipc.rpc.methods import METHODS
from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served, start
from tests.ipc.engine import SERVER, FixedEngine
from tests.mcp_messages import (
    INITIALIZED,
    STRUCTURED,
    answer_text,
    initialize_request,
    message_line,
)

pytestmark = SDK_LEAVES_STREAMS


ROOTS = RootPolicy(("/srv",), "/home/nobody")
TOOLS = {"search_code", "list_indexes", "index_stats", "index_codebase", "clear_index"}
CTL = [
    sys.executable,
    "-c",
    "import sys; from cocosearch_ipc.cli.main import main; sys.exit(main())",
]


def transport(served: Served, kind: str, token: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token or served.token}"}
    if kind == "sse":
        return SSETransport(f"{served.url}/sse", headers=headers)
    if kind == "http":
        return StreamableHttpTransport(f"{served.url}/mcp", headers=headers)
    return StdioTransport(
        CTL[0], [*CTL[1:], "mcp"], env=served.environment, cwd="/srv", keep_alive=False
    )


PAGE_TOKENS = 1500 - tool_calls.FRAME_TOKENS


def search_request(query: str, index: str | None = None, **fields: Any) -> p.SearchRequest:
    """A request with the usual budget of an answer."""
    return p.SearchRequest(query, index, budget_tokens=PAGE_TOKENS, **fields)


@pytest.mark.parametrize("kind", ["http", "sse", "stdio"])
async def test_a_client_finds_the_tools_and_gets_an_answer(served: Served, kind: str) -> None:
    async with Client(transport(served, kind)) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        answer = await client.call_tool(
            "search_code",
            {"query": "retries", "index_name": "demo", "language": "python"},
            meta=STRUCTURED,
        )
    assert set(tools) >= TOOLS
    assert answer.structured_content is not None
    assert answer.structured_content["results"][0]["symbol_name"] == "Client.retry"
    assert answer.structured_content["fresh"] is True
    block = answer.content[0]
    assert isinstance(block, mcp_types.TextContent)
    assert block.text.startswith(
        f"{CONTENT_NOTICE}\n\n"
        "src/retry.py:2-5 (hit: 3-5)  method Client.retry  [73%]\n```python\nclass Client:\n"
    )
    assert block.text.endswith("Fresh as of 3f0c9a52/7.")
    assert served.engine.requests[-1] == search_request(
        "retries", index="demo", languages=("python",)
    )


async def test_tools_say_what_they_do_and_what_they_may_change(served: Served) -> None:
    async with Client(transport(served, "http")) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert len(await client.list_prompts()) == 1
        resource = (await client.read_resource("cocosearch://indexes"))[0]
    for tool in tools.values():
        assert tool.description
        assert tool.annotations is not None
    hints = {
        name: tool.annotations.destructive_hint for name, tool in tools.items() if tool.annotations
    }
    assert hints["clear_index"] is True
    assert tools["search_code"].annotations is not None
    assert tools["search_code"].annotations.read_only_hint is True
    assert isinstance(resource, mcp_types.TextResourceContents)
    assert json.loads(resource.text)["indexes"][0]["name"] == "demo"


async def test_failures_are_sentences_with_hints(served: Served) -> None:
    async with Client(transport(served, "http")) as client:
        unknown = await client.call_tool("index_stats", {"index_name": "x"}, raise_on_error=False)
        defect = await client.call_tool(
            "search_code", {"query": "defect", "index_name": "demo"}, raise_on_error=False
        )
        forbidden = await client.call_tool(
            "search_code", {"query": "a\0b", "index_name": "demo"}, raise_on_error=False
        )
    assert answer_text(unknown) == "no index 'x'\nHint: there are demo"
    assert "a defect" not in answer_text(defect)
    assert answer_text(forbidden).startswith("query contains a NUL character")
    assert all(answer.is_error for answer in (unknown, defect, forbidden))


async def test_the_other_designs_names_work_as_well(served: Served) -> None:
    async with Client(transport(served, "http")) as client:
        result = await client.call_tool(
            "search", {"query": "q", "top_k": 3, "topic": "t", "reranker": "spacy_nlp"}
        )
        for source in ("demo", "/srv/demo"):
            await client.call_tool("search", {"query": "q", "topic": "t", "source": source})
        explained = await client.call_tool(
            "explain_query", {"query": "q", "index_name": "demo", "why_not": "a.py"}
        )
        fresh = await client.call_tool("wait_until_fresh", {"index_name": "demo", "timeout_s": 1.5})
        topics = await client.call_tool("list_topics", {}, meta=STRUCTURED)
        sources = await client.call_tool("list_sources", {}, meta=STRUCTURED)
    assert served.engine.requests == [
        search_request("q", topics=("t",), limit=3, reranker="spacy"),
        *[search_request("q", "demo", topics=("t",), limit=10, reranker="auto")] * 2,
        p.SearchRequest("q", "demo", explain=True, why_not="a.py", limit=3),
        p.SyncRequest("demo", timeout_ms=1500),
    ]
    assert "Explanation:" in answer_text(explained)
    assert "src/retry.py" in answer_text(result)
    assert answer_text(fresh) == "demo is fresh."
    assert topics.structured_content == {"topics": [{"topic": "backend", "indexes": ["demo"]}]}
    assert sources.structured_content == {
        "sources": [
            {
                "name": "demo",
                "path": "/srv/demo",
                "topics": ["backend"],
                "files": 2,
                "state": "live",
            }
        ]
    }


async def test_files_are_offered_when_the_engine_has_them(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {
        "list_files": workspace_protocol.ListFilesRequest,
        "get_file": workspace_protocol.GetFileRequest,
        "find_related": workspace_protocol.FindRelatedRequest,
        "grep": workspace_protocol.GrepRequest,
    }
    for name, request in rows.items():
        monkeypatch.setitem(METHODS, name, (name, request))
    engine = FixedEngine()
    async with Client(McpServer(engine, ROOTS, SERVER.answer_tokens).fastmcp) as client:
        listed = await client.call_tool(
            "list_files", {"index_name": "demo", "path_prefix": "src", "pattern": "*.py"}
        )
        got = await client.call_tool(
            "get_file", {"index_name": "demo", "filename": "src/a.py", "start_line": 2}
        )
        await client.call_tool(
            "find_related", {"index_name": "demo", "filename": "src/a.py", "line": 7}
        )
        lines = await client.call_tool(
            "grep", {"index_name": "demo", "pattern": "retry", "language": "python", "path": "src"}
        )
        refused = await client.call_tool(
            "get_file", {"index_name": "demo", "filename": "a\0"}, raise_on_error=False
        )
    assert engine.requests == [
        workspace_protocol.ListFilesRequest(
            "demo", under="src", pattern="*.py", budget_tokens=PAGE_TOKENS
        ),
        workspace_protocol.GetFileRequest(
            "src/a.py", "demo", start_line=2, budget_tokens=PAGE_TOKENS
        ),
        workspace_protocol.FindRelatedRequest("src/a.py", 7, "demo", budget_tokens=PAGE_TOKENS),
        workspace_protocol.GrepRequest(
            "retry",
            "demo",
            under="src",
            languages=("python",),
            limit=100,
            budget_tokens=PAGE_TOKENS,
        ),
    ]
    assert answer_text(listed) == (
        f"{NAMES_NOTICE}\nsrc/a.py  python\n"
        '1 of 7 files. More: the same call with cursor="next"\nFresh as of 3f0c9a52/7.'
    )
    assert answer_text(got) == f"{CONTENT_NOTICE}\nsrc/a.py:2-3 of 3 lines\n```python\nb\nc\n```"
    assert answer_text(lines) == (
        f"4 lines in 1 of 2 files.\n{CONTENT_NOTICE}\n"
        "```\nsrc/retry.py (4)\n2  class Client:\n3:9:     def retry(self):  [Client.retry]\n```\n"
        'More: the same call with cursor="next"; path and language narrow it.\n'
        "src/big.py was not searched: it has grown\nFresh as of 3f0c9a52/7."
    )
    assert "NUL" in answer_text(refused)
    names = {method["name"] for method in openrpc.document.__wrapped__()["methods"]}
    assert set(rows) <= names


async def test_tools_without_an_engine_behind_them_are_not_offered(served: Served) -> None:
    async with Client(transport(served, "http")) as client:
        offered = {tool.name for tool in await client.list_tools()}
    beyond = {"list_files", "get_file", "find_related", "grep"}
    assert offered & beyond == set(METHODS) & beyond


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_first_of_the_clients_roots_that_is_indexed_chooses_the_project(
    served: Served, mode: Any
) -> None:
    served.engine.indexes |= {"one": "/srv/demo one", "other": "/srv/other"}
    roots = [
        "file://elsewhere/srv/demo",
        "file:///nowhere",
        "file:///srv/demo%20one/src",
        "file:///srv/other",
    ]
    async with Client(transport(served, "http"), roots=roots, mode=mode) as client:
        await client.call_tool("search_code", {"query": "x"})
        await client.call_tool("search_code", {"query": "x", "index_name": "demo"})
    requests = [
        request for request in served.engine.requests if isinstance(request, p.SearchRequest)
    ]
    assert requests == [search_request("x", "one"), search_request("x", "demo")]


async def test_roots_that_change_while_they_are_asked_for_are_asked_for_again(
    served: Served,
) -> None:
    served.engine.indexes |= {"one": "/srv/one", "two": "/srv/two"}
    roots = ["one", "two", "three"]

    async def told(context: Any) -> list[str]:
        now = roots.pop(0)
        if now == "one":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)  # all there is in this era
                await client.session.send_roots_list_changed()
        return [f"file:///srv/{now}"]

    async with Client(transport(served, "stdio"), roots=told, mode="legacy") as client:
        for _ in range(3):
            await client.call_tool("search_code", {"query": "x"})
    requests = [
        request.index for request in served.engine.requests if isinstance(request, p.SearchRequest)
    ]
    assert requests == ["one", "two", "two"]


async def test_a_client_that_was_too_busy_to_say_its_roots_is_asked_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_project, "ROOTS_WAIT_S", 0.05)
    monkeypatch.setattr(client_project, "SILENT_S", 0.5)
    served.engine.indexes |= {"one": "/srv/one"}
    busy = anyio.Event()

    async def told(context: Any) -> list[str]:
        await busy.wait()
        return ["file:///srv/one"]

    async with Client(transport(served, "http"), roots=told, mode="legacy") as client:
        for _ in range(2):
            late = await client.call_tool("search_code", {"query": "x"}, raise_on_error=False)
            assert late.is_error
        monkeypatch.setattr(client_project, "ROOTS_WAIT_S", 10.0)
        busy.set()
        with anyio.fail_after(60):
            while (
                await client.call_tool("search_code", {"query": "x"}, raise_on_error=False)
            ).is_error:
                await anyio.sleep(0.05)
    assert served.engine.requests[-1] == search_request("x", "one")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("flags", [["--project", "/srv/other"], ["--project-from-cwd"], []])
async def test_roots_then_what_the_bridge_was_told_then_where_it_runs(
    served: Served, mode: Any, flags: list[str]
) -> None:
    served.engine.indexes |= {"other": "/srv/other", "here": str(served.state)}
    command = [*CTL[1:], "mcp", *flags]
    index = {"--project": "other", "--project-from-cwd": "here"}.get(
        flags[0] if flags else "", "here"
    )
    for roots, expected in (
        (["file:///srv/demo"], "demo"),
        (["file:///nowhere"], index),
        (None, index),
    ):
        bridge = StdioTransport(
            CTL[0], command, env=served.environment, cwd=str(served.state), keep_alive=False
        )
        async with Client(bridge, mode=mode, **({"roots": roots} if roots else {})) as client:
            await client.call_tool("search_code", {"query": "x"})
        assert served.engine.requests[-1] == search_request("x", expected)


async def test_the_environment_chooses_as_a_flag_does(served: Served) -> None:
    served.engine.indexes["other"] = "/srv/other"
    env = served.environment | {"COCOSEARCH_PROJECT": "/srv/other/src"}
    async with Client(
        StdioTransport(CTL[0], [*CTL[1:], "mcp"], env=env, cwd="/srv", keep_alive=False)
    ) as client:
        await client.call_tool("search_code", {"query": "x"})
    assert served.engine.requests[-1] == search_request("x", "other")


async def test_a_bridge_that_runs_outside_of_all_indexes_uses_the_only_one_and_says_so(
    served: Served,
) -> None:
    async with Client(transport(served, "stdio")) as client:
        answer = await client.call_tool("search_code", {"query": "x"})
    assert served.engine.requests[-1] == search_request("x", cwd="/srv")
    assert answer_text(answer).startswith(  # before hits that are of another project
        '/srv is in no index: these results are from demo. To index it, call index_codebase(path="/srv")\n\n'
    )


async def test_a_bridge_outside_of_several_indexes_is_told_which_one_an_answer_is_of(
    served: Served,
) -> None:
    served.engine.indexes["other"] = "/srv/other"
    async with Client(transport(served, "stdio")) as client:
        answer = await client.call_tool("get_file", {"filename": "src/retry.py"})
    assert answer_text(answer).startswith(
        "/srv is in no index: these results are from demo. To index it, call"
    )


@pytest.mark.parametrize("kind", ["http", "sse", "stdio"])
async def test_roots_whose_names_are_no_utf8_can_be_told(served: Served, kind: str) -> None:
    served.engine.indexes["cafe"] = "/srv/caf\udce9"
    async with Client(transport(served, kind)) as client:
        listed = await client.call_tool("list_indexes", {}, meta=STRUCTURED)
        sources = await client.call_tool("list_sources", {}, meta=STRUCTURED)
        content = await client.read_resource("cocosearch://indexes")
        resources = {
            resource.name: resource.description for resource in await client.list_resources()
        }
    assert listed.structured_content["indexes"][0]["root"] == r"/srv/caf\xe9"
    assert sources.structured_content["sources"][0]["path"] == r"/srv/caf\xe9"
    assert r"/srv/caf\xe9" in answer_text(listed)
    assert json.loads(content[0].text)["indexes"][0]["root"] == r"/srv/caf\xe9"
    assert resources["cafe"] == r"Numbers of the index of /srv/caf\xe9."


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_roots_of_clients_may_have_names_that_are_no_utf8(served: Served, mode: Any) -> None:
    served.engine.indexes |= {"cafe": "/srv/caf\udce9", "other": "/srv/other"}
    async with Client(
        transport(served, "http"), roots=["file:///srv/caf%E9/src"], mode=mode
    ) as client:
        await client.call_tool("search_code", {"query": "x"})
    assert served.engine.requests[-1] == search_request("x", "cafe")
    async with Client(
        transport(served, "http"), roots=["file:///srv/na%EFve"], mode=mode
    ) as client:
        answer = await client.call_tool("search_code", {"query": "x"}, raise_on_error=False)
    assert answer_text(answer).startswith(
        "/srv/na\\xefve is not indexed yet.\nTo index it, run `cocosearchctl up .` in it"
    )


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_directory_without_an_index_gets_an_offer(served: Served, mode: Any) -> None:
    async with Client(transport(served, "http"), roots=["file:///srv/new"], mode=mode) as client:
        answer = await client.call_tool("search_code", {"query": "x"}, raise_on_error=False)
    assert answer.is_error
    assert answer_text(answer).startswith(
        '/srv/new is not indexed yet.\nTo index it, call index_codebase(path="/srv/new")\nTo search another project'
    )
    assert not [
        request for request in served.engine.requests if isinstance(request, p.SearchRequest)
    ]


async def test_indexing_reports_progress(served: Served) -> None:
    reports = list[tuple[float, float | None]]()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reports.append((done, total))

    async with Client(transport(served, "http"), progress_handler=progress) as client:
        answer = await client.call_tool("index_codebase", {"path": "/srv/new"}, meta=STRUCTURED)
    assert answer.structured_content is not None
    assert answer.structured_content["created"] is True
    assert answer.structured_content["progress"]["state"] == "live"
    assert reports[-1] == (3.0, 3.0)
    assert len(reports) >= 2


@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.nip.io"}, 421),
        ({"Host": "localhost.evil.example:8765"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": ""}, 403),
    ],
)
def test_strangers_are_refused(
    served: Served, kind: str, change: dict[str, str | None], status: int
) -> None:
    headers: dict[str, str | None] = {
        "Authorization": f"Bearer {served.token}",
        "Content-Type": "application/json",
    }
    headers |= {
        name: value.format(token=served.token) if value else value for name, value in change.items()
    }
    answer = _request(
        served, "GET" if kind == "sse" else "POST", f"/{'sse' if kind == 'sse' else 'mcp'}", headers
    )
    assert answer[0] == status
    assert "error" in json.loads(answer[1])


def test_what_loopback_does_not_have_and_what_needs_no_token(served: Served) -> None:
    token: dict[str, str | None] = {"Authorization": f"Bearer {served.token}"}
    assert _request(served, "POST", "/rpc", token)[0] == 404
    assert _request(served, "GET", "/healthz", {})[:2] == (200, b"ok\n")
    assert _request(served, "GET", "/metrics", {})[0] == 401
    assert _request(served, "GET", "/metrics", token)[0] == 200
    assert _request(served, "OPTIONS", "/mcp", token)[0] == 405
    assert _request(served, "POST", "/mcp", token, b" " * (5 << 20))[0] == 413


@pytest.mark.parametrize("path", ["/healthz", "/status", "/status/page.js"])
def test_no_body_is_read_for_a_stranger(served: Served, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=50)
    connection.putrequest("POST", path)
    connection.putheader("Content-Length", str(1 << 20))
    connection.endheaders()  # and no body
    refused = connection.getresponse()
    assert (refused.status, refused.headers["allow"]) == (405, "GET")
    connection.close()
    with_token: dict[str, str | None] = {"Authorization": f"Bearer {served.token}"}
    assert _request(served, "POST", path, with_token)[0] == 405
    assert _request(served, "GET", path, {})[0] == 200


def test_a_rotated_token_replaces_the_old_one_at_once(served: Served) -> None:
    old = served.token
    served.front.token.rotate()
    assert _request(served, "GET", "/metrics", {"Authorization": f"Bearer {old}"})[0] == 401
    assert (
        _request(served, "GET", "/metrics", {"Authorization": f"Bearer {served.token}"})[0] == 200
    )


def test_the_bridge_begins_nothing_before_a_message(tmp_path: Path) -> None:
    env = {
        "COCOSEARCH_STATE_DIR": str(tmp_path / "s"),
        "COCOSEARCH_RUNTIME_DIR": str(tmp_path / "r"),
        "HOME": "/",
    }
    bridge = subprocess.run([*CTL, "mcp"], env=env, input=b"", capture_output=True, timeout=120)
    assert (bridge.returncode, bridge.stdout, bridge.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


async def test_the_bridge_outlives_a_restart_of_the_daemon(served: Served) -> None:
    async with Client(transport(served, "stdio"), mode="legacy") as client:
        await client.call_tool("list_indexes", {})
        served.stop()
        again = start(served.run, served.state, served.portal)
        try:
            again.engine.indexes = {"after": "/srv/after"}
            answer = await client.call_tool("list_indexes", {})
            assert "\nafter  /srv/after" in answer_text(answer)
        finally:
            again.stop()


def test_the_bridge_answers_what_a_dead_daemon_owed(served: Served) -> None:
    served.engine.busy = 30
    bridge = subprocess.Popen(
        [*CTL, "mcp"],
        env=served.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert bridge.stdin is not None
    assert bridge.stdout is not None
    for message in (
        initialize_request(),
        INITIALIZED,
        {
            "id": "q",
            "method": "tools/call",
            "params": {"name": "search_code", "arguments": {"query": "x"}},
        },
    ):
        bridge.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    bridge.stdin.flush()
    assert json.loads(bridge.stdout.readline())["id"] == 1
    end = time.monotonic() + 60
    while not served.engine.requests:
        assert time.monotonic() < end
        time.sleep(0.01)
    served.stop()
    owed = json.loads(bridge.stdout.readline())
    assert (owed["id"], "error" in owed or owed["result"]["isError"]) == ("q", True)
    bridge.stdin.close()
    assert bridge.wait(30) == 0
    bridge.stdout.close()


def test_the_bridge_waits_for_no_answer_that_was_cancelled(served: Served) -> None:
    served.engine.steps = 10_000
    served.engine.step_s = 0.02
    bridge = subprocess.Popen(
        [*CTL, "mcp"], env=served.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert bridge.stdin is not None
    for message in (
        initialize_request(),
        INITIALIZED,
        {
            "id": "q",
            "method": "tools/call",
            "params": {"name": "index_codebase", "arguments": {"path": "/srv/new"}},
        },
    ):
        bridge.stdin.write(message_line(message))
    bridge.stdin.flush()
    end = time.monotonic() + 60
    while "new" not in served.engine.indexes:
        assert time.monotonic() < end
        time.sleep(0.01)
    cancelled = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "q"},
    }
    answers, _ = bridge.communicate(json.dumps(cancelled).encode() + b"\n", timeout=50)
    assert [json.loads(line)["id"] for line in answers.splitlines()] == [1]


def test_the_bridge_answers_what_it_cannot_pass_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that goes whenever it is written to, and a message longer than it takes."""

    class Gone:
        def sendall(self, line: bytes) -> None:
            raise BrokenPipeError(line)

        def close(self) -> None:
            pass

    def connected(relay: Any) -> Gone:
        relay._socket = gone = Gone()
        return gone

    monkeypatch.setattr(bridge.SessionRelay, "_get_connection", connected)
    long = b'{"jsonrpc": "2.0", "id": 2, "method": "x", "params": {"y": "%s"}}\n' % (
        b"z" * p.MAX_LINE_BYTES
    )
    lines = (
        long + b'{"jsonrpc": "2.0", "method": "x"}\n{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    )
    target = io.BytesIO()
    bridge.SessionRelay({}, {}, io.BytesIO(lines), target).run()
    replies = [json.loads(line) for line in target.getvalue().splitlines()]
    assert [(reply["id"], reply["error"]["code"]) for reply in replies] == [
        (2, error_codes.INVALID_REQUEST),
        (1, error_codes.UNAVAILABLE),
    ]


def _request(
    served: Served, method: str, path: str, headers: dict[str, str | None], body: bytes = b"{}"
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=50)
    connection.putrequest(method, path, skip_host="Host" in headers)
    if method == "POST":
        connection.putheader("Content-Length", str(len(body)))
    for name, value in headers.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders()
    try:
        if method == "POST":
            connection.send(body)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": "x", "limt": 3}, "unknown argument limt\nHint: did you mean limit?"),
        ({"query": "x", "limit": 1000}, "limit is 1000: input should be less than or equal to 100"),
        ({"limit": 3}, "query is missing"),
        (
            {"query": "x", "profile": ["code"]},
            "profile is ['code']: input should be a valid string",
        ),
    ],
)
async def test_wrong_arguments_are_told_in_a_line(
    served: Served, arguments: dict[str, Any], message: str
) -> None:
    async with Client(transport(served, "http")) as client:
        answer = await client.call_tool("search_code", arguments, raise_on_error=False)
    assert answer.is_error
    assert isinstance(answer.content[0], mcp_types.TextContent)
    assert answer.content[0].text == message


async def test_a_hint_names_parameters_that_the_list_of_tools_leaves_out(served: Served) -> None:
    async with Client(transport(served, "http")) as client:
        answers = [
            await client.call_tool("explain_query", {"query": "x", name: "a"}, raise_on_error=False)
            for name in ("path", "globs")
        ]
    near, far = map(answer_text, answers)
    assert near == "unknown argument path\nHint: did you mean paths?"
    assert {"query", "language", "paths", "symbol_type", "why_not"} <= set(
        far.partition("Hint: ")[2].split(", ")
    )
    assert "ctx" not in far


async def test_a_profile_can_be_asked_for(served: Served) -> None:
    async with Client(transport(served, "http")) as client:
        await client.call_tool(
            "search_code", {"query": "x", "index_name": "demo", "profile": "classic"}
        )
    assert served.engine.requests[-1] == search_request("x", "demo", profile="classic")


@pytest.mark.parametrize("wait", [True, False])
async def test_warnings_about_settings_come_with_indexing(wait: bool) -> None:
    class WithNotes(FixedEngine):
        async def index_codebase(self, request: p.IndexCodebaseRequest) -> p.IndexCodebaseReply:
            return replace(
                await super().index_codebase(request), notes=("cocosearch.yaml: unknown key",)
            )

    async with Client(McpServer(WithNotes(), ROOTS, SERVER.answer_tokens).fastmcp) as client:
        call = {"path": "/srv/new", "wait": wait}
        answer = await client.call_tool("index_codebase", call, meta=STRUCTURED)
    assert answer.structured_content is not None
    assert answer.structured_content["notes"] == ["cocosearch.yaml: unknown key"]
    assert answer_text(answer).endswith("\ncocosearch.yaml: unknown key")


def test_freshness_of_several_names_them() -> None:
    reply = p.SyncReply("a", True, p.AsOf("e", 1), indexes=("a", "b"))
    assert compact_text.synced(reply) == "a, b are fresh."
    assert compact_text.synced(replace(reply, indexes=())) == "a is fresh."


def test_hints_name_tools() -> None:
    failure = Failure("index demo has no file x", "`cocosearchctl files` lists what is indexed")
    assert (
        str(tool_calls.tool_error(failure))
        == "index demo has no file x\nHint: list_files lists what is indexed"
    )
    conflict = Failure(
        "this directory is the index 'demo' already", "clear it first, or leave --name other out"
    )
    assert str(tool_calls.tool_error(conflict)).endswith(
        "Hint: clear it first, or leave index_name other out"
    )
