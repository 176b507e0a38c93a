"""Arguments that no tool takes, or not so: which, why, and what the tool takes, in one line an
assistant can act on.
"""

import difflib
import logging
from typing import Any

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from pydantic import ValidationError


class Arguments(Middleware):
    """Says what is wrong with the arguments of a call in our words; pydantic's are for
    programmers.
    """

    def __init__(self, server: FastMCP) -> None:
        self._server = server

    async def on_call_tool(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """The call, or a `ToolError`."""
        try:
            return await call_next(context)
        except (ValidationError, InvalidArguments) as error:
            cause = error if isinstance(error, ValidationError) else error.__cause__
            if not isinstance(cause, ValidationError):
                raise
            tool = await self._server.get_tool(context.message.name)
            taken = list(tool.parameters.get("properties", {})) if tool is not None else []
            said = "\n".join(
                dict.fromkeys(_sentence(one, taken) for one in cause.errors(include_url=False))
            )
            raise ToolError(said, log_level=logging.DEBUG) from None


def _sentence(error: Any, taken: list[str]) -> str:
    name = str(error["loc"][0]) if error["loc"] else "arguments"
    if error["type"] == "unexpected_keyword_argument":
        near = difflib.get_close_matches(name, taken, 1)
        return f"there is no argument {name}\nHint: " + (
            f"did you mean {near[0]}?" if near else ", ".join(taken)
        )
    if error["type"] in ("missing_argument", "missing"):
        return f"{name} is missing"
    return f"{name} is {error['input']!r:.100}: {error['msg'][:1].lower()}{error['msg'][1:]}"
