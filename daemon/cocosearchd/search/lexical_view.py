"""One immutable state of the lexical index, and what it says of a query: a value per signal for each living file.

Statistics (N, document frequencies, average lengths) are counted over living documents at query time, so that the
answer does not depend on the order in which files came and went.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search import features
from cocosearchd.search.lexical_names import PathNames, best_name_match, path_names, stem_coverage
from cocosearchd.search.lexical_segment import Part, Segment
from cocosearchd.search.lexical_terms import QueryTerms, Terms, term_hash

Floats = NDArray[np.float32]
SIGNALS = (
    "s3", "m_body", "f_all", "f_def", "f_com", "f_path", "p_s", "symF", "symI", "whole", "stemeq",
    "test", "prose", "depth", "lsize",
)  # fmt: skip
_FOLDED_SHARE = 0.8  # of a definition's value, when only the letters agree and not their case
_EXACT_LEAD = 1.0  # of a chunk whose definition has the very name: so that a constant stands before its uses
# Numbers of int8 vectors that are widened at a time: they stay in a core's cache, and below what OpenBLAS would share
# among threads, whose waiting for each other costs 15 times the work on a busy machine (measured).
_BLOCK = 1 << 16
# Up to so many chunks, the vectors of all are compared. In a larger index those of about `_COMPARED` chunks are: of the
# files that stand best by the mean of their vectors, and of those that do by words. With a fifth of the chunks the
# quality is that of all (NDCG@10 .919 and .918 on 25 repositories); 10,000 cost 0.8 ms.
_EXACT, _COMPARED = 20_000, 10_000
# k1 and b by field: tuned on the dev half within the usual ranges, flat around these values.
_CHUNK_BM25 = (1.5, 0.75)
_FILE_BM25 = {"f_all": (2.5, 0.6), "f_def": (1.2, 0.6), "f_com": (1.5, 0.75), "f_path": (1.2, 0.5)}
_FILE_COLUMNS = {
    "f_all": "posting_everything",
    "f_def": "posting_defined",
    "f_com": "posting_commented",
    "f_path": "posting_paths",
}


@dataclass(frozen=True, slots=True)
class Living:
    """What is alive, parts in order, numbers running through: F files, C chunks."""

    paths: tuple[str, ...]  # (F,)
    languages: tuple[str, ...]  # (F,)
    starts: NDArray[np.int64]  # (F,): first chunk of each file
    chunk_files: NDArray[np.int32]  # (C,)
    keys: NDArray[np.int64]  # (C, 2)
    places: dict[str, Floats]  # test, prose, depth, lsize: (F,)


@dataclass(frozen=True)
class View:
    """Parts, the names of their files, and the sizes of what is alive in them."""

    parts: tuple[Part, ...]
    names: tuple[PathNames, ...]
    generation: int
    files: int
    chunks: int
    chunk_averages: tuple[float, float]  # terms of a chunk: text; text and header
    file_averages: tuple[float, ...]  # terms of a file: everything, defined, commented, path

    @cached_property
    def living(self) -> Living:
        """Made by the first query after a commit, since many a commit is not followed by one."""
        files = [_mask(each.alive, each.segment.file_count) for each in self.parts]
        chunks = [_mask(each.alive_chunks, each.segment.chunk_count) for each in self.parts]
        segments = [each.segment for each in self.parts]
        counts = _kept([np.diff(each.chunk_ends, prepend=0) for each in segments], files).astype(np.int64)
        sizes = [np.log1p(each.characters).astype(np.float32) for each in segments]
        return Living(
            paths=_chosen([each.paths for each in self.names], files),
            languages=_chosen([each.languages for each in self.names], files),
            starts=np.cumsum(counts) - counts,
            chunk_files=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            keys=_kept([each.keys for each in segments], chunks).astype(np.int64).reshape(-1, 2),
            places={
                "test": _kept([each.test for each in self.names], files),
                "prose": _kept([each.prose for each in self.names], files),
                "depth": _kept([each.depth for each in self.names], files),
                "lsize": _kept(sizes, files),
            },
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of each of F living files and C living chunks for one query. Raw; the profile scales them."""

    generation: int
    paths: Sequence[str]  # (F,)
    languages: Sequence[str]  # (F,)
    values: dict[str, Floats]  # signal -> (F,)
    starts: NDArray[np.int64]  # (F,): first chunk of each file
    chunk_files: NDArray[np.int32]  # (C,)
    keys: NDArray[np.int64]  # (C, 2)
    chunk_scores: Floats  # (C,): text and header
    chunk_names: Floats  # (C,): best definition value for an identifier of the query, and a lead if its case agrees
    cosines: Floats | None  # (C,); NaN where a chunk has no vector or was not compared. None: no vector was asked
    file_cosines: Floats | None  # (F,): the mean over the chunks of a file, of all files; NaN without vectors
    chunk_coverage: Floats  # (C,): share of the idf mass that the query asks which the chunk has, 0 to 1


