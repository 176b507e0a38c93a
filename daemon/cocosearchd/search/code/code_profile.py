"""Linear scores of files over all signals, and the best chunks of each file. Pure.

The weights were fitted by `training/ranking/fit.py` and lie in `code_weights.json`, with their
origin. There are four sets: for symbols (a query without blanks) and for plain language, each
with vectors and without.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.errors import BadSettings
from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.index_snapshot import FeatureMatrix
from cocosearchd.search.lexical.scoring.candidate_selection import select_top

Floats = NDArray[np.float32]
# How the best chunk of a file is chosen: lexical score + these shares of definition value and
# cosine. Measured with benchmarks.quality.legs and the annotated line spans: a cosine share of 1 to
# 2.5 is best; names want 0.6 to 1.5.
_NAME_SHARE = 0.9
_COSINE_SHARE = 1.5
_FULL_VALUE = 3.0  # of a definition: a type
_RAW_SHARE = 0.1  # of BM25 points per word of the query
_Z_SHARE = 1 / 3  # brings z-scores to about the range of the other signals
_SIGNALS = {
    "s3", "s_mean", "s_raw", "f_all", "f_def", "f_com", "f_path", "p_s", "symF", "symI", "sole", "stemeq", "test",
    "prose", "hub", "depth", "lsize", "chunk", "file", "lsize_unnamed", "s_mean_unnamed", "chunk_unnamed",
    "s3_weak", "f_all_weak", "lsize_weak", "chunk_weak",
}  # fmt: skip
_UNSCALED = ("p_s", "sole", "stemeq", "test", "prose", "hub", "depth", "lsize")
_LEXICAL = ("s3", "s_mean", "f_all", "f_def", "f_com", "f_path")


@dataclass(frozen=True, slots=True)
class Weights:
    """Signal -> weight, for the four kinds of question."""

    plain: Mapping[str, float]
    symbol: Mapping[str, float]
    plain_without_vectors: Mapping[str, float]
    symbol_without_vectors: Mapping[str, float]

    def select(self, symbol: bool, vectors: bool) -> Mapping[str, float]:
        """Return the set for a question."""
        if vectors:
            return self.symbol if symbol else self.plain
        return self.symbol_without_vectors if symbol else self.plain_without_vectors


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A ranked chunk. `score` is its file's; `share` is its own, which orders a file's chunks."""

    path: str
    start_byte: int
    end_byte: int
    score: float
    share: float
    lexical: float  # the chunk's BM25 score for text and header; 0: it has no word of the query
    coverage: float  # the share of the query's words, by their rarity, that the chunk has
    cosine: float | None
    # weight x value, the largest first: explains the file's rank
    signals: tuple[tuple[str, float], ...]


def load_weights(file: str = "") -> Weights:
    """Load the weights of a file, or the shipped ones. Raises `BadSettings`."""
    source = (
        Path(file) if file else resources.files("cocosearchd.search.code") / "code_weights.json"
    )
    try:
        raw = json.loads(source.read_text("utf-8"))["weights"]
        weights = Weights(
            **{name: {str(k): float(v) for k, v in raw[name].items()} for name in Weights.__slots__}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSettings(
            f"{source} has no weights: {error!r}", "write it with training.ranking.fit"
        ) from error
    unknown_signals = {
        name for kind in Weights.__slots__ for name in getattr(weights, kind)
    } - _SIGNALS
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
    per_file: int = 1,
    holds_phrases: bool = False,
) -> tuple[RankedChunk, ...]:
    """Rank the best `limit` chunks, at most `per_file` of each file, best file first.

    `holds_phrases`: the allowed chunks contain the quoted phrases, so no other evidence is needed.
    Statistics are those of the whole index: a filter changes which files are shown, not their
    relative order.
    """
    if not len(matrix.paths):
        return ()
    scores, by_signal = _score_files(matrix, symbol, weights)
    eligible = _eligible_files(matrix, holds_phrases=holds_phrases)
    if allowed_chunks is not None:
        eligible &= np.logical_or.reduceat(allowed_chunks, matrix.chunks.starts)
    top_score = matrix.chunks.scores.max(initial=0)
    ranked: list[RankedChunk] = []
    # each file gives a chunk, so further files cannot be shown
    for file in _sort_files(matrix, scores, eligible, limit):
        ranked += _rank_chunks(
            matrix=matrix,
            file=file,
            top_score=top_score,
            allowed=allowed_chunks,
            per_file=per_file,
            score=float(scores[file]),
            by_signal=by_signal,
        )
        if len(ranked) >= limit:
            break
    return tuple(ranked[:limit])


def rank_files(matrix: FeatureMatrix, symbol: bool, weights: Weights) -> list[int]:
    """Rank all files that may be shown if they contain the phrases, like `rank_code`."""
    scores, _ = _score_files(matrix, symbol, weights)
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


def _score_files(
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


def score_chunks(matrix: FeatureMatrix, start: int, end: int, top_score: float) -> Floats:
    """Score how well each chunk from `start` to `end` represents its file.

    `top_score` is the best chunk score of the index.
    """
    shares = matrix.chunks.scores[start:end] / np.float32(top_score or 1)
    shares += np.float32(_NAME_SHARE) * matrix.chunks.names[start:end]
    if matrix.chunks.cosines is not None:
        # NumPy's `nan_to_num` costs as much as the rest of this function
        cosines = matrix.chunks.cosines[start:end]
        shares += np.float32(_COSINE_SHARE) * np.where(np.isnan(cosines), np.float32(0), cosines)
    return shares


def _rank_chunks(
    matrix: FeatureMatrix,
    file: int,
    top_score: float,
    allowed: NDArray[np.bool_] | None,
    per_file: int,
    score: float,
    by_signal: Mapping[str, Floats],
) -> list[RankedChunk]:
    """Rank the best `per_file` allowed chunks of a file."""
    start = int(matrix.chunks.starts[file])
    end = (
        int(matrix.chunks.starts[file + 1])
        if file + 1 < len(matrix.chunks.starts)
        else len(matrix.chunks.keys)
    )
    shares = score_chunks(matrix, start, end, top_score)
    order = np.argsort(-shares, kind="stable")
    best = (order if allowed is None else order[allowed[start:end][order]])[:per_file] + start
    signals = sorted(
        ((name, float(values[file])) for name, values in by_signal.items() if values[file]),
        key=lambda item: -abs(item[1]),
    )
    return [
        RankedChunk(
            path=matrix.paths[file],
            start_byte=int(matrix.chunks.keys[chunk, 0]),
            end_byte=int(matrix.chunks.keys[chunk, 1]),
            score=score,
            share=float(shares[chunk - start]),
            lexical=float(matrix.chunks.scores[chunk]),
            coverage=float(matrix.chunks.coverage[chunk]),
            cosine=None
            if matrix.chunks.cosines is None or np.isnan(matrix.chunks.cosines[chunk])
            else float(matrix.chunks.cosines[chunk]),
            signals=tuple(signals),
        )
        for chunk in best.tolist()
    ]
