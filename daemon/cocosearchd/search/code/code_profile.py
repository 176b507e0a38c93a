"""Linear scores of files over all signals, and the best chunks of each file. Pure.

The weights were fitted by `training/ranking/fit.py` and lie in `code_weights.json`, with their
origin. There are four sets: for symbols (a query without blanks) and for plain language, each
with vectors and without.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.errors import BadSettings
from cocosearchd.search.code.place_scores import (
    PLACE_SIGNALS,
    RELEVANCE_SIGNALS,
    estimate_relevance,
    score_places,
)
from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.index_snapshot import FeatureMatrix
from cocosearchd.search.lexical.scoring.candidate_selection import select_top
from cocosearchd.search.places import MAX_OTHER_PLACES, best_places_threshold

Floats = NDArray[np.float32]
_FULL_VALUE = 3.0  # of a definition: a type
_RAW_SHARE = 0.1  # of BM25 points per word of the query
_Z_SHARE = 1 / 3  # brings z-scores to about the range of the other signals
_SIGNALS = {
    "s3", "s_mean", "s_raw", "f_all", "f_def", "f_com", "f_path", "p_s", "symF", "symI", "sole", "stemeq", "test",
    "prose", "hub", "depth", "lsize", "chunk", "file", "lsize_unnamed", "s_mean_unnamed", "chunk_unnamed",
    "s3_weak", "f_all_weak", "lsize_weak", "chunk_weak",
}  # fmt: skip
_FILE_SETS = ("plain", "symbol", "plain_without_vectors", "symbol_without_vectors")
_PLACE_SETS = {
    "places": PLACE_SIGNALS,
    "relevance": RELEVANCE_SIGNALS,
    "relevance_without_vectors": RELEVANCE_SIGNALS,
}
_UNSCALED = ("p_s", "sole", "stemeq", "test", "prose", "hub", "depth", "lsize")
_LEXICAL = ("s3", "s_mean", "f_all", "f_def", "f_com", "f_path")


@dataclass(frozen=True, slots=True)
class Weights:
    """Signal -> weight of files, for the four kinds of question; of places; of their relevance."""

    plain: Mapping[str, float]
    symbol: Mapping[str, float]
    plain_without_vectors: Mapping[str, float]
    symbol_without_vectors: Mapping[str, float]
    places: Mapping[str, float]
    relevance: Mapping[str, float]
    relevance_without_vectors: Mapping[str, float]

    def select(self, symbol: bool, vectors: bool) -> Mapping[str, float]:
        """Return the set for a question."""
        if vectors:
            return self.symbol if symbol else self.plain
        return self.symbol_without_vectors if symbol else self.plain_without_vectors

    def select_relevance(self, vectors: bool) -> Mapping[str, float]:
        """Return the weights of relevance for a question."""
        return self.relevance if vectors else self.relevance_without_vectors


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A ranked chunk. `score` is its file's; `place_score` compares chunks of all files.

    `relevance` is the estimated probability, 0 to 1, that the chunk answers the query.
    """

    path: str
    start_byte: int
    end_byte: int
    score: float
    place_score: float
    relevance: float
    lexical: float  # the chunk's BM25 score for text and header; 0: it has no word of the query
    coverage: float  # the share of the query's words, by their rarity, that the chunk has
    cosine: float | None
    # weight x value, the largest first: explains the file's rank
    signals: tuple[tuple[str, float], ...]


