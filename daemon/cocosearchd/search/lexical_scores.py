"""Scores of one query over the parts of a state: BM25 of files and chunks, defined names, cosines. Pure.

All files are scored by the words of their fields, by the mean of their vectors and by the signs of the vectors of their
chunks; that is cheap. Chunks are scored in the *promising* files only. In an index of at most `PROMISING` files that is
every file; in a larger one, those that stand best by words or by vector. Measured on 25 repositories as one index of
3,700 files and 76,000 chunks, with means in the place of signs: the same first answer to each of 173 questions, and the
same NDCG@10, as when all chunks are scored; so it is with 128.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search import features
from cocosearchd.search.lexical_segment import Part, Segment, signs_of
from cocosearchd.search.lexical_terms import QueryTerms, term_hash

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
PROMISING = 256  # files by words, and as many by vector
# Numbers of int8 vectors that are widened at a time: they stay in a core's cache, and below what OpenBLAS would share
# among threads, whose waiting for each other costs 15 times the work on a busy machine (measured).
_BLOCK = 1 << 16
# k1 and b by field: tuned on the dev half within the usual ranges, flat around these values.
_CHUNK_BM25 = (1.5, 0.75)
_FILE_BM25 = {"f_all": (2.5, 0.6), "f_def": (1.2, 0.6), "f_com": (1.5, 0.75), "f_path": (1.2, 0.5)}
_FILE_COLUMNS = {
    "f_all": "posting_everything",
    "f_def": "posting_defined",
    "f_com": "posting_commented",
    "f_path": "posting_paths",
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
class Names:
    """What is defined in a part of what the query names: (C,) for the choice of a chunk, (F,) per signal."""

    of_chunks: Floats  # best value for an identifier, and a lead if its case agrees
    exact: Floats
    folded: Floats
    whole: Floats


def file_scores(parts: Sequence[Part], sizes: Sizes, query: QueryTerms) -> list[dict[str, Floats]]:
    """Per part: field -> (F,), dead files included, as 0."""
    found = [{name: np.zeros(part.segment.file_count, np.float32) for name in _FILE_BM25} for part in parts]
    for term, times in query.terms:
        rows = [part.segment.file_rows(term) for part in parts]
        for column, name in enumerate(_FILE_BM25):
            hits = [_counted(part, some, _FILE_COLUMNS[name]) for part, some in zip(parts, rows, strict=True)]
            weight = times * features.idf(sum(len(files) for files, _ in hits), sizes.files)
            for part, scores, (files, counts) in zip(parts, found, hits, strict=True):
                if len(files):
                    lengths = part.segment.file_lengths[:, column].take(files)
                    scores[name][files] += features.bm25(
                        weight, counts, lengths, sizes.file_averages[column], *_FILE_BM25[name]
                    )
    return found


def chunk_scores(
    parts: Sequence[Part], sizes: Sizes, query: QueryTerms, chosen: Sequence[Mask | None]
) -> tuple[list[Floats], list[Floats]]:
    """Per part, over the chunks of the chosen files: BM25, and the share of the query's idf mass that a chunk has."""
    scores = [np.zeros(part.segment.chunk_count, np.float32) for part in parts]
    covered = [np.zeros(part.segment.chunk_count, np.float32) for part in parts]
    masks = [None if mask is None else mask[part.segment.chunk_files] for part, mask in zip(parts, chosen, strict=True)]
    ideal = 0.0
    for term, times in query.terms:
        rows = [part.segment.chunk_rows(term) for part in parts]
        weight = features.idf(sum(map(_living_rows, parts, rows)), sizes.chunks)
        ideal += weight
        for part, some, mask, score, cover in zip(parts, rows, masks, scores, covered, strict=True):
            chunks, counts = part.segment.posting_chunks[some], part.segment.posting_counts[some]
            if mask is not None:
                kept = np.flatnonzero(mask.take(chunks))
                chunks, counts = chunks.take(kept), counts.take(kept)
            lengths = part.segment.chunk_lengths.take(chunks)
            tf = counts.astype(np.float32)
            score[chunks] += features.bm25(times * weight, tf, lengths, sizes.chunk_average, *_CHUNK_BM25)
            cover[chunks] += np.float32(weight)
    return scores, [each / np.float32(ideal or 1) for each in covered]


