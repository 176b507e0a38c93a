"""The tools: names and parameters an assistant sees, each one call of the engine.

A reply goes out twice: as structured content in the shape of JSON-RPC's result, and as compact text (`text`).
"""

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult
from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc import shapes
from cocosearch_ipc.mcp import project, text

Answer = ToolResult | mcp_types.InputRequiredResult

READS = mcp_types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
ADDS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
DESTROYS = mcp_types.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

IndexName = Annotated[str | None, Field(description="Index to use. Leave out for the project you work in.")]


def register(server: FastMCP, engine: p.Engine) -> None:
    """Add every tool to `server`."""
    _search(server, engine)
    _indexes(server, engine)
    _changes(server, engine)


def _search(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(title="Search code", annotations=READS, output_schema=shapes.schema(p.SearchReply))
    async def search_code(
        ctx: Context,
        query: Annotated[str, Field(description="What to find: words for behaviour, or an exact symbol or text.")],
        index_name: IndexName = None,
        limit: Annotated[int, Field(ge=1, le=100, description="How many hits.")] = 10,
        language: Annotated[str | list[str] | None, Field(description="Only these languages, e.g. python.")] = None,
        paths: Annotated[list[str] | None, Field(description="Only paths that match these globs.")] = None,
        symbol_type: Annotated[
            str | list[str] | None, Field(description="Only these kinds: function, method, class, interface ...")
        ] = None,
        symbol_name: Annotated[str | None, Field(description="Only symbols of this name; * matches.")] = None,
        use_hybrid_search: Annotated[bool | None, Field(description="Words and meaning (default), or meaning.")] = None,
        context_before: Annotated[int | None, Field(ge=0, le=200, description="Lines before each hit.")] = None,
        context_after: Annotated[int | None, Field(ge=0, le=200, description="Lines after each hit.")] = None,
        smart_context: Annotated[bool, Field(description="Widen hits to the enclosing definition.")] = True,
        no_cache: Annotated[bool, Field(description="Compute the answer anew.")] = False,
    ) -> Any:
        """Find code by meaning, by words or by name, in the user's current files (unsaved changes excepted).

        Use this first for any question about where or how something is done in the code; it is faster than reading
        files or grep and finds what has other names than you think of. Use grep only for exhaustive literal lists.
        Each hit has path, lines, symbol, score and code; `fresh` says whether every saved change is included.
        """
        where = await _where(ctx, index_name)
        if isinstance(where, mcp_types.InputRequiredResult):
            return where
        request = p.SearchRequest(
            query=query,
            index=index_name,
            cwd=where,
            limit=limit,
            languages=_several(language),
            paths=tuple(paths or ()),
            symbol_types=_several(symbol_type),
            symbol_name=symbol_name,
            use_hybrid=use_hybrid_search,
            lines_before=context_before,
            lines_after=context_after,
            smart_context=smart_context,
            use_cache=not no_cache,
        )
        return await _answered(engine.search(_checked(request)), text.search, where)


def _indexes(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(title="List indexes", annotations=READS, output_schema=shapes.schema(p.IndexesReply))
    async def list_indexes() -> Any:
        """List what can be searched: each index with its root directory, state and size."""
        return await _answered(engine.list_indexes(p.Empty()), text.indexes)

    @server.tool(title="Index statistics", annotations=READS, output_schema=shapes.schema(p.StatsReply))
    async def index_stats(
        ctx: Context,
        index_name: IndexName = None,
        include_failures: Annotated[bool, Field(description="List files that did not parse or were skipped.")] = False,
    ) -> Any:
        """Files, chunks, symbols, languages and parse health of one index. Use it to see what an index covers."""
        where = await _where(ctx, index_name)
        if isinstance(where, mcp_types.InputRequiredResult):
            return where
        request = p.StatsRequest(index=index_name, cwd=where, include_failures=include_failures)
        return await _answered(engine.index_stats(_checked(request)), text.stats, where)


def _changes(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(title="Index a codebase", annotations=ADDS, output_schema=shapes.schema(p.IndexCodebaseReply))
    async def index_codebase(
        ctx: Context,
        path: Annotated[str, Field(description="Absolute path of the project's directory.")],
        index_name: Annotated[str | None, Field(description="A name for it; by default the directory's.")] = None,
        wait: Annotated[bool, Field(description="Return when it is searchable, reporting progress.")] = True,
    ) -> Any:
        """Watch a directory and keep it searchable from now on. Needed once a project; calling it again is harmless.

        Cancelling stops the waiting only: the daemon goes on indexing.
        """
        request = p.IndexCodebaseRequest(path=path, name=index_name)
        try:
            reply = await engine.index_codebase(_checked(request))
            if wait:
                last = await _follow(ctx, engine.follow(p.IndexRequest(index=reply.index)))
                reply = p.IndexCodebaseReply(reply.index, reply.root, reply.created, last or reply.progress)
        except p.Failure as failure:
            raise _tool_error(failure) from failure
        return _result(reply, text.indexed(reply))

    @server.tool(title="Forget an index", annotations=DESTROYS, output_schema=shapes.schema(p.ClearReply))
    async def clear_index(
        index_name: Annotated[str, Field(description="The index to remove; its name, never a guess.")],
    ) -> Any:
        """Remove an index and stop watching its directory. The files on disk are not touched. Ask the user first."""
        return await _answered(engine.clear_index(_checked(p.IndexRequest(index=index_name))), text.cleared)


async def _where(ctx: Context, index_name: str | None) -> str | mcp_types.InputRequiredResult | None:
    if index_name is not None:
        return None
    found = await project.detect(ctx)
    if isinstance(found, mcp_types.InputRequiredResult):
        return found
    return found.directories[0] if found.directories else None


async def _follow(ctx: Context, progress: AsyncIterator[p.IndexProgress]) -> p.IndexProgress | None:
    last = None
    async for last in progress:
        await ctx.report_progress(last.done, last.total, text.progress(last))
    return last


async def _answered(call: Any, as_text: Callable[[Any], str], where: str | None = None) -> ToolResult:
    try:
        reply = await call
    except p.Failure as failure:
        raise _tool_error(failure, where) from failure
    return _result(reply, as_text(reply))


def _result(reply: object, shown: str) -> ToolResult:
    return ToolResult(content=shown, structured_content=json.loads(shapes.to_json(reply)))


def _tool_error(failure: p.Failure, where: str | None = None) -> ToolError:
    """One text with the hint. For a directory that is not indexed, the exact call that would change it."""
    offer = f'\nIt can be indexed: index_codebase(path="{where}")' if where and failure.code == p.NOT_FOUND else ""
    hint = f"\nHint: {failure.hint}" if failure.hint else ""
    return ToolError(f"{failure.message}{hint}{offer}")


def _several(value: str | list[str] | None) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value or ())


def _checked(request: Any) -> Any:
    """The same checks that JSON-RPC's parameters pass: NUL characters and broken Unicode are refused."""
    given = {name: value for name, value in shapes.plain(request).items() if value is not None}
    try:
        return shapes.decode(type(request), json.loads(shapes.to_json(given)))
    except p.Failure as failure:
        raise _tool_error(failure) from failure
