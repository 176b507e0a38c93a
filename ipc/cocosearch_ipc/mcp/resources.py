"""What an assistant may read without a tool: the indexes, and one index's numbers, as JSON."""

from fastmcp import FastMCP
from fastmcp.exceptions import ResourceError

from cocosearch_ipc import protocol as p
from cocosearch_ipc import shapes


def register(server: FastMCP, engine: p.Engine) -> None:
    """Add every resource and prompt to `server`."""

    @server.resource("cocosearch://indexes", mime_type="application/json")
    async def indexes() -> str:
        """Every index with its root, state, freshness and size."""
        return shapes.to_json(await engine.list_indexes(p.Empty())).decode()

    @server.resource("cocosearch://index/{name}/stats", mime_type="application/json")
    async def index_stats(name: str) -> str:
        """Files, chunks, symbols, languages and parse health of one index."""
        try:
            return shapes.to_json(await engine.index_stats(p.StatsRequest(index=name))).decode()
        except p.Failure as failure:
            raise ResourceError(failure.message) from failure

    @server.prompt
    def explain_codebase(focus: str = "the whole") -> str:
        """A tour of the codebase, built on searches."""
        return (
            f"Explain this codebase, focusing on {focus}. Begin with index_stats for its languages and size, then use "
            "search_code for entry points, the main data types, where state is kept, and how errors are handled. "
            "Name files and lines for every statement, and say what you did not look at."
        )
