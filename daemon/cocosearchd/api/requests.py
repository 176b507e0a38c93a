"""Convert search requests to what the search flow takes: indexes and a `Query`."""

from dataclasses import replace
from typing import Protocol

from cocosearch_ipc import protocol as p
from cocosearchd.config.settings import SearchSettings
from cocosearchd.errors import NotFound
from cocosearchd.indexes.config_sync import RunningIndex
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.search.plan import QUERY_OPTIONS, Query, parse_query


def with_defaults(query: Query, settings: SearchSettings) -> Query:
    """Fill the options that the query leaves open from the settings of an index."""
    options = query.ranking
    ranking = replace(
        options,
        limit=settings.limit if options.limit is None else options.limit,
        profile=options.profile or settings.profile,
        reranker=options.reranker or settings.reranker,
    )
    return replace(query, ranking=ranking)


def wants_explanation(request: p.SearchRequest) -> bool:
    """True if the reply shall explain its ranking, or why a path is missing."""
    return request.explain or request.why_not is not None


def query_of(request: p.SearchRequest) -> Query:
    """The query that a request puts to each of its indexes. Raises `InvalidInput`."""
    options = {name: getattr(request, name) for name in QUERY_OPTIONS}
    options["min_relevance"] = max(request.min_relevance, request.min_score)
    return parse_query(request.query, **options)


class IndexChoice(Protocol):
    """Fields of a request that choose indexes."""

    @property
    def index(self) -> str | None: ...

    @property
    def indexes(self) -> tuple[str, ...]: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    @property
    def all_indexes(self) -> bool: ...

    @property
    def cwd(self) -> str | None: ...


async def searched_indexes(
    indexes: IndexLookup, request: IndexChoice, query: Query | None = None
) -> tuple[RunningIndex, ...]:
    """Indexes that a request searches, and its query: `index:` and `topic:` count as fields.

    Raises `NotFound`, and the error of an index that is named but does not run.
    """
    selected = await _select(indexes, request, query)
    if not selected:
        raise NotFound("there is no index yet", "cocosearchctl up DIRECTORY")
    for index in selected:
        if index.error is not None:
            raise index.error
    return selected


async def _select(
    indexes: IndexLookup, request: IndexChoice, query: Query | None
) -> tuple[RunningIndex, ...]:
    name = () if request.index is None else (request.index,)
    names = dict.fromkeys((*request.indexes, *(query.indexes if query else ()), *name))
    topics = (*request.topics, *(query.topics if query else ()))
    if request.all_indexes:
        usable = tuple(index for index in indexes.all() if index.error is None)
        return usable or indexes.all()
    if not names and not topics:
        return (await indexes.select(None, request.cwd),)
    selected = tuple(indexes.get(name) for name in names)
    if topics:
        selected += tuple(index for index in indexes.with_topics(topics) if index not in selected)
    return selected
