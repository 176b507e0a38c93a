"""Candidates with their scores: as both retrievers return them, and as a profile scores them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cocosearchd.model import MatchType, RankedPlace
from cocosearchd.store.chunks.rows import Candidate


@dataclass(frozen=True, slots=True)
class RetrievedCandidates:
    """Candidates of each retriever, best first.

    The first `every_word` of the keyword candidates have all words.
    """

    vector: tuple[Candidate, ...] = ()
    keyword: tuple[Candidate, ...] = ()
    every_word: int = 0


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """A candidate with its score and its rank from each retriever (from 1; 0: not retrieved).

    `cosine` is None if unknown. `own_place_score` compares chunks of all files with each other
    where `score` is the score of a file; None: `score` does. `similar_lines` are the first lines of
    nearly equal chunks of the file, for which this one stands. `compared_places` are all compared places of
    the file, best first, for a report.
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
    compared_places: tuple[RankedPlace, ...] = field(default=(), compare=False, repr=False)

    @property
    def place_score(self) -> float:
        """The score of the chunk by itself, comparable within one answer."""
        return self.score if self.own_place_score is None else self.own_place_score


def listed_candidate(candidate: Candidate, rank: int) -> ScoredCandidate:
    """Make a candidate of a list of symbols: each is what was asked for."""
    return ScoredCandidate(
        candidate, 0.0, "keyword", keyword_rank=rank, every_word=True, relevance=1.0
    )


def with_score(
    scored: ScoredCandidate, score: float, signals: tuple[tuple[str, float], ...]
) -> ScoredCandidate:
    """Return the same candidate with another score, which compares chunks of all files.

    So it is the score of the place, too. Every field is written out: `dataclasses.replace` is ten
    times slower.
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
    """Sort best first; ties prefer keyword matches, then the smaller key.

    The key makes equal inputs give equal orders.
    """
    return sorted(
        scored, key=lambda entry: (-entry.score, entry.keyword_rank == 0, entry.candidate.key)
    )
