"""Orders the hits of several indexes by relevance, and finds indexes that may add hits. Pure.

Scores of different indexes are not comparable, because their words, sizes and cosines differ.
Relevance is comparable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate, chain

from cocosearchd.model import Hit

# An index adds no hits if the relevance of its best hit is below this share of the best relevance
# of all indexes. The first result of a query about another repository has a median relevance of
# 0.12 (90th percentile: 0.38). The first result of an annotated query has a median of 0.66
# (training/ranking/places.py).
MIN_SHARE_OF_BEST = 1 / 3
RANKED_TOGETHER = 64  # indexes that are ranked, with their rows read, in one step


@dataclass(frozen=True, slots=True)
class HitRelevances:
    """The relevance of each hit of an index in order.

    `has_every_word` is True if at least one hit has every word of the query.
    """

    values: tuple[float, ...]
    has_every_word: bool

    def running_maxima(self) -> list[float]:
        """Return for each hit the largest relevance from it to the last hit.

        So the returned values never rise.
        """
        return list(accumulate(reversed(self.values), max))[::-1]


@dataclass(frozen=True, slots=True)
class RelevanceBounds:
    """Upper bounds of the hits of an index that is not ranked yet. `number` identifies the index.

    `relevances[n]` is an upper bound for the hit at position n and all later hits, so the list
    never rises. It is not empty.
    """

    number: int
    relevances: Sequence[float]
    has_every_word: bool


def relevances_of(hits: Sequence[Hit]) -> HitRelevances:
    """Return the relevances of hits, and whether a hit has every word of the query."""
    has_every_word = any(dict(hit.signals).get("every_word") for hit in hits)
    return HitRelevances(tuple(hit.relevance for hit in hits), has_every_word)


def order_hits(indexes: Sequence[HitRelevances]) -> list[tuple[int, int]]:
    """Order the hits of all indexes by relevance, as (number of the index, rank there from 1).

    The hits of one index keep their order. An index adds no hits if its best hit is far less
    relevant than the best of all (`MIN_SHARE_OF_BEST`) and none of its hits has every word of the
    query.
    """
    return [(number, rank) for _, rank, number in _sort_hits(indexes)]


def _sort_hits(indexes: Sequence[HitRelevances]) -> list[tuple[float, int, int]]:
    """Sort the hits of all indexes by (negated relevance, rank, number of the index)."""
    best = _best_relevance(indexes)
    keys = [
        (-relevance, rank, number)
        for number, hits in enumerate(indexes)
        if hits.has_every_word or max(hits.values, default=0.0) >= best * MIN_SHARE_OF_BEST
        for rank, relevance in enumerate(hits.running_maxima(), 1)
    ]
    return sorted(keys)


def indexes_that_may_add(
    indexes: Sequence[HitRelevances], bounds: Sequence[RelevanceBounds], compared: int
) -> list[int]:
    """Return the numbers of indexes, best first, that may change the first `compared` hits.

    The indexes of `indexes` are ranked; those of `bounds` are not. Callers repeat the call until
    the result is empty. Then every index with one of the first hits is ranked: no hit is more
    relevant than its bound, and the limits only rise with more hits. One call returns the indexes
    that would have one of the first hits if every hit were as relevant as its bound: these nearly
    always have one.
    """
    ordered = [-relevance for relevance, _, _ in _sort_hits(indexes)]
    best = _best_relevance(indexes)
    eligible = _select_reaching(bounds, _nth_largest(ordered, compared), best)
    best = max([best, *(bound.relevances[0] for bound in eligible[:1])])
    likely = _select_reaching(eligible, 0.0, best)
    expected = chain(ordered, *(bound.relevances for bound in likely))
    limit = _nth_largest(expected, compared)
    return [bound.number for bound in _select_reaching(likely, limit, best)][:RANKED_TOGETHER]


def _nth_largest(values: Iterable[float], position: int) -> float:
    """Return the n-th largest value (`position` counts from 1); 0 if there are fewer values."""
    largest = nlargest(position, values)
    return largest[-1] if len(largest) == position else 0.0


def _select_reaching(
    bounds: Iterable[RelevanceBounds], limit: float, best: float
) -> list[RelevanceBounds]:
    """Select, best first, the bounds that allow a hit with the relevance `limit`.

    `best` is the best relevance of all hits.
    """
    return sorted(
        (bound for bound in bounds if _reaches(bound, limit, best)),
        key=lambda bound: -bound.relevances[0],
    )


def _reaches(bound: RelevanceBounds, limit: float, best: float) -> bool:
    """Return True if a bound allows a hit with the relevance `limit`.

    `best` is the best relevance of all hits.
    """
    largest = bound.relevances[0]
    return (bound.has_every_word or largest >= best * MIN_SHARE_OF_BEST) and largest >= limit


def _best_relevance(indexes: Sequence[HitRelevances]) -> float:
    return max((value for hits in indexes for value in hits.values), default=0.0)
