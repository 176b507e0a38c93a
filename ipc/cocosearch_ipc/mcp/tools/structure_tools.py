"""Tools about the structure of code: impact of changes, dependencies, outlines and maps."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import mcp_types
from fastmcp import Context
from pydantic import Field

from cocosearch_ipc import graph_protocol, structure_protocol
from cocosearch_ipc.error_codes import INVALID_PARAMS
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.mcp import tool_calls
from cocosearch_ipc.mcp.tools import parameters
from cocosearch_ipc.mcp.tools.flat_parameters import ParameterGroup
from cocosearch_ipc.mcp.tools.tool_registry import ToolRegistry
from cocosearch_ipc.render import output
from cocosearch_ipc.render.graph import structure_text
from cocosearch_ipc.render.visible import CONTENT_NOTICE, fenced, visible_name
from cocosearch_ipc.rpc import shapes
from cocosearch_ipc.rpc.client_names import quote_name

AFFECTED_SHOWN = 50  # maximum number of definitions; a small budget allows fewer
VIEWS = ("map", "outline", "imports")
_PLAIN = output.Style(colour=False, links=False)
# find_references explains these parameters.
_EXPLAINED_ELSEWHERE = ("depth", "index_name", "budget_tokens", "cursor")

Depth = Annotated[int | None, Field(ge=1, le=graph_protocol.MAX_DEPTH)]
Render = Callable[[Mapping[str, Any], output.Style], Iterator[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureOptions(ParameterGroup):
    """Parameters of all tools here: the depth, the index, and the budget of the answer."""

    depth: Depth = None
    index_name: parameters.IndexName = None
    budget_tokens: parameters.BudgetTokens = None

    def request_fields(
        self, target: str, choice: tool_calls.IndexChoice, page_tokens: int
    ) -> dict[str, Any]:
        """Return the fields of a request about a target."""
        return {
            "target": target,
            "index": choice.index,
            "cwd": choice.cwd,
            "budget_tokens": self.budget_tokens or page_tokens,
        }


def register(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    """Add the tools to `registry`. `page_tokens` is the default budget of an answer."""
    _impact(registry, engine, page_tokens)
    _code_map(registry, engine, page_tokens)


def _impact(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    @registry.tool("Find the impact", tool_calls.READS, unlisted=_EXPLAINED_ELSEWHERE)
    async def impact(
        ctx: Context,
        options: StructureOptions,
        target: Annotated[str, Field(description="As for find_references.")] = "",
        revisions: Annotated[str, Field(description="Or main...HEAD.")] = "HEAD",
        cursor: parameters.Cursor = None,
    ) -> Any:
        """List what a change of target, or of all files since a commit, affects, with its tests."""
        choice = await tool_calls.choose_index(ctx, engine, options.index_name)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        common: dict[str, Any] = options.request_fields(target, choice, page_tokens) | {
            "depth": options.depth or structure_protocol.IMPACT_DEPTH,
            "limit": AFFECTED_SHOWN,
            "cursor": cursor,
        }
        if target:
            request = tool_calls.validate_request(structure_protocol.ImpactRequest(**common))
            as_text = _as_text(structure_text.impact)
            return await tool_calls.await_result(engine.impact(request), as_text, choice)
        changes_request = structure_protocol.ChangesRequest(**common, revisions=revisions)
        answer = engine.changes(tool_calls.validate_request(changes_request))
        return await tool_calls.await_result(answer, _as_text(structure_text.changes), choice)


def _code_map(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    @registry.tool("Map code", tool_calls.READS, unlisted=_EXPLAINED_ELSEWHERE)
    async def code_map(
        ctx: Context,
        options: StructureOptions,
        path: Annotated[str, Field(description="Of a file or directory.")] = "",
        view: Annotated[str, Field(description="map, outline or imports.")] = "map",
    ) -> Any:
        """Show the central definitions, an outline, or imports both ways."""
        choice = await tool_calls.choose_index(ctx, engine, options.index_name)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        common = options.request_fields(path, choice, page_tokens)
        request: graph_protocol.GraphRequest
        if view == "map":
            request = structure_protocol.MapRequest(**common)
            call, render = engine.map, structure_text.repository_map
        elif view == "outline":
            request = structure_protocol.OutlineRequest(**common, depth=options.depth or 0)
            call, render = engine.outline, structure_text.outline
        elif view == "imports":
            request = structure_protocol.DependenciesRequest(**common, depth=options.depth or 1)
            call, render = engine.dependencies, structure_text.dependencies
        else:
            failure = Failure(
                f"unknown view {quote_name(view)}",
                f"use one of {', '.join(VIEWS)}",
                code=INVALID_PARAMS,
            )
            raise tool_calls.tool_error(failure)
        answer = call(tool_calls.validate_request(request))
        return await tool_calls.await_result(answer, _as_text(render), choice)


def _as_text(render: Render) -> Callable[[Any], str]:
    """Return a function that formats a reply: a notice, then the text in a block."""

    def as_text(reply: Any) -> str:
        values = json.loads(shapes.to_json(reply))
        block = fenced("\n".join(render(values, _PLAIN)), "")
        more = [f'The next page: cursor="{visible_name(reply.cursor)}".'] if reply.cursor else []
        return "\n\n".join([CONTENT_NOTICE, block, *more])

    return as_text
