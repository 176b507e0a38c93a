"""Error messages for invalid tool arguments: the argument, the reason, and valid arguments.

Each is one line that an assistant can act on.
"""

import inspect
import logging
from typing import Any

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.tools.function_tool import FunctionTool
from pydantic import ValidationError

from cocosearch_ipc.rpc.client_names import MAX_NAME, find_nearest

CONTEXT = "ctx"  # the parameter of each tool that no client sends


class Arguments(Middleware):
    """Replaces pydantic's validation messages, which are for programmers."""

    def __init__(self, server: FastMCP) -> None:
        self._server = server

    async def on_call_tool(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Run the call. Raises `ToolError` for invalid arguments."""
        try:
            return await call_next(context)
        except (ValidationError, InvalidArguments) as error:
            cause = error if isinstance(error, ValidationError) else error.__cause__
            if not isinstance(cause, ValidationError):
                raise
            tool = await self._server.get_tool(context.message.name)
            valid_names = _parameter_names(tool)
            text = "\n".join(
                dict.fromkeys(
                    _sentence(detail, valid_names) for detail in cause.errors(include_url=False)
                )
            )
            raise ToolError(text, log_level=logging.DEBUG) from None


def _parameter_names(tool: Tool | None) -> list[str]:
    """Return the names of all parameters of a tool, with those that the list of tools leaves out."""
    if not isinstance(tool, FunctionTool):
        return []
    parameters = inspect.signature(tool.fn).parameters.values()
    return [parameter.name for parameter in parameters if parameter.name != CONTEXT]


def _sentence(error: Any, valid_names: list[str]) -> str:
    name = str(error["loc"][0]) if error["loc"] else "arguments"
    if error["type"] == "unexpected_keyword_argument":
        near = find_nearest(name, valid_names)
        return f"unknown argument {name[:MAX_NAME]}\nHint: " + (
            f"did you mean {near}?" if near else ", ".join(valid_names)
        )
    if error["type"] in ("missing_argument", "missing_keyword_only_argument", "missing"):
        return f"{name} is missing"
    return f"{name} is {error['input']!r:.100}: {error['msg'][:1].lower()}{error['msg'][1:]}"
