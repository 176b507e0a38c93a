"""The profile `code`: one linear score per file over all evidence, and the best chunk of each file. Pure.

The weights were fitted by `training/ranking/fit.py` and lie in `code_weights.json`, with where they come from. There
are four sets: for symbols (a query without blanks) and for plain language, each with vectors and without.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.errors import BadSettings
from cocosearchd.search import features
from cocosearchd.search.lexical_view import Evidence

Floats = NDArray[np.float32]
# How the best chunk of a file is chosen: lexical score + these shares of definition value and cosine.
_NAME_SHARE, _COSINE_SHARE = 0.6, 0.7
_FULL_VALUE = 3.0  # of a definition: a type
_Z_SHARE = 1 / 3  # brings z-scores to about the range of the other signals
_LEXICAL = ("s3", "m_body", "f_all", "f_def", "f_com", "f_path")


@dataclass(frozen=True, slots=True)
class Weights:
    """Signal -> weight, for the four kinds of question."""

    plain: Mapping[str, float]
    symbol: Mapping[str, float]
    plain_without_vectors: Mapping[str, float]
    symbol_without_vectors: Mapping[str, float]

    def of(self, symbol: bool, vectors: bool) -> Mapping[str, float]:
        """The set for a question."""
        if vectors:
            return self.symbol if symbol else self.plain
        return self.symbol_without_vectors if symbol else self.plain_without_vectors


@dataclass(frozen=True, slots=True)
class Ranked:
    """A chunk in its place. `score` is its file's; `share` is the chunk's own, which orders the chunks of a file."""

    path: str
    start_byte: int
    end_byte: int
    score: float
    share: float
    lexical: float  # the chunk's BM25 score for text and header; 0: no word of the query is there
    coverage: float  # the share of the query's words, by their rarity, that the chunk has
    cosine: float | None
    signals: tuple[tuple[str, float], ...]  # weight x value, the largest first: why the file is where it is


def load_weights(file: str = "") -> Weights:
    """The weights in a file, or the shipped ones. Raises `BadSettings`."""
    place = Path(file) if file else resources.files("cocosearchd.search") / "code_weights.json"
    try:
        raw = json.loads(place.read_text("utf-8"))["weights"]
        return Weights(**{name: {str(k): float(v) for k, v in raw[name].items()} for name in Weights.__slots__})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSettings(f"{place} holds no weights: {error!r}", "write it with training.ranking.fit") from error


def signals(found: Evidence) -> dict[str, Floats]:
    """Every signal of every file, scaled so that weights mean the same in each repository: name -> (F,)."""
    values = found.values
    scaled = {name: features.scaled(values[name]) for name in _LEXICAL}
    scaled |= {name: values[name] for name in ("p_s", "p_words", "stemeq", "test", "prose")}
    scaled |= {name: values[name] / np.float32(_FULL_VALUE) for name in ("symF", "symI")}
    scaled["cover"] = features.scaled(values["cover"])
    scaled["depth"] = values["depth"] - values["depth"].mean() if len(values["depth"]) else values["depth"]
    scaled["lsize"] = features.standardised(values["lsize"])
    if found.cosines is not None:
        scaled["chunk"] = _standing(_best_cosines(found))
        scaled["file"] = _standing(_mean_cosines(found))
        # What the words leave open, the vectors may decide: learned, and small where every word is found.
        scaled["chunk_alone"] = scaled["chunk"] * np.float32(1 - found.chunk_coverage.max(initial=0))
    return scaled


def rank_code(
    found: Evidence,
    symbol: bool,
    weights: Weights,
    limit: int,
    *,
    allowed_files: NDArray[np.bool_] | None = None,
    allowed_chunks: NDArray[np.bool_] | None = None,
    per_file: int = 1,
) -> tuple[Ranked, ...]:
    """The best `limit` chunks, at most `per_file` of each file, best file first.

    Statistics are those of the whole index: a filter changes which files are shown, not how they stand to each other.
    """
    if not len(found.paths):
        return ()
    parts = contributions(signals(found), weights.of(symbol, found.cosines is not None))
    scores = np.stack(list(parts.values())).sum(axis=0)
    shares = chunk_shares(found)
    open_files = np.ones(len(scores), np.bool_) if allowed_files is None else allowed_files.copy()
    if allowed_chunks is not None:
        shares = np.where(allowed_chunks, shares, -np.inf)
        open_files &= np.logical_or.reduceat(allowed_chunks, found.starts)
    candidates = np.flatnonzero(open_files & has_evidence(found))
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    ranked: list[Ranked] = []
    for file in order.tolist():
        ranked += _of_file(found, file, scores, shares, parts, per_file)
        if len(ranked) >= limit:
            break
    return tuple(ranked[:limit])


def has_evidence(found: Evidence) -> NDArray[np.bool_]:
    """(F,): does anything but its place and size speak for a file: a word, a name, or a vector not turned away."""
    known = (found.values["f_all"] > 0) | (found.values["p_s"] > 0) | (found.values["symI"] > 0)
    if found.cosines is not None:
        known |= np.nan_to_num(_best_cosines(found), nan=-1.0) > 0
    return known


def contributions(values: Mapping[str, Floats], weights: Mapping[str, float]) -> dict[str, Floats]:
    """Weight x value by signal."""
    return {name: values[name] * np.float32(weight) for name, weight in weights.items()}


def chunk_shares(found: Evidence) -> Floats:
    """How well each chunk stands for its file: (C,)."""
    top = found.chunk_scores.max(initial=0)
    shares = found.chunk_scores / top if top > 0 else found.chunk_scores
    shares = shares + np.float32(_NAME_SHARE) * found.chunk_names
    if found.cosines is not None:
        shares = shares + np.float32(_COSINE_SHARE) * np.nan_to_num(found.cosines)
    return shares.astype(np.float32)


def _of_file(
    found: Evidence, file: int, scores: Floats, shares: Floats, parts: Mapping[str, Floats], per_file: int
) -> list[Ranked]:
    start = int(found.starts[file])
    end = int(found.starts[file + 1]) if file + 1 < len(found.starts) else len(found.keys)
    own = shares[start:end]
    best = np.argsort(-own, kind="stable")[:per_file]
    why = sorted(
        ((name, float(each[file])) for name, each in parts.items() if each[file]), key=lambda item: -abs(item[1])
    )
    return [
        Ranked(
            path=found.paths[file],
            start_byte=int(found.keys[chunk, 0]),
            end_byte=int(found.keys[chunk, 1]),
            score=float(scores[file]),
            share=float(shares[chunk]),
            lexical=float(found.chunk_scores[chunk]),
            coverage=float(found.chunk_coverage[chunk]),
            cosine=None if found.cosines is None or np.isnan(found.cosines[chunk]) else float(found.cosines[chunk]),
            signals=tuple(why),
        )
        for chunk in (start + best[own[best] > -np.inf]).tolist()
    ]


def _best_cosines(found: Evidence) -> Floats:
    """The best cosine of each file, NaN where none of its chunks has a vector."""
    assert found.cosines is not None
    best = np.fmax.reduceat(found.cosines, found.starts) if len(found.starts) else np.zeros(0, np.float32)
    return best.astype(np.float32)


def _mean_cosines(found: Evidence) -> Floats:
    """The mean cosine of each file's chunks: how much the whole file is about the query. NaN without vectors."""
    assert found.cosines is not None
    if not len(found.starts):
        return np.zeros(0, np.float32)
    known = ~np.isnan(found.cosines)
    counts = np.add.reduceat(known.astype(np.float32), found.starts)
    sums = np.add.reduceat(np.where(known, found.cosines, np.float32(0)), found.starts)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.float32(np.nan)).astype(np.float32)


def _standing(best: Floats) -> Floats:
    """z-scores over the files that have a vector, brought to range; 0, the mean, for those without."""
    known = ~np.isnan(best)
    found = np.zeros_like(best)
    found[known] = features.standardised(best[known]) * np.float32(_Z_SHARE)
    return found
