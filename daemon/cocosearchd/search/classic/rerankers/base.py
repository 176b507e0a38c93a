"""The port to a reranker: it reorders what retrieval found and ranking fused."""

from collections.abc import Sequence
from typing import Protocol

from cocosearchd.search.ranking import ScoredCandidate

# CocoRAG, reranker-design.md, "Scoring Model": how much the vector's score and the features count.
VECTOR_SHARE = 0.40
FEATURE_SHARE = 0.60


class Reranker(Protocol):
    """Scores candidates again. Synchronous and slow enough to be called in a thread."""

    @property
    def name(self) -> str:
        """As a person chooses it."""

    def rerank(self, text: str, scored: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The same candidates, best first, each with its features."""


def vector_scores(scored: Sequence[ScoredCandidate]) -> list[float]:
    """The cosine of each candidate, 0..1. One that only the keyword leg found takes the lowest of
    the others.

    That is the best it can have: the vector leg would have found it otherwise.
    """
    known = [max(0.0, one.cosine) for one in scored if one.cosine is not None]
    lowest = min(known, default=0.0)
    return [lowest if one.cosine is None else max(0.0, one.cosine) for one in scored]
