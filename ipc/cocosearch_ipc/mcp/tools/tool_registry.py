"""Adds tools to the server with small schemas.

An assistant has the list of tools in its context from the beginning. So the list has only what a
model needs: no output schemas, no bounds, no defaults that mean "not given", and each description of
a parameter once. Calls are checked against the complete types.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import mcp_types
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool
from fastmcp.tools.function_tool import FunctionTool

from cocosearch_ipc.mcp.tools.flat_parameters import flatten_groups

# In the JSON Schema of a parameter: the parameter works, but is not in the list.
UNLISTED: dict[str, Any] = {"unlisted": True}
_UNLISTED_TAG = "unlisted"

Function = TypeVar("Function", bound=Callable[..., Any])


class ToolRegistry:
    """The tools of one server."""

    def __init__(self, server: FastMCP) -> None:
        self._server = server
        self._descriptions = set[tuple[str, str]]()
        server.add_middleware(_UnlistedTools())

    def tool(
        self,
        title: str,
        annotations: mcp_types.ToolAnnotations,
        *,
        listed: bool = True,
        unlisted: Collection[str] = (),
    ) -> Callable[[Function], Function]:
        """Return a decorator that adds a function as a tool of its name.

        A tool that is not `listed` can still be called. Parameters that are `unlisted` also work.
        They are parameters that the description of another tool explains, or that few calls need.
        """

        def add(function: Function) -> Function:
            tool = _CompactTool.from_function(
                flatten_groups(function),
                title=title,
                annotations=annotations,
                output_schema=None,
                tags=None if listed else {_UNLISTED_TAG},
            )
            if listed:
                tool.parameters = compact_parameters(tool.parameters, self._descriptions, unlisted)
            self._server.add_tool(tool)
            return function

        return add


class _CompactTool(FunctionTool):
    """A tool without metadata of the framework."""

    def to_mcp_tool(self, **overrides: Any) -> mcp_types.Tool:
        return super().to_mcp_tool(**overrides, _meta=None)


class _UnlistedTools(Middleware):
    """Removes unlisted tools from the list of tools; they can still be called."""

    async def on_list_tools(
        self,
        context: MiddlewareContext[mcp_types.ListToolsRequest],
        call_next: CallNext[mcp_types.ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        return [tool for tool in await call_next(context) if _UNLISTED_TAG not in tool.tags]


def compact_parameters(
    schema: Mapping[str, Any],
    descriptions: set[tuple[str, str]],
    unlisted: Collection[str] = (),
) -> dict[str, Any]:
    """Return the schema of a tool's parameters with all that a model needs to call it.

    `descriptions` are the names and descriptions of parameters that are listed already. The
    function adds those of this tool.
    """
    properties = dict[str, Any]()
    for name, parameter in schema["properties"].items():
        if "unlisted" in parameter or name in unlisted:
            continue
        properties[name] = _compact_parameter(parameter)
        description = parameter.get("description")
        if description and (name, description) not in descriptions:
            descriptions.add((name, description))
            properties[name]["description"] = description
    required = [name for name in schema.get("required", ()) if name in properties]
    compact = {"type": "object", "properties": properties}
    return compact | ({"required": required} if required else {})


def _compact_parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    """Return type and default. If there are several types, only programs use all but the first."""
    first_type = parameter.get("anyOf", [parameter])[0]
    compact = {key: first_type[key] for key in ("type", "items") if key in first_type}
    return compact | ({"default": parameter["default"]} if parameter.get("default") else {})