@dataclass(slots=True)
class _PartScores:
    """Accumulators over the documents of one part, dead ones included."""

    part: Part
    whole: Floats
    body: Floats
    covered: Floats
    files: dict[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _PartEvidence:
    """What one part says, dead files included."""

    part: Part
    values: dict[str, Floats]
    chunk_scores: Floats
    chunk_names: Floats
    chunk_coverage: Floats
    cosines: Floats | None
    file_cosines: Floats | None


def view(parts: Sequence[Part], generation: int, known: "View | None" = None) -> View:
    """A state over `parts`. The names of segments that `known` has as well are taken from it."""
    read = {id(part.segment): names for part, names in zip(known.parts, known.names, strict=True)} if known else {}
    lengths_of_chunks = [
        p.segment.chunk_lengths if p.alive_chunks is None else p.segment.chunk_lengths[p.alive_chunks] for p in parts
    ]
    lengths_of_files = [p.segment.file_lengths if p.alive is None else p.segment.file_lengths[p.alive] for p in parts]
    chunks, files = sum(map(len, lengths_of_chunks)), sum(map(len, lengths_of_files))
    chunk_sums = sum((each.sum(axis=0, dtype=np.float64) for each in lengths_of_chunks), np.zeros(2))
    file_sums = sum((each.sum(axis=0, dtype=np.float64) for each in lengths_of_files), np.zeros(4))
    return View(
        parts=tuple(parts),
        names=tuple(read.get(id(part.segment)) or path_names(part.segment) for part in parts),
        generation=generation,
        files=files,
        chunks=chunks,
        chunk_averages=(float(chunk_sums[0]) / max(chunks, 1), float(chunk_sums[1]) / max(chunks, 1)),
        file_averages=tuple((file_sums / max(files, 1)).tolist()),
    )


def evidence(state: View, query: QueryTerms, terms: Terms, vector: Floats | None = None) -> Evidence:
    """Score every chunk and file. `vector`: of the query, (dimension,), to be compared with every chunk's."""
    scores = [_PartScores(part, *np.zeros((3, part.segment.chunk_count), np.float32)) for part in state.parts]
    for each in scores:
        each.files = {name: np.zeros(each.part.segment.file_count, np.float32) for name in _FILE_BM25}
    ideal = 0.0
    for term, times in query.terms:
        ideal += _add_chunk_term(state, scores, term, times)
        for column, name in enumerate(_FILE_BM25):
            _add_file_term(state, scores, term, times, name, column)
    stems = [terms.stem(word) for word in query.words]
    compared = 1.0 if state.chunks <= _EXACT else _COMPARED / state.chunks
    rows = [
        _file_values(each, names, query, stems, vector, compared)
        for each, names in zip(scores, state.names, strict=True)
    ]
    return _joined(state, rows, ideal)


def _add_chunk_term(state: View, scores: Sequence[_PartScores], term: int, times: float) -> float:
    """Add a term to the chunk fields; gives the idf mass it asks for."""
    rows = [each.part.segment.chunk_rows(term) for each in scores]
    found = [_living_rows(each.part, r) for each, r in zip(scores, rows, strict=True)]
    in_text = sum(int((bodies > 0).sum()) for _, bodies, _ in found)
    anywhere = sum(len(chunks) for chunks, _, _ in found)
    whole_idf = features.idf(anywhere, state.chunks)
    body_weight, whole_weight = times * features.idf(in_text, state.chunks), times * whole_idf
    k1, b = _CHUNK_BM25
    for each, (chunks, bodies, headers) in zip(scores, found, strict=True):
        if not len(chunks):
            continue
        lengths = each.part.segment.chunk_lengths[chunks]
        both = bodies.astype(np.float32) + headers
        each.whole[chunks] += features.bm25(whole_weight, both, lengths[:, 1], state.chunk_averages[1], k1, b)
        each.body[chunks] += features.bm25(
            body_weight, bodies.astype(np.float32), lengths[:, 0], state.chunk_averages[0], k1, b
        )
        each.covered[chunks] += whole_idf
    return whole_idf


def _add_file_term(state: View, scores: Sequence[_PartScores], term: int, times: float, name: str, column: int) -> None:
    found = []
    for each in scores:
        rows = each.part.segment.file_rows(term)
        counts = getattr(each.part.segment, _FILE_COLUMNS[name])[rows]
        keep = counts > 0
        if each.part.alive is not None:
            keep &= each.part.alive[each.part.segment.posting_files[rows]]
        found.append((each.part.segment.posting_files[rows][keep], counts[keep].astype(np.float32)))
    weight = times * features.idf(sum(len(files) for files, _ in found), state.files)
    k1, b = _FILE_BM25[name]
    for each, (files, counts) in zip(scores, found, strict=True):
        if len(files):
            lengths = each.part.segment.file_lengths[files, column]
            each.files[name][files] += features.bm25(weight, counts, lengths, state.file_averages[column], k1, b)


def _living_rows(part: Part, rows: slice) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]:
    """Chunks, text counts and header counts of the rows whose chunk is alive."""
    segment = part.segment
    chunks, bodies, headers = segment.posting_chunks[rows], segment.posting_bodies[rows], segment.posting_headers[rows]
    if part.alive_chunks is None:
        return chunks, bodies, headers
    keep = part.alive_chunks[chunks]
    return chunks[keep], bodies[keep], headers[keep]


