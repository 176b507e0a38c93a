"""Symbol lists in the profile `code`: definitions that pass a filter, from memory, best first."""

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.search.code.code_profile import Weights
from cocosearchd.search.code.file_masks import file_mask
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments
from cocosearchd.search.lexical.segments.segment import SegmentView
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.search.ranking import ScoredCandidate, listed_candidate
from cocosearchd.store.chunks import queries
from cocosearchd.store.chunks.queries import Key
from cocosearchd.store.connection.database import Database

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _MatchingFile:
    """A file with passing chunks; those that match the case of the name come first."""

    # (no chunk matches the case, penalty of the file's location, path)
    order: tuple[bool, float, str]
    keys: Ints  # (chunks, 2): first and last byte


async def list_symbols(
    db: Database,
    record: IndexRecord,
    lexical: LexicalIndex,
    snapshot: IndexSnapshot,
    plan: Plan,
    weights: Weights,
    overlay: Overlay | None,
) -> tuple[list[ScoredCandidate], bool]:
    """List at most `plan.depth` chunks that have a symbol which passes the filter.

    The second value is True if each still has its row. With a name, files that match its case come
    first, then files in the order of their location scores for definitions; without one, the order
    is by path. Raises `StoreUnavailable`.
    """
    keys = await asyncio.to_thread(_ranked_keys, lexical, snapshot, plan, weights)
    unsaved = {row.key: row for row in overlay.matching_symbols(plan.where)} if overlay else {}
    stored = await queries.symbols_at(
        db, record, [key for key in keys if key not in unsaved], plan.where
    )
    rows = {row.key: row for row in stored} | unsaved
    present = [rows[key] for key in keys if key in rows]
    scored = [listed_candidate(row, rank) for rank, row in enumerate(present, 1)]
    return scored, len(present) == len(keys)


def _ranked_keys(
    lexical: LexicalIndex, snapshot: IndexSnapshot, plan: Plan, weights: Weights
) -> list[Key]:
    mask = file_mask(plan.where, snapshot.live_documents)
    place_scores = _place_scores(snapshot.live_documents, weights)
    files = [
        file
        for number in range(len(snapshot.views))
        for file in _segment_files(lexical, snapshot, plan, number, mask, place_scores)
    ]
    keys: list[Key] = []
    for file in sorted(files, key=lambda file: file.order):
        keys += [(file.order[-1], start, end) for start, end in file.keys.tolist()]
        if len(keys) >= plan.depth:
            break
    return keys[: plan.depth]


def _segment_files(
    lexical: LexicalIndex,
    snapshot: IndexSnapshot,
    plan: Plan,
    number: int,
    mask: Mask | None,
    place_scores: Floats,
) -> list[_MatchingFile]:
    """Return the files of a segment with passing chunks.

    `mask` and `place_scores` are (F,) over all living files.
    """
    segment_view = snapshot.views[number]
    living = snapshot.live_documents
    where = plan.where
    local = living.segment_files[number]
    files = slice(living.starts[number], living.ends[number])
    passing = lexical.symbols.mask(segment_view.segment, where.symbol_types, where.symbol_name)
    chunks = np.flatnonzero(
        passing & _chunks_of_files(segment_view, local if mask is None else local[mask[files]])
    )
    if not len(chunks):
        return []
    cased = np.ones(len(chunks), np.bool_)
    if where.symbol_name:
        written, _ = lexical.symbols.split_mask(
            segment_view.segment, where.symbol_types, where.symbol_name
        )
        cased = written[chunks]
    owners, starts = np.unique(segment_view.segment.chunk_files[chunks], return_index=True)
    living_files = np.searchsorted(local, owners) + living.starts[number]
    penalties = (
        -place_scores[living_files]
        if where.symbol_name
        else np.zeros(len(living_files), np.float32)
    )
    any_cased = np.logical_or.reduceat(cased, starts)
    return [
        _MatchingFile(
            (not has_case, penalty, living.paths[file]),
            segment_view.segment.keys[file_chunks[np.argsort(~matches_case, kind="stable")]],
        )
        for has_case, penalty, file, file_chunks, matches_case in zip(
            any_cased.tolist(),
            penalties.tolist(),
            living_files.tolist(),
            np.split(chunks, starts[1:]),
            np.split(cased, starts[1:]),
            strict=True,
        )
    ]


def _place_scores(living: LiveDocuments, weights: Weights) -> Floats:
    """Score the locations of files for definitions, (F,).

    Tests, prose and deep paths score lower.
    """
    scores = np.zeros(len(living.paths), np.float32)
    for name, values in living.path_signals.items():
        scores += values * np.float32(weights.symbol_without_vectors.get(name, 0.0))
    return scores


def _chunks_of_files(segment_view: SegmentView, files: Ints) -> Mask:
    """Return a mask (C,) of the chunks of the given files of a segment."""
    mask = np.zeros(segment_view.segment.file_count, np.bool_)
    mask[files] = True
    return mask[segment_view.segment.chunk_files]