def promising(
    parts: Sequence[Part],
    files: Sequence[dict[str, Floats]],
    near: Sequence[Floats] | None,
    allowed: Sequence[Mask] | None,
) -> list[Mask | None]:
    """Per part: the files whose chunks are looked at, (F,); None: all, and all are alive.

    `near`: how near each file is to the query, as `nearness` says. `allowed`: files of which the best are looked at as
    well.
    """
    alive = [part.alive if part.alive is not None else np.ones(part.segment.file_count, np.bool_) for part in parts]
    if sum(int(np.count_nonzero(each)) for each in alive) <= PROMISING:
        return [part.alive for part in parts]
    by_words = [each["f_all"] for each in files]
    chosen = [
        _best(among, values, least)
        for among in ((alive,) if allowed is None else (alive, allowed))
        for values, least in ((by_words, 0.0), (near, 0.0))
        if values is not None
    ]
    return [np.logical_or.reduce(masks) for masks in zip(*chosen, strict=True)]


def name_values(segment: Segment, query: QueryTerms) -> Names:
    """What is defined of the identifiers of the query, and of the whole symbol as it was asked."""
    lower = tuple(name.lower() for name in query.identifiers)
    asked = query.identifiers[:1] if query.symbol else ()
    exact = _defined(segment.exact_names, segment.exact_chunks, segment.exact_values, query.identifiers)
    folded = _defined(segment.folded_names, segment.folded_chunks, segment.folded_values, lower)
    whole = _defined(segment.exact_names, segment.exact_chunks, segment.exact_values, asked)
    of_chunks = np.zeros(segment.chunk_count, np.float32)
    np.maximum.at(of_chunks, exact[0], exact[1] + np.float32(_EXACT_LEAD))
    np.maximum.at(of_chunks, folded[0], np.float32(_FOLDED_SHARE) * folded[1])
    return Names(of_chunks, *(_per_file(segment, *rows) for rows in (exact, folded, whole)))


def file_cosines(segment: Segment, vector: Floats) -> Floats:
    """(F,): of the mean vector of each file; NaN where a file has none."""
    return products(segment.file_vectors, segment.file_scales, vector)


def nearness(segment: Segment, vector: Floats, means: Floats) -> Floats:
    """(F,): how many signs the nearest chunk of each file shares with the query; 0 where none has a vector.

    The angle between two vectors shows in the share of signs that differ (Charikar 2002), so it finds the chunks that
    are worth a comparison at a tenth of the price. Of files that share as many, the nearer by `means` stands first.
    """
    if segment.vectors.shape[1] != len(vector) or not segment.file_count:
        return np.zeros(segment.file_count, np.float32)
    differ = np.zeros(segment.chunk_count, np.int16)
    for column, asked in enumerate(signs_of(vector[None])[0]):
        differ += np.bitwise_count(segment.signs[:, column] ^ asked)
    alike = np.where(segment.scales > 0, np.float32(len(vector)) - differ, np.float32(0))
    best = features.best_chunk(alike, segment.chunk_starts)
    return np.where(best > 0, best + np.nan_to_num(means) / 2, np.float32(0)).astype(np.float32)


def chunk_cosines(segment: Segment, vector: Floats, chosen: Mask | None) -> Floats:
    """(C,): of the chunks of the chosen files; NaN elsewhere, and where a chunk has no vector."""
    if chosen is None or chosen.all():
        return products(segment.vectors, segment.scales, vector)
    found = np.full(segment.chunk_count, np.nan, np.float32)
    chunks = np.flatnonzero(chosen[segment.chunk_files])
    found[chunks] = products(segment.vectors.take(chunks, axis=0), segment.scales.take(chunks), vector)
    return found


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


def _best(alive: Sequence[Mask], values: Sequence[Floats], least: float) -> list[Mask]:
    """The living files with the `PROMISING` largest values of all parts that are more than `least`; ties as well."""
    known = [np.where(living, each, np.float32(least)) for living, each in zip(alive, values, strict=True)]
    together = np.concatenate(known) if known else np.zeros(0, np.float32)
    if len(together) > PROMISING:
        place = len(together) - PROMISING
        least = max(least, float(np.nextafter(np.partition(together, place)[place], np.float32(-np.inf))))
    return [each > least for each in known]


def _counted(part: Part, rows: slice, column: str) -> tuple[NDArray[np.int32], Floats]:
    """The living files that have a term in a field, and how often."""
    counts = getattr(part.segment, column)[rows]
    files = part.segment.posting_files[rows]
    kept = counts > 0
    if part.alive is not None:
        kept &= part.alive.take(files)
    places = np.flatnonzero(kept)
    return files.take(places), counts.take(places).astype(np.float32)


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