def _file_values(
    scores: _PartScores,
    names: PathNames,
    query: QueryTerms,
    stems: Sequence[str],
    vector: Floats | None,
    compared: float,
) -> _PartEvidence:
    """What one part says, dead files included."""
    part, segment = scores.part, scores.part.segment
    starts = segment.chunk_starts
    size = segment.chunk_count
    exact = _name_values(segment.exact_names, segment.exact_chunks, segment.exact_values, query.identifiers, size)
    lower = tuple(name.lower() for name in query.identifiers)
    folded = _name_values(segment.folded_names, segment.folded_chunks, segment.folded_values, lower, size)
    asked = query.identifiers[:1] if query.symbol else ()
    whole = _name_values(segment.exact_names, segment.exact_chunks, segment.exact_values, asked, size)
    share = stem_coverage(names, query.words, stems)
    best = features.best_three(scores.whole, starts, segment.chunk_files)
    means = None if vector is None else products(segment.file_vectors, segment.file_scales, vector)
    values = {
        "s3": best,
        "m_body": features.best_chunk(scores.body, starts),
        **scores.files,
        "p_s": share,
        "symF": _per_file(exact, segment),
        "symI": _per_file(folded, segment),
        "whole": _per_file(whole, segment),
        "stemeq": best_name_match(names, query.identifiers),
    }
    return _PartEvidence(
        part=part,
        values=values,
        chunk_scores=scores.whole,
        chunk_names=np.maximum(exact + np.float32(_EXACT_LEAD) * (exact > 0), np.float32(_FOLDED_SHARE) * folded),
        chunk_coverage=scores.covered,
        cosines=None if vector is None else _chunk_cosines(segment, vector, means, best, compared),
        file_cosines=means,
    )


