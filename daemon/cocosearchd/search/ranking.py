"""Candidates of both legs become one order. Pure.

`score_classic` does what CocoSearch's retrieval.md says: the vector leg alone, or with the keyword leg
fused by reciprocal ranks and definitions doubled. `code` scores by features (`code_profile`); what
stands here under that name is its fallback while the lexical index is cold: the same fusion, with
the boost for definitions of what the query names only.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cocosearchd.model import Hit, MatchType
from cocosearchd.search.plan import Plan, Profile
from cocosearchd.store.chunks.queries import Candidate

RRF_K = 60  # Cormack, Clarke, Buettcher 2009; CocoSearch uses the same
DEFINITION_BOOST = 2.0  # CocoSearch, retrieval.md, "Definition Boost"

# CocoSearch, retrieval.md: the words a chunk starts with when it is a definition.
_DEFINITION = re.compile(
    r"\s*(?:async\s+def|def|class|function|const|let|var|interface|type|func|fn|struct|trait|enum|impl)\b"
)


@dataclass(frozen=True, slots=True)
class RetrievedCandidates:
    """What retrieval found, each leg best first. `every_word` counts the keyword candidates that
    have all words.
    """

    vector: tuple[Candidate, ...] = ()
    keyword: tuple[Candidate, ...] = ()
    every_word: int = 0


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """A candidate with its score and where each leg had it (rank from 1, 0: not there). `cosine` is
    None if unknown.
    """

    candidate: Candidate
    score: float
    match_type: MatchType
    vector_rank: int = 0
    keyword_rank: int = 0
    cosine: float | None = None
    every_word: bool = False
    features: tuple[tuple[str, float], ...] = ()


Score = Callable[[Plan, RetrievedCandidates], list[ScoredCandidate]]


def score_classic(plan: Plan, legs: RetrievedCandidates) -> list[ScoredCandidate]:
    """The documented order: cosine, or fused ranks with every chunk that starts like a definition
    doubled.
    """
    if not plan.keyword:
        return sort_candidates(
            ScoredCandidate(found, found.score, "semantic", vector_rank=rank, cosine=found.score)
            for rank, found in enumerate(legs.vector, 1)
        )
    return boost_definitions(fuse(legs), starts_definition)


def score_code_fallback(plan: Plan, legs: RetrievedCandidates) -> list[ScoredCandidate]:
    """Fused ranks; a chunk that defines what the query names counts double.

    The gate matters: doubling every definition costs plain-language questions 4 to 7 points of MRR
    (measured on 957 queries), because ordinary words such as get and path are names of definitions
    too.
    """
    wanted = {name.casefold() for name in plan.identifiers}
    if not wanted:
        return fuse(legs)
    return boost_definitions(
        fuse(legs), lambda candidate: not wanted.isdisjoint(defined_names(candidate))
    )


SCORERS: dict[Profile, Score] = {"classic": score_classic, "code": score_code_fallback}


def score_candidates(plan: Plan, legs: RetrievedCandidates) -> list[ScoredCandidate]:
    """All candidates in the order of the plan's profile; a listing keeps the order it came in."""
    if plan.listing:
        return [
            ScoredCandidate(found, 0.0, "keyword", 0, rank, None, True)
            for rank, found in enumerate(legs.keyword, 1)
        ]
    return SCORERS[plan.profile](plan, legs)


def fuse(legs: RetrievedCandidates) -> list[ScoredCandidate]:
    """Reciprocal rank fusion by (path, start, end). Ties prefer what the keyword leg found."""
    vector = {found.key: (rank, found) for rank, found in enumerate(legs.vector, 1)}
    keyword = {found.key: (rank, found) for rank, found in enumerate(legs.keyword, 1)}
    return sort_candidates(
        _fuse_candidate(vector.get(key), keyword.get(key), legs.every_word)
        for key in dict.fromkeys((*vector, *keyword))
    )


