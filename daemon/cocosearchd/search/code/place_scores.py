"""Score the places of an answer: every compared chunk, in every file, on one scale. Pure.

The weights were fitted by `training/ranking/places.py` on sentences of comments as questions, where
the right chunk is the one that the comment was in. Relevance was fitted on these, on names, on the
annotated queries, and on queries about other repositories, which have no answer. The weights for
reports were fitted by `training/ranking/report_places.py` on the lines that commits changed.
"""

from collections.abc import Mapping

import numpy as np

from cocosearchd.search.lexical.array_types import Floats, Mask
from cocosearchd.search.lexical.index_snapshot import SignalMatrix
from cocosearchd.search.lexical.ranking_signals import scale_to_maximum
from cocosearchd.search.relevance import INTERCEPT, probability

FITTED_PLACE_SIGNALS = frozenset({"lexical", "cosine", "coverage", "name", "defines", "file"})
PLACE_SIGNALS = FITTED_PLACE_SIGNALS | {"test_unasked"}
RELEVANCE_SIGNALS = frozenset(
    {"score", "behind_first", "coverage", "cosine", "symbol", "definition_share", INTERCEPT}
)
# How a chunk stands for a name. Measured with benchmarks.quality.legs: a weight of cosines of 1 to
# 2.5 is best, one of names of 0.6 to 1.5.
_NAME_WEIGHTS = {"lexical": 1.0, "name": 0.9, "cosine": 1.5}


def score_places(
    matrix: SignalMatrix, is_name: bool, file_scores: Floats, weights: Mapping[str, float]
) -> Floats:
    """Score every compared chunk, (C,): how well it answers, on one scale for all files.

    `is_name`: the query is a name. The weights are for plain language, or for reports.
    `file_scores` are (F,).
    """
    signals = place_signals(matrix, file_scores)
    if is_name and not matrix.is_report:
        weights = _NAME_WEIGHTS
    scores = np.zeros(len(matrix.chunks.keys), np.float32)
    for name, weight in weights.items():
        scores += np.float32(weight) * signals[name]
    return scores


def place_signals(matrix: SignalMatrix, file_scores: Floats) -> dict[str, Floats]:
    """Return what speaks for each compared chunk: signal -> (C,)."""
    return {
        "file": _distances_to_first(matrix, file_scores),
        "lexical": scale_to_maximum(matrix.chunks.scores, matrix.chunks.groups),
        "cosine": _cosines(matrix),
        "coverage": matrix.chunks.coverage,
        "name": matrix.chunks.names,
        "defines": _defining_chunks(matrix).astype(np.float32),
        "test_unasked": matrix.values["test_unasked"][matrix.chunks.files],
    }


def estimate_relevance(
    matrix: SignalMatrix,
    is_name: bool,
    file_scores: Floats,
    sole: Floats,
    weights: Mapping[str, float],
) -> Floats:
    """Estimate for every compared chunk, (C,), the probability that it answers the query.

    `file_scores` and `definition_share` are (F,): the scores of files, and what a name that is defined once
    adds to them.
    """
    return probability(weights, relevance_signals(matrix, is_name, file_scores, sole))


def relevance_signals(
    matrix: SignalMatrix, is_name: bool, file_scores: Floats, sole: Floats
) -> dict[str, Floats]:
    """Return what tells a sure answer from a guess, for each compared chunk: signal -> (C,)."""
    return {
        "score": file_scores[matrix.chunks.files],
        "behind_first": _distances_to_first(matrix, file_scores),
        "coverage": matrix.chunks.coverage,
        "cosine": _cosines(matrix),
        "symbol": np.full(len(matrix.chunks.keys), is_name, np.float32),
        "definition_share": sole[matrix.chunks.files],
    }


def _distances_to_first(matrix: SignalMatrix, file_scores: Floats) -> Floats:
    """Return the score of each chunk's file less that of the first file of its index, (C,); at most 0."""
    if not len(file_scores):
        return np.zeros(0, np.float32)
    first_scores = np.maximum.reduceat(file_scores, matrix.groups.starts)
    distances: Floats = (file_scores - matrix.groups.spread(first_scores))[matrix.chunks.files]
    return distances


def _cosines(matrix: SignalMatrix) -> Floats:
    """Return the cosines, (C,), with 0 for a chunk without a vector."""
    if matrix.chunks.cosines is None:
        return np.zeros(len(matrix.chunks.keys), np.float32)
    # NumPy's `nan_to_num` takes several times as long
    return np.where(np.isnan(matrix.chunks.cosines), np.float32(0), matrix.chunks.cosines)


def _defining_chunks(matrix: SignalMatrix) -> Mask:
    """Mark the chunks that define something, and all chunks of files that define nothing, (C,)."""
    if not len(matrix.chunks.starts):
        return matrix.chunks.defines
    file_defines = np.logical_or.reduceat(matrix.chunks.defines, matrix.chunks.starts)
    return matrix.chunks.defines | ~file_defines[matrix.chunks.files]
