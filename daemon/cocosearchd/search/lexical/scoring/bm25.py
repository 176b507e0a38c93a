"""BM25 scores of one query: live files over all their text, candidates by field and chunk; pure

The rows of each term in a segment are looked up and filtered term by term. Then all terms are
scored at once, because many small array steps would cost more than the numbers in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.analysis.terms import QueryTerms
from cocosearchd.search.lexical.array_types import Floats, Ints, concatenate
from cocosearchd.search.lexical.scoring.candidate_selection import CandidateFiles
from cocosearchd.search.lexical.segments.segment import SegmentView

# k1 and b by field: tuned on the dev half within the usual ranges, flat around these values.
_CHUNK_BM25 = (1.5, 0.75)
_FILE_BM25 = (2.5, 0.6)
_FIELDS = {  # column, place of its length, k1, b
    "definition_words": ("posting_defined", 1, 1.2, 0.6),
    "comment_words": ("posting_commented", 2, 1.5, 0.75),
    "path_words": ("posting_paths", 3, 1.2, 0.5),
}
_Rows = slice | Ints


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """Counts and average lengths over the live documents of all segments."""

    files: int
    chunks: int
    chunk_average: float  # terms of a chunk
    file_averages: tuple[float, ...]  # terms of a file: everything, defined, commented, path


@dataclass(frozen=True, slots=True)
class FileHits:
    """Live files that have the terms of a query, and their rows, term by term, for one view."""

    view: SegmentView
    terms: tuple[tuple[NDArray[np.int32], _Rows], ...]


class IdLookup:
    """Lookup from numbers to their positions in a selection."""

    def __init__(self, size: int, selected: Ints) -> None:
        """Mark the `selected` numbers: distinct and below `size`, as all looked-up numbers."""
        self._is_selected = np.zeros(size, np.bool_)
        self._is_selected[selected] = True
        self._positions = np.empty(size, np.int32)  # only selected entries are ever written or read
        self._positions[selected] = np.arange(len(selected), dtype=np.int32)

    def __call__(self, numbers: NDArray[np.integer]) -> tuple[Ints, NDArray[np.int32]]:
        """Find the selected among `numbers`: their indices, and their selection positions."""
        matches = np.flatnonzero(self._is_selected.take(numbers))
        return matches, self._positions.take(numbers.take(matches))


def find_file_hits(views: Sequence[SegmentView], query: QueryTerms) -> list[FileHits]:
    """Find the live files that have the terms of a query, view by view."""
    hashes = _term_hashes(query)
    return [
        FileHits(
            view, tuple(_find_live_files(view, rows) for rows in view.segment.file_rows(hashes))
        )
        for view in views
    ]


def mark_files_with_all_terms(hits: Sequence[FileHits]) -> list[Floats]:
    """Mark by view the live files that have all terms of the query with 1, (F,)."""
    counts = [
        np.bincount(
            concatenate([files for files, _ in view_hits.terms], np.int32),
            minlength=view_hits.view.segment.file_count,
        )
        for view_hits in hits
    ]
    return [
        ((count > 0) & (count == len(view_hits.terms))).astype(np.float32)
        for view_hits, count in zip(hits, counts, strict=True)
    ]


def score_files(
    hits: Sequence[FileHits], statistics: FieldStatistics, query: QueryTerms
) -> list[Floats]:
    """Score the files of each view by BM25 over all their text, (F,); dead files get 0."""
    counts = [[len(files) for files, _ in view_hits.terms] for view_hits in hits]
    weights = _term_weights(query, _sum_by_term(counts, query), statistics.files)
    scores = []
    for view_hits, counted in zip(hits, counts, strict=True):
        segment = view_hits.view.segment
        files = concatenate([files for files, _ in view_hits.terms], np.int32)
        tf = concatenate(
            [segment.posting_everything[rows] for _, rows in view_hits.terms], np.float32
        )
        lengths = segment.file_lengths[:, 0].take(files)
        shares = features.bm25(
            np.repeat(weights, counted), tf, lengths, statistics.file_averages[0], *_FILE_BM25
        )
        scores.append(np.bincount(files, shares, segment.file_count).astype(np.float32))
    return scores


def score_fields(
    hits: Sequence[FileHits],
    statistics: FieldStatistics,
    query: QueryTerms,
    candidates: Sequence[CandidateFiles],
) -> dict[str, Floats]:
    """Score the candidate files of all views by BM25 over each field: field -> (f,)."""
    candidate_rows = [
        _find_candidate_rows(view_hits, candidate)
        for view_hits, candidate in zip(hits, candidates, strict=True)
    ]
    scores = dict[str, Floats]()
    for name, (column, number, k1, b) in _FIELDS.items():
        document_counts = [
            [
                int(np.count_nonzero(getattr(view_hits.view.segment, column)[rows]))
                for _, rows in view_hits.terms
            ]
            for view_hits in hits
        ]
        weights = _term_weights(query, _sum_by_term(document_counts, query), statistics.files)
        rows = []
        for view_hits, candidate, (matching_rows, positions, terms) in zip(
            hits, candidates, candidate_rows, strict=True
        ):
            tf = getattr(view_hits.view.segment, column)[matching_rows].astype(np.float32)
            lengths = view_hits.view.segment.file_lengths[candidate.files[positions], number]
            shares = features.bm25(
                weights[terms], tf, lengths, statistics.file_averages[number], k1, b
            )
            rows.append(np.bincount(positions, shares, len(candidate.files)))
        scores[name] = concatenate(rows, np.float32)
    return scores


def score_chunks(
    views: Sequence[SegmentView],
    statistics: FieldStatistics,
    query: QueryTerms,
    candidates: Sequence[CandidateFiles],
) -> tuple[Floats, Floats]:
    """Score the candidate chunks of all views by BM25, and compute their coverage.

    The coverage is the share of the query's idf mass that a chunk has, 0 to 1.
    """
    hashes = _term_hashes(query)
    rows = [view.segment.chunk_rows(hashes) for view in views]
    document_counts = [
        [count_live_rows(view, term_rows) for term_rows in view_rows]
        for view, view_rows in zip(views, rows, strict=True)
    ]
    idfs = _idfs(_sum_by_term(document_counts, query), statistics.chunks)
    weights = idfs * _query_frequencies(query)
    scores = []
    coverage = []
    for candidate, term_rows in zip(candidates, rows, strict=True):
        segment = candidate.segment
        positions, terms, tf = _match_chunks(candidate, term_rows)
        lengths = segment.chunk_lengths[candidate.chunks][positions]
        shares = features.bm25(weights[terms], tf, lengths, statistics.chunk_average, *_CHUNK_BM25)
        scores.append(np.bincount(positions, shares, len(candidate.chunks)))
        coverage.append(np.bincount(positions, idfs[terms], len(candidate.chunks)))
    ideal = float(idfs.sum()) or 1.0
    shares_of_ideal: Floats = (concatenate(coverage, np.float32) / ideal).astype(np.float32)
    return concatenate(scores, np.float32), shares_of_ideal


def _match_chunks(
    candidate: CandidateFiles, rows: Sequence[slice]
) -> tuple[NDArray[np.int32], Ints, Floats]:
    """Match the rows of terms to candidate chunks: chunk position, term number and frequency."""
    segment = candidate.segment
    lookup = IdLookup(segment.chunk_count, candidate.chunks)
    matches_by_term = [lookup(segment.posting_chunks[term_rows]) for term_rows in rows]
    counts = [
        segment.posting_counts[term_rows].take(matches)
        for term_rows, (matches, _) in zip(rows, matches_by_term, strict=True)
    ]
    return (
        concatenate([positions for _, positions in matches_by_term], np.int32),
        np.repeat(np.arange(len(counts)), [len(matches) for matches, _ in matches_by_term]),
        concatenate(counts, np.float32),
    )


def _find_candidate_rows(
    hits: FileHits, candidate: CandidateFiles
) -> tuple[Ints, NDArray[np.int32], Ints]:
    """Find the rows, file positions and term numbers of the candidate files that have a term."""
    lookup = IdLookup(hits.view.segment.file_count, candidate.files)
    matches_by_term = [lookup(files) for files, _ in hits.terms]
    rows = [
        matches + rows.start if isinstance(rows, slice) else rows.take(matches)
        for (matches, _), (_, rows) in zip(matches_by_term, hits.terms, strict=True)
    ]
    terms = np.repeat(
        np.arange(len(matches_by_term)), [len(matches) for matches, _ in matches_by_term]
    )
    return (
        concatenate(rows, np.int64),
        concatenate([positions for _, positions in matches_by_term], np.int32),
        terms,
    )


def _find_live_files(view: SegmentView, rows: slice) -> tuple[NDArray[np.int32], _Rows]:
    """Find the live files that have a term, and their rows."""
    files = view.segment.posting_files[rows]
    if view.alive is None:
        return files, rows
    live = np.flatnonzero(view.alive.take(files))
    return files.take(live), live + rows.start


def count_live_rows(view: SegmentView, rows: slice) -> int:
    """Count the live chunks among rows of a term."""
    if view.alive_chunks is None:
        return int(rows.stop) - int(rows.start)
    return int(np.count_nonzero(view.alive_chunks.take(view.segment.posting_chunks[rows])))


def _term_hashes(query: QueryTerms) -> NDArray[np.uint64]:
    return np.array([term for term, _ in query.terms], np.uint64)


def _sum_by_term(counts: Sequence[Sequence[int]], query: QueryTerms) -> Ints:
    """Sum counts by view and term to counts by term."""
    totals: Ints = np.array(counts, np.int64).reshape(len(counts), len(query.terms)).sum(axis=0)
    return totals


def _term_weights(query: QueryTerms, counts: Ints, total: int) -> Floats:
    """Weigh the terms, which `counts` of `total` documents have: idf x query frequency."""
    return _idfs(counts, total) * _query_frequencies(query)


def _query_frequencies(query: QueryTerms) -> Floats:
    return np.array([frequency for _, frequency in query.terms], np.float32)


def _idfs(counts: Ints, total: int) -> Floats:
    return np.array(
        list(starmap(features.idf, ((count, total) for count in counts.tolist()))), np.float32
    )
