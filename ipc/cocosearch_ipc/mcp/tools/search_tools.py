"""Tools that search by meaning and name, by regular expression or by similarity, and explain it.

An answer is compact text (`compact_text`); `tool_calls.result` says when structured content is sent.
"""

from dataclasses import fields
from functools import partial
from typing import Annotated, Any

import mcp_types
from fastmcp import Context
from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol
from cocosearch_ipc.mcp import compact_text, file_reading, tool_calls
from cocosearch_ipc.mcp.tools import parameters
from cocosearch_ipc.mcp.tools.parameter_groups import FileFilters, SearchFilters
from cocosearch_ipc.mcp.tools.tool_registry import ToolRegistry

# The description of `explain_query` says that it takes these parameters.
_FILTERS_OF_SEARCH = (*(field.name for field in fields(SearchFilters)), "limit")
EXPLAINED = 3  # default number of explained results: each has dozens of values


def register(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    """Add the tools to `registry`. `page_tokens` is the default budget of an answer."""
    _search(registry, engine, page_tokens)
    _grep(registry, engine, page_tokens)
    _find_related(registry, engine, page_tokens)
    _explain(registry, engine, page_tokens)


def _search(registry: ToolRegistry, engine: p.Engine, page_tokens: int) -> None:
    @registry.tool("Search code", tool_calls.READS)
    async def search_code(
        ctx: Context,
        query: Annotated[
            str,
            Field(
                description='Words, a name, code, or "exact text". '
                "Filters inside work too: lang:go -path:vendor/** sym:class name:get_* index:a"
            ),
        ],
        filters: SearchFilters,
        limit: parameters.Limit = None,
        budget_tokens: parameters.BudgetTokens = None,
        cursor: parameters.Cursor = None,
        context_before: parameters.ContextLines = None,
        context_after: parameters.ContextLines = None,
        smart_context: parameters.SmartContext = True,
        no_cache: parameters.NoCache = False,
    ) -> Any:
        """Find code by meaning, words or name in the current files. Use it first for where or how
        something is done; use grep to list every occurrence of a text.
        """
        choice = await filters.choose_index(ctx, engine, query)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        budget = budget_tokens or page_tokens
        request = p.SearchRequest(
            query=query,
            **filters.request_fields(choice),
            limit=limit,
            lines_before=context_before,
            lines_after=context_after,
            smart_context=smart_context,
            use_cache=not no_cache,
            budget_tokens=budget,
            cursor=cursor,
        )
        return await tool_calls.await_result(
            engine.search(tool_calls.validate_request(request)),
            partial(compact_text.search, budget_tokens=budget),
            choice,
        )


def _grep(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    @registry.tool("Find lines", tool_calls.READS, unlisted=("limit", *parameters.AS_SEARCH_CODE))
    async def grep(
        ctx: Context,
        pattern: Annotated[str, Field(description="RE2, within one line.")],
        filters: FileFilters,
        path: Annotated[str, Field(description="Only this file or directory, e.g. src/api.")] = "",
        fixed: Annotated[bool, Field(description="The pattern is plain text.")] = False,
        ignore_case: bool = False,
        whole_words: bool = False,
        mode: Annotated[str, Field(description="lines, counts or files.")] = "lines",
        context: Annotated[
            int,
            Field(
                ge=0,
                le=workspace_protocol.GREP_MAX_CONTEXT,
                description="Lines around each match.",
            ),
        ] = 0,
        limit: Annotated[
            int,
            Field(
                ge=1, le=workspace_protocol.GREP_MAX_LIMIT, description="Maximum lines or files."
            ),
        ] = workspace_protocol.GREP_LIMIT,
        budget_tokens: parameters.BudgetTokens = None,
        cursor: parameters.Cursor = None,
    ) -> Any:
        """List every line that matches a regular expression, and the count of all matches."""
        choice = await filters.choose_index(ctx, engine)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        request = workspace_protocol.GrepRequest(
            pattern,
            **filters.request_fields(choice),
            under=path,
            fixed=fixed,
            ignore_case=ignore_case,
            whole_words=whole_words,
            mode=mode,
            context=context,
            limit=limit,
            budget_tokens=budget_tokens or page_tokens,
            cursor=cursor,
        )
        return await tool_calls.await_result(
            engine.grep(tool_calls.validate_request(request)),
            partial(compact_text.matches, mode=mode),
            choice,
        )


def _find_related(registry: ToolRegistry, engine: Any, page_tokens: int) -> None:
    @registry.tool(
        "Find related code", tool_calls.READS, unlisted=("limit", *parameters.AS_SEARCH_CODE)
    )
    async def find_related(
        ctx: Context,
        filename: Annotated[str, Field(description="A path, as in results.")],
        line: Annotated[int, Field(ge=1, description="A line of the definition.")],
        index_name: parameters.IndexName = None,
        limit: Annotated[
            int,
            Field(ge=1, le=parameters.MAX_TOOL_RESULTS, description="Maximum number of results."),
        ] = 10,
        budget_tokens: parameters.BudgetTokens = None,
    ) -> Any:
        """Find code in other files that resembles a definition: duplicates, other implementations."""
        choice = await tool_calls.choose_index(ctx, engine, index_name)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        budget = budget_tokens or page_tokens
        request = workspace_protocol.FindRelatedRequest(
            filename,
            line,
            index=choice.index,
            cwd=choice.cwd,
            limit=limit,
            budget_tokens=budget,
        )
        related = file_reading.by_shown_path(
            engine.find_related, tool_calls.validate_request(request)
        )
        as_text = partial(compact_text.related, filename=filename, budget_tokens=budget)
        return await tool_calls.await_result(related, as_text, choice)


def _explain(registry: ToolRegistry, engine: p.Engine, page_tokens: int) -> None:
    @registry.tool("Explain a query", tool_calls.READS, unlisted=_FILTERS_OF_SEARCH)
    async def explain_query(
        ctx: Context,
        query: str,
        filters: SearchFilters,
        why_not: Annotated[
            str | None, Field(description="A path that the results lack; the answer says why.")
        ] = None,
        limit: Annotated[
            int,
            Field(
                ge=1, le=parameters.MAX_TOOL_RESULTS, description="Number of results to explain."
            ),
        ] = EXPLAINED,
    ) -> Any:
        """Explain how a search ranks its results, or why it misses one. Takes the filters of
        search_code.
        """
        choice = await filters.choose_index(ctx, engine, query)
        if isinstance(choice, mcp_types.InputRequiredResult):
            return choice
        request = p.SearchRequest(
            query=query,
            **filters.request_fields(choice),
            limit=limit,
            explain=True,
            why_not=why_not,
        )
        return await tool_calls.await_result(
            engine.search(tool_calls.validate_request(request)),
            partial(compact_text.explained, budget_tokens=page_tokens),
            choice,
        )
