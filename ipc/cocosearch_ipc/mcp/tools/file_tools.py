"""Tools that list the files of an index and read one."""

from functools import partial
from typing import Annotated, Any

import mcp_types
from fastmcp import Context
from pydantic import Field

from cocosearch_ipc import workspace_protocol
from cocosearch_ipc.mcp import compact_text, file_reading, tool_calls
from cocosearch_ipc.mcp.tools import parameters
from cocosearch_ipc.mcp.tools.tool_registry import ToolRegistry
from cocosearch_ipc.render.line_range import parse_location as place_of


def register(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    """Add the tools to `registry`. `page_tokens` is the default budget of an answer."""
    _get_file(registry, engine, page_tokens)
    _list_files(registry, engine, page_tokens)


def _get_file(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    @registry.tool(
        "Get a file",
        tool_calls.READS,
        unlisted=("start_line", "end_line", *parameters.AS_SEARCH_CODE),
    )
    async def get_file(
        ctx: Context,
        filename: Annotated[str, Field(description="A path, as in results; also path:12-40.")],
        start_line: Annotated[int | None, Field(ge=1, description="From 1.")] = None,
        end_line: Annotated[int | None, Field(ge=1, description="Inclusive.")] = None,
        index_name: parameters.IndexName = None,
        topic: parameters.Topic = None,
        budget_tokens: parameters.BudgetTokens = None,
    ) -> Any:
        """Read a file, or lines of it, as it is on disk now. Long files come in pages."""
        choice = await tool_calls.choose_index(ctx, engine, index_name, narrowed=bool(topic))
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        request = workspace_protocol.GetFileRequest(
            filename,
            index=choice.index,
            cwd=choice.cwd,
            topic=topic,
            start_line=start_line,
            end_line=end_line,
            budget_tokens=budget_tokens,
        )
        as_text = partial(
            compact_text.file,
            last=end_line or (place_of(filename)[2] if start_line is None else None),
            has_index_name=bool(index_name or topic),
        )
        reading = file_reading.read(engine, tool_calls.validate_request(request), page_tokens)
        return await tool_calls.await_result(reading, as_text, choice)


def _list_files(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    @registry.tool("List files", tool_calls.READS, unlisted=("limit", *parameters.AS_SEARCH_CODE))
    async def list_files(
        ctx: Context,
        path_prefix: Annotated[str, Field(description="A directory, e.g. src/api.")] = "",
        pattern: Annotated[str | None, Field(description="A glob, e.g. **/test_*.py.")] = None,
        index_name: parameters.IndexName = None,
        topic: parameters.Topic = None,
        limit: Annotated[
            int, Field(ge=1, le=parameters.MAX_TOOL_FILES, description="Maximum number of files.")
        ] = 100,
        budget_tokens: parameters.BudgetTokens = None,
        cursor: parameters.Cursor = None,
    ) -> Any:
        """List indexed files."""
        choice = await tool_calls.choose_index(ctx, engine, index_name, narrowed=bool(topic))
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        request = workspace_protocol.ListFilesRequest(
            index=choice.index,
            cwd=choice.cwd,
            topic=topic,
            under=path_prefix,
            pattern=pattern,
            limit=limit,
            budget_tokens=budget_tokens or page_tokens,
            cursor=cursor,
        )
        return await tool_calls.await_result(
            engine.list_files(tool_calls.validate_request(request)), compact_text.files, choice
        )
