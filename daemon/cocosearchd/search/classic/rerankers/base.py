"""The interface of rerankers, which reorder candidates after fusion."""

import re
from collections.abc import Sequence
from typing import Protocol

from cocosearchd.search.scored_candidates import ScoredCandidate

# Weights of the vector score and of the features (CocoRAG, reranker-design.md, "Scoring Model").
VECTOR_SHARE = 0.40
FEATURE_SHARE = 0.60
# Keywords that start definitions in common languages.
DEFINITION_KEYWORD = re.compile(r"\b(?:def|func|fn|function|class|struct|interface|trait)\b")


class Reranker(Protocol):
    """Scores candidates again. Synchronous and slow: call it in a thread."""

    @property
    def name(self) -> str:
        """The name by which people choose this reranker."""

    def rerank(self, text: str, scored: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """Return the same candidates, best first, each with its features."""


def vector_scores(scored: Sequence[ScoredCandidate]) -> list[float]:
    """Return the cosine of each candidate, 0..1.

    A missing cosine is set to the lowest of the others. A candidate of the keyword retriever alone
    cannot have a higher cosine: otherwise the vector retriever would have returned it.
    """
    cosines = [max(0.0, entry.cosine) for entry in scored if entry.cosine is not None]
    lowest = min(cosines, default=0.0)
    return [lowest if entry.cosine is None else max(0.0, entry.cosine) for entry in scored]
