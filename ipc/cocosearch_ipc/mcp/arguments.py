"""Error messages for invalid tool arguments: the argument, the reason, and valid arguments.

Each is one line that an assistant can act on.
"""

import logging
from typing import Any

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from pydantic import ValidationError

from cocosearch_ipc.rpc.client_names import MAX_NAME, find_nearest


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
            valid_names = list(tool.parameters.get("properties", {})) if tool is not None else []
            text = "\n".join(
                dict.fromkeys(
                    _sentence(detail, valid_names) for detail in cause.errors(include_url=False)
                )
            )
            raise ToolError(text, log_level=logging.DEBUG) from None


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
