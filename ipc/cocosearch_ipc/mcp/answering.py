"""What every tool shares: how it finds the project, calls the engine, and turns replies and failures into results."""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import mcp_types
from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult
from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc import shapes
from cocosearch_ipc.mcp import project

READS = mcp_types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
ADDS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
DESTROYS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

Reply = TypeVar("Reply")
IndexName = Annotated[str | None, Field(description="Index to use. Leave out for the project you work in.")]


async def where(ctx: Context, index_name: str | None) -> str | mcp_types.InputRequiredResult | None:
    """The directory to search when no index is named; or the question to the client, to be returned unchanged."""
    if index_name is not None:
        return None
    found = await project.detect(ctx)
    if isinstance(found, mcp_types.InputRequiredResult):
        return found
    return found.directories[0] if found.directories else None


async def called(call: Awaitable[Reply], directory: str | None = None) -> Reply:
    """Await an engine call. Raises `ToolError` with the hint."""
    try:
        return await call
    except p.Failure as failure:
        raise tool_error(failure, directory) from failure


async def answered(call: Any, as_text: Callable[[Any], str], where: str | None = None) -> ToolResult:
    """Await an engine call; its reply as a result. Raises `ToolError` with the hint."""
    reply = await called(call, where)
    return result(reply, as_text(reply))


def result(reply: object, shown: str) -> ToolResult:
    """A reply as structured content, in the shape of JSON-RPC's result, and as text."""
    return ToolResult(content=shown, structured_content=json.loads(shapes.to_json(reply)))


def tool_error(failure: p.Failure, where: str | None = None) -> ToolError:
    """One text with the hint. For a directory that is not indexed, the exact call that would change it."""
    offer = f'\nIt can be indexed: index_codebase(path="{where}")' if where and failure.code == p.NOT_FOUND else ""
    hint = f"\nHint: {failure.hint}" if failure.hint else ""
    return ToolError(f"{failure.message}{hint}{offer}")


def several(value: str | list[str] | None) -> tuple[str, ...]:
    """One or several texts, or one with commas, as a tuple."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value or ())


def checked(request: Any) -> Any:
    """The same checks that JSON-RPC's parameters pass: NUL characters and broken Unicode are refused."""
    given = {name: value for name, value in shapes.plain(request).items() if value is not None}
    try:
        return shapes.decode(type(request), json.loads(shapes.to_json(given)))
    except p.Failure as failure:
        raise tool_error(failure) from failure
