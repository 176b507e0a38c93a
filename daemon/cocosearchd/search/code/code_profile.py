"""The profile `code`: one linear score per file over all evidence, and the best chunk of each file.
Pure.

The weights were fitted by `training/ranking/fit.py` and lie in `code_weights.json`, with where they
come from. There are four sets: for symbols (a query without blanks) and for plain language, each
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
        """The set for a question."""
        if vectors:
            return self.symbol if symbol else self.plain
        return self.symbol_without_vectors if symbol else self.plain_without_vectors


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A chunk in its place. `score` is its file's; `share` is the chunk's own, which orders the
    chunks of a file.
    """

    path: str
    start_byte: int
    end_byte: int
    score: float
    share: float
    lexical: float  # the chunk's BM25 score for text and header; 0: no word of the query is there
    coverage: float  # the share of the query's words, by their rarity, that the chunk has
    cosine: float | None
    # weight x value, the largest first: why the file is where it is
    signals: tuple[tuple[str, float], ...]


def load_weights(file: str = "") -> Weights:
    """The weights in a file, or the shipped ones. Raises `BadSettings`."""
    place = Path(file) if file else resources.files("cocosearchd.search.code") / "code_weights.json"
    try:
        raw = json.loads(place.read_text("utf-8"))["weights"]
        found = Weights(
            **{name: {str(k): float(v) for k, v in raw[name].items()} for name in Weights.__slots__}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSettings(
            f"{place} holds no weights: {error!r}", "write it with training.ranking.fit"
        ) from error
    unknown = {name for kind in Weights.__slots__ for name in getattr(found, kind)} - _SIGNALS
    if unknown:
        raise BadSettings(
            f"{place} weighs what is no signal: {', '.join(sorted(unknown))}",
            "write it with training.ranking.fit",
        )
    return found


def compute_signals(found: FeatureMatrix) -> dict[str, Floats]:
    """Every signal of every compared file, scaled so that weights mean the same in each repository:
    name -> (F,).
    """
    values = found.values
    among = found.corpus
    scaled = {name: features.scale_to_maximum(values[name]) for name in _LEXICAL}
    scaled |= {name: values[name] for name in _UNSCALED}
    scaled |= {name: values[name] / np.float32(_FULL_VALUE) for name in ("symF", "symI")}
    scaled["s_raw"] = values["s_raw"] * np.float32(_RAW_SHARE)
    if found.best_cosines is not None and found.file_cosines is not None:
        # Both beside the mean vectors of files, which are known of every file.
        for name, cosines in (("chunk", found.best_cosines), ("file", found.file_cosines)):
            scaled[name] = features.z_scores(
                cosines, among.cosine_mean, among.cosine_deviation
            ) * np.float32(_Z_SHARE)
    # Where no file is named after what is asked, as when somebody asks as on the web, vectors
    # decide and size does not: learned, and nothing where the question explains a name.
    unnamed = np.float32(1 - among.name_coverage)
    for name in ("lsize", "s_mean", "chunk"):
        if name in scaled:
            scaled[f"{name}_unnamed"] = scaled[name] * unnamed
    # Where no chunk has most of what is asked, by the rarity of its words.
    weak = np.float32(1 - found.chunk_coverage.max(initial=0))
    for name in ("s3", "f_all", "lsize", "chunk"):
        if name in scaled:
            scaled[f"{name}_weak"] = scaled[name] * weak
    return scaled


def rank_code(
    found: FeatureMatrix,
    symbol: bool,
    weights: Weights,
    limit: int,
    *,
    allowed_chunks: NDArray[np.bool_] | None = None,
    per_file: int = 1,
    held: bool = False,
) -> tuple[RankedChunk, ...]:
    """The best `limit` chunks, at most `per_file` of each file, best file first.

    `held`: the allowed chunks hold what was quoted, so nothing else has to speak for them.
    Statistics are those of the whole index: a filter changes which files are shown, not how they
    stand to each other.
    """
    if not len(found.paths):
        return ()
    scores, parts = _score_files(found, symbol, weights)
    open_files = _eligible_files(found, held=held)
    if allowed_chunks is not None:
        open_files &= np.logical_or.reduceat(allowed_chunks, found.starts)
    top = found.chunk_scores.max(initial=0)
    ranked: list[RankedChunk] = []
    # each gives a chunk, so no others can be shown
    for file in _sort_files(found, scores, open_files, limit):
        ranked += _rank_chunks(
            found, file, top, allowed_chunks, per_file, float(scores[file]), parts
        )
        if len(ranked) >= limit:
            break
    return tuple(ranked[:limit])


def rank_files(found: FeatureMatrix, symbol: bool, weights: Weights) -> list[int]:
    """All files that may be shown if they hold what was quoted, in the order in which `rank_code`
    has them.
    """
    scores, _ = _score_files(found, symbol, weights)
    return _sort_files(found, scores, _eligible_files(found, held=True), len(found.paths))


def _sort_files(
    found: FeatureMatrix, scores: Floats, chosen: NDArray[np.bool_], limit: int
) -> list[int]:
    """The best `limit` of the chosen files. Equals stand by path: their numbers tell how files came
    and were merged.
    """
    best = select_top(np.flatnonzero(chosen), scores[chosen], limit, found.paths)
    return sorted(best.tolist(), key=lambda file: (-scores[file], found.paths[file]))


def _score_files(
    found: FeatureMatrix, symbol: bool, weights: Weights
) -> tuple[Floats, dict[str, Floats]]:
    """(F,): of the files, and what they are made of."""
    parts = weighted_signals(
        compute_signals(found), weights.select(symbol, found.cosines is not None)
    )
    scores = np.zeros(len(found.paths), np.float32)
    for each in parts.values():
        scores += each
    return scores, parts


def _eligible_files(found: FeatureMatrix, *, held: bool) -> NDArray[np.bool_]:
    """(F,): which files may be shown."""
    known = np.ones(len(found.paths), np.bool_) if held else has_evidence(found)
    return known if found.allowed is None else known & found.allowed


def has_evidence(found: FeatureMatrix) -> NDArray[np.bool_]:
    """(F,): does anything but its place and size speak for a file: a word, a name, or a vector not
    turned away.
    """
    known = (found.values["f_all"] > 0) | (found.values["p_s"] > 0) | (found.values["symI"] > 0)
    return known if found.best_cosines is None else known | (found.best_cosines > 0)


def weighted_signals(
    values: Mapping[str, Floats], weights: Mapping[str, float]
) -> dict[str, Floats]:
    """Weight x value by signal."""
    return {name: values[name] * np.float32(weight) for name, weight in weights.items()}


def score_chunks(found: FeatureMatrix, start: int, end: int, top: float) -> Floats:
    """How well each chunk from `start` to `end` stands for its file. `top`: the best chunk score of
    the index.
    """
    shares = found.chunk_scores[start:end] / np.float32(top or 1)
    shares += np.float32(_NAME_SHARE) * found.chunk_names[start:end]
    if found.cosines is not None:
        cosines = found.cosines[start:end]  # NumPy's `nan_to_num` costs as much as the rest of this
        shares += np.float32(_COSINE_SHARE) * np.where(np.isnan(cosines), np.float32(0), cosines)
    return shares


def _rank_chunks(
    found: FeatureMatrix,
    file: int,
    top: float,
    allowed: NDArray[np.bool_] | None,
    per_file: int,
    score: float,
    parts: Mapping[str, Floats],
) -> list[RankedChunk]:
    start = int(found.starts[file])
    end = int(found.starts[file + 1]) if file + 1 < len(found.starts) else len(found.keys)
    shares = score_chunks(found, start, end, top)
    order = np.argsort(-shares, kind="stable")
    best = (order if allowed is None else order[allowed[start:end][order]])[:per_file] + start
    why = sorted(
        ((name, float(each[file])) for name, each in parts.items() if each[file]),
        key=lambda item: -abs(item[1]),
    )
    return [
        RankedChunk(
            path=found.paths[file],
            start_byte=int(found.keys[chunk, 0]),
            end_byte=int(found.keys[chunk, 1]),
            score=score,
            share=float(shares[chunk - start]),
            lexical=float(found.chunk_scores[chunk]),
            coverage=float(found.chunk_coverage[chunk]),
            cosine=None
            if found.cosines is None or np.isnan(found.cosines[chunk])
            else float(found.cosines[chunk]),
            signals=tuple(why),
        )
        for chunk in best.tolist()
    ]
