"""The main tools: their names and parameters, each one call of the engine.

A reply is sent twice: as structured content in the shape of JSON-RPC's result, and as compact text
(`compact_text`).
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

import anyio
import anyio.to_thread
import mcp_types
from fastmcp import Context, FastMCP
from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc.mcp import client_project, compact_text, consent, tool_calls
from cocosearch_ipc.mcp.root_policy import RootPolicy, real_path
from cocosearch_ipc.rpc import shapes


def register(server: FastMCP, engine: p.Engine, roots: RootPolicy) -> None:
    """Add every tool to `server`."""
    _search(server, engine)
    _indexes(server, engine)
    _index_codebase(server, engine, roots)
    _clear_index(server, engine)


def _search(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(
        title="Search code",
        annotations=tool_calls.READS,
        output_schema=shapes.schema(p.SearchReply),
    )
    async def search_code(
        ctx: Context,
        query: Annotated[
            str,
            Field(
                description='What to find: words for behaviour, a symbol, code, or "exact text" '
                "in quotes. "
                "It may contain filters: -path:vendor/** lang:go sym:class name:get_*"
            ),
        ],
        index_name: tool_calls.IndexName = None,
        limit: Annotated[
            int | None, Field(ge=1, le=100, description="Maximum number of results; 10 by default.")
        ] = None,
        language: Annotated[
            str | list[str] | None, Field(description="Only these languages, e.g. python.")
        ] = None,
        paths: Annotated[
            list[str] | None,
            Field(description="Only paths that match these globs; !glob excludes."),
        ] = None,
        symbol_type: Annotated[
            str | list[str] | None,
            Field(
                description="Only these kinds: function, method, class, interface, resource ... "
                "An empty query lists all such symbols."
            ),
        ] = None,
        symbol_name: Annotated[
            str | None, Field(description="Only symbols of this name; * is a wildcard.")
        ] = None,
        use_hybrid_search: Annotated[
            bool | None, Field(description="Keyword and vector search (default), or vectors only.")
        ] = None,
        context_before: Annotated[
            int | None, Field(ge=0, le=200, description="Lines before each result.")
        ] = None,
        context_after: Annotated[
            int | None, Field(ge=0, le=200, description="Lines after each result.")
        ] = None,
        smart_context: Annotated[
            bool, Field(description="Widen results to the enclosing definition.")
        ] = True,
        profile: Annotated[
            str | None, Field(description="Ranking profile: code (default) or classic.")
        ] = None,
        no_cache: Annotated[bool, Field(description="Do not use a cached answer.")] = False,
        budget_tokens: Annotated[
            int | None, Field(ge=50, description="Approximate maximum tokens of code.")
        ] = None,
        cursor: Annotated[
            str | None, Field(description="The cursor from the previous page of symbols.")
        ] = None,
    ) -> Any:
        """Find code by meaning, by words or by name, in the user's current files (unsaved changes
        excepted).

        Use this first for any question about where or how something is done in the code; it is
        faster than reading files or grep and finds what has other names than you think of. Use grep
        only for exhaustive literal lists. Each hit has path, lines, symbol, score and code; `fresh`
        says whether every saved change is included.
        """
        scope = await tool_calls.resolve_scope(ctx, engine, index_name)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = p.SearchRequest(
            query=query,
            index=scope.index,
            cwd=scope.cwd,
            limit=limit,
            languages=tool_calls.split_names(language),
            paths=tuple(paths or ()),
            symbol_types=tool_calls.split_names(symbol_type),
            symbol_name=symbol_name,
            profile=profile,
            use_hybrid=use_hybrid_search,
            lines_before=context_before,
            lines_after=context_after,
            smart_context=smart_context,
            use_cache=not no_cache,
            budget_tokens=budget_tokens,
            cursor=cursor,
        )
        return await tool_calls.await_result(
            engine.search(tool_calls.validate_request(request)), compact_text.search, scope
        )


def _indexes(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(
        title="List indexes",
        annotations=tool_calls.READS,
        output_schema=shapes.schema(p.IndexesReply),
    )
    async def list_indexes() -> Any:
        """List all indexes with root directory, state and size."""
        return await tool_calls.await_result(engine.list_indexes(p.Empty()), compact_text.indexes)

    @server.tool(
        title="Index statistics",
        annotations=tool_calls.READS,
        output_schema=shapes.schema(p.StatsReply),
    )
    async def index_stats(
        ctx: Context,
        index_name: tool_calls.IndexName = None,
        include_failures: Annotated[
            bool, Field(description="List files that did not parse or were skipped.")
        ] = False,
    ) -> Any:
        """Files, chunks, symbols, languages and parse health of one index. Use it to see what an
        index covers.
        """
        scope = await tool_calls.resolve_scope(ctx, engine, index_name)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = p.StatsRequest(
            index=scope.index, cwd=scope.cwd, include_failures=include_failures
        )
        return await tool_calls.await_result(
            engine.index_stats(tool_calls.validate_request(request)), compact_text.stats, scope
        )


def _index_codebase(server: FastMCP, engine: p.Engine, roots: RootPolicy) -> None:
    @server.tool(
        title="Index a codebase",
        annotations=tool_calls.ADDS,
        output_schema=shapes.schema(p.IndexCodebaseReply),
    )
    async def index_codebase(
        ctx: Context,
        path: Annotated[str, Field(description="Absolute path of the project's directory.")],
        index_name: Annotated[
            str | None, Field(description="Name of the index; by default the directory's name.")
        ] = None,
        wait: Annotated[
            bool, Field(description="Report progress and return when it is searchable.")
        ] = True,
    ) -> Any:
        """Watch a directory and keep it searchable from now on. Needed once per project; calling it
        again is harmless.

        Only directories that the user's settings allow are indexed, and the user may be asked
        first. Cancelling only stops the wait: the daemon continues to index.
        """
        permitted = await _permitted(
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
                last = await _follow(ctx, engine.follow(p.IndexRequest(index=reply.index)))
                reply = replace(reply, progress=last or reply.progress)
        except p.Failure as failure:
            raise tool_calls.tool_error(failure) from failure
        return tool_calls.result(reply, compact_text.indexed(reply))


def _clear_index(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(
        title="Forget an index",
        annotations=tool_calls.DESTROYS,
        output_schema=shapes.schema(p.ClearReply),
    )
    async def clear_index(
        ctx: Context,
        index_name: Annotated[
            str, Field(description="Exact name of the index to remove; never guess.")
        ],
    ) -> Any:
        """Remove an index and stop watching its directory. The files on disk are not touched. Ask
        the user first.
        """
        request = tool_calls.validate_request(p.IndexRequest(index=index_name))
        listed = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
        root = next((index.root for index in listed.indexes if index.name == index_name), None)
        if root is not None:  # otherwise the engine refuses and lists the indexes
            directory = tool_calls.escape_names(root)
            question = f"Delete the index {index_name} of {directory}? Its files are not touched."
            if question_to_client := await consent.require_consent(ctx, question, "Delete it"):
                return question_to_client
        return await tool_calls.await_result(engine.clear_index(request), compact_text.cleared)


async def _permitted(
    ctx: Context, engine: p.Engine, roots: RootPolicy, request: p.IndexCodebaseRequest
) -> p.IndexCodebaseRequest | mcp_types.InputRequiredResult:
    """Return the request with its real path after checks and consent, or a question to return.

    A directory that is already watched needs neither. Raises `ToolError`.
    """
    real = await anyio.to_thread.run_sync(real_path, request.path, abandon_on_cancel=True)
    listed = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
    if not request.path.startswith("/") or real in {index.root for index in listed.indexes}:
        return request
    if ctx.request_state != real:  # otherwise it was checked before the question
        near = await _near(ctx)
        if isinstance(near, mcp_types.InputRequiredResult):
            return near
        try:
            real = await anyio.to_thread.run_sync(
                roots.resolve, request.path, near, abandon_on_cancel=True
            )
        except p.Failure as failure:
            raise tool_calls.tool_error(failure) from failure
    directory = tool_calls.escape_names(real)
    question = f"Index {directory}, watch it from now on, and let assistants search it?"
    question_to_client = await consent.require_consent(ctx, question, "Index it", real)
    return question_to_client or replace(request, path=real)


async def _near(ctx: Context) -> tuple[str, ...] | mcp_types.InputRequiredResult:
    """Return the directories where the user started the client, for clients on the Unix socket.

    Those clients may do everything that the user may.
    """
    if not client_project.BRIDGE.get().connected:
        return ()
    detected = await client_project.detect(ctx)
    return detected if isinstance(detected, mcp_types.InputRequiredResult) else detected.directories


async def _follow(
    ctx: Context, progress: AsyncGenerator[p.IndexProgress, None]
) -> p.IndexProgress | None:
    last = None
    async with aclosing(progress):  # a caller may cancel during a report
        async for last in progress:
            await ctx.report_progress(
                last.done, last.total, tool_calls.escape_names(compact_text.progress(last))
            )
    return last
