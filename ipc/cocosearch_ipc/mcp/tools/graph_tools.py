"""The tool about the code graph: the definition, the uses, the callers and callees of a symbol."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import mcp_types
from fastmcp import Context
from pydantic import Field

from cocosearch_ipc import graph_protocol
from cocosearch_ipc.error_codes import INVALID_PARAMS
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.mcp import graph_text, tool_calls
from cocosearch_ipc.mcp.tools import parameters
from cocosearch_ipc.mcp.tools.tool_registry import ToolRegistry
from cocosearch_ipc.rpc.client_names import quote_name

RELATIONS = ("references", "definition", "callers", "callees")


def register(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    """Add the tools to `registry`. `page_tokens` is the default budget of an answer."""
    _find_references(registry, engine, page_tokens)


def _find_references(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    @registry.tool(
        "Find references",
        tool_calls.READS,
        unlisted=("language", "limit", *parameters.AS_SEARCH_CODE),
    )
    async def find_references(
        ctx: Context,
        target: parameters.GraphTarget,
        relation: Annotated[
            str, Field(description="references, definition, callers or callees.")
        ] = "references",
        depth: Annotated[
            int, Field(ge=1, le=graph_protocol.MAX_DEPTH, description="Of callers and callees.")
        ] = 1,
        language: parameters.Language = None,
        paths: parameters.Paths = None,
        min_confidence: parameters.MinConfidence = "possible",
        index_name: parameters.IndexName = None,
        limit: parameters.Limit = None,
        budget_tokens: parameters.BudgetTokens = None,
        cursor: parameters.Cursor = None,
    ) -> Any:
        """List all uses of a definition, resolved through imports and types; or its definition,
        callers or callees. Use it before you change, rename or delete something.
        """
        choice = await tool_calls.choose_index(ctx, engine, index_name)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        common: dict[str, Any] = {
            "target": target,
            "index": choice.index,
            "cwd": choice.cwd,
            "languages": tool_calls.split_values(language),
            "paths": tuple(paths or ()),
            "min_confidence": min_confidence,
            "limit": limit or graph_protocol.GRAPH_LIMIT,
            "cursor": cursor,
            "budget_tokens": budget_tokens or page_tokens,
        }
        request, as_text = _make_request(relation, depth, common)
        answer = getattr(engine, relation)(tool_calls.validate_request(request))
        return await tool_calls.await_result(answer, as_text, choice)


def _make_request(
    relation: str, depth: int, common: dict[str, Any]
) -> tuple[graph_protocol.GraphRequest, Callable[[Any], str]]:
    """Return the request of a relation, and the function that shows its reply."""
    if relation in ("callers", "callees"):
        request = graph_protocol.CallsRequest(**common, depth=depth)
        return request, partial(graph_text.calls, relation=relation)
    if relation == "references":
        return graph_protocol.ReferencesRequest(**common), graph_text.references
    if relation == "definition":
        return graph_protocol.DefinitionRequest(**common), graph_text.definition
    hint = f"use one of {', '.join(RELATIONS)}"
    raise tool_calls.tool_error(
        Failure(f"unknown relation {quote_name(relation)}", hint, code=INVALID_PARAMS)
    )
