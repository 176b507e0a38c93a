"""Values for candidates: as the retrievers return them, and as a profile scores them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.model import MatchType, RankedPlace
from cocosearchd.store.chunks.rows import Candidate


@dataclass(frozen=True, slots=True)
class RetrievedCandidates:
    """Candidates of each retriever, best first.

    The first `every_word` keyword candidates have every word of the query.
    """

    vector: tuple[Candidate, ...] = ()
    keyword: tuple[Candidate, ...] = ()
    every_word: int = 0


class ScoredCandidate(NamedTuple):
    """A candidate with its score and its rank from each retriever (from 1; 0: not retrieved).

    `cosine` is None if unknown. If `score` is the score of a file, `own_place_score` compares the
    chunks of all files with each other; otherwise it is None, and `score` compares them. This chunk
    represents nearly equal chunks of its file: `similar_lines` are their first lines. For a report,
    `compared_places` are all compared places of the file, best first.
    """

    candidate: Candidate
    score: float
    match_type: MatchType
    vector_rank: int = 0
    keyword_rank: int = 0
    cosine: float | None = None
    every_word: bool = False
    signals: tuple[tuple[str, float], ...] = ()
    own_place_score: float | None = None
    relevance: float = 0.0  # 0 to 1: the probability that the chunk answers the query
    similar_lines: tuple[int, ...] = ()
    compared_places: tuple[RankedPlace, ...] = ()

    @property
    def place_score(self) -> float:
        """The score of the chunk itself, comparable with all chunks of an answer."""
        return self.score if self.own_place_score is None else self.own_place_score


def listed_candidate(candidate: Candidate, rank: int) -> ScoredCandidate:
    """Make a candidate for a symbol in a list. Each listed symbol is fully relevant."""
    return ScoredCandidate(
        candidate, 0.0, "keyword", keyword_rank=rank, every_word=True, relevance=1.0
    )


def with_score(
    scored: ScoredCandidate, score: float, signals: tuple[tuple[str, float], ...]
) -> ScoredCandidate:
    """Return the same candidate with another score, which compares chunks of all files.

    Therefore the score is also the place score. Every field is written out, because
    `dataclasses.replace` is ten times slower.
    """
    return ScoredCandidate(
        candidate=scored.candidate,
        score=score,
        match_type=scored.match_type,
        vector_rank=scored.vector_rank,
        keyword_rank=scored.keyword_rank,
        cosine=scored.cosine,
        every_word=scored.every_word,
        signals=signals,
        relevance=scored.relevance,
        compared_places=scored.compared_places,
    )


def sort_candidates(scored: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Sort candidates, best first. Ties prefer keyword matches, then the smaller key.

    The key makes the order deterministic.
    """
    return sorted(
        scored, key=lambda entry: (-entry.score, entry.keyword_rank == 0, entry.candidate.key)
    )
