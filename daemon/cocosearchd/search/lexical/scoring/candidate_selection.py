"""Selects the candidate files: only their chunks are scored. Pure.

All files are scored by the words of their fields, by their names and by the binary-quantised
vectors of their chunks: that is cheap. Only the candidate files are ranked, with scores of their
chunks. In an index of at most `MIN_CANDIDATES` files, every file is a candidate. In a larger index,
candidates are the best files by words, by vector or by name.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from cocosearchd.search.lexical.array_types import Floats, Ints, Mask

# Candidates by words, and as many by vector. Measured on 25 repositories as one index of 2,919
# files and 73,944 chunks: for 499 questions, NDCG@10 and every first answer are the same as with
# all files.
MIN_CANDIDATES = 96
# In a very large index, more files have similar scores: at least one file in so many is a
# candidate.
_CANDIDATE_RATIO = 500
NAME_CANDIDATES = 64  # best files by name: most of them also score well by words
MENTION_CANDIDATES = 200  # files that a report mentions most
_TIE_BREAK = 1e-3  # most that words add to a name score


class VectorScores(Protocol):
    """A ranking of live files by the distance of their vectors to the vector of a query."""

    def nearest(self, among: Mask | None, count: int) -> Ints:
        """Select at most `count` of the nearest files, in any order.

        With `among`, (F,), only marked files are selected.
        """


def select_candidates(
    values: Mapping[str, Floats],
    nearness: VectorScores | None,
    allowed: Mask | None,
    limit: int,
    paths: Sequence[str],
    mentioned: Floats | None,
) -> Ints:
    """Select the candidate files, as ascending numbers of live files.

    `values` maps signals of words and names to values, (F,). `paths` has F entries. At least
    `limit` files are selected by words, and as many by vector, if so many match. `allowed` is the
    mask of a filter: the best allowed files are candidates as well, and at least `limit` allowed
    files are selected by any signal. `mentioned` tells how much a report mentions each file, (F,).
    """
    words = values["file_words"]
    if are_all_candidates(len(words), limit):
        return np.arange(len(words))
    count = max(MIN_CANDIDATES, limit, len(words) // _CANDIDATE_RATIO)
    name_scores = (
        values["defined_folded"]
        + values["name_coverage"]
        + values["stem_match"]
        + values["definition_share"]
    )
    name_scores += np.where(
        name_scores > 0,
        words * np.float32(_TIE_BREAK / max(float(words.max()), 1.0)),
        np.float32(0),
    )
    selected = np.zeros(len(words), np.bool_)
    for among in (None, allowed) if allowed is not None else (None,):
        selected[_top_files(words, among, count, paths)] = True
        selected[_top_files(name_scores, among, NAME_CANDIDATES, paths)] = True
        if nearness is not None:
            selected[nearness.nearest(among, count)] = True
    if mentioned is not None:
        selected[_top_files(mentioned, None, MENTION_CANDIDATES, paths)] = True
    if allowed is not None:  # a query of a quoted phrase may have no words
        shortage = max(limit - np.count_nonzero(selected & allowed), 0)
        selected[np.flatnonzero(allowed & ~selected)[:shortage]] = True
    return np.flatnonzero(selected)


def are_all_candidates(file_count: int, limit: int) -> bool:
    """Return True if every file of an index is a candidate for `limit` results."""
    return file_count <= max(MIN_CANDIDATES, limit)


def covers_limit(eligible_count: int, limit: int) -> bool:
    """Return True if `select_candidates` would select the same files for the higher `limit`.

    `eligible_count` is the number of current candidates that pass the filter.
    """
    return limit <= min(MIN_CANDIDATES, eligible_count)


def select_top(numbers: Ints, values: Floats, count: int, names: Sequence[str]) -> Ints:
    """Select the `count` of `numbers` with the largest `values`, in any order. Ties go by name.

    `values` are parallel to `numbers`. `names[number]` is the name of a number.
    """
    if len(numbers) <= count:
        return numbers
    cutoff = np.partition(values, -count)[-count]
    above = numbers[values > cutoff]
    ties = sorted(numbers[values == cutoff].tolist(), key=names.__getitem__)
    return np.concatenate([above, np.array(ties[: count - len(above)], np.int64)])


def _top_files(values: Floats, among: Mask | None, count: int, paths: Sequence[str]) -> Ints:
    """Select the files with the `count` largest values above zero."""
    (positive,) = (values > 0 if among is None else (values > 0) & among).nonzero()
    return select_top(positive, values.take(positive), count, paths)
