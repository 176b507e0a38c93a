"""Converts search requests to the input of the search flow: indexes and a `Query`."""

from typing import Protocol

import anyio
import anyio.to_thread

from cocosearch_ipc import protocol as p
from cocosearchd.errors import NotFound
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.search.plan import QUERY_OPTIONS, Query, parse_query

# Characters from which a question is parsed in a thread: 200,000, of 100,000 lines, held the event
# loop for 1.7 s, and 30 ms in a thread (measured, load 11).
LONG_QUESTION = 5_000


def wants_explanation(request: p.SearchRequest) -> bool:
    """Return True if the reply must explain its ranking, or why a path is missing."""
    return request.explain or request.why_not is not None


def query_of(request: p.SearchRequest) -> Query:
    """Return the query that a request puts to each of its indexes. Raises `InvalidInput`."""
    options = {name: getattr(request, name) for name in QUERY_OPTIONS}
    thresholds = (request.min_relevance, request.min_score)
    # the bounds of a plan refuse a negative value, under either name
    options["min_relevance"] = min(thresholds) if min(thresholds) < 0 else max(thresholds)
    return parse_query(request.query, **options)


class QueryParser:
    """Parses the queries of requests, a long one in a thread. For one event loop."""

    def __init__(self) -> None:
        self._slot = anyio.CapacityLimiter(1)  # Python parses one at a time anyway

    async def parse(self, request: p.SearchRequest) -> Query:
        """Return the query of a request. Raises `InvalidInput`."""
        if len(request.query) <= LONG_QUESTION:
            return query_of(request)
        async with self._slot:
            return await anyio.to_thread.run_sync(query_of, request)


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


def asks_all_indexes(request: IndexFields, query: Query | None = None) -> bool:
    """Return whether a request means all indexes: its names and topics, else, narrow them."""
    return request.all_indexes and not any((*_names(request, query), *_topics(request, query)))


async def searched_indexes(
    indexes: IndexLookup,
    request: IndexFields,
    query: Query | None = None,
    *,
    needs_vectors: bool = True,
) -> tuple[RunningIndex, ...]:
    """Return the indexes that both a request and the inline filters of its query select.

    A request for all indexes leaves out those that cannot be searched (`find_missing_indexes`).
    Raises `NotFound`, and the error of an index that is named but does not run.
    """
    selected = await _select(indexes, request, query, needs_vectors)
    if not selected:
        raise NotFound("there is no index yet", "cocosearchctl up DIRECTORY")
    for index in selected:
        if index.error is not None:
            raise index.error
    return selected


async def _select(
    indexes: IndexLookup, request: IndexFields, query: Query | None, needs_vectors: bool
) -> tuple[RunningIndex, ...]:
    names, topics = _names(request, query), _topics(request, query)
    if any((*names, *topics)):
        return indexes.intersect(names, topics)
    if request.all_indexes:
        separate = indexes.other_embedder_indexes() if needs_vectors else ()
        usable = tuple(
            index for index in indexes.all() if index.error is None and index not in separate
        )
        return usable or indexes.all()
    return (await indexes.select(None, request.cwd),)


def _names(request: IndexFields, query: Query | None) -> tuple[tuple[str, ...], ...]:
    """Return the groups of names that narrow each other."""
    name = () if request.index is None else (request.index,)
    return (*request.indexes, *name), query.indexes if query else ()


def _topics(request: IndexFields, query: Query | None) -> tuple[tuple[str, ...], ...]:
    return request.topics, query.topics if query else ()
