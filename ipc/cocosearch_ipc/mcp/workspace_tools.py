"""Further tools: CocoRAG's names, explanation, freshness, and files."""

from functools import partial
from typing import Annotated, Any

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.tools.base import ToolResult
from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol
from cocosearch_ipc.mcp import compact_text, file_reading, tool_calls
from cocosearch_ipc.render.line_range import parse_location as place_of
from cocosearch_ipc.render.visible import visible_name
from cocosearch_ipc.rpc import shapes

# Names of CocoRAG's rerankers -> our names.
RERANKERS = {"pure_functional": "functional", "spacy_nlp": "spacy"}
Topic = Annotated[
    str | None, Field(description="Only indexes of this topic. list_topics lists all topics.")
]
NAMES: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": "array", "items": {"type": "object"}},
}


def register(server: FastMCP, engine: p.Engine) -> None:
    """Add the tools to `server`."""
    _topics(server, engine)
    _search(server, engine)
    _fresh(server, engine)
    _grep(server, engine)
    _list_files(server, engine)
    _get_file(server, engine)
    _find_related(server, engine)


def _topics(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(title="List topics", annotations=tool_calls.READS, output_schema=NAMES)
    async def list_topics() -> Any:
        """List all topics with their indexes. A topic is a group that narrows `search`."""
        reply = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
        topics = sorted({topic for index in reply.indexes for topic in index.topics})
        entries = [
            {"topic": t, "indexes": [i.name for i in reply.indexes if t in i.topics]}
            for t in topics
        ]
        lines = [
            f"{visible_name(topic)}: "
            f"{', '.join(i.name for i in reply.indexes if topic in i.topics)}"
            for topic in topics
        ]
        return ToolResult("\n".join(lines) or "No index has a topic.", {"topics": entries})

    @server.tool(title="List sources", annotations=tool_calls.READS, output_schema=NAMES)
    async def list_sources() -> Any:
        """List all indexed directories with their topics and sizes."""
        reply = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
        entries = [
            {
                "name": i.name,
                "path": i.root,
                "topics": list(i.topics),
                "files": i.files,
                "state": i.state,
            }
            for i in reply.indexes
        ]
        return tool_calls.result({"sources": entries}, compact_text.indexes(reply))


def _search(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(
        title="Search by topic",
        annotations=tool_calls.READS,
        output_schema=shapes.schema(p.SearchReply),
    )
    async def search(
        query: Annotated[str, Field(description="What to find, in words or by name.")],
        top_k: Annotated[int, Field(ge=1, le=100, description="Maximum number of results.")] = 10,
        topic: Topic = None,
        reranker: Annotated[
            str | None, Field(description="auto, functional, spacy or disabled.")
        ] = "auto",
    ) -> Any:
        """Search all indexes, or all indexes of one topic, at once. Use search_code for the project
        you work in.
        """
        request = p.SearchRequest(
            query=query,
            topics=(topic,) if topic else (),
            all_indexes=topic is None,
            limit=top_k,
            reranker=RERANKERS.get(reranker or "", reranker),
        )
        return await tool_calls.await_result(
            engine.search(tool_calls.validate_request(request)), compact_text.search
        )

    @server.tool(
        title="Explain a query",
        annotations=tool_calls.READS,
        output_schema=shapes.schema(p.SearchReply),
    )
    async def explain_query(
        ctx: Context,
        query: Annotated[str, Field(description="The query to explain.")],
        index_name: tool_calls.IndexName = None,
        limit: Annotated[
            int | None, Field(ge=1, le=100, description="Number of results to explain.")
        ] = None,
        why_not: Annotated[
            str | None,
            Field(description="A path missing from the results; the answer names the reason."),
        ] = None,
    ) -> Any:
        """Run a query and explain each stage. Use it when a search misses an expected result."""
        scope = await tool_calls.resolve_scope(ctx, engine, index_name)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = p.SearchRequest(
            query, scope.index, cwd=scope.cwd, limit=limit, explain=True, why_not=why_not
        )
        return await tool_calls.await_result(
            engine.search(tool_calls.validate_request(request)), compact_text.explained, scope
        )


def _fresh(server: FastMCP, engine: p.Engine) -> None:
    @server.tool(
        title="Wait until fresh",
        annotations=tool_calls.READS,
        output_schema=shapes.schema(p.SyncReply),
    )
    async def wait_until_fresh(
        ctx: Context,
        index_name: tool_calls.IndexName = None,
        timeout_s: Annotated[
            float, Field(ge=0, le=300, description="Maximum time to wait, in seconds.")
        ] = 30.0,
    ) -> Any:
        """Wait until every change made before this call is searchable. Searches already wait for a
        short time.
        """
        scope = await tool_calls.resolve_scope(ctx, engine, index_name)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = p.SyncRequest(index=scope.index, cwd=scope.cwd, timeout_ms=int(timeout_s * 1000))
        return await tool_calls.await_result(
            engine.sync(tool_calls.validate_request(request)), compact_text.synced, scope
        )


async def _scope(
    ctx: Context, engine: p.Engine, index_name: str | None, topic: str | None
) -> tool_calls.ScopeOrQuestion:
    """Return the scope of a call: a topic needs no project."""
    if topic:
        return tool_calls.SearchScope(index_name)
    return await tool_calls.resolve_scope(ctx, engine, index_name)


def _grep(server: FastMCP, engine: Any) -> None:
    schema = shapes.schema(workspace_protocol.GrepReply)

    @server.tool(title="Find lines", annotations=tool_calls.READS, output_schema=schema)
    async def grep(
        ctx: Context,
        pattern: Annotated[
            str, Field(description="A regular expression (RE2) that matches within a line.")
        ],
        index_name: tool_calls.IndexName = None,
        path: Annotated[str, Field(description="Only this file or directory, e.g. src/api.")] = "",
        language: Annotated[
            str | list[str] | None, Field(description="Only these languages, e.g. python.")
        ] = None,
        paths: Annotated[
            list[str] | None,
            Field(description="Only paths that match these globs; !glob excludes."),
        ] = None,
        fixed: Annotated[bool, Field(description="The pattern is a text, no expression.")] = False,
        ignore_case: Annotated[bool, Field(description="Ignore upper and lower case.")] = False,
        whole_words: Annotated[bool, Field(description="Match only complete words.")] = False,
        mode: Annotated[
            str, Field(description="lines, counts (of each file) or files (paths only).")
        ] = "lines",
        context: Annotated[int, Field(ge=0, le=20, description="Lines around each match.")] = 0,
        limit: Annotated[
            int,
            Field(
                ge=1, le=workspace_protocol.GREP_MAX_LIMIT, description="Maximum lines or files."
            ),
        ] = workspace_protocol.GREP_LIMIT,
        budget_tokens: Annotated[
            int, Field(ge=50, description="Approximate maximum tokens of all lines.")
        ] = 1500,
        cursor: Annotated[
            str | None, Field(description="The cursor from the previous reply.")
        ] = None,
    ) -> Any:
        """List every line that matches a regular expression, as the files are on disk now.

        Use it for exhaustive lists: all calls of a function, all places of a text. It counts all
        matches, and names the definition around each line. Use search_code to find code by meaning.
        """
        scope = await tool_calls.resolve_scope(ctx, engine, index_name)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = workspace_protocol.GrepRequest(
            pattern,
            index=scope.index,
            cwd=scope.cwd,
            under=path,
            languages=tool_calls.split_names(language),
            paths=tuple(paths or ()),
            fixed=fixed,
            ignore_case=ignore_case,
            whole_words=whole_words,
            mode=mode,
            context=context,
            limit=limit,
            budget_tokens=budget_tokens,
            cursor=cursor,
        )
        return await tool_calls.await_result(
            engine.grep(tool_calls.validate_request(request)),
            partial(compact_text.matches, mode=mode),
            scope,
        )


def _list_files(server: FastMCP, engine: Any) -> None:
    schema = shapes.schema(workspace_protocol.ListFilesReply)

    @server.tool(title="List files", annotations=tool_calls.READS, output_schema=schema)
    async def list_files(
        ctx: Context,
        index_name: tool_calls.IndexName = None,
        topic: Topic = None,
        path_prefix: Annotated[
            str, Field(description="Only files below this directory, e.g. src/api.")
        ] = "",
        pattern: Annotated[
            str | None, Field(description="Only paths that match this glob, e.g. **/test_*.py.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=1000, description="Maximum number of files.")] = 100,
        cursor: Annotated[
            str | None, Field(description="The cursor from the previous page.")
        ] = None,
    ) -> Any:
        """List indexed files. Use it to find paths for get_file."""
        scope = await _scope(ctx, engine, index_name, topic)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = workspace_protocol.ListFilesRequest(
            index=scope.index,
            cwd=scope.cwd,
            topic=topic,
            under=path_prefix,
            pattern=pattern,
            limit=limit,
            cursor=cursor,
        )
        return await tool_calls.await_result(
            engine.list_files(tool_calls.validate_request(request)), compact_text.files, scope
        )


def _get_file(server: FastMCP, engine: Any) -> None:
    schema = shapes.schema(workspace_protocol.GetFileReply)

    @server.tool(title="Get a file", annotations=tool_calls.READS, output_schema=schema)
    async def get_file(
        ctx: Context,
        filename: Annotated[
            str, Field(description="The path as in results, or absolute; also path:12-40.")
        ],
        index_name: tool_calls.IndexName = None,
        topic: Topic = None,
        start_line: Annotated[int | None, Field(ge=1, description="First line, from 1.")] = None,
        end_line: Annotated[int | None, Field(ge=1, description="Last line, inclusive.")] = None,
    ) -> Any:
        """Read an indexed file, or some of its lines, as it is on disk now. Long files come in
        parts.
        """
        scope = await _scope(ctx, engine, index_name, topic)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = workspace_protocol.GetFileRequest(
            filename,
            index=scope.index,
            cwd=scope.cwd,
            topic=topic,
            start_line=start_line,
            end_line=end_line,
        )
        as_text = partial(
            compact_text.file,
            last=end_line or (place_of(filename)[2] if start_line is None else None),
        )
        return await tool_calls.await_result(
            file_reading.read(engine, tool_calls.validate_request(request)), as_text, scope
        )


def _find_related(server: FastMCP, engine: Any) -> None:
    @server.tool(
        title="Find related code",
        annotations=tool_calls.READS,
        output_schema=shapes.schema(p.SearchReply),
    )
    async def find_related(
        ctx: Context,
        filename: Annotated[str, Field(description="The path as in results, or absolute.")],
        line: Annotated[int, Field(ge=1, description="A line of the definition, from 1.")],
        index_name: tool_calls.IndexName = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of results.")] = 10,
    ) -> Any:
        """Find code that resembles a definition: duplicates, siblings, other implementations of the
        same idea.
        """
        scope = await tool_calls.resolve_scope(ctx, engine, index_name)
        if isinstance(scope, mcp_types.InputRequiredResult):
            return scope
        request = workspace_protocol.FindRelatedRequest(
            filename, line, index=scope.index, cwd=scope.cwd, limit=limit
        )
        related = file_reading.by_shown_path(
            engine.find_related, tool_calls.validate_request(request)
        )
        return await tool_calls.await_result(related, compact_text.search, scope)