def _name_values(
    hashes: NDArray[np.uint64], chunks: NDArray[np.int32], values: Floats, names: Sequence[str], size: int
) -> Floats:
    """Per chunk: the best value of a definition of one of the names."""
    best = np.zeros(size, np.float32)
    for name in names:
        wanted = np.uint64(term_hash(name))
        rows = slice(int(np.searchsorted(hashes, wanted)), int(np.searchsorted(hashes, wanted, side="right")))
        np.maximum.at(best, chunks[rows], values[rows])
    return best


def _per_file(values: Floats, segment: Segment) -> Floats:
    """The best of each file's chunks, where nearly all are 0."""
    best = np.zeros(segment.file_count, np.float32)
    chunks = np.flatnonzero(values)
    np.maximum.at(best, segment.chunk_files[chunks], values[chunks])
    return best


def _chunk_cosines(segment: Segment, vector: Floats, means: Floats | None, words: Floats, share: float) -> Floats:
    """The cosine of every chunk; with a `share` below 1, of those in the files best by vector or by words."""
    if share >= 1 or means is None:
        return products(segment.vectors, segment.scales, vector)
    count = max(1, int(share / 2 * segment.file_count))  # of each of the two kinds
    chosen = np.zeros(segment.file_count, np.bool_)
    for values in (np.nan_to_num(means, nan=-1.0), words):
        chosen[np.argpartition(-values, count - 1)[:count]] = True
    chunks = np.flatnonzero(chosen[segment.chunk_files])
    found = np.full(segment.chunk_count, np.nan, np.float32)
    found[chunks] = products(segment.vectors[chunks], segment.scales[chunks], vector)
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


def _joined(state: View, rows: Sequence[_PartEvidence], ideal: float) -> Evidence:
    """The evidence of all parts over what is alive, parts in order, numbers running through."""
    living = state.living
    files = [_mask(each.part.alive, each.part.segment.file_count) for each in rows]
    chunks = [_mask(each.part.alive_chunks, each.part.segment.chunk_count) for each in rows]
    cosines = [each.cosines for each in rows if each.cosines is not None]
    means = [each.file_cosines for each in rows if each.file_cosines is not None]
    asked = rows and len(cosines) == len(rows)
    names = [name for name in SIGNALS if name not in living.places]
    return Evidence(
        generation=state.generation,
        paths=living.paths,
        languages=living.languages,
        values={name: _kept([each.values[name] for each in rows], files) for name in names} | living.places,
        starts=living.starts,
        chunk_files=living.chunk_files,
        keys=living.keys,
        chunk_scores=_kept([each.chunk_scores for each in rows], chunks),
        chunk_names=_kept([each.chunk_names for each in rows], chunks),
        chunk_coverage=(_kept([each.chunk_coverage for each in rows], chunks) / np.float32(ideal or 1)).astype(
            np.float32
        ),
        cosines=_kept(cosines, chunks) if asked else None,
        file_cosines=_kept(means, files) if asked else None,
    )


def _mask(alive: NDArray[np.bool_] | None, size: int) -> slice | NDArray[np.bool_]:
    return slice(0, size) if alive is None else alive


def _chosen(texts: Sequence[tuple[str, ...]], masks: Sequence[slice | NDArray[np.bool_]]) -> tuple[str, ...]:
    found: list[str] = []
    for each, mask in zip(texts, masks, strict=True):
        found.extend(each if isinstance(mask, slice) else (text for text, ok in zip(each, mask, strict=True) if ok))
    return tuple(found)


def _kept(arrays: Sequence[NDArray[Any]], masks: Sequence[slice | NDArray[np.bool_]]) -> NDArray[Any]:
    found = [array[mask] for array, mask in zip(arrays, masks, strict=True)]
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.zeros(0, np.float32)
