"""Scores places: every compared chunk of every file, on one scale. Pure.

`training/ranking/places.py` fitted the weights. Its questions are sentences of comments; the right
chunk is the one that contained the comment. Relevance was fitted on these questions, on names, on
the annotated queries, and on queries about other repositories, which have no answer.
`training/ranking/report_places.py` fitted the weights for reports on the lines that commits
changed.
"""

from collections.abc import Mapping

import numpy as np

from cocosearchd.search.lexical.array_types import Floats, Ints, Mask
from cocosearchd.search.lexical.index_snapshot import SignalMatrix
from cocosearchd.search.lexical.ranking_signals import scale_to_maximum
from cocosearchd.search.relevance import INTERCEPT, probability

FITTED_PLACE_SIGNALS = frozenset({"lexical", "cosine", "coverage", "name", "defines", "file"})
PLACE_SIGNALS = FITTED_PLACE_SIGNALS | {"test_unasked"}
RELEVANCE_SIGNALS = frozenset(
    {"score", "behind_first", "coverage", "cosine", "symbol", "definition_share", INTERCEPT}
)
ALL_CHUNKS = slice(None)
# Weights of places for a query that is a name. Measured with
# benchmarks.quality.names_and_sentences: the best weight of `cosine` is 1 to 2.5, that of `name` 0.6
# to 1.5.
_NAME_WEIGHTS = {"lexical": 1.0, "name": 0.9, "cosine": 1.5}


def score_places(
    matrix: SignalMatrix, is_name: bool, file_scores: Floats, weights: Mapping[str, float]
) -> Floats:
    """Score how well each compared chunk answers, (C,), on one scale for all files.

    `is_name` means that the query is a name. `weights` are the weights for plain language or for
    reports. `file_scores` have the shape (F,).
    """
    signals = place_signals(matrix, file_scores)
    if is_name and not matrix.is_report:
        weights = _NAME_WEIGHTS
    scores = np.zeros(len(matrix.chunks.keys), np.float32)
    for name, weight in weights.items():
        scores += np.float32(weight) * signals[name]
    return scores


def place_signals(matrix: SignalMatrix, file_scores: Floats) -> dict[str, Floats]:
    """Compute the signals of places for each compared chunk: signal -> (C,)."""
    return {
        "file": _distances_to_first(matrix, file_scores).take(matrix.chunks.files),
        "lexical": scale_to_maximum(matrix.chunks.scores, matrix.chunks.groups),
        "cosine": _cosines(matrix, ALL_CHUNKS),
        "coverage": matrix.chunks.coverage,
        "name": matrix.chunks.names,
        "defines": _defining_chunks(matrix).astype(np.float32),
        "test_unasked": matrix.values["test_unasked"].take(matrix.chunks.files),
    }


def estimate_relevance(
    matrix: SignalMatrix,
    is_name: bool,
    file_scores: Floats,
    definition_share: Floats,
    weights: Mapping[str, float],
    chunks: Ints | slice,
) -> Floats:
    """Estimate for n of the compared chunks, (n,), the probability that each answers the query.

    `file_scores` and `definition_share` have the shape (F,). The latter is the part of the scores
    that comes from definitions of a name.
    """
    signals = relevance_signals(matrix, is_name, file_scores, definition_share, chunks)
    return probability(weights, signals)


def relevance_signals(
    matrix: SignalMatrix,
    is_name: bool,
    file_scores: Floats,
    definition_share: Floats,
    chunks: Ints | slice = ALL_CHUNKS,
) -> dict[str, Floats]:
    """Compute the signals of relevance for n of the compared chunks: signal -> (n,)."""
    files = matrix.chunks.files[chunks]
    return {
        "score": file_scores.take(files),
        "behind_first": _distances_to_first(matrix, file_scores).take(files),
        "coverage": matrix.chunks.coverage[chunks],
        "cosine": _cosines(matrix, chunks),
        "symbol": np.full(len(files), is_name, np.float32),
        "definition_share": definition_share.take(files),
    }


def _distances_to_first(matrix: SignalMatrix, file_scores: Floats) -> Floats:
    """Return the score of each file minus the best score in its index, (F,): at most 0."""
    if not len(file_scores):
        return file_scores
    first_scores = np.maximum.reduceat(file_scores, matrix.groups.starts)
    distances: Floats = file_scores - matrix.groups.spread(first_scores)
    return distances


def _cosines(matrix: SignalMatrix, chunks: Ints | slice) -> Floats:
    """Return the cosines of n of the chunks, (n,); 0 for a chunk without a vector."""
    if matrix.chunks.cosines is None:
        return np.zeros(len(matrix.chunks.files[chunks]), np.float32)
    cosines = matrix.chunks.cosines[chunks]
    # NumPy's `nan_to_num` takes several times as long
    return np.where(np.isnan(cosines), np.float32(0), cosines)


def _defining_chunks(matrix: SignalMatrix) -> Mask:
    """Mark, (C,), the chunks that define something, and all chunks of files that define nothing."""
    if not len(matrix.chunks.starts):
        return matrix.chunks.defines
    file_defines = np.logical_or.reduceat(matrix.chunks.defines, matrix.chunks.starts)
    return matrix.chunks.defines | ~file_defines[matrix.chunks.files]
