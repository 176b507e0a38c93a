"""One immutable state of the lexical index, and what it says of a query: a value per signal for each living file.

Statistics (N, document frequencies, average lengths) are counted over living documents at query time, so that the
answer does not depend on the order in which files came and went.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search import features
from cocosearchd.search.lexical_names import PathNames, best_name_match, path_names, stem_coverage
from cocosearchd.search.lexical_segment import Part, Segment
from cocosearchd.search.lexical_terms import QueryTerms, Terms, term_hash

Floats = NDArray[np.float32]
SIGNALS = (
    "s3", "m_body", "f_all", "f_def", "f_com", "f_path", "p_s", "p_words", "symF", "symI", "stemeq", "cover", "test",
    "prose", "depth", "lsize",
)  # fmt: skip
_FOLDED_SHARE = 0.8  # of a definition's value, when only the letters agree and not their case
_BLOCK = 2048  # rows of int8 vectors that are widened at a time: they stay in the cache of a core
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
class View:
    """Parts, the names of their files, and the sizes of what is alive in them."""

    parts: tuple[Part, ...]
    names: tuple[PathNames, ...]
    generation: int
    files: int
    chunks: int
    chunk_averages: tuple[float, float]  # terms of a chunk: text; text and header
    file_averages: tuple[float, ...]  # terms of a file: everything, defined, commented, path


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
    chunk_names: Floats  # (C,): best definition value for an identifier of the query
    cosines: Floats | None  # (C,); NaN where a chunk has no vector. None: no vector was asked
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
    names: PathNames
    values: dict[str, Floats]
    chunk_scores: Floats
    chunk_names: Floats
    chunk_coverage: Floats
    cosines: Floats | None


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
    rows = [_file_values(each, names, query, stems, vector) for each, names in zip(scores, state.names, strict=True)]
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
    scores: _PartScores, names: PathNames, query: QueryTerms, stems: Sequence[str], vector: Floats | None
) -> _PartEvidence:
    """What one part says, dead files included."""
    part, segment = scores.part, scores.part.segment
    starts = segment.chunk_starts
    size = segment.chunk_count
    exact = _name_values(segment.exact_names, segment.exact_chunks, segment.exact_values, query.identifiers, size)
    lower = tuple(name.lower() for name in query.identifiers)
    folded = _name_values(segment.folded_names, segment.folded_chunks, segment.folded_values, lower, size)
    share, words_found = stem_coverage(names, query.words, stems)
    values = {
        "s3": features.best_three(scores.whole, starts, segment.chunk_files),
        "m_body": features.best_chunk(scores.body, starts),
        **scores.files,
        "p_s": share,
        "p_words": words_found,
        "symF": features.best_chunk(exact, starts),
        "symI": features.best_chunk(folded, starts),
        "stemeq": best_name_match(names, query.identifiers),
        "cover": features.best_chunk(scores.covered, starts),
        "test": names.test,
        "prose": names.prose,
        "depth": names.depth,
        "lsize": np.log1p(segment.characters).astype(np.float32),
    }
    return _PartEvidence(
        part=part,
        names=names,
        values=values,
        chunk_scores=scores.whole,
        chunk_names=np.maximum(exact, _FOLDED_SHARE * folded),
        chunk_coverage=scores.covered,
        cosines=None if vector is None else cosines(segment, vector),
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


def cosines(segment: Segment, vector: Floats) -> Floats:
    """The cosine of a unit vector with every chunk's, NaN where there is none. Exact but for the int8 of the chunks."""
    found = np.full(segment.chunk_count, np.nan, np.float32)
    if segment.vectors.shape[1] != len(vector) or not vector.any():
        return found
    block = np.empty((_BLOCK, len(vector)), np.float32)
    for start in range(0, segment.chunk_count, _BLOCK):
        rows = segment.vectors[start : start + _BLOCK]
        wide = block[: len(rows)]
        np.copyto(wide, rows)
        np.dot(wide, vector, out=found[start : start + len(rows)])
    found *= segment.scales
    found[segment.scales == 0] = np.nan
    return found


def _joined(state: View, rows: Sequence[_PartEvidence], ideal: float) -> Evidence:
    """The evidence of all parts over what is alive, parts in order, numbers running through."""
    files = [_mask(each.part.alive, each.part.segment.file_count) for each in rows]
    chunks = [_mask(each.part.alive_chunks, each.part.segment.chunk_count) for each in rows]
    counts = _concatenated([np.diff(r.part.segment.chunk_ends, prepend=0)[f] for r, f in zip(rows, files, strict=True)])
    counts = counts.astype(np.int64)

    def of_files(name: str) -> Floats:
        return _concatenated([r.values[name][f] for r, f in zip(rows, files, strict=True)]).astype(np.float32)

    def of_chunks(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return _concatenated([array[c] for array, c in zip(arrays, chunks, strict=True)])

    with_vectors = bool(rows) and all(each.cosines is not None for each in rows)
    return Evidence(
        generation=state.generation,
        paths=_chosen([each.names.paths for each in rows], files),
        languages=_chosen([each.names.languages for each in rows], files),
        values={name: of_files(name) for name in SIGNALS},
        starts=np.cumsum(counts) - counts,
        chunk_files=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        keys=of_chunks([each.part.segment.keys for each in rows]).astype(np.int64).reshape(-1, 2),
        chunk_scores=of_chunks([each.chunk_scores for each in rows]).astype(np.float32),
        chunk_names=of_chunks([each.chunk_names for each in rows]).astype(np.float32),
        chunk_coverage=of_chunks([each.chunk_coverage for each in rows]).astype(np.float32) / np.float32(ideal or 1),
        cosines=of_chunks([c for each in rows if (c := each.cosines) is not None]).astype(np.float32)
        if with_vectors
        else None,
    )


def _mask(alive: NDArray[np.bool_] | None, size: int) -> slice | NDArray[np.bool_]:
    return slice(0, size) if alive is None else alive


def _chosen(texts: Sequence[tuple[str, ...]], masks: Sequence[slice | NDArray[np.bool_]]) -> tuple[str, ...]:
    found: list[str] = []
    for each, mask in zip(texts, masks, strict=True):
        found.extend(each if isinstance(mask, slice) else (text for text, ok in zip(each, mask, strict=True) if ok))
    return tuple(found)


def _concatenated(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.float32)
