"""What front ends ask, as the values that the search flow takes. Pure."""

from dataclasses import replace

from cocosearch_ipc import protocol as p
from cocosearchd.config.settings import SearchSettings
from cocosearchd.model import named_glob
from cocosearchd.search.plan import Query, parse_inline


def with_defaults(query: Query, settings: SearchSettings) -> Query:
    """What was not said, as the index's own settings say."""
    return replace(
        query,
        limit=settings.limit if query.limit is None else query.limit,
        profile=query.profile or settings.profile,
        reranker=query.reranker or settings.reranker,
    )


def wants_symbols(request: p.SearchRequest) -> bool:
    """Whether a filter of a request is about symbols."""
    inline = parse_inline(request.query)
    return bool(
        request.symbol_types or request.symbol_name or inline.symbol_types or inline.symbol_names
    )


def explains(request: p.SearchRequest) -> bool:
    """Whether the answer is to say how it came about: also when it is asked why a place is not in
    it.
    """
    return request.explain or request.why_not is not None


def query_of(request: p.SearchRequest) -> Query:
    """The part of a request that is asked of each index."""
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
