"""Explains why a file is not among the results.

A file may be not indexed, filtered out, not retrieved, or ranked too low.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cocosearchd.exclusion import find_exclusion
from cocosearchd.filters.filter_fields import Filter, active_fields, select_fields
from cocosearchd.filters.globs import exact_glob
from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.languages.identifiers import split_text
from cocosearchd.model import FileRecord, IndexRecord
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.search.answers.explain import describe_candidate
from cocosearchd.search.classic.retrievers import drop_stop_words
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.places import ScoredResult
from cocosearchd.search.plan import Plan
from cocosearchd.search.retrieval import RetrievalAttempt, RetrievalRequest
from cocosearchd.search.scored_candidates import ScoredCandidate
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import chunk_reads
from cocosearchd.store.reads.file_states import count_matching_chunks
from cocosearchd.store.words.keyword_search import keyword_search
from cocosearchd.store.words.words_table import SplitTexts


async def why_not(
    db: Database,
    record: IndexRecord,
    request: RetrievalRequest,
    path: str,
    attempt: RetrievalAttempt,
    split: SplitTexts,
    disk: VerifiedFiles,
) -> dict[str, Any]:
    """Explain the absence of a file, as JSON-able values.

    `status` is one of shown, alike, not_indexed, skipped, empty, filtered, not_retrieved,
    below_min_score, ranked_lower. `path` is relative to the root; a leading `./` is ignored.
    `reason` is a sentence for people. For a file that is not indexed, `ExclusionReport.reason` has
    more detail.
    """
    path = path.removeprefix("./").rstrip("/")
    plan = request.plan
    explanation = _explain_selected(plan, attempt.selected, path)
    overlay = request.overlay
    if explanation is None and overlay is not None and path in overlay.files:
        explanation = _explain_unsaved(plan, overlay, path, attempt.scored)
    if explanation is None:
        explanation = await _explain_file(db, record, request, path, attempt.scored, split, disk)
    return {"path": path} | explanation


async def _explain_file(
    db: Database,
    record: IndexRecord,
    request: RetrievalRequest,
    path: str,
    scored: list[ScoredCandidate],
    split: SplitTexts,
    disk: VerifiedFiles,
) -> dict[str, Any]:
    """Explain the absence of a file without unsaved text."""
    plan = request.plan
    row = next(
        (row for row in await index_records.file_records(db, record, path) if row.path == path),
        None,
    )
    if row is None:
        return await _explain_missing(disk, record, path)
    if row.skip_reason is not None or row.chunk_count == 0:
        return _explain_empty(row)
    ranks = [rank for rank, entry in enumerate(scored, 1) if entry.candidate.path == path]
    if ranks:
        return _explain_rank(plan, scored, ranks[0])
    filters = await blocking_filters(db, record, plan.where, path)
    if filters:
        reason = f"left out by the filter on {' and '.join(filters)}"
        return {"status": "filtered", "reason": reason, "filters": filters}
    return await _explain_not_retrieved(db, record, request, path, split)


def _explain_selected(
    plan: Plan, selected: Sequence[ScoredResult], path: str
) -> dict[str, Any] | None:
    """Explain the rank of a file that is a result, or that one represents; None for other files."""
    for rank, result in enumerate(selected, 1):
        shown_path = result.best.candidate.path
        details = {"rank": rank, "best_chunk": describe_candidate(plan, result.best)}
        if shown_path == path:
            return {"status": "shown", "reason": f"it is result {rank}"} | details
        if path in result.similar_paths:
            reason = f"result {rank}, {shown_path}, is alike and is shown for it"
            return {"status": "alike", "reason": reason} | details
    return None


def _explain_unsaved(
    plan: Plan, overlay: Overlay, path: str, scored: list[ScoredCandidate]
) -> dict[str, Any]:
    """Explain the rank of a file with unsaved text. Its text on disk is not searched."""
    ranks = [rank for rank, entry in enumerate(scored, 1) if entry.candidate.path == path]
    if ranks:
        return _explain_rank(plan, scored, ranks[0])
    if not overlay.files[path].chunks:
        return {"status": "empty", "reason": "the unsaved text has nothing to search"}
    if not any(row.path == path for row, _ in overlay.matching_chunks(plan.where)):
        return {"status": "filtered", "reason": "its unsaved text is left out by the filters"}
    return {
        "status": "not_retrieved",
        "reason": "no chunk of its unsaved text is among the best candidates",
    }


def _explain_empty(file_record: FileRecord) -> dict[str, Any]:
    if file_record.skip_reason is None:
        return {"status": "empty", "reason": "the file has nothing to search"}
    exclusion = find_exclusion(file_record.skip_reason)
    return {
        "status": "skipped",
        "reason": f"seen and skipped: {exclusion.sentence}",
        "exclusion": file_record.skip_reason,
    }


async def _explain_missing(disk: VerifiedFiles, record: IndexRecord, path: str) -> dict[str, Any]:
    if record.is_followed:
        reason = f"there is no such file in the rows of {record.name}"
        return {"status": "not_indexed", "reason": reason, "on_disk": False}
    full_path = os.path.join(record.root, path_bytes(path))  # noqa: PTH118 - bytes
    on_disk = await disk.run_bounded(record.root, partial(os.path.lexists, full_path))
    reason = "it is on disk, but not in the index" if on_disk else "there is no such file"
    if on_disk is None:
        reason = "it is not in the index, and its file system does not answer"
    return {"status": "not_indexed", "reason": reason, "on_disk": on_disk}


def _explain_rank(plan: Plan, scored: list[ScoredCandidate], number: int) -> dict[str, Any]:
    """Explain the rank of a candidate that became no result."""
    entry = scored[number - 1]
    # The limit counts files if each file is one result.
    ahead = (
        {entry.candidate.path for entry in scored[: number - 1]}
        if not plan.all_chunks
        else range(number - 1)
    )
    rank = len(ahead) + 1
    details = {"rank": rank, "best_chunk": describe_candidate(plan, entry)}
    if entry.relevance < plan.min_relevance:
        reason = (
            f"its relevance {entry.relevance:.3f} is below min_relevance {plan.min_relevance:g}"
        )
        return {"status": "below_min_score", "reason": reason} | details
    if rank > plan.limit:
        return {
            "status": "ranked_lower",
            "reason": f"ranked {rank}, the limit is {plan.limit}",
        } | details
    reason = f"ranked {rank}, but it has too little evidence for a result"
    return {"status": "below_min_score", "reason": reason} | details


async def blocking_filters(
    db: Database, record: IndexRecord, where: Filter, path: str
) -> list[str]:
    """Return the filters that each exclude the file.

    If only their combination excludes it, return all active filters.
    """
    fields = active_fields(where)
    blocking = [
        field.label
        for field in fields
        if not await count_matching_chunks(db, record, path, select_fields(where, (field,)))
    ]
    if blocking or await count_matching_chunks(db, record, path, where):
        return blocking
    return [field.label for field in fields]


async def _explain_not_retrieved(
    db: Database, record: IndexRecord, request: RetrievalRequest, path: str, split: SplitTexts
) -> dict[str, Any]:
    plan = request.plan
    vector = request.vector
    only_file = replace(plan.where, paths=(exact_glob(path),))
    best = (
        await chunk_reads.vector_search(db, record, vector, only_file, 1)
        if vector is not None
        else ()
    )
    terms = drop_stop_words(split_text(plan.text))
    words = (
        await keyword_search(db, record, terms, only_file, 1, split) if plan.uses_keywords else ()
    )
    return {
        "status": "not_retrieved",
        "reason": f"no chunk of it is among the {plan.depth} best candidates",
        "cosine": best[0].score if best else None,
        "has_every_word": bool(words),
    }
