"""Shared code of all tools: find the project, call the engine, convert replies and failures."""

import json
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types
from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult

from cocosearch_ipc import error_codes, workspace_protocol
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.mcp import client_project, compact_text
from cocosearch_ipc.render.visible import visible, visible_name
from cocosearch_ipc.rpc import shapes

# No tool reaches beyond this machine, so `open_world_hint` is false.
READS = mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
DESTROYS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, open_world_hint=False
)
# A call with this key in its `_meta` gets structured content beside the text.
STRUCTURED = "cocosearch/structured"
# Tokens of an answer in addition to content and headings: for the notice, freshness, and the next
# call with its cursor.
FRAME_TOKENS = 150

# Commands in hints for people -> the tools that do the same.
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
_INLINE_INDEX = re.compile(r"(?<!\S)(?:index|topic):\S")


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """The index of a call: `index`, or what the engine chooses for a client in `cwd`."""

    index: str | None
    cwd: str | None = None


ChoiceOrQuestion = IndexChoice | mcp_types.InputRequiredResult


def is_narrowed(query: str, index_names: list[str] | None, topic: str | None) -> bool:
    """Return True if a search names indexes or topics, inside its query or beside it."""
    return bool(index_names or topic or _INLINE_INDEX.search(query))


async def choose_index(
    ctx: Context, engine: Any, index_name: str | None, *, narrowed: bool = False
) -> ChoiceOrQuestion:
    """Return the index of a call, or a question that the tool must return unchanged.

    A search that is `narrowed` to indexes or topics needs no project. Raises `ToolError` with an
    offer if the user's project is known but not indexed.
    """
    if index_name is not None or narrowed:
        return IndexChoice(index_name)
    project = await client_project.detect(ctx)
    if isinstance(project, mcp_types.InputRequiredResult):
        return project
    if not project.directories:
        return IndexChoice(None)
    located = await await_reply(
        engine.locate(validate_request(workspace_protocol.LocateRequest(project.directories)))
    )
    if located.index is not None:
        return IndexChoice(located.index)
    if project.is_chosen:
        directory = project.directories[0]
        raise ToolError(
            f"{visible_name(escape_names(directory))} is not indexed yet.\n{offer(directory)}\n"
            "To search another project, name its index: list_indexes shows them.",
            log_level=logging.DEBUG,
        )
    return IndexChoice(None, project.directories[0])


def offer(directory: str) -> str:
    """Return the exact call that makes a directory searchable."""
    if escape_names(directory) != directory:
        return (
            "To index it, run `cocosearchctl up .` in it: "
            "its name is not UTF-8, so no tool accepts it"
        )
    return f"To index it, call {compact_text.tool_call('index_codebase', path=directory)}"


async def await_reply(call: Awaitable[Reply], directory: str | None = None) -> Reply:
    """Await an engine call. Raises `ToolError` with the hint."""
    try:
        return await call
    except Failure as failure:
        raise tool_error(failure, directory) from failure


async def await_result(
    call: Any, as_text: Callable[[Any], str], choice: IndexChoice | None = None
) -> ToolResult:
    """Await an engine call and return its reply as a result. Raises `ToolError` with the hint."""
    directory = choice.cwd if choice else None
    reply = await await_reply(call, directory)
    text = as_text(reply)
    if directory:
        # Begin with the warning that the results belong to another project.
        head = f"{visible_name(directory)} is in no index: these results are from {_searched_names(reply)}."
        text = f"{head} {offer(directory)}\n\n{text}"
    return result(reply, text)


def _searched_names(reply: object) -> str:
    """Return the names of the searched indexes. A list of files has none: there is only one index."""
    names = getattr(reply, "indexes", None) or filter(None, [getattr(reply, "index", None)])
    return ", ".join(names) or "the only index"


def result(reply: object, text: str) -> ToolResult:
    """Return a reply as text, and on request as structured content in the shape of JSON-RPC.

    If there is structured content, most assistants show it to their model in place of the text. But
    it is longer, and it has the content of files without notice, code blocks and escapes.
    """
    return ToolResult(
        content=visible(escape_names(text)),
        structured_content=structured(reply) if _wants_structure() else None,
    )


def _wants_structure() -> bool:
    """Return True if the client asked for structured content in this call."""
    request = get_context().request_context
    return request is not None and bool((request.meta or {}).get(STRUCTURED))


def structured(reply: object) -> Any:
    """Return a reply as JSON values in valid UTF-8.

    Clients refuse an entire answer that contains a lone surrogate.
    """
    encoded = shapes.to_json(reply)
    values = json.loads(encoded)
    return _escape_all(values) if rb"\ud" in encoded else values


def escape_names(text: str) -> str:
    """Replace bytes that are not UTF-8 (PEP 383) by hexadecimal escapes, as in paths of results."""
    return (
        text
        if text.isascii()
        else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def _escape_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _escape_all(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_escape_all(inner) for inner in value]
    return escape_names(value) if isinstance(value, str) else value


def tool_error(failure: Failure, directory: str | None = None) -> ToolError:
    """Convert a failure with its hint; for an unindexed directory, add the call that indexes it."""
    change = f"\n{offer(directory)}" if directory and failure.code == error_codes.NOT_FOUND else ""
    hint = f"\nHint: {_name_tools(failure.hint)}" if failure.hint else ""
    text = visible(escape_names(f"{failure.message}{hint}{change}"))
    return ToolError(text, log_level=logging.DEBUG)  # an error of the caller, not of the daemon


def _name_tools(hint: str) -> str:
    """Replace the commands in a hint by the tools that do the same."""
    for command, tool in TOOL_OF.items():
        hint = hint.replace(command, tool)
    return hint


def split_values(value: str | list[str] | None) -> tuple[str, ...]:
    """Return one text, a list of texts, or a text with commas, as a tuple."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value or ())


def validate_request(request: Any) -> Any:
    """Apply the checks of JSON-RPC's parameters: refuse NUL characters and invalid Unicode."""
    values = {name: value for name, value in shapes.plain(request).items() if value is not None}
    try:
        return shapes.decode(type(request), json.loads(shapes.to_json(values)))
    except Failure as failure:
        raise tool_error(failure) from failure