def load_weights(file: str = "") -> Weights:
    """Load the weights of a file, or the shipped ones. Raises `BadSettings`.

    Sets of places and relevance that the file does not have are the shipped ones.
    """
    shipped = resources.files("cocosearchd.search.code") / "code_weights.json"
    source = Path(file) if file else shipped
    try:
        sets = json.loads(shipped.read_text("utf-8"))["weights"]
        own_sets = json.loads(source.read_text("utf-8"))["weights"]
        sets |= {name: own_sets[name] for name in _FILE_SETS}
        sets |= {name: own_sets[name] for name in _PLACE_SETS if name in own_sets}
        weights = Weights(
            **{
                name: {str(signal): float(weight) for signal, weight in sets[name].items()}
                for name in Weights.__slots__
            }
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSettings(
            f"{source} has no weights: {error!r}", "write it with training.ranking.fit"
        ) from error
    unknown_signals = {
        signal
        for name in Weights.__slots__
        for signal in getattr(weights, name)
        if signal not in _PLACE_SETS.get(name, _SIGNALS)
    }
    if unknown_signals:
        raise BadSettings(
            f"{source} has weights for unknown signals: {', '.join(sorted(unknown_signals))}",
            "write it with training.ranking.fit",
        )
    return weights


def compute_signals(matrix: FeatureMatrix) -> dict[str, Floats]:
    """Compute every signal of every compared file: name -> (F,).

    Signals are scaled so that weights mean the same in each repository.
    """
    values = matrix.values
    corpus = matrix.corpus
    scaled = {name: features.scale_to_maximum(values[name]) for name in _LEXICAL}
    scaled |= {name: values[name] for name in _UNSCALED}
    scaled |= {name: values[name] / np.float32(_FULL_VALUE) for name in ("symF", "symI")}
    scaled["s_raw"] = values["s_raw"] * np.float32(_RAW_SHARE)
    if matrix.best_cosines is not None and matrix.file_cosines is not None:
        # Both are compared with the mean vectors of files, which every file has.
        for name, cosines in (("chunk", matrix.best_cosines), ("file", matrix.file_cosines)):
            scaled[name] = features.z_scores(
                cosines, corpus.cosine_mean, corpus.cosine_deviation
            ) * np.float32(_Z_SHARE)
    # Where no file is named after the question, as with a question in the style of the web, vectors
    # decide and size does not. The weights are learned; the signal is 0 where a name explains the
    # question.
    unnamed = np.float32(1 - corpus.name_coverage)
    scaled |= _scale_signals(scaled, ("lsize", "s_mean", "chunk"), "unnamed", unnamed)
    # Where no chunk has most words of the question, weighted by their rarity.
    uncovered = np.float32(1 - matrix.chunks.coverage.max(initial=0))
    return scaled | _scale_signals(scaled, ("s3", "f_all", "lsize", "chunk"), "weak", uncovered)


def _scale_signals(
    signals: dict[str, Floats], names: tuple[str, ...], suffix: str, factor: np.float32
) -> dict[str, Floats]:
    return {f"{name}_{suffix}": signals[name] * factor for name in names if name in signals}


def rank_code(
    matrix: FeatureMatrix,
    symbol: bool,
    weights: Weights,
    limit: int,
    *,
    allowed_chunks: NDArray[np.bool_] | None = None,
    all_chunks: bool = False,
    holds_phrases: bool = False,
) -> tuple[RankedChunk, ...]:
    """Rank the best `limit` files by their best chunks, each followed by its other good chunks.

    Other chunks are those among the best chunks of all these files (`best_places_threshold`), at
    most `MAX_OTHER_PLACES` of each. With `all_chunks`, the `limit` most relevant chunks of these
    files are ranked by themselves. `holds_phrases`: the allowed chunks contain the quoted phrases,
    so no other evidence is needed. Statistics are those of the whole index: a filter changes which
    files are shown, not their relative order.
    """
    if not len(matrix.paths):
        return ()
    scores, by_signal = score_files(matrix, symbol, weights)
    eligible = _eligible_files(matrix, holds_phrases=holds_phrases)
    if allowed_chunks is not None:
        eligible &= np.logical_or.reduceat(allowed_chunks, matrix.chunks.starts)
    files = _sort_files(matrix, scores, eligible, limit)
    place_scores = score_places(matrix, symbol, weights.places)
    relevances = estimate_relevance(
        matrix,
        symbol,
        scores,
        by_signal.get("sole", np.zeros(len(matrix.paths), np.float32)),
        weights.select_relevance(matrix.chunks.cosines is not None),
    )
    chunks = (
        _choose_all_chunks(matrix, files, relevances, allowed_chunks, limit)
        if all_chunks
        else _choose_chunks(matrix, files, place_scores, allowed_chunks, limit)
    )
    signals = {file: _largest_signals(by_signal, file) for file in files}
    return tuple(
        _make_ranked_chunk(matrix, chunk, scores, place_scores, relevances, signals)
        for chunk in chunks
    )


def _choose_chunks(
    matrix: FeatureMatrix,
    files: Sequence[int],
    place_scores: Floats,
    allowed: NDArray[np.bool_] | None,
    limit: int,
) -> list[int]:
    """Return the chunks to show of the sorted `files`, in their order."""
    by_file = [_sort_chunks(matrix, file, place_scores, allowed) for file in files]
    scores = place_scores[[chunk for order in by_file for chunk in order]].tolist()
    threshold = best_places_threshold(scores, limit)
    return [
        chunk
        for order in by_file
        for position, chunk in enumerate(order[: 1 + MAX_OTHER_PLACES])
        if position == 0 or place_scores[chunk] >= threshold
    ]


def _choose_all_chunks(
    matrix: FeatureMatrix,
    files: Sequence[int],
    relevances: Floats,
    allowed: NDArray[np.bool_] | None,
    limit: int,
) -> list[int]:
    """Return the `limit` most relevant chunks of the files."""
    chunks = [chunk for file in files for chunk in _sort_chunks(matrix, file, relevances, allowed)]
    return sorted(chunks, key=lambda chunk: -relevances[chunk])[:limit]


def _sort_chunks(
    matrix: FeatureMatrix, file: int, scores: Floats, allowed: NDArray[np.bool_] | None
) -> list[int]:
    """Return the allowed chunks of a file, best first."""
    start = int(matrix.chunks.starts[file])
    end = (
        int(matrix.chunks.starts[file + 1])
        if file + 1 < len(matrix.chunks.starts)
        else len(matrix.chunks.keys)
    )
    order = np.argsort(-scores[start:end], kind="stable") + start
    chunks: list[int] = (order if allowed is None else order[allowed[order]]).tolist()
    return chunks


def _largest_signals(by_signal: Mapping[str, Floats], file: int) -> tuple[tuple[str, float], ...]:
    """Return weight x value of each signal of a file, the largest first."""
    return tuple(
        sorted(
            ((name, float(values[file])) for name, values in by_signal.items() if values[file]),
            key=lambda item: -abs(item[1]),
        )
    )


def _make_ranked_chunk(
    matrix: FeatureMatrix,
    chunk: int,
    scores: Floats,
    place_scores: Floats,
    relevances: Floats,
    signals: Mapping[int, tuple[tuple[str, float], ...]],
) -> RankedChunk:
    file = int(matrix.chunks.files[chunk])
    cosine = None if matrix.chunks.cosines is None else float(matrix.chunks.cosines[chunk])
    return RankedChunk(
        path=matrix.paths[file],
        start_byte=int(matrix.chunks.keys[chunk, 0]),
        end_byte=int(matrix.chunks.keys[chunk, 1]),
        score=float(scores[file]),
        place_score=float(place_scores[chunk]),
        relevance=float(relevances[chunk]),
        lexical=float(matrix.chunks.scores[chunk]),
        coverage=float(matrix.chunks.coverage[chunk]),
        cosine=None if cosine is None or math.isnan(cosine) else cosine,
        signals=signals[file],
    )


def rank_files(matrix: FeatureMatrix, symbol: bool, weights: Weights) -> list[int]:
    """Rank all files that may be shown if they contain the phrases, like `rank_code`."""
    scores, _ = score_files(matrix, symbol, weights)
    return _sort_files(
        matrix, scores, _eligible_files(matrix, holds_phrases=True), len(matrix.paths)
    )


def _sort_files(
    matrix: FeatureMatrix, scores: Floats, eligible: NDArray[np.bool_], limit: int
) -> list[int]:
    """Sort the best `limit` of the eligible files.

    Equal scores are ordered by path: file numbers depend on the order of arrival and on merges.
    """
    best = select_top(np.flatnonzero(eligible), scores[eligible], limit, matrix.paths)
    return sorted(best.tolist(), key=lambda file: (-scores[file], matrix.paths[file]))


def score_files(
    matrix: FeatureMatrix, symbol: bool, weights: Weights
) -> tuple[Floats, dict[str, Floats]]:
    """Return the scores of the files, (F,), and their summands by signal."""
    by_signal = weighted_signals(
        compute_signals(matrix), weights.select(symbol, matrix.chunks.cosines is not None)
    )
    scores = np.zeros(len(matrix.paths), np.float32)
    for values in by_signal.values():
        scores += values
    return scores, by_signal


def _eligible_files(matrix: FeatureMatrix, *, holds_phrases: bool) -> NDArray[np.bool_]:
    """Return a mask (F,) of the files that may be shown."""
    eligible = np.ones(len(matrix.paths), np.bool_) if holds_phrases else has_evidence(matrix)
    return eligible if matrix.allowed is None else eligible & matrix.allowed


def has_evidence(matrix: FeatureMatrix) -> NDArray[np.bool_]:
    """Return a mask (F,) of the files that have a word, a name or a vector in favour of them.

    Location and size alone are no evidence, nor is a vector with a negative cosine.
    """
    evident = (
        (matrix.values["f_all"] > 0) | (matrix.values["p_s"] > 0) | (matrix.values["symI"] > 0)
    )
    return evident if matrix.best_cosines is None else evident | (matrix.best_cosines > 0)


def weighted_signals(
    values: Mapping[str, Floats], weights: Mapping[str, float]
) -> dict[str, Floats]:
    """Multiply each signal by its weight."""
    return {name: values[name] * np.float32(weight) for name, weight in weights.items()}
