"""Selection of the candidate files, whose chunks are scored; pure.

All files are scored by the words of their fields, by their names and by the binary-quantised
vectors of their chunks; that is cheap. Chunks are scored, and files ranked, among the candidate
files only. In an index of at most `MIN_CANDIDATES` files that is every file. In a larger one, those
are the best files by words, by vector or by name.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from cocosearchd.search.lexical.array_types import Floats, Ints, Mask

# Files by words, and as many by vector. Measured on 25 repositories as one index of 2,919 files and
# 73,944 chunks: the same NDCG@10 of 499 questions, and the same first answer to each, as when all
# files are compared.
MIN_CANDIDATES = 96
# In a very large index more files score alike: one of so many is a candidate.
_CANDIDATE_RATIO = 500
NAME_CANDIDATES = 64  # best files by their names: most of them score well by words, too
MENTION_CANDIDATES = 200  # files that a report mentions most
_TIE_BREAK = 1e-3  # share of the name score: the most that words add to it


class VectorScores(Protocol):
    """Ranking of live files by the distance of their vectors to that of a query."""

    def nearest(self, among: Mask | None, count: int) -> Ints:
        """Select at most `count` files, the nearest of all or of those `among`, in any order.

        `among`: (F,).
        """


def select_candidates(
    values: Mapping[str, Floats],
    nearness: VectorScores | None,
    allowed: Mask | None,
    limit: int,
    paths: Sequence[str],
    mentioned: Floats | None = None,
) -> Ints:
    """Select the candidate files, as ascending numbers of live files.

    `values`: signal of words or names -> (F,). `allowed`: a filter; the best files that pass
    are candidates as well. `paths`: (F,). Selects at least `limit` files by words and as many
    by vector, where there are so many. With a filter, it selects at least `limit` allowed
    files, by any signal. `mentioned`: how much a report mentions each file, (F,).
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
    if allowed is not None:  # a quoted phrase may have no word
        shortage = max(limit - np.count_nonzero(selected & allowed), 0)
        selected[np.flatnonzero(allowed & ~selected)[:shortage]] = True
    return np.flatnonzero(selected)


def are_all_candidates(file_count: int, limit: int) -> bool:
    """Return True if every file of an index is a candidate for `limit` results."""
    return file_count <= max(MIN_CANDIDATES, limit)


def suffices(eligible_count: int, limit: int) -> bool:
    """Return whether `select_candidates` selects the same files for a higher limit, `limit`.

    `eligible_count`: how many of the candidates for the lower limit pass the filter.
    """
    return limit <= min(MIN_CANDIDATES, eligible_count)


def select_top(numbers: Ints, values: Floats, count: int, names: Sequence[str]) -> Ints:
    """Select the `count` of `numbers` with the largest `values`, in any order; ties go by name.

    `values` belong to `numbers`; `names` has a name for every number: `names[number]`.
    """
    if len(numbers) <= count:
        return numbers
    cutoff = np.partition(values, -count)[-count]
    above = numbers[values > cutoff]
    ties = sorted(numbers[values == cutoff].tolist(), key=names.__getitem__)
    return np.concatenate([above, np.array(ties[: count - len(above)], np.int64)])


def _top_files(values: Floats, among: Mask | None, count: int, paths: Sequence[str]) -> Ints:
    """Select the files with the `count` largest values above zero."""
    positive = np.flatnonzero(values > 0 if among is None else (values > 0) & among)
    return select_top(positive, values[positive], count, paths)
