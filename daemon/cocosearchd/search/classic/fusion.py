"""Fuses the candidates of both retrievers into one order: for `classic`, and for a cold `code`.

Pure. `classic` follows CocoSearch's retrieval.md: the vector retriever alone, or its reciprocal
rank fusion with the keyword retriever, where the scores of definitions are doubled. `code` scores
by signals (`code_profile`). While the lexical index is cold, `code` falls back to the function
here: the same fusion, but only definitions of names in the query are boosted.
"""

import math
import re
from collections.abc import Callable, Iterable

from cocosearchd.config.settings import Profile
from cocosearchd.model import MatchType
from cocosearchd.search.plan import Plan
from cocosearchd.search.scored_candidates import (
    RetrievedCandidates,
    ScoredCandidate,
    sort_candidates,
    with_score,
)
from cocosearchd.store.chunks.rows import Candidate

RRF_K = 60  # Cormack, Clarke, Buettcher 2009; CocoSearch uses the same
DEFINITION_BOOST = 2.0  # CocoSearch, retrieval.md, "Definition Boost"
# Logistic regression over 19,600 results of 1,998 questions, see training/ranking/places.py. Its
# expected calibration error is 0.004 in cross-validation over repositories. It is 0.009 on answers
# of a daemon (training/ranking/classic.py); there, no linear map of the logits would bring it below
# 0.008.
_RELEVANCE = {
    "intercept": -5.5,
    "cosine": 7.6,
    "every_word": 0.66,
    "name": -3.78,
    "every_word_of_name": 4.02,
}

# CocoSearch, retrieval.md: a chunk that starts with one of these words is a definition.
_DEFINITION = re.compile(
    r"\s*(?:async\s+def|def|class|function|const|let|var|interface|type|func|fn|struct|trait|enum|impl)\b"
)


Score = Callable[[Plan, RetrievedCandidates], list[ScoredCandidate]]


def score_classic(plan: Plan, retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Score by cosine, or by fused ranks.

    Fused scores of chunks that look like definitions are doubled.
    """
    if not plan.uses_keywords:
        return sort_candidates(
            ScoredCandidate(
                candidate, candidate.score, "semantic", vector_rank=rank, cosine=candidate.score
            )
            for rank, candidate in enumerate(retrieved.vector, 1)
        )
    return boost_definitions(fuse(retrieved), starts_definition)


def score_code_fallback(plan: Plan, retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Score by fused ranks. The scores of chunks that define a name of the query are doubled.

    The condition matters. If every definition were doubled, plain-language questions would lose 4
    to 7 points of MRR (measured on 957 queries), because ordinary words such as get and path are
    also names of definitions.
    """
    names = {name.casefold() for name in plan.identifiers}
    if not names:
        return fuse(retrieved)
    return boost_definitions(
        fuse(retrieved), lambda candidate: not names.isdisjoint(defined_names(candidate))
    )


SCORERS: dict[Profile, Score] = {"classic": score_classic, "code": score_code_fallback}


def score_candidates(plan: Plan, retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Score all candidates by the plan's profile."""
    is_name = " " not in plan.text
    return [
        entry._replace(relevance=_estimate_relevance(entry, is_name, bool(plan.where.phrases)))
        for entry in SCORERS[plan.profile](plan, retrieved)
    ]


def _estimate_relevance(entry: ScoredCandidate, is_name: bool, has_phrases: bool) -> float:
    """Estimate the relevance of a candidate from PostgreSQL.

    If the query has quoted phrases, every candidate contains them, so its relevance is 1.
    """
    if has_phrases:
        return 1.0
    total = (
        _RELEVANCE["intercept"]
        + _RELEVANCE["cosine"] * (entry.cosine or 0.0)
        + _RELEVANCE["every_word"] * entry.every_word
        + _RELEVANCE["name"] * is_name
        + _RELEVANCE["every_word_of_name"] * (is_name and entry.every_word)
    )
    return 1 / (1 + math.exp(-total))


def fuse(retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Fuse candidates by reciprocal rank, keyed by (path, start, end). Ties prefer keyword matches."""
    vector = {
        candidate.key: (rank, candidate) for rank, candidate in enumerate(retrieved.vector, 1)
    }
    keyword = {
        candidate.key: (rank, candidate) for rank, candidate in enumerate(retrieved.keyword, 1)
    }
    return sort_candidates(
        _fuse_candidate(vector.get(key), keyword.get(key), retrieved.every_word)
        for key in dict.fromkeys((*vector, *keyword))
    )


def _fuse_candidate(
    vector: tuple[int, Candidate] | None, keyword: tuple[int, Candidate] | None, every_word: int
) -> ScoredCandidate:
    vector_rank = vector[0] if vector else 0
    keyword_rank = keyword[0] if keyword else 0
    ranked = vector or keyword
    assert ranked is not None
    return ScoredCandidate(
        ranked[1],
        _reciprocal(vector_rank) + _reciprocal(keyword_rank),
        _match_type(vector_rank, keyword_rank),
        vector_rank,
        keyword_rank,
        cosine=vector[1].score if vector else None,
        every_word=0 < keyword_rank <= every_word,
    )


def _reciprocal(rank: int) -> float:
    return 1 / (RRF_K + rank) if rank else 0.0


def _match_type(vector_rank: int, keyword_rank: int) -> MatchType:
    if not vector_rank:
        return "keyword"
    return "both" if keyword_rank else "semantic"


def boost_definitions(
    scored: Iterable[ScoredCandidate], defines: Callable[[Candidate], bool]
) -> list[ScoredCandidate]:
    """Multiply the scores of definitions by `DEFINITION_BOOST` and sort again."""
    return sort_candidates(
        _boost(candidate, DEFINITION_BOOST) if defines(candidate.candidate) else candidate
        for candidate in scored
    )


def _boost(scored: ScoredCandidate, factor: float) -> ScoredCandidate:
    return with_score(
        scored, scored.score * factor, (*scored.signals, ("definition_boost", factor))
    )


def starts_definition(candidate: Candidate) -> bool:
    """Return True if a chunk's text begins with one of the documented keywords."""
    return _DEFINITION.match(candidate.content) is not None


def defined_names(candidate: Candidate) -> set[str]:
    """Return the case-folded names that a chunk defines: qualified names and their last parts."""
    names = {name.casefold() for name in candidate.definitions}
    if candidate.symbol_name:
        names.add(candidate.symbol_name.casefold())
    return names | {name.rpartition(".")[2] for name in names}
