"""What one query finds in the parts of a state by defined names and by vectors. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.analysis.terms import QueryTerms, term_hash
from cocosearchd.search.lexical.scoring.candidate_selection import CandidateFiles
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
# Numbers of int8 vectors that are widened at a time: they stay in a core's cache, and below what
# OpenBLAS would share among threads, whose waiting for each other costs 15 times the work on a busy
# machine (measured).
_BLOCK_NUMBERS = 1 << 16
# Rows that are multiplied together: of the last few OpenBLAS takes some in another order, and equal
# vectors would have cosines that differ by where they stand.
_ROWS_TOGETHER = 16
_FOLDED_SHARE = 0.8  # of a definition's value, when only the letters agree and not their case
# of a chunk whose definition has the very name: so that a constant stands before its uses
_EXACT_LEAD = 1.0


@dataclass(frozen=True, slots=True)
class DefinitionMatches:
    """What is defined in a segment of what the query names."""

    # chunks and values of definitions of identifiers; one may come twice
    exact: tuple[NDArray[np.int32], Floats]
    folded: tuple[NDArray[np.int32], Floats]  # the same in any case
    # (F,): symF the best exact one, symI in any case, whole of all that was asked
    of_files: dict[str, Floats]


def match_definitions(segment: Segment, query: QueryTerms) -> DefinitionMatches:
    """What is defined of the identifiers of the query, and of the whole symbol as it was asked."""
    lower = tuple(name.lower() for name in query.identifiers)
    asked = query.identifiers[:1] if query.symbol else ()
    exact = _find_definitions(
        segment.exact_names, segment.exact_chunks, segment.exact_values, query.identifiers
    )
    folded = _find_definitions(
        segment.folded_names, segment.folded_chunks, segment.folded_values, lower
    )
    whole = _find_definitions(
        segment.exact_names, segment.exact_chunks, segment.exact_values, asked
    )
    best = (_best_per_file(segment, *rows) for rows in (exact, folded, whole))
    return DefinitionMatches(exact, folded, dict(zip(("symF", "symI", "whole"), best, strict=True)))


def score_chunk_names(some: Sequence[CandidateFiles], found: Sequence[DefinitionMatches]) -> Floats:
    """(c,): the best value of a definition in each compared chunk of all parts, and a lead where
    the case agrees.
    """
    rows = []
    for each, names in zip(some, found, strict=True):
        values = np.zeros(len(each.chunks), np.float32)
        for (chunks, worth), share, lead in (
            (names.exact, 1.0, _EXACT_LEAD),
            (names.folded, _FOLDED_SHARE, 0.0),
        ):
            if len(chunks) and len(values):
                places = np.minimum(np.searchsorted(each.chunks, chunks), len(values) - 1)
                kept = each.chunks[places] == chunks
                np.maximum.at(
                    values, places[kept], np.float32(share) * worth[kept] + np.float32(lead)
                )
        rows.append(values)
    return _concatenate(rows)


def file_cosines(parts: Sequence[SegmentView], files: Sequence[Ints], vector: Floats) -> Floats:
    """(f,): of the mean vectors of some files of each part; NaN where a file has none."""
    chosen = list(zip(parts, files, strict=True))
    rows = _gather_rows([(part.segment.file_vectors, some) for part, some in chosen], len(vector))
    return dot_products(
        rows, _concatenate([part.segment.file_scales.take(some) for part, some in chosen]), vector
    )


def chunk_cosines(some: Sequence[CandidateFiles], vector: Floats) -> Floats:
    """(c,): of the compared chunks of all parts; NaN where one has no vector."""
    rows = _gather_rows([(each.segment.vectors, each.chunks) for each in some], len(vector))
    return dot_products(
        rows, _concatenate([each.segment.scales.take(each.chunks) for each in some]), vector
    )


def dot_products(rows: NDArray[np.int8], scales: Floats, vector: Floats) -> Floats:
    """Of a vector with quantised rows, NaN for rows of scale 0. Exact but for the int8 of the
    rows.
    """
    found = np.full(len(rows), np.nan, np.float32)
    if rows.shape[1] != len(vector) or not vector.any():
        return found
    height = max(1, _BLOCK_NUMBERS // len(vector) // _ROWS_TOGETHER) * _ROWS_TOGETHER
    block = np.zeros((height, len(vector)), np.float32)
    for start in range(0, len(rows), height):
        some = rows[start : start + height]
        np.copyto(block[: len(some)], some)
        filled = -(-len(some) // _ROWS_TOGETHER) * _ROWS_TOGETHER
        found[start : start + len(some)] = np.dot(block[:filled], vector)[: len(some)]
    found *= scales
    found[scales == 0] = np.nan
    return found


def _gather_rows(
    chosen: Sequence[tuple[NDArray[np.int8], Ints]], dimension: int
) -> NDArray[np.int8]:
    """The chosen rows of some tables, one after the other, each copied once; none of tables of
    another dimension.
    """
    if any(table.shape[1] != dimension for table, _ in chosen):
        return np.zeros((sum(len(rows) for _, rows in chosen), 0), np.int8)
    found = np.empty((sum(len(rows) for _, rows in chosen), dimension), np.int8)
    at = 0
    for table, rows in chosen:
        # Clipping changes nothing, as all rows are there; with it they are written where they
        # belong at once.
        table.take(rows, axis=0, out=found[at : at + len(rows)], mode="clip")
        at += len(rows)
    return found


def _concatenate(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.float32)


def _find_definitions(
    hashes: NDArray[np.uint64], chunks: NDArray[np.int32], values: Floats, names: Sequence[str]
) -> tuple[NDArray[np.int32], Floats]:
    """Where the names are defined, and the value of each definition."""
    found = [np.zeros(0, np.int64)]
    for name in names:
        wanted = np.uint64(term_hash(name))
        found.append(
            np.arange(
                np.searchsorted(hashes, wanted), np.searchsorted(hashes, wanted, side="right")
            )
        )
    rows = np.concatenate(found)
    return chunks[rows], values[rows]


def _best_per_file(segment: Segment, chunks: NDArray[np.int32], values: Floats) -> Floats:
    """The best value in each file."""
    best = np.zeros(segment.file_count, np.float32)
    np.maximum.at(best, segment.chunk_files[chunks], values)
    return best
