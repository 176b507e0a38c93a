"""Merge the candidates of both retrievers into one order. Pure.

`classic` does what CocoSearch's retrieval.md says: the vector retriever alone, or fused with the
keyword retriever by reciprocal ranks, with definitions doubled. `code` scores by features
(`code_profile`); its function here is the fallback while the lexical index is cold: the same
fusion, where only definitions of names in the query are boosted.
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
    """Candidates of each retriever, best first.

    The first `every_word` of the keyword candidates have all words.
    """

    vector: tuple[Candidate, ...] = ()
    keyword: tuple[Candidate, ...] = ()
    every_word: int = 0


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """A candidate with its score and its rank from each retriever (from 1; 0: not retrieved).

    `cosine` is None if unknown.
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


def score_classic(plan: Plan, retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Score by cosine, or by fused ranks with chunks that look like definitions doubled."""
    if not plan.keyword:
        return sort_candidates(
            ScoredCandidate(
                candidate, candidate.score, "semantic", vector_rank=rank, cosine=candidate.score
            )
            for rank, candidate in enumerate(retrieved.vector, 1)
        )
    return boost_definitions(fuse(retrieved), starts_definition)


def score_code_fallback(plan: Plan, retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Score by fused ranks; chunks that define a name of the query count double.

    The condition matters: doubling every definition costs plain-language questions 4 to 7 points of
    MRR (measured on 957 queries), because ordinary words such as get and path are names of
    definitions too.
    """
    names = {name.casefold() for name in plan.identifiers}
    if not names:
        return fuse(retrieved)
    return boost_definitions(
        fuse(retrieved), lambda candidate: not names.isdisjoint(defined_names(candidate))
    )


SCORERS: dict[Profile, Score] = {"classic": score_classic, "code": score_code_fallback}


def score_candidates(plan: Plan, retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Score all candidates by the plan's profile; a listing keeps its order."""
    if plan.listing:
        return [
            ScoredCandidate(
                candidate=candidate,
                score=0.0,
                match_type="keyword",
                vector_rank=0,
                keyword_rank=rank,
                cosine=None,
                every_word=True,
            )
            for rank, candidate in enumerate(retrieved.keyword, 1)
        ]
    return SCORERS[plan.profile](plan, retrieved)


def fuse(retrieved: RetrievedCandidates) -> list[ScoredCandidate]:
    """Fuse by reciprocal ranks, keyed by (path, start, end). Ties prefer keyword matches."""
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
        scored, scored.score * factor, (*scored.features, ("definition_boost", factor))
    )


def with_score(
    scored: ScoredCandidate, score: float, features: tuple[tuple[str, float], ...]
) -> ScoredCandidate:
    """Return the same candidate with another score.

    Every field is written out: `dataclasses.replace` is ten times slower.
    """
    return ScoredCandidate(
        candidate=scored.candidate,
        score=score,
        match_type=scored.match_type,
        vector_rank=scored.vector_rank,
        keyword_rank=scored.keyword_rank,
        cosine=scored.cosine,
        every_word=scored.every_word,
        features=features,
    )


def sort_candidates(scored: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Sort best first; ties prefer keyword matches, then the smaller key.

    The key makes equal inputs give equal orders.
    """
    return sorted(
        scored, key=lambda entry: (-entry.score, entry.keyword_rank == 0, entry.candidate.key)
    )


def starts_definition(candidate: Candidate) -> bool:
    """Return True if a chunk's text begins with one of the documented keywords."""
    return _DEFINITION.match(candidate.content) is not None


def defined_names(candidate: Candidate) -> set[str]:
    """Return the case-folded names that a chunk defines, qualified ones and their last parts."""
    names = {name.casefold() for name in candidate.definitions}
    if candidate.symbol_name:
        names.add(candidate.symbol_name.casefold())
    return names | {name.rpartition(".")[2] for name in names}


def relevance(scored: ScoredCandidate) -> float:
    """Return the relevance in 0..1, comparable between modes, profiles and queries.

    It is 1 for a chunk that has every word of the query; otherwise the cosine similarity to the
    query, where negative values count as 0; 0 where the cosine is unknown, which only happens below
    every chunk whose cosine is known. `min_score` limits it. Fused and reranked scores give an
    order, but say nothing about quality: the best of a hopeless list gets the same 1/61 as any
    other.
    """
    return 1.0 if scored.every_word else max(0.0, scored.cosine or 0.0)


def select_results(plan: Plan, scored: Sequence[ScoredCandidate]) -> tuple[ScoredCandidate, ...]:
    """Select what is shown: relevant candidates, the best chunk of each file, at most `limit`.

    With `all_chunks`, a file may have several. A list of symbols has all of each file, each by its
    first chunk: a long definition has several chunks.
    """
    selected: list[ScoredCandidate] = []
    selected_identities: set[object] = set()
    for entry in scored:
        if len(selected) == plan.limit:
            break
        candidate = entry.candidate
        identity = (
            (candidate.path, candidate.symbol_name, candidate.symbol_signature)
            if plan.listing
            else candidate.path
        )
        if identity in selected_identities or (
            plan.min_score and relevance(entry) < plan.min_score
        ):
            continue
        if not plan.all_chunks:
            selected_identities.add(identity)
        selected.append(entry)
    return tuple(selected)


def to_hit(index: str, scored: ScoredCandidate) -> Hit:
    """Convert a candidate into a hit, without context."""
    candidate = scored.candidate
    return Hit(
        index=index,
        path=candidate.path,
        start_byte=candidate.start_byte,
        end_byte=candidate.end_byte,
        start_line=candidate.start_line,
        end_line=candidate.end_line,
        language=candidate.language,
        score=scored.score,
        match_type=scored.match_type,
        block_type=candidate.block_type,
        hierarchy=candidate.hierarchy,
        symbol_type=candidate.symbol_type,
        symbol_name=candidate.symbol_name,
        symbol_signature=candidate.symbol_signature,
        content=candidate.content,
        scores=(
            ("relevance", relevance(scored)),
            ("vector_rank", float(scored.vector_rank)),
            ("keyword_rank", float(scored.keyword_rank)),
            *(() if scored.cosine is None else (("cosine", scored.cosine),)),
            *scored.features,
        ),
    )
