"""Why a file is not among the results: not indexed, filtered away, not retrieved, or ranked too
low.
"""

import os
from dataclasses import replace
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from cocosearchd.exclusion import exclusion
from cocosearchd.languages.identifiers import split_text
from cocosearchd.model import FileRecord, Filter, IndexRecord, decode_path
from cocosearchd.search.answers.explain import describe_candidate
from cocosearchd.search.classic.retrievers import content_words
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.search.ranking import ScoredCandidate, relevance
from cocosearchd.search.retrieval import RetrievalRequest
from cocosearchd.store import index_records
from cocosearchd.store.chunks import queries
from cocosearchd.store.chunks.file_states import count_matching_chunks
from cocosearchd.store.connection.database import Database
from cocosearchd.store.globs import exact_glob


async def why_not(
    db: Database,
    record: IndexRecord,
    asked: RetrievalRequest,
    path: str,
    scored: list[ScoredCandidate],
) -> dict[str, Any]:
    """`status` is one of shown, not_indexed, skipped, empty, filtered, not_retrieved,
    below_min_score, ranked_lower.

    `path` is relative to the root; a leading `./` is ignored. `reason` is a sentence for people; of
    a file that is not indexed the root knows more (`WatchedRoot.absence`).
    """
    path = path.removeprefix("./").rstrip("/")
    plan = asked.plan
    if asked.overlay is not None and path in asked.overlay.files:
        return {"path": path} | _explain_unsaved(plan, asked.overlay, path, scored)
    stored = next(
        (row for row in await index_records.file_records(db, record, path) if row.path == path),
        None,
    )
    if stored is None or stored.skip_reason is not None or stored.chunk_count == 0:
        return {"path": path} | await anyio.to_thread.run_sync(
            _explain_missing, record, path, stored
        )
    places = [place for place, one in enumerate(scored, 1) if one.candidate.path == path]
    if places:
        return {"path": path} | _explain_rank(plan, scored, places[0])
    blocking = await _blocking_filters(db, record, plan.where, path)
    if blocking:
        reason = f"left out by the filter on {' and '.join(blocking)}"
        return {"path": path, "status": "filtered", "reason": reason, "filters": blocking}
    return {"path": path} | await _explain_not_retrieved(db, record, plan, asked.vector, path)


def _explain_unsaved(
    plan: Plan, overlay: Overlay, path: str, scored: list[ScoredCandidate]
) -> dict[str, Any]:
    """Of a file whose text is not saved: what is on disk plays no part."""
    places = [place for place, one in enumerate(scored, 1) if one.candidate.path == path]
    if places:
        return _explain_rank(plan, scored, places[0])
    if not overlay.files[path].chunks:
        return {"status": "empty", "reason": "the unsaved text has nothing to search"}
    if not any(row.path == path for row, _ in overlay.matching_chunks(plan.where)):
        return {"status": "filtered", "reason": "its unsaved text is left out by the filters"}
    return {
        "status": "not_retrieved",
        "reason": "no chunk of its unsaved text is among the best candidates",
    }


def _explain_missing(record: IndexRecord, path: str, stored: FileRecord | None) -> dict[str, Any]:
    if stored is not None and stored.skip_reason is not None:
        row = exclusion(stored.skip_reason)
        return {
            "status": "skipped",
            "reason": f"seen and skipped: {row.sentence}",
            "exclusion": stored.skip_reason,
        }
    if stored is not None:
        return {"status": "empty", "reason": "the file has nothing to search"}
    there = os.path.lexists(os.path.join(record.root, decode_path(path)))  # noqa: PTH118 - bytes
    reason = "it is on disk, but not in the index" if there else "there is no such file"
    return {"status": "not_indexed", "reason": reason, "on_disk": there}


def _explain_rank(plan: Plan, scored: list[ScoredCandidate], place: int) -> dict[str, Any]:
    one = scored[place - 1]
    # With one result for each file, the place among files is what the limit is compared with.
    ahead = (
        {other.candidate.path for other in scored[: place - 1]}
        if not plan.all_chunks
        else range(place - 1)
    )
    rank = len(ahead) + 1
    known = {"rank": rank, "best_chunk": describe_candidate(plan, one)}
    if relevance(one) < plan.min_score:
        reason = f"its relevance {relevance(one):.3f} is below min_score {plan.min_score:g}"
        return {"status": "below_min_score", "reason": reason} | known
    if rank > plan.limit:
        return {
            "status": "ranked_lower",
            "reason": f"ranked {rank}, the limit is {plan.limit}",
        } | known
    return {"status": "shown", "reason": f"it is result {rank}"} | known


async def _blocking_filters(
    db: Database, record: IndexRecord, where: Filter, path: str
) -> list[str]:
    """The restrictions that by themselves leave nothing of the file; all of them if only together
    they do.
    """
    parts = {
        "path": Filter(paths=where.paths),
        "excluded path": Filter(not_paths=where.not_paths),
        "language": Filter(languages=where.languages),
        "symbol type": Filter(symbol_types=where.symbol_types),
        "symbol name": Filter(symbol_name=where.symbol_name),
        "phrase": Filter(phrases=where.phrases),
    }
    used = {name: part for name, part in parts.items() if part != Filter()}
    alone = [
        name
        for name, part in used.items()
        if not await count_matching_chunks(db, record, path, part)
    ]
    if alone or await count_matching_chunks(db, record, path, where):
        return alone
    return list(used)


async def _explain_not_retrieved(
    db: Database, record: IndexRecord, plan: Plan, vector: NDArray[np.float32] | None, path: str
) -> dict[str, Any]:
    here = replace(plan.where, paths=(exact_glob(path),))
    best = await queries.vector_search(db, record, vector, here, 1) if vector is not None else ()
    words = (
        await queries.keyword_search(db, record, content_words(split_text(plan.text)), here, 1)
        if plan.keyword
        else ()
    )
    return {
        "status": "not_retrieved",
        "reason": f"no chunk of it is among the {plan.depth} best candidates",
        "cosine": best[0].score if best else None,
        "has_every_word": bool(words),
    }
