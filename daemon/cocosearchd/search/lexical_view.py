"""One immutable state of the lexical index, and what it says of a query: a value per signal for each living file.

Statistics (N, document frequencies, average lengths) are counted over living documents at query time, so that the
answer does not depend on the order in which files came and went.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search import features
from cocosearchd.search.lexical_names import PathNames, best_name_match, path_names, stem_coverage
from cocosearchd.search.lexical_scores import (
    Sizes,
    chunk_cosines,
    chunk_scores,
    file_cosines,
    file_scores,
    name_values,
    nearness,
    promising,
)
from cocosearchd.search.lexical_segment import Part
from cocosearchd.search.lexical_terms import QueryTerms, Terms

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
SIGNALS = (
    "s3", "s_mean", "s_raw", "f_all", "f_def", "f_com", "f_path", "p_s", "symF", "symI", "whole", "stemeq",
    "test", "prose", "hub", "depth", "lsize",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Living:
    """What is alive, parts in order, numbers running through: F files, C chunks."""

    paths: tuple[str, ...]  # (F,)
    languages: tuple[str, ...]  # (F,)
    starts: NDArray[np.int64]  # (F,): first chunk of each file
    chunk_files: NDArray[np.int32]  # (C,)
    keys: NDArray[np.int64]  # (C, 2)
    places: dict[str, Floats]  # test, prose, hub, depth, lsize: (F,)


Choice = Callable[[Living], Mask | None]  # (F,): which files may be shown; None: all


@dataclass(frozen=True)
class View:
    """Parts, the names of their files, and the sizes of what is alive in them."""

    parts: tuple[Part, ...]
    names: tuple[PathNames, ...]
    generation: int
    sizes: Sizes

    @property
    def files(self) -> int:
        """How many files are alive."""
        return self.sizes.files

    @property
    def chunks(self) -> int:
        """How many chunks are alive."""
        return self.sizes.chunks

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
                "hub": _kept([each.hub for each in self.names], files),
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
    file_cosines: Floats | None  # (F,): of the mean of the vectors of each file; NaN without vectors
    best_cosines: Floats | None  # (F,): of a file's best chunk; that of the mean where no chunk was compared
    chunk_coverage: Floats  # (C,): share of the idf mass that the query asks which the chunk has, 0 to 1


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
    best_cosines: Floats | None


@dataclass(frozen=True, slots=True)
class _Scored:
    """The scores of one part: fields of files; chunks of the files in `chosen`, None all; the mean vectors of files."""

    part: Part
    names: PathNames
    files: dict[str, Floats]
    chunks: Floats
    covered: Floats
    chosen: Mask | None
    means: Floats | None


def view(parts: Sequence[Part], generation: int, known: "View | None" = None) -> View:
    """A state over `parts`. The names of segments that `known` has as well are taken from it."""
    read = {id(part.segment): names for part, names in zip(known.parts, known.names, strict=True)} if known else {}
    lengths_of_chunks = [
        p.segment.chunk_lengths if p.alive_chunks is None else p.segment.chunk_lengths[p.alive_chunks] for p in parts
    ]
    lengths_of_files = [p.segment.file_lengths if p.alive is None else p.segment.file_lengths[p.alive] for p in parts]
    chunks, files = sum(map(len, lengths_of_chunks)), sum(map(len, lengths_of_files))
    chunk_sum = float(sum(each.sum(dtype=np.float64) for each in lengths_of_chunks))
    file_sums = sum((each.sum(axis=0, dtype=np.float64) for each in lengths_of_files), np.zeros(4))
    return View(
        parts=tuple(parts),
        names=tuple(read.get(id(part.segment)) or path_names(part.segment) for part in parts),
        generation=generation,
        sizes=Sizes(files, chunks, chunk_sum / max(chunks, 1), tuple((file_sums / max(files, 1)).tolist())),
    )


def evidence(
    state: View, query: QueryTerms, terms: Terms, vector: Floats | None = None, choice: Choice | None = None
) -> Evidence:
    """What is known of every file. `vector`: of the query, (dimension,). `choice`: which files are going to be shown.

    In a large index the chunks of the promising files are looked at: those of the whole, so that a choice does not
    change how files stand to each other, and those of the choice.
    """
    fields = file_scores(state.parts, state.sizes, query)
    means = None if vector is None else [file_cosines(part.segment, vector) for part in state.parts]
    near = None
    if vector is not None and means is not None:
        near = [nearness(part.segment, vector, mean) for part, mean in zip(state.parts, means, strict=True)]
    chosen = promising(state.parts, fields, near, _chosen_by(state, choice))
    chunks, covered = chunk_scores(state.parts, state.sizes, query, chosen)
    stems = [terms.stem(word) for word in query.words]
    rows = [
        _part_evidence(
            _Scored(
                part, state.names[n], fields[n], chunks[n], covered[n], chosen[n], None if means is None else means[n]
            ),
            query,
            stems,
            vector,
        )
        for n, part in enumerate(state.parts)
    ]
    return _joined(state, rows)


def _chosen_by(state: View, choice: Choice | None) -> list[Mask] | None:
    """The choice among living files, as masks over the files of each part, the dead included."""
    mask = None if choice is None else choice(state.living)
    if mask is None:
        return None
    found, at = [], 0
    for part in state.parts:
        alive = np.ones(part.segment.file_count, np.bool_) if part.alive is None else part.alive.copy()
        alive[alive] = mask[at : at + part.files_alive]
        at += part.files_alive
        found.append(alive)
    return found


def _part_evidence(scored: _Scored, query: QueryTerms, stems: Sequence[str], vector: Floats | None) -> _PartEvidence:
    segment, names = scored.part.segment, scored.names
    defined = name_values(segment, query)
    cosines = None if vector is None else chunk_cosines(segment, vector, scored.chosen)
    best, mean, nearest = _of_chunks(scored, cosines)
    asked = sum(times for _, times in query.terms)
    values = {
        "s3": best,
        "s_mean": mean,
        "s_raw": best / np.float32(asked or 1),
        **scored.files,
        "p_s": stem_coverage(names, query.words, stems, query.shares),
        "symF": defined.exact,
        "symI": defined.folded,
        "whole": defined.whole,
        "stemeq": best_name_match(names, query.identifiers),
    }
    return _PartEvidence(
        part=scored.part,
        values=values,
        chunk_scores=scored.chunks,
        chunk_names=defined.of_chunks,
        chunk_coverage=scored.covered,
        cosines=cosines,
        file_cosines=scored.means,
        best_cosines=nearest,
    )


def _of_chunks(scored: _Scored, cosines: Floats | None) -> tuple[Floats, Floats, Floats | None]:
    """Per file: the sum of the best chunk scores, their mean, the best cosine.

    Of a file that is not chosen: 0, 0, the cosine of its mean vector.
    """
    segment = scored.part.segment
    counts = np.diff(segment.chunk_ends, prepend=0)
    files = np.arange(segment.file_count) if scored.chosen is None else np.flatnonzero(scored.chosen)
    best, mean = np.zeros((2, segment.file_count), np.float32)
    nearest = None if scored.means is None else scored.means.copy()
    if not len(files):
        return best, mean, nearest
    counts = counts[files]
    starts = np.cumsum(counts) - counts
    owners = np.repeat(np.arange(len(files), dtype=np.int32), counts)
    inside = slice(None) if scored.chosen is None else np.flatnonzero(scored.chosen[segment.chunk_files])
    scores = scored.chunks[inside]
    best[files] = features.best_three(scores, starts, owners)
    mean[files] = np.add.reduceat(scores, starts) / counts
    if nearest is not None and cosines is not None:
        nearest[files] = np.fmax(np.fmax.reduceat(cosines[inside], starts), nearest[files])
    return best, mean, nearest


def _joined(state: View, rows: Sequence[_PartEvidence]) -> Evidence:
    """The evidence of all parts over what is alive, parts in order, numbers running through."""
    living = state.living
    files = [_mask(each.part.alive, each.part.segment.file_count) for each in rows]
    chunks = [_mask(each.part.alive_chunks, each.part.segment.chunk_count) for each in rows]
    cosines = [each.cosines for each in rows if each.cosines is not None]
    means = [each.file_cosines for each in rows if each.file_cosines is not None]
    best = [each.best_cosines for each in rows if each.best_cosines is not None]
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
        chunk_coverage=_kept([each.chunk_coverage for each in rows], chunks),
        cosines=_kept(cosines, chunks) if asked else None,
        file_cosines=_kept(means, files) if asked else None,
        best_cosines=_kept(best, files) if asked else None,
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