def _fuse_candidate(
    vector: tuple[int, Candidate] | None, keyword: tuple[int, Candidate] | None, every_word: int
) -> ScoredCandidate:
    score = (1 / (RRF_K + vector[0]) if vector else 0.0) + (
        1 / (RRF_K + keyword[0]) if keyword else 0.0
    )
    either = vector or keyword
    assert either is not None
    return ScoredCandidate(
        either[1],
        score,
        "both" if vector and keyword else "semantic" if vector else "keyword",
        vector_rank=vector[0] if vector else 0,
        keyword_rank=keyword[0] if keyword else 0,
        cosine=vector[1].score if vector else None,
        every_word=keyword is not None and keyword[0] <= every_word,
    )


def boost_definitions(
    scored: Iterable[ScoredCandidate], defines: Callable[[Candidate], bool]
) -> list[ScoredCandidate]:
    """Multiply the scores of definitions and put the list in order again."""
    return sort_candidates(
        _boost(one, DEFINITION_BOOST) if defines(one.candidate) else one for one in scored
    )


def _boost(one: ScoredCandidate, factor: float) -> ScoredCandidate:
    return with_score(one, one.score * factor, (*one.features, ("definition_boost", factor)))


def with_score(
    one: ScoredCandidate, score: float, features: tuple[tuple[str, float], ...]
) -> ScoredCandidate:
    """The same candidate with another score. Spelled out: `dataclasses.replace` is ten times
    slower.
    """
    return ScoredCandidate(
        one.candidate,
        score,
        one.match_type,
        one.vector_rank,
        one.keyword_rank,
        one.cosine,
        one.every_word,
        features,
    )


def sort_candidates(scored: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Best first; ties prefer keyword matches, then the smaller key, so that equal inputs give
    equal orders.
    """
    return sorted(scored, key=lambda one: (-one.score, one.keyword_rank == 0, one.candidate.key))


def starts_definition(candidate: Candidate) -> bool:
    """Whether a chunk's text begins with one of the documented keywords."""
    return _DEFINITION.match(candidate.content) is not None


def defined_names(candidate: Candidate) -> set[str]:
    """What a chunk defines, case-folded: qualified names and their last parts."""
    names = {name.casefold() for name in candidate.definitions}
    if candidate.symbol_name:
        names.add(candidate.symbol_name.casefold())
    return names | {name.rpartition(".")[2] for name in names}


def relevance(one: ScoredCandidate) -> float:
    """0..1, comparable between modes, profiles and queries; what `min_score` is about.

    1 for a chunk that has every word of the query; otherwise the cosine similarity to the query,
    negative ones being 0; 0 where that is not known, which only happens below every chunk whose
    cosine is known. Fused and reranked scores say who comes first, but nothing about how good it
    is: the best of a hopeless list gets the same 1/61 as any other.
    """
    return 1.0 if one.every_word else max(0.0, one.cosine or 0.0)


def select_results(plan: Plan, scored: Sequence[ScoredCandidate]) -> tuple[ScoredCandidate, ...]:
    """What is shown: relevant enough, the best chunk of each file unless all are wanted, at most
    `limit`.

    A list of symbols has all of each file, each by its first chunk: a long definition is several.
    """
    chosen: list[ScoredCandidate] = []
    seen: set[object] = set()
    for one in scored:
        if len(chosen) == plan.limit:
            break
        found = one.candidate
        what = (
            (found.path, found.symbol_name, found.symbol_signature) if plan.listing else found.path
        )
        if what in seen or (plan.min_score and relevance(one) < plan.min_score):
            continue
        if not plan.all_chunks:
            seen.add(what)
        chosen.append(one)
    return tuple(chosen)


def to_hit(index: str, one: ScoredCandidate) -> Hit:
    """A candidate as callers see it, without context yet."""
    found = one.candidate
    return Hit(
        index=index,
        path=found.path,
        start_byte=found.start_byte,
        end_byte=found.end_byte,
        start_line=found.start_line,
        end_line=found.end_line,
        language=found.language,
        score=one.score,
        match_type=one.match_type,
        block_type=found.block_type,
        hierarchy=found.hierarchy,
        symbol_type=found.symbol_type,
        symbol_name=found.symbol_name,
        symbol_signature=found.symbol_signature,
        content=found.content,
        scores=(
            ("relevance", relevance(one)),
            ("vector_rank", float(one.vector_rank)),
            ("keyword_rank", float(one.keyword_rank)),
            *(() if one.cosine is None else (("cosine", one.cosine),)),
            *one.features,
        ),
    )
