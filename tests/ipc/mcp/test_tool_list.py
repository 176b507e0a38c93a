"""The list of tools: its size, since every session of an assistant has it in its context."""

import json
from typing import Any

import mcp_types
import pytest
from fastmcp import Client

from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.mcp.server import McpServer
from cocosearch_ipc.mcp.tools.tool_registry import compact_parameters
from cocosearch_ipc.protocol import SearchRequest
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from tests.ipc.engine import SERVER, FixedEngine
from tests.mcp_messages import answer_text

MAX_LIST_TOKENS = 1600
UNLISTED_TOOLS = {"search", "list_topics", "list_sources"}


@pytest.fixture
def engine() -> FixedEngine:
    return FixedEngine()


@pytest.fixture
def server(engine: FixedEngine) -> McpServer:
    return McpServer(engine, RootPolicy((), "/nowhere"), SERVER.answer_tokens)


async def list_tools(server: McpServer) -> dict[str, mcp_types.Tool]:
    async with Client(server.fastmcp) as client:
        return {tool.name: tool for tool in await client.list_tools()}


async def test_the_list_of_tools_stays_small(server: McpServer) -> None:
    tools = await list_tools(server)
    sent = json.dumps(
        [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.values()],
        separators=(",", ":"),
    )
    assert estimate_tokens(sent) <= MAX_LIST_TOKENS
    assert all(tool.output_schema is None for tool in tools.values())


async def test_old_names_are_not_listed_and_can_be_called(server: McpServer) -> None:
    tools = await list_tools(server)
    assert not UNLISTED_TOOLS & set(tools)
    async with Client(server.fastmcp) as client:
        for name in sorted(UNLISTED_TOOLS):
            arguments = {"query": "retries"} if name == "search" else {}
            answer = await client.call_tool(name, arguments)
            assert "demo" in answer_text(answer) or "src/retry.py" in answer_text(answer)


async def test_each_parameter_is_described_by_one_tool_or_by_its_name(server: McpServer) -> None:
    tools = await list_tools(server)
    parameters = [
        (name, parameter.get("description"))
        for tool in tools.values()
        for name, parameter in tool.input_schema["properties"].items()
    ]
    described = {name for name, description in parameters if description}
    assert {name for name, _ in parameters} - described == {"ignore_case", "whole_words"}
    descriptions = [pair for pair in parameters if pair[1]]
    assert len(descriptions) == len(set(descriptions))


async def test_parameters_that_are_not_listed_work(server: McpServer, engine: FixedEngine) -> None:
    listed = (await list_tools(server))["search_code"].input_schema["properties"]
    assert "no_cache" not in listed
    async with Client(server.fastmcp) as client:
        await client.call_tool(
            "search_code",
            {"query": "x", "index_name": "demo", "no_cache": True, "language": ["go", "c"]},
        )
    request = engine.requests[-1]
    assert isinstance(request, SearchRequest)
    assert (request.use_cache, request.languages) == (False, ("go", "c"))


async def test_structured_content_is_sent_on_request_only(server: McpServer) -> None:
    async with Client(server.fastmcp) as client:
        plain = await client.call_tool("list_indexes", {})
        structured = await client.call_tool(
            "list_indexes", {}, meta={"cocosearch/structured": True}
        )
    assert plain.structured_content is None
    assert answer_text(plain) == answer_text(structured)
    assert structured.structured_content is not None
    assert structured.structured_content["indexes"][0]["name"] == "demo"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"query": "x"}, {"index": None, "cwd": None}),
        ({"query": "x index:other"}, {"index": None, "indexes": ()}),
        ({"query": "x", "index_names": ["a", "b"]}, {"index": None, "indexes": ("a", "b")}),
        ({"query": "x", "topic": "web"}, {"index": None, "topics": ("web",)}),
        ({"query": "x", "topic": "web", "index_name": "a"}, {"index": "a", "topics": ("web",)}),
    ],
)
@pytest.mark.parametrize("tool", ["search_code", "explain_query"])
async def test_indexes_and_topics_reach_the_engine(
    tool: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    engine = ManyIndexes()
    async with Client(
        McpServer(engine, RootPolicy((), "/nowhere"), SERVER.answer_tokens).fastmcp
    ) as client:
        await client.call_tool(tool, arguments)
    request = engine.requests[-1]
    assert {name: getattr(request, name) for name in expected} == expected


@pytest.mark.parametrize("query", ["x index:other", "x topic:web", "index:a x"])
async def test_a_project_does_not_narrow_a_query_that_names_indexes(query: str) -> None:
    engine = ManyIndexes()
    server = McpServer(engine, RootPolicy((), "/nowhere"), SERVER.answer_tokens)
    async with Client(server.fastmcp, roots=["file:///srv/demo"]) as client:
        await client.call_tool("search_code", {"query": query})
        assert last_index(engine) is None
        await client.call_tool("search_code", {"query": "subindex:a x"})
        assert last_index(engine) == "demo"


def test_a_compact_schema_keeps_what_a_call_needs() -> None:
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "query": {"type": "string", "description": "Words."},
            "limit": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                "default": None,
                "description": "How many.",
            },
            "paths": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
            "wait": {"type": "boolean", "default": True},
            "no_cache": {"type": "boolean", "default": False, "unlisted": True},
        },
        "required": ["query"],
    }
    descriptions = {("limit", "How many.")}
    assert compact_parameters(schema, descriptions) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words."},
            "limit": {"type": "integer"},
            "paths": {"type": "array", "items": {"type": "string"}},
            "wait": {"type": "boolean", "default": True},
        },
        "required": ["query"],
    }
    assert ("query", "Words.") in descriptions


class ManyIndexes(FixedEngine):
    """Answers for any choice of indexes."""

    def __init__(self) -> None:
        super().__init__()
        self.indexes["other"] = "/srv/other"

    def _index(self, name: str | None) -> str:
        return name or "demo"


def last_index(engine: FixedEngine) -> str | None:
    request = engine.requests[-1]
    assert isinstance(request, SearchRequest)
    return request.index
