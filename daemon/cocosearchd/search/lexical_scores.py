"""Scores of one query over the parts of a state: BM25 of files and chunks, defined names, cosines. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search import features
from cocosearchd.search.lexical_choice import Compared
from cocosearchd.search.lexical_segment import Part, Segment, signs_of
from cocosearchd.search.lexical_terms import QueryTerms, term_hash

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
# Numbers of int8 vectors that are widened at a time: they stay in a core's cache, and below what OpenBLAS would share
# among threads, whose waiting for each other costs 15 times the work on a busy machine (measured).
_BLOCK = 1 << 16
# k1 and b by field: tuned on the dev half within the usual ranges, flat around these values.
_CHUNK_BM25 = (1.5, 0.75)
_FILE_BM25 = (2.5, 0.6)
_FIELDS = {  # column, place of its length, k1, b
    "f_def": ("posting_defined", 1, 1.2, 0.6),
    "f_com": ("posting_commented", 2, 1.5, 0.75),
    "f_path": ("posting_paths", 3, 1.2, 0.5),
}
_FOLDED_SHARE = 0.8  # of a definition's value, when only the letters agree and not their case
_EXACT_LEAD = 1.0  # of a chunk whose definition has the very name: so that a constant stands before its uses


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of what is alive in all parts."""

    files: int
    chunks: int
    chunk_average: float  # terms of a chunk
    file_averages: tuple[float, ...]  # terms of a file: everything, defined, commented, path


@dataclass(frozen=True, slots=True)
class Defined:
    """What is defined in a segment of what the query names."""

    exact: tuple[NDArray[np.int32], Floats]  # chunks and values of definitions of identifiers; one may come twice
    folded: tuple[NDArray[np.int32], Floats]  # the same in any case
    of_files: dict[str, Floats]  # (F,): symF the best exact one, symI in any case, whole of all that was asked


def file_scores(parts: Sequence[Part], sizes: Sizes, query: QueryTerms) -> list[Floats]:
    """Per part: BM25 of each file over all it holds, (F,); dead files 0."""
    found = [np.zeros(part.segment.file_count, np.float32) for part in parts]
    for term, times in query.terms:
        hits = [_living_files(part, part.segment.file_rows(term)) for part in parts]
        weight = times * features.idf(sum(len(files) for files, _ in hits), sizes.files)
        for part, scores, (files, rows) in zip(parts, found, hits, strict=True):
            tf = part.segment.posting_everything[rows].astype(np.float32)
            lengths = part.segment.file_lengths[:, 0].take(files)
            scores[files] += features.bm25(weight, tf, lengths, sizes.file_averages[0], *_FILE_BM25)
    return found


def field_scores(
    parts: Sequence[Part], sizes: Sizes, query: QueryTerms, some: Sequence[Compared]
) -> list[dict[str, Floats]]:
    """Per part: field -> (f,), BM25 of the compared files over the fields."""
    finders = [Finder(part.segment.file_count, each.files) for part, each in zip(parts, some, strict=True)]
    found = [{name: np.zeros(len(each.files), np.float32) for name in _FIELDS} for each in some]
    for term, times in query.terms:
        hits = [_living_files(part, part.segment.file_rows(term)) for part in parts]
        near = [find(files) for find, (files, _) in zip(finders, hits, strict=True)]
        for name, (column, number, k1, b) in _FIELDS.items():
            counts = [getattr(part.segment, column)[rows] for part, (_, rows) in zip(parts, hits, strict=True)]
            weight = times * features.idf(sum(map(int, map(np.count_nonzero, counts))), sizes.files)
            for each, scores, (kept, places), every in zip(some, found, near, counts, strict=True):
                lengths = each.segment.file_lengths[each.files[places], number]
                tf = every.take(kept).astype(np.float32)
                scores[name][places] += features.bm25(weight, tf, lengths, sizes.file_averages[number], k1, b)
    return found


def chunk_scores(
    parts: Sequence[Part], sizes: Sizes, query: QueryTerms, some: Sequence[Compared]
) -> tuple[list[Floats], list[Floats]]:
    """Per part, over the compared chunks: BM25, and the share of the query's idf mass that a chunk has."""
    finders = [Finder(each.segment.chunk_count, each.chunks) for each in some]
    scores = [np.zeros(len(each.chunks), np.float32) for each in some]
    covered = [np.zeros(len(each.chunks), np.float32) for each in some]
    lengths = [each.segment.chunk_lengths[each.chunks] for each in some]
    ideal = 0.0
    for term, times in query.terms:
        rows = [part.segment.chunk_rows(term) for part in parts]
        weight = features.idf(sum(map(_living_rows, parts, rows)), sizes.chunks)
        ideal += weight
        for part, row, find, length, score, cover in zip(parts, rows, finders, lengths, scores, covered, strict=True):
            kept, places = find(part.segment.posting_chunks[row])
            tf = part.segment.posting_counts[row].take(kept).astype(np.float32)
            score[places] += features.bm25(times * weight, tf, length[places], sizes.chunk_average, *_CHUNK_BM25)
            cover[places] += np.float32(weight)
    return scores, [each / np.float32(ideal or 1) for each in covered]


