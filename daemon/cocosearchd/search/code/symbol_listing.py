"""A list of symbols in the profile `code`: the definitions that a filter names, from memory, best
first.
"""

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
from cocosearchd.search.ranking import ScoredCandidate
from cocosearchd.store.chunks import queries
from cocosearchd.store.chunks.queries import Key
from cocosearchd.store.connection.database import Database

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _MatchingFile:
    """A file with chunks that pass, those in the case that was typed first."""

    # none of them is in that case; how far its place puts it behind others; path
    order: tuple[bool, float, str]
    keys: Ints  # (chunks, 2): first and last byte


async def list_symbols(
    db: Database,
    record: IndexRecord,
    lexical: LexicalIndex,
    state: IndexSnapshot,
    plan: Plan,
    weights: Weights,
    overlay: Overlay | None,
) -> tuple[list[ScoredCandidate], bool]:
    """At most `plan.depth` chunks, each with a symbol that passes, and whether each still had its
    row.

    Where a name is given, files with the case it was typed in come first, and then by what their
    places say for definitions; kinds alone are listed by path. Raises `StoreUnavailable`.
    """
    keys = await asyncio.to_thread(_ranked_keys, lexical, state, plan, weights)
    unsaved = {row.key: row for row in overlay.matching_symbols(plan.where)} if overlay else {}
    stored = await queries.symbols_at(
        db, record, [key for key in keys if key not in unsaved], plan.where
    )
    rows = {row.key: row for row in stored} | unsaved
    found = [rows[key] for key in keys if key in rows]
    scored = [
        ScoredCandidate(row, 0.0, "keyword", 0, rank, None, True)
        for rank, row in enumerate(found, 1)
    ]
    return scored, len(found) == len(keys)


def _ranked_keys(
    lexical: LexicalIndex, state: IndexSnapshot, plan: Plan, weights: Weights
) -> list[Key]:
    shown = file_mask(plan.where, state.live_documents)
    standing = _place_scores(state.live_documents, weights)
    found = [
        one
        for number in range(len(state.views))
        for one in _segment_files(lexical, state, plan, number, shown, standing)
    ]
    keys: list[Key] = []
    for one in sorted(found, key=lambda one: one.order):
        keys += [(one.order[-1], start, end) for start, end in one.keys.tolist()]
        if len(keys) >= plan.depth:
            break
    return keys[: plan.depth]


def _segment_files(
    lexical: LexicalIndex,
    state: IndexSnapshot,
    plan: Plan,
    number: int,
    shown: Mask | None,
    standing: Floats,
) -> list[_MatchingFile]:
    """The files of a part that have chunks which pass. `shown` and `standing` are of all living
    files.
    """
    part = state.views[number]
    living = state.live_documents
    where = plan.where
    local = living.segment_files[number]
    files = slice(living.starts[number], living.ends[number])
    passing = lexical.symbols.mask(part.segment, where.symbol_types, where.symbol_name)
    chunks = np.flatnonzero(
        passing & _chunks_of_files(part, local if shown is None else local[shown[files]])
    )
    if not len(chunks):
        return []
    cased = np.ones(len(chunks), np.bool_)
    if where.symbol_name:
        cased = lexical.symbols.mask(
            part.segment, where.symbol_types, where.symbol_name, cased=True
        )[chunks]
    owners, starts = np.unique(part.segment.chunk_files[chunks], return_index=True)
    own = np.searchsorted(local, owners) + living.starts[number]
    behind = -standing[own] if where.symbol_name else np.zeros(len(own), np.float32)
    some = np.logical_or.reduceat(cased, starts)
    return [
        _MatchingFile(
            (not agrees, value, living.paths[file]),
            part.segment.keys[each[np.argsort(~case, kind="stable")]],
        )
        for agrees, value, file, each, case in zip(
            some.tolist(),
            behind.tolist(),
            own.tolist(),
            np.split(chunks, starts[1:]),
            np.split(cased, starts[1:]),
            strict=True,
        )
    ]


def _place_scores(living: LiveDocuments, weights: Weights) -> Floats:
    """(F,): what the places of files say for definitions: tests, prose and what lies deep stand
    behind.
    """
    found = np.zeros(len(living.paths), np.float32)
    for name, values in living.path_signals.items():
        found += values * np.float32(weights.symbol_without_vectors.get(name, 0.0))
    return found


def _chunks_of_files(part: SegmentView, files: Ints) -> Mask:
    """(C,): the chunks of some files of a part."""
    chosen = np.zeros(part.segment.file_count, np.bool_)
    chosen[files] = True
    return chosen[part.segment.chunk_files]
