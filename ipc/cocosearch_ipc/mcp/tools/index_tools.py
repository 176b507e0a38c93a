"""Tools that manage indexes: list them, add and remove one, wait until it is fresh."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

import anyio
import anyio.to_thread
import mcp_types
from fastmcp import Context
from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.mcp import client_project, compact_text, consent, tool_calls
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.mcp.tools import parameters
from cocosearch_ipc.mcp.tools.tool_registry import ToolRegistry


def register(registry: ToolRegistry, engine: p.Engine, roots: RootPolicy) -> None:
    """Add the tools to `registry`."""
    _indexes(registry, engine)
    _fresh(registry, engine)
    _index_codebase(registry, engine, roots)
    _clear_index(registry, engine)


def _indexes(registry: ToolRegistry, engine: p.Engine) -> None:
    @registry.tool("List indexes", tool_calls.READS)
    async def list_indexes() -> Any:
        """List all indexes with root, state, size and topics."""
        return await tool_calls.await_result(engine.list_indexes(p.Empty()), compact_text.indexes)

    @registry.tool("Index statistics", tool_calls.READS)
    async def index_stats(
        ctx: Context,
        index_name: parameters.IndexName = None,
        include_failures: Annotated[
            bool, Field(description="List files that did not parse or were skipped.")
        ] = False,
    ) -> Any:
        """Count files, symbols and languages of an index."""
        choice = await tool_calls.choose_index(ctx, engine, index_name)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        request = p.StatsRequest(
            index=choice.index, cwd=choice.cwd, include_failures=include_failures
        )
        return await tool_calls.await_result(
            engine.index_stats(tool_calls.validate_request(request)), compact_text.stats, choice
        )


def _fresh(registry: ToolRegistry, engine: p.Engine) -> None:
    @registry.tool("Wait until fresh", tool_calls.READS, unlisted=("timeout_s",))
    async def wait_until_fresh(
        ctx: Context,
        index_name: parameters.IndexName = None,
        timeout_s: Annotated[float, Field(ge=0, le=300, description="In seconds.")] = 30.0,
    ) -> Any:
        """Wait until all earlier changes are searchable, after an answer that was not fresh."""
        choice = await tool_calls.choose_index(ctx, engine, index_name)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        request = p.SyncRequest(
            index=choice.index, cwd=choice.cwd, timeout_ms=int(timeout_s * 1000)
        )
        return await tool_calls.await_result(
            engine.sync(tool_calls.validate_request(request)), compact_text.synced, choice
        )


def _index_codebase(registry: ToolRegistry, engine: p.Engine, roots: RootPolicy) -> None:
    @registry.tool("Index a codebase", tool_calls.ADDS, unlisted=("wait",))
    async def index_codebase(
        ctx: Context,
        path: Annotated[str, Field(description="Absolute path of a directory.")],
        index_name: Annotated[
            str | None, Field(description="By default the directory's name.")
        ] = None,
        wait: Annotated[bool, Field(description="Return when it is searchable.")] = True,
    ) -> Any:
        """Make a directory searchable from now on. Needed once; the user may be asked first."""
        permitted = await _check_permission(
            ctx,
            engine,
            roots,
            tool_calls.validate_request(p.IndexCodebaseRequest(path, index_name)),
        )
        if isinstance(permitted, mcp_types.InputRequiredResult):
            return permitted
        try:
            reply = await engine.index_codebase(permitted)
            if wait:
                last = await _report_progress(
                    ctx, engine.report_progress(p.IndexRequest(index=reply.index))
                )
                reply = replace(reply, progress=last or reply.progress)
        except Failure as failure:
            raise tool_calls.tool_error(failure) from failure
        return tool_calls.result(reply, compact_text.indexed(reply))


def _clear_index(registry: ToolRegistry, engine: p.Engine) -> None:
    @registry.tool("Forget an index", tool_calls.DESTROYS)
    async def clear_index(
        ctx: Context, index_name: Annotated[str, Field(description="Its exact name.")]
    ) -> Any:
        """Remove an index and stop watching its directory; no file is touched. Ask the user first."""
        request = tool_calls.validate_request(p.IndexRequest(index=index_name))
        listed = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
        root = next((index.root for index in listed.indexes if index.name == index_name), None)
        if root is not None:  # otherwise the engine refuses and lists the indexes
            directory = tool_calls.escape_names(root)
            question = f"Delete the index {index_name} of {directory}? Its files are not touched."
            if question_to_client := await consent.require_consent(ctx, question, "Delete it"):
                return question_to_client
        return await tool_calls.await_result(engine.clear_index(request), compact_text.cleared)


async def _check_permission(
    ctx: Context, engine: p.Engine, roots: RootPolicy, request: p.IndexCodebaseRequest
) -> p.IndexCodebaseRequest | mcp_types.InputRequiredResult:
    """Return the request with its real path after checks and consent, or a question to return.

    A directory that is already watched needs neither. The path may become a link meanwhile, so the
    request follows none. Raises `ToolError`.
    """
    real = await anyio.to_thread.run_sync(os.path.realpath, request.path, abandon_on_cancel=True)
    listed = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
    if not request.path.startswith("/"):
        return request
    if real in {index.root for index in listed.indexes}:
        return replace(request, path=real, follow_links=False)
    if ctx.request_state != real:  # otherwise it was checked before the question
        near = await _client_directories(ctx)
        if isinstance(near, mcp_types.InputRequiredResult):
            return near
        try:
            real = await anyio.to_thread.run_sync(
                roots.resolve, request.path, near, abandon_on_cancel=True
            )
        except Failure as failure:
            raise tool_calls.tool_error(failure) from failure
    directory = tool_calls.escape_names(real)
    question = f"Index {directory}, watch it from now on, and let assistants search it?"
    question_to_client = await consent.require_consent(ctx, question, "Index it", real)
    return question_to_client or replace(request, path=real, follow_links=False)


async def _client_directories(ctx: Context) -> tuple[str, ...] | mcp_types.InputRequiredResult:
    """Return the directories where the user started the client, for clients on the Unix socket.

    Those clients may do everything that the user may.
    """
    if not client_project.BRIDGE.get().connected:
        return ()
    detected = await client_project.detect(ctx)
    return detected if isinstance(detected, mcp_types.InputRequiredResult) else detected.directories


async def _report_progress(
    ctx: Context, progress: AsyncGenerator[p.IndexProgress, None]
) -> p.IndexProgress | None:
    last = None
    async with aclosing(progress):  # a caller may cancel during a report
        async for last in progress:
            await ctx.report_progress(
                last.done, last.total, tool_calls.escape_names(compact_text.progress(last))
            )
    return last
