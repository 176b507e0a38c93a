"""Groups of parameters that several tools share: one value in the code, single parameters for clients."""

from dataclasses import dataclass
from typing import Any

from fastmcp import Context

from cocosearch_ipc.mcp import tool_calls
from cocosearch_ipc.mcp.tools import parameters
from cocosearch_ipc.mcp.tools.flat_parameters import ParameterGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilters(ParameterGroup):
    """Filters on files, and the indexes to search."""

    language: parameters.Language = None
    paths: parameters.Paths = None
    index_name: parameters.IndexName = None
    index_names: parameters.IndexNames = None
    topic: parameters.Topic = None

    async def choose_index(
        self, ctx: Context, engine: Any, query: str = ""
    ) -> tool_calls.ChoiceOrQuestion:
        """Return the index of a search, as `tool_calls.choose_index` does.

        The text of the query may narrow it as well.
        """
        narrowed = tool_calls.is_narrowed(query, self.index_names, self.topic)
        return await tool_calls.choose_index(ctx, engine, self.index_name, narrowed=narrowed)

    def request_fields(self, choice: tool_calls.IndexChoice) -> dict[str, Any]:
        """Return the fields of a request to an index."""
        return {
            "index": choice.index,
            "cwd": choice.cwd,
            "indexes": tuple(self.index_names or ()),
            "topics": (self.topic,) if self.topic else (),
            "languages": tool_calls.split_values(self.language),
            "paths": tuple(self.paths or ()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilters(FileFilters):
    """All filters of a search, and the ways to rank."""

    symbol_type: parameters.SymbolType = None
    symbol_name: parameters.SymbolName = None
    profile: parameters.Profile = None
    use_hybrid_search: parameters.UseHybridSearch = None

    def request_fields(self, choice: tool_calls.IndexChoice) -> dict[str, Any]:
        """Return the fields of a request to an index."""
        return {
            # not `super()`: with slots, `dataclass` replaces the class that the body belongs to
            **FileFilters.request_fields(self, choice),
            "symbol_types": tool_calls.split_values(self.symbol_type),
            "symbol_name": self.symbol_name,
            "profile": self.profile,
            "use_hybrid": self.use_hybrid_search,
        }
