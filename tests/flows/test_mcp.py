"""Real MCP clients against the real daemon, over both HTTP transports; and who is turned away."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport

from tests.daemon import Daemon


@pytest.fixture
def served(daemon: Daemon, project: Path) -> dict[str, str]:
    daemon.ctl("up", str(project), "--wait")
    addresses: dict[str, str] = daemon.json("status")["mcp"]
    token = (daemon.home / "state" / "token").read_text().strip()
    return addresses | {"token": token}


async def search(transport: Any) -> tuple[set[str], Any]:
    async with Client(transport) as client:
        tools = {tool.name for tool in await client.list_tools()}
        answer = await client.call_tool("search_code", {"query": "should_retry", "index_name": "project"})
        return tools, answer.structured_content


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_client_lists_the_tools_and_finds(served: dict[str, str], kind: str) -> None:
    headers = {"Authorization": f"Bearer {served['token']}"}
    transport: Any = (
        StreamableHttpTransport(served["url"], headers=headers)
        if kind == "http"
        else SSETransport(served["sse_url"], headers=headers)
    )
    tools, answer = await search(transport)
    assert {"search_code", "list_indexes", "index_stats", "index_codebase", "clear_index"} <= tools
    assert answer["results"][0]["path"] == "src/retry.py"
    assert answer["fresh"] is True


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
    ],
)
async def test_strangers_are_refused(served: dict[str, str], headers: dict[str, str], status: int) -> None:
    known = {} if status == 401 else {"Authorization": f"Bearer {served['token']}"}
    async with httpx.AsyncClient() as client:
        reply = await client.post(served["url"], json={}, headers=known | headers)
    assert reply.status_code == status
