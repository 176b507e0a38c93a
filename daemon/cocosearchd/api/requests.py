"""Convert search requests to what the search flow takes: indexes and a `Query`."""

from typing import Protocol

from cocosearch_ipc import protocol as p
from cocosearchd.errors import NotFound
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.search.plan import QUERY_OPTIONS, Query, parse_query


def wants_explanation(request: p.SearchRequest) -> bool:
    """Return True if the reply shall explain its ranking, or why a path is missing."""
    return request.explain or request.why_not is not None


def query_of(request: p.SearchRequest) -> Query:
    """Return the query that a request puts to each of its indexes. Raises `InvalidInput`."""
    options = {name: getattr(request, name) for name in QUERY_OPTIONS}
    options["min_relevance"] = max(request.min_relevance, request.min_score)
    return parse_query(request.query, **options)


class IndexFields(Protocol):
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
    indexes: IndexLookup, request: IndexFields, query: Query | None = None
) -> tuple[RunningIndex, ...]:
    """Return indexes that a request and the inline filters of its query select; they narrow each
    other.

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
    indexes: IndexLookup, request: IndexFields, query: Query | None
) -> tuple[RunningIndex, ...]:
    name = () if request.index is None else (request.index,)
    names = ((*request.indexes, *name), query.indexes if query else ())
    topics = (request.topics, query.topics if query else ())
    if any((*names, *topics)):
        return indexes.intersect(names, topics)
    if request.all_indexes:
        separate = indexes.apart()
        usable = tuple(
            index for index in indexes.all() if index.error is None and index not in separate
        )
        return usable or indexes.all()
    return (await indexes.select(None, request.cwd),)
