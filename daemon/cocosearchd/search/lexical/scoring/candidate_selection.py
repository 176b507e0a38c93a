"""Which files are compared chunk by chunk, and where their chunks are. Pure.

All files are scored by the words of their fields, by their names and by the signs of the vectors of
their chunks; that is cheap. Chunks are scored, and files ranked, among the *promising* ones only.
In an index of at most `MIN_CANDIDATES` files that is every file; in a larger one, those that stand best
by words, by vector or by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.segments.segment import Segment

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
# Files by words, and as many by vector. Measured on 25 repositories as one index of 2,919 files and
# 73,944 chunks: the same NDCG@10 of 499 questions, and the same first answer to each, as when all
# files are compared.
MIN_CANDIDATES = 96
_CANDIDATE_RATIO = 500  # In a very large index more files stand close: one of so many is compared.
NAME_CANDIDATES = 64  # files that stand best by their names: most of them stand well by words, too
_TIE_BREAK = 1e-3  # of the evidence of names: what words add to it


@dataclass(frozen=True, slots=True)
class CandidateFiles:
    """The compared files of one segment: f files, c chunks."""

    segment: Segment
    files: Ints  # (f,) in the segment, ascending
    counts: Ints  # (f,): how many chunks each has
    chunks: Ints  # (c,) in the segment, ascending


def locate_chunks(segment: Segment, files: Ints) -> CandidateFiles:
    """Where the chunks of some files of a segment are."""
    starts = segment.chunk_starts[files]
    counts = segment.chunk_ends[files] - starts
    places = np.cumsum(counts) - counts
    return CandidateFiles(
        segment, files, counts, np.arange(int(counts.sum())) + np.repeat(starts - places, counts)
    )


class VectorScores(Protocol):
    """How near the vectors of living files are to that of a query."""

    def nearest(self, among: Mask | None, count: int) -> Ints:
        """At most `count` files, the nearest of all or of those `among`, (F,), in any order."""


def select_candidates(
    values: Mapping[str, Floats],
    nearness: VectorScores | None,
    allowed: Mask | None,
    shown: int,
    paths: Sequence[str],
) -> Ints:
    """The files that are compared, as ascending numbers of living ones.

    `values`: signal of words or names -> (F,). `allowed`: files of which the best are compared as
    well. `paths`: (F,). At least `shown` files by words and as many by vector, where there are so
    many; of the `allowed` ones by whatever.
    """
    words = values["f_all"]
    count = max(MIN_CANDIDATES, shown, len(words) // _CANDIDATE_RATIO)
    if len(words) <= count:
        return np.arange(len(words))
    named = values["symI"] + values["p_s"] + values["stemeq"] + values["sole"]
    named += np.where(
        named > 0, words * np.float32(_TIE_BREAK / max(float(words.max()), 1.0)), np.float32(0)
    )
    chosen = np.zeros(len(words), np.bool_)
    for among in (None, allowed) if allowed is not None else (None,):
        chosen[_top_files(words, among, count, paths)] = True
        chosen[_top_files(named, among, NAME_CANDIDATES, paths)] = True
        if nearness is not None:
            chosen[nearness.nearest(among, count)] = True
    if allowed is not None:  # what was quoted may be no word
        lacking = max(shown - np.count_nonzero(chosen & allowed), 0)
        chosen[np.flatnonzero(allowed & ~chosen)[:lacking]] = True
    return np.flatnonzero(chosen)


def select_top(numbers: Ints, values: Floats, count: int, names: Sequence[str]) -> Ints:
    """The `count` of some `numbers` that have the largest `values`, in any order; of equals those
    first by name.

    `values` are of `numbers`, `names` of all there are: `names[number]`.
    """
    if len(numbers) <= count:
        return numbers
    last = np.partition(values, -count)[-count]
    sure = numbers[values > last]
    equal = sorted(numbers[values == last].tolist(), key=names.__getitem__)
    return np.concatenate([sure, np.array(equal[: count - len(sure)], np.int64)])


def _top_files(values: Floats, among: Mask | None, count: int, paths: Sequence[str]) -> Ints:
    """The files with the `count` largest values above zero."""
    known = np.flatnonzero(values > 0 if among is None else (values > 0) & among)
    return select_top(known, values[known], count, paths)
