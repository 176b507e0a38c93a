"""Convert search requests to what the search flow takes: indexes and a `Query`."""

from dataclasses import replace

from cocosearch_ipc import protocol as p
from cocosearchd.config.settings import SearchSettings
from cocosearchd.errors import NotFound
from cocosearchd.indexes.config_sync import RunningIndex
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.model import named_glob
from cocosearchd.search.plan import Query, parse_inline


def with_defaults(query: Query, settings: SearchSettings) -> Query:
    """Fill the fields that the query leaves open from the settings of an index."""
    return replace(
        query,
        limit=settings.limit if query.limit is None else query.limit,
        profile=query.profile or settings.profile,
        reranker=query.reranker or settings.reranker,
    )


def filters_symbols(request: p.SearchRequest) -> bool:
    """True if the request has a filter on symbols, as a field or inside its text."""
    inline = parse_inline(request.query)
    return bool(
        request.symbol_types or request.symbol_name or inline.symbol_types or inline.symbol_names
    )


def wants_explanation(request: p.SearchRequest) -> bool:
    """True if the reply shall explain its ranking, or why a path is missing."""
    return request.explain or request.why_not is not None


def query_of(request: p.SearchRequest) -> Query:
    """The query that a request puts to each of its indexes."""
    return Query(
        text=request.query,
        limit=request.limit,
        languages=request.languages,
        paths=tuple(map(named_glob, request.paths)),
        not_paths=tuple(map(named_glob, request.not_paths)),
        symbol_types=request.symbol_types,
        symbol_name=request.symbol_name,
        profile=request.profile,
        use_hybrid=request.use_hybrid,
        reranker=request.reranker,
        min_score=request.min_score,
        all_chunks=request.all_chunks,
        lines_before=request.lines_before,
        lines_after=request.lines_after,
        smart_context=request.smart_context,
        budget_chars=request.budget_chars,
        budget_tokens=request.budget_tokens,
        use_cache=request.use_cache,
        why_not=request.why_not,
    )


async def searched_indexes(
    indexes: IndexLookup, request: p.SearchRequest
) -> tuple[RunningIndex, ...]:
    """Indexes that a request searches. Filters in its text (`index:`, `topic:`) count as fields.

    Raises `NotFound`, and the error of an index that is named but does not run.
    """
    selected = await _select(indexes, request)
    if not selected:
        raise NotFound("there is no index yet", "cocosearchctl up DIRECTORY")
    for index in selected:
        if index.error is not None:
            raise index.error
    return selected


async def _select(indexes: IndexLookup, request: p.SearchRequest) -> tuple[RunningIndex, ...]:
    inline = parse_inline(request.query)
    name = () if request.index is None else (request.index,)
    names = dict.fromkeys((*request.indexes, *inline.indexes, *name))
    topics = (*request.topics, *inline.topics)
    if request.all_indexes:
        usable = tuple(index for index in indexes.all() if index.error is None)
        return usable or indexes.all()
    if not names and not topics:
        return (await indexes.select(None, request.cwd),)
    selected = tuple(indexes.get(name) for name in names)
    if topics:
        selected += tuple(index for index in indexes.with_topics(topics) if index not in selected)
    return selected
