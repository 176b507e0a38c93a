"""What a run did, as JSON-able values: for `explain`."""

from dataclasses import asdict
from typing import Any

from cocosearchd.search.plan import Plan
from cocosearchd.search.ranking import RRF_K, RetrievedCandidates, ScoredCandidate, relevance

SHOWN_CANDIDATES = 20  # of each leg: enough to see why something came first


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Every field of a plan; filters that do not restrict are left out."""
    fields = asdict(plan)
    fields["where"] = {name: value for name, value in fields["where"].items() if value}
    return fields


def describe_results(
    plan: Plan,
    legs: RetrievedCandidates | None,
    scored: list[ScoredCandidate],
    chosen: tuple[ScoredCandidate, ...],
) -> dict[str, Any]:
    """What each leg found, if legs were asked; for each shown result where it comes from and what
    it was scored by.
    """
    return _describe_retrieved(legs) | {
        "candidates": len(scored),
        "results": [describe_candidate(plan, one) for one in chosen],
    }


def _describe_retrieved(legs: RetrievedCandidates | None) -> dict[str, Any]:
    if legs is None:
        return {}
    return {
        "vector_candidates": len(legs.vector),
        "keyword_candidates": len(legs.keyword),
        "keyword_candidates_with_every_word": legs.every_word,
        "vector": [
            _describe_key(found.key, found.score) for found in legs.vector[:SHOWN_CANDIDATES]
        ],
        "keyword": [
            _describe_key(found.key, found.score) for found in legs.keyword[:SHOWN_CANDIDATES]
        ],
    }


def describe_candidate(plan: Plan, one: ScoredCandidate) -> dict[str, Any]:
    """A candidate's score and all that went into it; a leg that did not find it, or was not asked,
    is left out.
    """
    ranks = {
        leg: rank
        for leg, rank in (("vector", one.vector_rank), ("keyword", one.keyword_rank))
        if rank
    }
    fused = (
        {leg: 1 / (RRF_K + rank) for leg, rank in ranks.items()}
        if plan.keyword and not plan.listing
        else {}
    )
    return {
        "path": one.candidate.path,
        "lines": f"{one.candidate.start_line}-{one.candidate.end_line}",
        "score": one.score,
        "match_type": one.match_type,
        "relevance": relevance(one),
        "cosine": one.cosine,
        **{f"{leg}_rank": rank for leg, rank in ranks.items()},
        **({"fused": fused} if fused else {}),
        "features": dict(one.features),
    }


def _describe_key(key: tuple[str, int, int], score: float) -> dict[str, Any]:
    return {"path": key[0], "bytes": [key[1], key[2]], "score": score}