def best_of_chunks(some: Compared, scores: Floats, cosines: Floats | None) -> tuple[Floats, Floats, Floats | None]:
    """Per compared file: the sum of the best chunk scores, their mean, the best cosine."""
    starts = some.starts
    if not len(starts):
        return np.zeros(0, np.float32), np.zeros(0, np.float32), None if cosines is None else np.zeros(0, np.float32)
    best = features.best_three(scores, starts, some.owners)
    nearest = None if cosines is None else np.fmax.reduceat(cosines, starts)
    return best, (np.add.reduceat(scores, starts) / some.counts).astype(np.float32), nearest


def defined(segment: Segment, query: QueryTerms) -> Defined:
    """What is defined of the identifiers of the query, and of the whole symbol as it was asked."""
    lower = tuple(name.lower() for name in query.identifiers)
    asked = query.identifiers[:1] if query.symbol else ()
    exact = _defined(segment.exact_names, segment.exact_chunks, segment.exact_values, query.identifiers)
    folded = _defined(segment.folded_names, segment.folded_chunks, segment.folded_values, lower)
    whole = _defined(segment.exact_names, segment.exact_chunks, segment.exact_values, asked)
    best = (_per_file(segment, *rows) for rows in (exact, folded, whole))
    return Defined(exact, folded, dict(zip(("symF", "symI", "whole"), best, strict=True)))


def chunk_names(some: Compared, found: Defined) -> Floats:
    """(c,): the best value of a definition in each compared chunk, and a lead where the case agrees."""
    find, values = Finder(some.segment.chunk_count, some.chunks), np.zeros(len(some.chunks), np.float32)
    for (chunks, worth), share, lead in ((found.exact, 1.0, _EXACT_LEAD), (found.folded, _FOLDED_SHARE, 0.0)):
        kept, places = find(chunks)
        np.maximum.at(values, places, np.float32(share) * worth[kept] + np.float32(lead))
    return values


def file_cosines(segment: Segment, vector: Floats, files: Ints) -> Floats:
    """(f,): of the mean vectors of some files; NaN where a file has none."""
    return products(segment.file_vectors.take(files, axis=0), segment.file_scales.take(files), vector)


def chunk_cosines(some: Compared, vector: Floats) -> Floats:
    """(c,): of the compared chunks; NaN where one has no vector."""
    segment = some.segment
    return products(segment.vectors.take(some.chunks, axis=0), segment.scales.take(some.chunks), vector)


def nearness(segment: Segment, vector: Floats) -> NDArray[np.int16]:
    """(F,): how many signs the nearest chunk of each file shares with the query; 0 where none has a vector.

    The angle between two vectors shows in the share of signs that differ (Charikar 2002), so it finds the chunks that
    are worth a comparison at a tenth of the price.
    """
    if segment.vectors.shape[1] != len(vector) or not segment.file_count:
        return np.zeros(segment.file_count, np.int16)
    alike = np.full(segment.chunk_count, len(vector), np.int16)
    for column, asked in zip(segment.signs, signs_of(vector[None])[:, 0], strict=True):
        alike -= np.bitwise_count(column ^ asked)
    alike[segment.scales == 0] = 0
    return np.maximum.reduceat(alike, segment.chunk_starts)


def products(rows: NDArray[np.int8], scales: Floats, vector: Floats) -> Floats:
    """Of a vector with quantised rows, NaN for rows of scale 0. Exact but for the int8 of the rows."""
    found = np.full(len(rows), np.nan, np.float32)
    if rows.shape[1] != len(vector) or not vector.any():
        return found
    height = max(1, _BLOCK // len(vector))
    block = np.empty((height, len(vector)), np.float32)
    for start in range(0, len(rows), height):
        some = rows[start : start + height]
        wide = block[: len(some)]
        np.copyto(wide, some)
        np.dot(wide, vector, out=found[start : start + len(some)])
    found *= scales
    found[scales == 0] = np.nan
    return found


class Finder:
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


def _living_files(part: Part, rows: slice) -> tuple[NDArray[np.int32], slice | Ints]:
    """The living files that have a term, and their rows."""
    files = part.segment.posting_files[rows]
    if part.alive is None:
        return files, rows
    kept = np.flatnonzero(part.alive.take(files))
    return files.take(kept), kept + rows.start


def _living_rows(part: Part, rows: slice) -> int:
    if part.alive_chunks is None:
        return int(rows.stop) - int(rows.start)
    return int(part.alive_chunks.take(part.segment.posting_chunks[rows]).sum())


def _defined(
    hashes: NDArray[np.uint64], chunks: NDArray[np.int32], values: Floats, names: Sequence[str]
) -> tuple[NDArray[np.int32], Floats]:
    """Where the names are defined, and the value of each definition."""
    found = [np.zeros(0, np.int64)]
    for name in names:
        wanted = np.uint64(term_hash(name))
        found.append(np.arange(np.searchsorted(hashes, wanted), np.searchsorted(hashes, wanted, side="right")))
    rows = np.concatenate(found)
    return chunks[rows], values[rows]


def _per_file(segment: Segment, chunks: NDArray[np.int32], values: Floats) -> Floats:
    """The best value in each file."""
    best = np.zeros(segment.file_count, np.float32)
    np.maximum.at(best, segment.chunk_files[chunks], values)
    return best
