"""Order of the hits of several indexes by relevance, and the indexes that may add some. Pure.

Scores of different indexes are on different scales (their words, sizes and cosines differ);
relevance is comparable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate, chain

from cocosearchd.model import Hit

# An index whose best hit is less relevant than this share of the best hit of all adds nothing. The first
# result of a query about another repository has a relevance of 0.12 in the median, and of 0.38 at the 90th
# percentile; that of an annotated query has 0.66 in the median (training/ranking/places.py).
MIN_SHARE_OF_BEST = 1 / 3
RANKED_TOGETHER = 64  # indexes that are ranked, and whose rows are read, in one step


@dataclass(frozen=True, slots=True)
class HitRelevances:
    """Relevance of each hit of an index, in their order, and if any has every word of the query."""

    values: tuple[float, ...]
    has_every_word: bool

    def falling(self) -> list[float]:
        """Return the largest relevance of each hit and those after it, so that it never rises."""
        return list(accumulate(reversed(self.values), max))[::-1]


@dataclass(frozen=True, slots=True)
class IndexBound:
    """The most that an index can add that is not ranked yet. `number`: of the index.

    `relevances` limit the hits of each rank and those after it, so they never rise; not empty.
    """

    number: int
    relevances: Sequence[float]
    has_every_word: bool


def relevances_of(hits: Sequence[Hit]) -> HitRelevances:
    """Return the relevances of hits."""
    has_every_word = any(dict(hit.signals).get("every_word") for hit in hits)
    return HitRelevances(tuple(hit.relevance for hit in hits), has_every_word)


def order_hits(indexes: Sequence[HitRelevances]) -> list[tuple[int, int]]:
    """Order the hits of all indexes, as (number of the index, rank there, from 1).

    The most relevant first; the hits of one index keep their order. An index adds nothing where
    its best hit is far less relevant than the best of all, and none has every word of the query.
    """
    return [(number, rank) for _, rank, number in _sort_hits(indexes)]


def _sort_hits(indexes: Sequence[HitRelevances]) -> list[tuple[float, int, int]]:
    """Sort the hits by (relevance, negated; rank; number of the index)."""
    best = _best_relevance(indexes)
    keys = [
        (-relevance, rank, number)
        for number, hits in enumerate(indexes)
        if hits.has_every_word or max(hits.values, default=0.0) >= best * MIN_SHARE_OF_BEST
        for rank, relevance in enumerate(hits.falling(), 1)
    ]
    return sorted(keys)


def indexes_that_may_add(
    indexes: Sequence[HitRelevances], bounds: Sequence[IndexBound], compared: int
) -> list[int]:
    """Return the numbers of the indexes, best first, that may change the first `compared` hits.

    `indexes` are ranked, those of `bounds` are not. Every index that `order_hits` would give one of
    the first places is among them sooner or later: nothing is ranked above what its bound says, and
    the limits only rise with more hits. First come those that would have one of these places if
    every hit were as relevant as its bound says: nearly always those that have one.
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
    """Return the largest value by its position from 1; 0 where there are fewer."""
    largest = nlargest(position, values)
    return largest[-1] if len(largest) == position else 0.0


def _select_reaching(bounds: Iterable[IndexBound], limit: float, best: float) -> list[IndexBound]:
    """Select, best first, what may have a hit as relevant as `limit`. `best`: of all hits."""
    return sorted(
        (bound for bound in bounds if _reaches(bound, limit, best)),
        key=lambda bound: -bound.relevances[0],
    )


def _reaches(bound: IndexBound, limit: float, best: float) -> bool:
    """Return True if a hit may be as relevant as `limit`, where the best hit of all has `best`."""
    largest = bound.relevances[0]
    return (bound.has_every_word or largest >= best * MIN_SHARE_OF_BEST) and largest >= limit


def _best_relevance(indexes: Sequence[HitRelevances]) -> float:
    return max((value for hits in indexes for value in hits.values), default=0.0)
