"""Tools under CocoRAG's names, for prompts and scripts that use them.

They are not listed, since an assistant could not tell them apart from search_code and list_indexes.
"""

from functools import partial
from typing import Annotated, Any

from pydantic import Field

from cocosearch_ipc import protocol as p
from cocosearch_ipc.mcp import compact_text, tool_calls
from cocosearch_ipc.mcp.tools import parameters
from cocosearch_ipc.mcp.tools.tool_registry import ToolRegistry
from cocosearch_ipc.render.visible import visible_name

# Names of CocoRAG's rerankers -> our names.
OUR_RERANKERS = {"pure_functional": "functional", "spacy_nlp": "spacy"}


def register(registry: ToolRegistry, engine: p.Engine, page_tokens: int) -> None:
    """Add the tools to `registry`. `page_tokens` is the default budget of an answer."""
    _search(registry, engine, page_tokens)
    _list_topics_and_sources(registry, engine)


def _search(registry: ToolRegistry, engine: p.Engine, page_tokens: int) -> None:
    @registry.tool("Search by topic", tool_calls.READS, listed=False)
    async def search(
        query: str,
        top_k: Annotated[int, Field(ge=1, le=parameters.MAX_TOOL_RESULTS)] = 10,
        topic: str | None = None,
        source: str | None = None,
        reranker: str | None = "auto",
    ) -> Any:
        """Search all indexes at once, those of a topic, or one source: an index or its directory.

        A topic and a source narrow each other.
        """
        request = p.SearchRequest(
            query=query,
            index=await _source_index(engine, source) if source else None,
            topics=(topic,) if topic else (),
            all_indexes=not topic and not source,
            limit=top_k,
            reranker=OUR_RERANKERS.get(reranker or "", reranker),
            budget_tokens=page_tokens,
        )
        return await tool_calls.await_result(
            engine.search(tool_calls.validate_request(request)),
            partial(compact_text.search, budget_tokens=page_tokens),
        )


async def _source_index(engine: p.Engine, source: str) -> str:
    """Return the index of a directory, else `source` itself: the engine refuses unknown names."""
    listed = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
    return next((index.name for index in listed.indexes if index.root == source), source)


def _list_topics_and_sources(registry: ToolRegistry, engine: p.Engine) -> None:
    @registry.tool("List topics", tool_calls.READS, listed=False)
    async def list_topics() -> Any:
        """List all topics with their indexes."""
        reply = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
        names_by_topic = {
            topic: [index.name for index in reply.indexes if topic in index.topics]
            for topic in sorted({topic for index in reply.indexes for topic in index.topics})
        }
        topics = [{"topic": topic, "indexes": names} for topic, names in names_by_topic.items()]
        lines = [
            f"{visible_name(topic)}: {', '.join(names)}" for topic, names in names_by_topic.items()
        ]
        return tool_calls.result({"topics": topics}, "\n".join(lines) or "No index has a topic.")

    @registry.tool("List sources", tool_calls.READS, listed=False)
    async def list_sources() -> Any:
        """List all indexed directories with their topics and sizes."""
        reply = await tool_calls.await_reply(engine.list_indexes(p.Empty()))
        sources = [
            {
                "name": index.name,
                "path": index.root,
                "topics": list(index.topics),
                "files": index.files,
                "state": index.state,
            }
            for index in reply.indexes
        ]
        return tool_calls.result({"sources": sources}, compact_text.indexes(reply))
