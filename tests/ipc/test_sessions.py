"""One scripted session (`clients/session.py`) by each client over each transport.

The Python clients run always; the TypeScript SDK and the Inspector need Node and `make clients`,
which fetches them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from fastmcp import Client
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.ipc.clients import node, session
from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served
from tests.ipc.mcp.test_mcp import CTL, transport

pytestmark = SDK_LEAVES_STREAMS

TRANSPORTS = pytest.mark.parametrize("kind", ["http", "sse", "stdio"])
SCRIPT = Path(__file__).parent / "clients" / "session.mjs"
SDK = node.MODULES / "@modelcontextprotocol" / "sdk"
INSPECTOR = node.MODULES / ".bin" / "mcp-inspector"


@TRANSPORTS
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_fastmcp(served: Served, kind: str, mode: Any) -> None:
    progress = list[list[float | None]]()

    async def seen(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total])

    async with Client(transport(served, kind), mode=mode, progress_handler=seen) as client:
        tools = [tool.name for tool in await client.list_tools()]
        answer = await client.call_tool("search_code", {"query": "retries", "index_name": "demo"})
        failed = await client.call_tool(
            "index_stats", {"index_name": "nothing"}, raise_on_error=False
        )
        indexed = await client.call_tool("index_codebase", {"path": "/srv/new"})
        resources = [str(resource.uri) for resource in await client.list_resources()]
        (stats,) = await client.read_resource(session.STATS)
        prompt = await client.get_prompt("explain_codebase", {"focus": "errors"})
    session.check(_seen(tools, answer, failed, indexed, progress, resources, stats, prompt))


@TRANSPORTS
async def test_the_python_sdk(served: Served, kind: str) -> None:
    counts = list[list[float | None]]()

    async def seen(progress: float, total: float | None, message: str | None) -> None:
        counts.append([progress, total])

    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(_streams(served, kind, stack))
        client = await stack.enter_async_context(ClientSession(*streams))
        await client.initialize()
        tools = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("search_code", {"query": "retries", "index_name": "demo"})
        failed = await client.call_tool("index_stats", {"index_name": "nothing"})
        indexed = await client.call_tool(
            "index_codebase", {"path": "/srv/new"}, progress_callback=seen
        )
        resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
        stats = await client.read_resource(session.STATS)
        prompt = await client.get_prompt("explain_codebase", {"focus": "errors"})
    session.check(
        _seen(tools, answer, failed, indexed, counts, resources, stats.contents[0], prompt)
    )


@pytest.mark.skipif(
    node.PROGRAM is None or not SDK.exists(), reason="no TypeScript SDK: `make clients`"
)
@TRANSPORTS
def test_the_typescript_sdk(served: Served, kind: str) -> None:
    # Modules are looked for beside the script.
    script = str(shutil.copy(SCRIPT, node.HOME / SCRIPT.name))
    done = _node(served, [script, kind, served.url, served.token, *CTL, "mcp"])
    assert done.returncode == 0, done.stderr
    session.check(json.loads(done.stdout))


@pytest.mark.skipif(
    node.PROGRAM is None or not INSPECTOR.exists(), reason="no Inspector: `make clients`"
)
@TRANSPORTS
def test_the_inspector(served: Served, kind: str, tmp_path: Path) -> None:
    def ask(method: str, *arguments: str) -> Any:
        done = _node(
            served,
            [
                str(INSPECTOR.resolve()),
                "--cli",
                *_inspected(served, kind, tmp_path),
                "--method",
                method,
                *arguments,
            ],
        )
        return json.loads(done.stdout) if done.stdout.strip() else pytest.fail(done.stderr)

    def call(tool: str, **arguments: str) -> Any:
        command = [
            part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")
        ]
        return ask("tools/call", "--tool-name", tool, *command)

    failed = call("index_stats", index_name="nothing")
    indexed = call("index_codebase", path="/srv/new")["content"][0]["text"]
    stats = ask("resources/read", "--uri", session.STATS)
    prompt = ask(
        "prompts/get", "--prompt-name", "explain_codebase", "--prompt-args", "focus=errors"
    )
    session.check(
        {
            "tools": [tool["name"] for tool in ask("tools/list")["tools"]],
            "path": _first_path(
                call("search_code", query="retries", index_name="demo")["content"][0]["text"]
            ),
            "failed": [
                failed["isError"],
                failed["content"][0]["text"].replace("demo, new", "demo"),
            ],
            "indexed": [_index_name(indexed), _progress(indexed)],
            "resources": [resource["uri"] for resource in ask("resources/list")["resources"]],
            "root": json.loads(stats["contents"][0]["text"])["root"],
            "prompt": "focusing on errors" in prompt["messages"][0]["content"]["text"],
        }
    )


def _inspected(served: Served, kind: str, scratch: Path) -> list[str]:
    """The Inspector's arguments for the server's address."""
    if kind == "stdio":
        program = scratch / "bridge"
        # it passes nothing on
        where = " ".join(f"{name}='{value}'" for name, value in served.environment.items())
        program.write_text(f"#!/bin/sh\nexec env {where} {sys.executable} -c '{CTL[2]}' mcp\n")
        program.chmod(0o755)
        return [str(program)]
    path = {"http": "mcp", "sse": "sse"}[kind]
    return [
        f"{served.url}/{path}",
        "--transport",
        kind,
        "--header",
        f"Authorization: Bearer {served.token}",
    ]


def _node(served: Served, command: list[str]) -> subprocess.CompletedProcess[str]:
    home = Path(str(node.PROGRAM)).parent
    env = served.environment | {"PATH": f"{home}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    return subprocess.run(
        [str(node.PROGRAM), *command], env=env, capture_output=True, text=True, timeout=50
    )


def _streams(served: Served, kind: str, stack: AsyncExitStack) -> Any:
    headers = {"Authorization": f"Bearer {served.token}"}
    if kind == "sse":
        return sse_client(f"{served.url}/sse", headers=headers)
    if kind == "http":
        http = httpx2.AsyncClient(headers=headers, timeout=120)
        stack.push_async_callback(http.aclose)
        return streamable_http_client(f"{served.url}/mcp", http_client=http)
    return stdio_client(
        StdioServerParameters(command=CTL[0], args=[*CTL[1:], "mcp"], env=served.environment)
    )


def _seen(
    tools: list[str],
    answer: Any,
    failed: Any,
    indexed: Any,
    progress: list[list[float | None]],
    resources: list[str],
    stats: Any,
    prompt: Any,
) -> dict[str, Any]:
    """Results of the Python clients, which have the same shape."""
    return {
        "tools": tools,
        "path": _first_path(_text(answer.content)),
        "failed": [failed.is_error, _text(failed.content)],
        "indexed": [_index_name(_text(indexed.content)), progress[-1]],
        "resources": resources,
        "root": _json(stats)["root"],
        "prompt": "focusing on errors" in str(prompt.messages[0].content),
    }


def _text(content: Any) -> str:
    return "".join(block.text for block in content)


def _first_path(answer: str) -> str:
    return answer.split("\n\n")[1].partition(":")[0]


def _index_name(answer: str) -> str:
    return answer.split(" ")[2]


def _progress(answer: str) -> list[int]:
    """Return the numbers of done and of all files."""
    match = re.search(r"(\d+) of (\d+) files", answer)
    assert match is not None
    return [int(match[1]), int(match[2])]


def _json(contents: Any) -> Any:
    assert isinstance(contents, mcp_types.TextResourceContents)
    return json.loads(contents.text)
