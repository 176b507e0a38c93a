"""JSON-able descriptions of a run, for `explain`."""

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from cocosearchd.search.classic.fusion import RRF_K
from cocosearchd.search.places import ScoredResult
from cocosearchd.search.plan import Plan
from cocosearchd.search.reports.report import Report
from cocosearchd.search.scored_candidates import RetrievedCandidates, ScoredCandidate

PATHS_SHOWN = 40  # paths of one kind of parts of a report
MESSAGE_SHOWN = 100  # characters of a message
SHOWN_CANDIDATES = 20  # of each retriever: enough to see why a result came first


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return every field of a plan; empty filters are left out."""
    fields = asdict(replace(plan, report=None))
    fields["report"] = None if plan.report is None else _describe_report(plan.report)
    fields["where"] = {name: value for name, value in fields["where"].items() if value}
    return fields


def _describe_report(report: Report) -> dict[str, Any]:
    """Describe a report: its parts by kind, the paths that they mention, and quoted messages.

    `part_findings` describes each part with what it finds in an index.
    """
    return {
        "parts": dict(Counter(part.kind for part in report.parts)),
        "paths": {
            group: list(paths[:PATHS_SHOWN]) for group, paths in report.mentions.paths.items()
        },
        "messages": [message[:MESSAGE_SHOWN] for message in report.messages],
    }


def describe_results(
    plan: Plan,
    retrieved: RetrievedCandidates | None,
    scored: list[ScoredCandidate],
    selected: tuple[ScoredResult, ...],
) -> dict[str, Any]:
    """Describe the candidates of each retriever that ran, and the selected results.

    The description of a result has its retrievers, ranks and the parts of its score.
    """
    return _describe_retrieved(retrieved) | {
        "candidates": len(scored),
        "results": [_describe_result(plan, result) for result in selected],
    }


def _describe_result(plan: Plan, result: ScoredResult) -> dict[str, Any]:
    """Describe the best place of a result, with the lines of its other places."""
    description = describe_candidate(plan, result.best)
    if result.more_places:
        description["also"] = [
            f"{entry.candidate.start_line}-{entry.candidate.end_line}"
            for entry in result.more_places
        ]
    return description


def _describe_retrieved(retrieved: RetrievedCandidates | None) -> dict[str, Any]:
    if retrieved is None:
        return {}
    return {
        "vector_candidates": len(retrieved.vector),
        "keyword_candidates": len(retrieved.keyword),
        "keyword_candidates_with_every_word": retrieved.every_word,
        "vector": [
            _describe_key(candidate.key, candidate.score)
            for candidate in retrieved.vector[:SHOWN_CANDIDATES]
        ],
        "keyword": [
            _describe_key(candidate.key, candidate.score)
            for candidate in retrieved.keyword[:SHOWN_CANDIDATES]
        ],
    }


def describe_candidate(plan: Plan, scored: ScoredCandidate) -> dict[str, Any]:
    """Describe a candidate's score and its parts.

    Retrievers that did not return the candidate are left out.
    """
    ranks = {
        retriever: rank
        for retriever, rank in (("vector", scored.vector_rank), ("keyword", scored.keyword_rank))
        if rank
    }
    fused = (
        {retriever: 1 / (RRF_K + rank) for retriever, rank in ranks.items()}
        if plan.uses_keywords and not plan.listing
        else {}
    )
    return {
        "path": scored.candidate.path,
        "lines": f"{scored.candidate.start_line}-{scored.candidate.end_line}",
        "score": scored.score,
        "match_type": scored.match_type,
        "relevance": scored.relevance,
        "cosine": scored.cosine,
        **{f"{retriever}_rank": rank for retriever, rank in ranks.items()},
        **({"fused": fused} if fused else {}),
        "features": dict(scored.signals),
    }


def _describe_key(key: tuple[str, int, int], score: float) -> dict[str, Any]:
    return {"path": key[0], "bytes": [key[1], key[2]], "score": score}
