"""What every tool shares: how it finds the project, calls the engine, and turns replies and
failures into results.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import mcp_types
from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult
from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol
from cocosearch_ipc.mcp import client_project
from cocosearch_ipc.render.visible import visible, visible_name
from cocosearch_ipc.rpc import shapes

# No tool reaches beyond this machine: their world is closed (`open_world_hint`).
READS = mcp_types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
ADDS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
DESTROYS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

# What hints tell people to do -> what a client of ours does.
TOOL_OF = {
    "`cocosearchctl files`": "list_files",
    "`cocosearchctl list`": "list_indexes",
    "give one with `cocosearchctl up PATH --topic`": "leave topic out",
    "`cocosearchctl status`": "list_indexes",
    "cocosearchctl up DIRECTORY": "index_codebase(path=DIRECTORY)",
    "--index with": "index_name with",
    "--name": "index_name",
}

Reply = TypeVar("Reply")
IndexName = Annotated[
    str | None, Field(description="Index to use. Leave out for the project you work in.")
]


@dataclass(frozen=True, slots=True)
class ToolScope:
    """Where a tool looks: in `index`, or where the engine thinks fit for a client in the directory
    `cwd`.
    """

    index: str | None
    cwd: str | None = None


Where = ToolScope | mcp_types.InputRequiredResult


async def where(ctx: Context, engine: Any, index_name: str | None) -> Where:
    """The place to search; or the question to the client, to be returned unchanged.

    Raises `ToolError` with an offer for a project that is known to be meant and is not indexed.
    """
    if index_name is not None:
        return ToolScope(index_name)
    found = await client_project.detect(ctx)
    if isinstance(found, mcp_types.InputRequiredResult):
        return found
    if not found.directories:
        return ToolScope(None)
    located = await called(
        engine.locate(checked(workspace_protocol.LocateRequest(found.directories)))
    )
    if located.index is not None:
        return ToolScope(located.index)
    if found.said:
        raise ToolError(
            f"{visible_name(spelled(found.directories[0]))} is not indexed yet.\n{offer(found.directories[0])}\n"
            "To search another project, name its index: list_indexes shows them.",
            log_level=logging.DEBUG,
        )
    return ToolScope(None, found.directories[0])


def offer(directory: str) -> str:
    """The exact call that makes a directory searchable."""
    if spelled(directory) != directory:
        return "It can be indexed: `cocosearchctl up .` in it, as its name is no UTF-8 and no tool can take it"
    return f"It can be indexed: index_codebase(path={json.dumps(directory, ensure_ascii=False)})"


async def called(call: Awaitable[Reply], directory: str | None = None) -> Reply:
    """Await an engine call. Raises `ToolError` with the hint."""
    try:
        return await call
    except p.Failure as failure:
        raise tool_error(failure, directory) from failure


async def answered(
    call: Any, as_text: Callable[[Any], str], place: ToolScope | None = None
) -> ToolResult:
    """Await an engine call; its reply as a result. Raises `ToolError` with the hint."""
    directory = place.cwd if place else None
    reply = await called(call, directory)
    shown = as_text(reply)
    if directory:
        # First: what follows is of another project.
        head = f"{visible_name(directory)} is in no index: this is of {_said_index(reply)}."
        shown = f"{head} {offer(directory)}\n\n{shown}"
    return result(reply, shown)


def _said_index(reply: object) -> str:
    """Which index a reply is of; a list of files is one of the only index there is, else it would
    be refused.
    """
    names = getattr(reply, "indexes", None) or filter(None, [getattr(reply, "index", None)])
    return ", ".join(names) or "the only one there is"


def result(reply: object, shown: str) -> ToolResult:
    """A reply as structured content, in the shape of JSON-RPC's result, and as text."""
    return ToolResult(content=visible(spelled(shown)), structured_content=structured(reply))


def structured(reply: object) -> Any:
    """A reply as the values of JSON, in UTF-8: clients refuse, whole, an answer with a lone
    surrogate in it.
    """
    encoded = shapes.to_json(reply)
    found = json.loads(encoded)
    return _spelled_all(found) if rb"\ud" in encoded else found


def spelled(text: str) -> str:
    """A text with a name's bytes that are no UTF-8 (PEP 383) in hexadecimal digits, as paths of
    files have them.
    """
    return (
        text
        if text.isascii()
        else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def _spelled_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _spelled_all(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_spelled_all(item) for item in value]
    return spelled(value) if isinstance(value, str) else value


def tool_error(failure: p.Failure, where: str | None = None) -> ToolError:
    """One text with the hint. For a directory that is not indexed, the exact call that would change
    it.
    """
    change = f"\n{offer(where)}" if where and failure.code == p.NOT_FOUND else ""
    hint = f"\nHint: {_of_tools(failure.hint)}" if failure.hint else ""
    said = visible(spelled(f"{failure.message}{hint}{change}"))
    return ToolError(said, log_level=logging.DEBUG)  # the caller's, not the daemon's


def _of_tools(hint: str) -> str:
    """A hint for people at a shell, with the tools that do the same."""
    for command, tool in TOOL_OF.items():
        hint = hint.replace(command, tool)
    return hint


def several(value: str | list[str] | None) -> tuple[str, ...]:
    """One or several texts, or one with commas, as a tuple."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value or ())


def checked(request: Any) -> Any:
    """The same checks that JSON-RPC's parameters pass: NUL characters and broken Unicode are
    refused.
    """
    given = {name: value for name, value in shapes.plain(request).items() if value is not None}
    try:
        return shapes.decode(type(request), json.loads(shapes.to_json(given)))
    except p.Failure as failure:
        raise tool_error(failure) from failure
