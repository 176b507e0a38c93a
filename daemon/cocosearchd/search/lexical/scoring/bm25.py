"""BM25 of one query: all living files by all they hold, the compared ones by field and chunk. Pure.

Of each term the rows of a part are found and narrowed by themselves; what is left of all terms is
scored at once, as many small steps would cost more than the numbers in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.analysis.terms import QueryTerms
from cocosearchd.search.lexical.scoring.candidate_selection import CandidateFiles
from cocosearchd.search.lexical.segments.segment import SegmentView

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
# k1 and b by field: tuned on the dev half within the usual ranges, flat around these values.
_CHUNK_BM25 = (1.5, 0.75)
_FILE_BM25 = (2.5, 0.6)
_FIELDS = {  # column, place of its length, k1, b
    "f_def": ("posting_defined", 1, 1.2, 0.6),
    "f_com": ("posting_commented", 2, 1.5, 0.75),
    "f_path": ("posting_paths", 3, 1.2, 0.5),
}
_Rows = slice | Ints


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """Of what is alive in all parts."""

    files: int
    chunks: int
    chunk_average: float  # terms of a chunk
    file_averages: tuple[float, ...]  # terms of a file: everything, defined, commented, path


@dataclass(frozen=True, slots=True)
class FileHits:
    """Where the terms of a query are in the files of a part, term by term: the living files and
    their rows.
    """

    view: SegmentView
    terms: tuple[tuple[NDArray[np.int32], _Rows], ...]


class IdLookup:
    """Where numbers are among some chosen ones."""

    def __init__(self, size: int, chosen: Ints) -> None:
        """`chosen` are distinct and below `size`, and so is what is looked for."""
        self._known = np.zeros(size, np.bool_)
        self._known[chosen] = True
        self._places = np.empty(size, np.int32)  # only what is chosen is ever written or read
        self._places[chosen] = np.arange(len(chosen), dtype=np.int32)

    def __call__(self, numbers: NDArray[np.integer]) -> tuple[Ints, NDArray[np.int32]]:
        """Which of `numbers` are chosen, and the place of each of these among the chosen."""
        kept = np.flatnonzero(self._known.take(numbers))
        return kept, self._places.take(numbers.take(kept))


def find_file_hits(parts: Sequence[SegmentView], query: QueryTerms) -> list[FileHits]:
    """The living files that have the terms of a query, part by part."""
    asked = _term_hashes(query)
    return [
        FileHits(
            part, tuple(_find_live_files(part, rows) for rows in part.segment.file_rows(asked))
        )
        for part in parts
    ]


def mark_files_with_all_terms(found: Sequence[FileHits]) -> list[Floats]:
    """Per part: 1 for each living file that has all terms of the query, (F,)."""
    counts = [
        np.bincount(
            _concatenate([files for files, _ in each.terms], np.int32),
            minlength=each.view.segment.file_count,
        )
        for each in found
    ]
    return [
        ((count > 0) & (count == len(each.terms))).astype(np.float32)
        for each, count in zip(found, counts, strict=True)
    ]


def score_files(
    found: Sequence[FileHits], sizes: FieldStatistics, query: QueryTerms
) -> list[Floats]:
    """Per part: BM25 of each file over all it holds, (F,); dead files 0."""
    counts = [[len(files) for files, _ in each.terms] for each in found]
    weights = _term_weights(query, _sum_by_term(counts, query), sizes.files)
    scores = []
    for each, counted in zip(found, counts, strict=True):
        segment = each.view.segment
        files = _concatenate([files for files, _ in each.terms], np.int32)
        tf = _concatenate([segment.posting_everything[rows] for _, rows in each.terms], np.float32)
        lengths = segment.file_lengths[:, 0].take(files)
        worth = features.bm25(
            np.repeat(weights, counted), tf, lengths, sizes.file_averages[0], *_FILE_BM25
        )
        scores.append(np.bincount(files, worth, segment.file_count).astype(np.float32))
    return scores


def score_fields(
    found: Sequence[FileHits],
    sizes: FieldStatistics,
    query: QueryTerms,
    some: Sequence[CandidateFiles],
) -> dict[str, Floats]:
    """Field -> (f,), BM25 of the compared files of all parts over the fields."""
    near = [
        _find_candidate_rows(each, compared) for each, compared in zip(found, some, strict=True)
    ]
    scores = dict[str, Floats]()
    for name, (column, number, k1, b) in _FIELDS.items():
        having = [
            [
                int(np.count_nonzero(getattr(each.view.segment, column)[rows]))
                for _, rows in each.terms
            ]
            for each in found
        ]
        weights = _term_weights(query, _sum_by_term(having, query), sizes.files)
        rows = []
        for each, compared, (kept, places, terms) in zip(found, some, near, strict=True):
            tf = getattr(each.view.segment, column)[kept].astype(np.float32)
            lengths = each.view.segment.file_lengths[compared.files[places], number]
            worth = features.bm25(weights[terms], tf, lengths, sizes.file_averages[number], k1, b)
            rows.append(np.bincount(places, worth, len(compared.files)))
        scores[name] = _concatenate(rows, np.float32)
    return scores


def score_chunks(
    parts: Sequence[SegmentView],
    sizes: FieldStatistics,
    query: QueryTerms,
    some: Sequence[CandidateFiles],
) -> tuple[Floats, Floats]:
    """Over the compared chunks of all parts: BM25, and the share of the query's idf mass that a
    chunk has.
    """
    asked = _term_hashes(query)
    rows = [part.segment.chunk_rows(asked) for part in parts]
    having = [
        [_count_live_rows(part, row) for row in each]
        for part, each in zip(parts, rows, strict=True)
    ]
    idfs = _idfs(_sum_by_term(having, query), sizes.chunks)
    times = np.array([times for _, times in query.terms], np.float32)
    scores, covered = [], []
    for each, row in zip(some, rows, strict=True):
        segment, find = each.segment, IdLookup(each.segment.chunk_count, each.chunks)
        hits = [find(segment.posting_chunks[one]) for one in row]
        terms = np.repeat(np.arange(len(hits)), [len(kept) for kept, _ in hits])
        places = _concatenate([places for _, places in hits], np.int32)
        tf = _concatenate(
            [
                segment.posting_counts[one].take(kept)
                for one, (kept, _) in zip(row, hits, strict=True)
            ],
            np.float32,
        )
        lengths = segment.chunk_lengths[each.chunks][places]
        worth = features.bm25((times * idfs)[terms], tf, lengths, sizes.chunk_average, *_CHUNK_BM25)
        scores.append(np.bincount(places, worth, len(each.chunks)))
        covered.append(np.bincount(places, idfs[terms], len(each.chunks)))
    ideal = float(idfs.sum()) or 1.0
    return _concatenate(scores, np.float32), (_concatenate(covered, np.float32) / ideal).astype(
        np.float32
    )


def _find_candidate_rows(
    found: FileHits, compared: CandidateFiles
) -> tuple[Ints, NDArray[np.int32], Ints]:
    """Of the compared files that have a term: the rows, the places of the files, and which
    terms.
    """
    find = IdLookup(found.view.segment.file_count, compared.files)
    hits = [find(files) for files, _ in found.terms]
    rows = [
        kept + rows.start if isinstance(rows, slice) else rows.take(kept)
        for (kept, _), (_, rows) in zip(hits, found.terms, strict=True)
    ]
    terms = np.repeat(np.arange(len(hits)), [len(kept) for kept, _ in hits])
    return (
        _concatenate(rows, np.int64),
        _concatenate([places for _, places in hits], np.int32),
        terms,
    )


def _find_live_files(part: SegmentView, rows: slice) -> tuple[NDArray[np.int32], _Rows]:
    """The living files that have a term, and their rows."""
    files = part.segment.posting_files[rows]
    if part.alive is None:
        return files, rows
    kept = np.flatnonzero(part.alive.take(files))
    return files.take(kept), kept + rows.start


def _count_live_rows(part: SegmentView, rows: slice) -> int:
    if part.alive_chunks is None:
        return int(rows.stop) - int(rows.start)
    return int(np.count_nonzero(part.alive_chunks.take(part.segment.posting_chunks[rows])))


def _term_hashes(query: QueryTerms) -> NDArray[np.uint64]:
    return np.array([term for term, _ in query.terms], np.uint64)


def _sum_by_term(counts: Sequence[Sequence[int]], query: QueryTerms) -> Ints:
    """Counts by part and term as counts by term."""
    found: Ints = np.array(counts, np.int64).reshape(len(counts), len(query.terms)).sum(axis=0)
    return found


def _term_weights(query: QueryTerms, having: Ints, total: int) -> Floats:
    """By term: how much it counts, where `having` of `total` documents have it."""
    return _idfs(having, total) * np.array([times for _, times in query.terms], np.float32)


def _idfs(having: Ints, total: int) -> Floats:
    return np.array(
        list(starmap(features.idf, ((each, total) for each in having.tolist()))), np.float32
    )


def _concatenate(arrays: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.zeros(0, kind)
