"""Verbs about the structure of code through the front ends: requests and answers."""

import json
import subprocess
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError

from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.cli import exits
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.mcp.server import McpServer
from cocosearch_ipc.render.visible import CONTENT_NOTICE
from tests.ipc.conftest import Served
from tests.ipc.engine import SERVER, FixedEngine
from tests.ipc.test_graph_front_ends import CTL, ctl


def test_options_become_parameters(served: Served) -> None:
    where = ("--index", "demo", "--path", "src/**", "--limit", "7")
    common: dict[str, Any] = {"index": "demo", "cwd": "/srv", "paths": ("src/**",), "limit": 7}
    lines: list[tuple[tuple[str, ...], object]] = [
        (("impact", "a", "--depth", "2"), s.ImpactRequest("a", **common, depth=2)),
        (("changes",), s.ChangesRequest(**common)),
        (
            ("changes", "a..b", "src", "--min-confidence", "likely"),
            s.ChangesRequest("src", **common, revisions="a..b", min_confidence="likely"),
        ),
        (
            ("dependencies", "src", "--direction", "imports", "--level", "2", "--depth", "3"),
            s.DependenciesRequest("src", **common, direction="imports", level=2, depth=3),
        ),
        (("outline", "--depth", "1"), s.OutlineRequest(**common, depth=1)),
        (
            ("map", "--query", "x y", "--budget", "9"),
            s.MapRequest(**common, query="x y", budget_tokens=9),
        ),
    ]
    for arguments, _ in lines:
        assert ctl(served, *arguments, *where).returncode == exits.OK, arguments
    assert served.engine.requests == [request for _, request in lines]


@pytest.mark.parametrize(
    ("arguments", "first_line"),
    [
        (
            ("impact", "retry"),
            "Client.retry (src/retry.py:3): affects 3 definitions in 3 files, tests in 1 file",
        ),
        (
            ("changes",),
            "1111111111 to the files now: 1 changed file; affects 2 definitions in 2 files",
        ),
        (("dependencies", "src/app.py"), "src/app.py imports 1, and 0 import it"),
        (("dependencies", "src/app.py", "--format", "mermaid"), "flowchart LR"),
        (("dependencies", "src/app.py", "--format", "dot"), "digraph dependencies {"),
        (("outline", "src"), "src/retry.py"),
        (("map",), "src/retry.py"),
    ],
)
def test_answers_are_printed_as_text(
    served: Served, arguments: tuple[str, ...], first_line: str
) -> None:
    done = ctl(served, *arguments)
    assert done.stdout.splitlines()[0] == first_line
    assert done.returncode == exits.OK


def test_json_is_the_reply_whatever_the_format(served: Served) -> None:
    done = ctl(served, "dependencies", "src/app.py", "--format", "dot", "--json")
    assert json.loads(done.stdout)["packages"] == [{"name": "os", "files": 1}]


@pytest.mark.parametrize(
    "arguments", [("impact",), ("impact", "a", "--depth", "0"), ("dependencies", "--format", "png")]
)
def test_wrong_usage_is_refused(served: Served, arguments: tuple[str, ...]) -> None:
    assert ctl(served, *arguments).returncode == exits.USAGE


def test_a_session_asks_as_the_command_line_does(served: Served) -> None:
    lines = ("/impact Client.retry", "/changes", "/dependencies a.py", "/outline src", "/map")
    done = subprocess.run(
        [*CTL, "repl"],
        env=served.environment,
        input="".join(f"{line}\n" for line in (*lines, "/impact")),
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/srv",
        check=False,
    )
    assert served.engine.requests == [
        s.ImpactRequest("Client.retry", cwd="/srv"),
        s.ChangesRequest(cwd="/srv"),
        s.DependenciesRequest("a.py", cwd="/srv"),
        s.OutlineRequest("src", cwd="/srv"),
        s.MapRequest(cwd="/srv"),
    ]
    assert "affects 3 definitions" in done.stdout
    assert (
        "give a name or a location, for example /impact Client.retry" in done.stdout + done.stderr
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "request_type", "text"),
    [
        ("impact", {"target": "a"}, s.ImpactRequest, "affects 3 definitions"),
        ("impact", {}, s.ChangesRequest, "1 changed file"),
        ("impact", {"revisions": "a..b"}, s.ChangesRequest, "src/retry.py  modified"),
        ("code_map", {}, s.MapRequest, "class Client:"),
        ("code_map", {"path": "src", "view": "outline"}, s.OutlineRequest, "class Client:"),
        ("code_map", {"view": "imports"}, s.DependenciesRequest, "packages: os"),
    ],
)
async def test_tools_answer_in_a_marked_block(
    tool: str, arguments: dict[str, Any], request_type: type, text: str
) -> None:
    engine = FixedEngine()
    async with Client(
        McpServer(engine, RootPolicy((), "/nowhere"), SERVER.answer_tokens).fastmcp
    ) as mcp_client:
        result = await mcp_client.call_tool(tool, {**arguments, "index_name": "demo"})
    answer = result.content[0].text
    assert answer.startswith(CONTENT_NOTICE)
    assert text in answer.split("```")[1]
    request = engine.requests[-1]
    assert isinstance(request, request_type)
    assert getattr(request, "revisions", None) in (None, arguments.get("revisions", "HEAD"))


async def test_an_unknown_view_is_refused_with_the_valid_ones() -> None:
    server = McpServer(FixedEngine(), RootPolicy((), "/nowhere"), SERVER.answer_tokens)
    async with Client(server.fastmcp) as mcp_client:
        with pytest.raises(ToolError, match="use one of map, outline, imports"):
            await mcp_client.call_tool("code_map", {"view": "x", "index_name": "demo"})
