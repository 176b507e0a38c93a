"""Scores files as a weighted sum of all signals, and chooses the best chunks of each file. Pure.

`training/ranking/fit.py` fitted the weights. They are in `code_weights.json`, with their origin.
There are ten sets of weights. Six are for files: for names (a query without blanks; called `symbol`
in that file), for plain language and for reports, each with and without vectors. Two are for
places: for short questions and for reports. Two are for relevance: with and without vectors.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cocosearchd.errors import BadSettings
from cocosearchd.model import RankedPlace
from cocosearchd.search.code.place_scores import (
    ALL_CHUNKS,
    PLACE_SIGNALS,
    RELEVANCE_SIGNALS,
    estimate_relevance,
    score_places,
)
from cocosearchd.search.history.history_evidence import TAIL_FILES, HistoryEvidence
from cocosearchd.search.lexical import ranking_signals
from cocosearchd.search.lexical.array_types import Floats, Ints, Mask, join_ranges
from cocosearchd.search.lexical.index_snapshot import SignalMatrix, split_matrix
from cocosearchd.search.lexical.scoring.candidate_selection import select_top
from cocosearchd.search.places import MAX_OTHER_PLACES, best_places_threshold
from cocosearchd.search.reports.report_signals import REPORT_SIGNALS

_TYPE_VALUE = 3.0  # value of the definition of a type: the largest value of a definition
_RAW_SHARE = 0.1  # factor of the signal `chunk_points` (BM25 points per word of the query)
# Share of the relevance of a definition that a file has which uses a name that no file defines, and
# the largest number of such files with this full share. Set by hand, because no data shows it: if few
# files use a name, their relevance should be about one half.
_USE_SHARE = 0.75
_FEW_USING_FILES = 10  # a page of results
_Z_SHARE = 1 / 3  # brings z-scores to about the range of the other signals
# Signal of a file -> its meaning. Words are scored by BM25. Unless the text states another scale, a
# lexical signal is relative to that of the best file.
SIGNALS: Mapping[str, str] = {
    "chunk_words": "words of its best three chunks",
    "mean_chunk_words": "mean words of its chunks",
    "chunk_points": "points of chunk_words for each term of the query, not compared with other files",
    "file_words": "words of its whole text",
    "definition_words": "words of its definitions",
    "comment_words": "words of its comments",
    "path_words": "words of its path",
    "name_coverage": "words of its name that the query has",
    "defined_exactly": "it defines a name of the query as written; a type counts most",
    "defined_folded": "the same, without regard to case",
    "definition_share": "its share of the files that define, or else use, the name of the query",
    "stem_match": "its name without suffix is the name that the query has",
    "test": "1 for tests",
    "test_unasked": "1 for tests if the query is a sentence that does not ask for tests",
    "prose": "1 for documents",
    "reexporter": "1 for files that only pass on what others define, such as `__init__.py`",
    "depth": "levels below the mean depth of all files",
    "log_size": "z-score of the logarithm of its size",
    "chunk": "z-score of the cosine of its best chunk",
    "file": "z-score of the cosine of its mean vector",
    "log_size_unnamed": "log_size, by the share of the query that no file name explains",
    "mean_chunk_words_unnamed": "mean_chunk_words, by the same",
    "chunk_unnamed": "chunk, by the same",
    "chunk_words_weak": "chunk_words, by the weight of the words that no chunk has together",
    "file_words_weak": "file_words, by the same",
    "log_size_weak": "log_size, by the same",
    "chunk_weak": "chunk, by the same",
}
MAX_SIGNALS = 6  # shown signals of a file, beside those of history
# Least relevance of a place that the innermost frame of its file names; others have half of it. Of 46
# bug reports with frames in their project, 29 are mended in the file of the innermost one.
FRAME_RELEVANCE = 0.5
INNERMOST_WEIGHT = 2.0  # value of `frame_weights` for such a place; other places of frames have 1
# Files of a report that a budget shows code of, and places of each file.
BUNDLED_FILES = 10
MAX_BUNDLED_PLACES = 40
_FILE_SETS = ("plain", "symbol", "plain_without_vectors", "symbol_without_vectors")
# `aside` is 1 for files in directories of documents and examples.
_OF_REPORTS = REPORT_SIGNALS | {"aside"}
_SIGNALS_OF_SET = {
    "report": SIGNALS.keys() | _OF_REPORTS,
    "report_without_vectors": SIGNALS.keys() | _OF_REPORTS,
    "places": PLACE_SIGNALS,
    "report_places": PLACE_SIGNALS,
    "relevance": RELEVANCE_SIGNALS,
    "relevance_without_vectors": RELEVANCE_SIGNALS,
}
_UNSCALED = (
    "name_coverage",
    "definition_share",
    "stem_match",
    "test",
    "test_unasked",
    "prose",
    "reexporter",
    "depth",
    "log_size",
)
_LEXICAL = (
    "chunk_words",
    "mean_chunk_words",
    "file_words",
    "definition_words",
    "comment_words",
    "path_words",
)


@dataclass(frozen=True, slots=True)
class Weights:
    """Sets of weights (signal -> weight) for files, places and relevance, by kind of question.

    `symbol` sets are for a query that is a name.
    """

    plain: Mapping[str, float]
    symbol: Mapping[str, float]
    plain_without_vectors: Mapping[str, float]
    symbol_without_vectors: Mapping[str, float]
    report: Mapping[str, float]
    report_without_vectors: Mapping[str, float]
    places: Mapping[str, float]
    report_places: Mapping[str, float]
    relevance: Mapping[str, float]
    relevance_without_vectors: Mapping[str, float]

    def select_files(
        self, is_name: bool, vectors: bool, report: bool = False
    ) -> Mapping[str, float]:
        """Return the weights of files for a kind of question."""
        if report:
            return self.report if vectors else self.report_without_vectors
        if vectors:
            return self.symbol if is_name else self.plain
        return self.symbol_without_vectors if is_name else self.plain_without_vectors

    def select_places(self, report: bool) -> Mapping[str, float]:
        """Return the weights of places for a kind of question."""
        return self.report_places if report else self.places

    def select_relevance(self, vectors: bool) -> Mapping[str, float]:
        """Return the weights of relevance for a kind of question."""
        return self.relevance if vectors else self.relevance_without_vectors


class RankedChunk(NamedTuple):
    """A ranked chunk. `score` is the score of its file; `place_score` compares chunks of all files.

    `relevance` is the estimated probability, 0 to 1, that the chunk answers the query.
    """

    path: str
    start_byte: int
    end_byte: int
    score: float
    place_score: float
    relevance: float
    lexical: float  # BM25 score of the chunk's text and header; 0 if it has no word of the query
    coverage: float  # share of the query's words in the chunk, weighted by rarity
    cosine: float | None
    # (signal, weight x value), those of history and the `MAX_SIGNALS` largest: explains the rank of
    # the file
    signals: tuple[tuple[str, float], ...]
    # for a report: the places of the file, best first
    compared_places: tuple[RankedPlace, ...] = ()


def load_weights(file: str = "") -> Weights:
    """Load the weights from a file, or the shipped weights. Raises `BadSettings`.

    The four sets for short questions must be in the file. Other missing sets are taken from the
    shipped weights.
    """
    shipped = resources.files("cocosearchd.search.code") / "code_weights.json"
    source = Path(file) if file else shipped
    try:
        sets = json.loads(shipped.read_text("utf-8"))["weights"]
        own_sets = json.loads(source.read_text("utf-8"))["weights"]
        sets |= {name: own_sets[name] for name in _FILE_SETS}
        sets |= {name: own_sets[name] for name in _SIGNALS_OF_SET if name in own_sets}
        weights = Weights(
            **{
                name: {str(signal): float(weight) for signal, weight in sets[name].items()}
                for name in Weights.__slots__
            }
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else repr(error)
        raise BadSettings(
            f"{source} has no weights: {reason}", "write it with training.ranking.fit"
        ) from error
    unknown_signals = {
        signal
        for name in Weights.__slots__
        for signal in getattr(weights, name)
        if signal not in _SIGNALS_OF_SET.get(name, SIGNALS)
    }
    if unknown_signals:
        raise BadSettings(
            f"{source} has weights for unknown signals: {', '.join(sorted(unknown_signals))}",
            "write it with training.ranking.fit",
        )
    return weights


def compute_signals(matrix: SignalMatrix) -> dict[str, Floats]:
    """Compute every signal of every compared file: name -> (F,).

    Signals are scaled so that one set of weights suits every repository.
    """
    values = matrix.values
    corpus = matrix.corpus
    groups = matrix.groups
    scaled = {name: ranking_signals.scale_to_maximum(values[name], groups) for name in _LEXICAL}
    scaled |= {name: values[name] for name in _UNSCALED}
    if matrix.is_report:
        scaled |= {name: values[name] for name in sorted(_OF_REPORTS)}
    scaled |= {
        name: values[name] / np.float32(_TYPE_VALUE)
        for name in ("defined_exactly", "defined_folded")
    }
    scaled["chunk_points"] = values["chunk_points"] * np.float32(_RAW_SHARE)
    if matrix.best_cosines is not None and matrix.file_cosines is not None:
        # Both cosines are compared with those of the mean vectors, because every file has a mean
        # vector.
        means, deviations = map(groups.spread, (corpus.cosine_mean, corpus.cosine_deviation))
        for name, cosines in (("chunk", matrix.best_cosines), ("file", matrix.file_cosines)):
            scaled[name] = ranking_signals.z_scores(cosines, means, deviations) * np.float32(
                _Z_SHARE
            )
    # If no file is named after the question, as for questions in the style of a web search, vectors
    # should decide and size should not. The weights are learned. The signal is 0 if a name explains
    # the question.
    unnamed = groups.spread(1 - corpus.name_coverage)
    scaled |= _scale_signals(scaled, ("log_size", "mean_chunk_words", "chunk"), "unnamed", unnamed)
    # For questions whose words, weighted by rarity, are mostly not together in any chunk.
    uncovered = groups.spread(1 - matrix.chunks.groups.largest(matrix.chunks.coverage))
    return scaled | _scale_signals(
        scaled, ("chunk_words", "file_words", "log_size", "chunk"), "weak", uncovered
    )


def _scale_signals(
    signals: dict[str, Floats], names: tuple[str, ...], suffix: str, factor: Floats
) -> dict[str, Floats]:
    return {f"{name}_{suffix}": signals[name] * factor for name in names if name in signals}


@dataclass(frozen=True, slots=True)
class ScoredMatrix:
    """A signal matrix of F files and C chunks with all scores. The scores do not depend on a limit."""

    matrix: SignalMatrix
    is_name: bool  # the query is a name
    scores: Floats  # (F,)
    by_signal: Mapping[str, Floats]  # signal -> (F,): the terms of the sum `scores`
    place_scores: Floats  # (C,)
    relevance_scores: tuple[Floats, Floats]  # (F,) each: see `relevance_scores`
    relevance_weights: Mapping[str, float]
    frame_weights: Floats | None = None  # (C,): see `rank_chunks`

    def relevances_of(self, chunks: Ints | slice) -> Floats:
        """Estimate the relevance of n of the chunks, (n,): few of them are shown."""
        relevances = estimate_relevance(
            self.matrix, self.is_name, *self.relevance_scores, self.relevance_weights, chunks
        )
        if self.frame_weights is not None:
            least_relevances = (
                np.float32(FRAME_RELEVANCE / INNERMOST_WEIGHT) * self.frame_weights[chunks]
            )
            relevances = np.maximum(relevances, least_relevances)
        return relevances


def split_scores(scored: ScoredMatrix, number: int) -> ScoredMatrix:
    """Return the part of a joint matrix that belongs to index `number`."""
    files, chunks = scored.matrix.slices(number)
    file_scores, definition_share = scored.relevance_scores
    return ScoredMatrix(
        matrix=split_matrix(scored.matrix, number),
        is_name=scored.is_name,
        scores=scored.scores[files],
        by_signal={name: values[files] for name, values in scored.by_signal.items()},
        place_scores=scored.place_scores[chunks],
        relevance_scores=(file_scores[files], definition_share[files]),
        relevance_weights=scored.relevance_weights,
    )


def score_matrix(matrix: SignalMatrix, is_name: bool, weights: Weights) -> ScoredMatrix:
    """Score all files and chunks of a matrix. `is_name`: the query is a name."""
    scores, by_signal = score_files(matrix, is_name, weights)
    return ScoredMatrix(
        matrix=matrix,
        is_name=is_name,
        scores=scores,
        by_signal=by_signal,
        place_scores=score_places(matrix, is_name, scores, weights.select_places(matrix.is_report)),
        relevance_scores=relevance_scores(matrix, is_name, weights, scores, by_signal),
        relevance_weights=weights.select_relevance(matrix.chunks.cosines is not None),
    )


def rank_chunks(
    scored: ScoredMatrix,
    limit: int,
    *,
    allowed_chunks: NDArray[np.bool_] | None = None,
    all_chunks: bool = False,
    holds_phrases: bool = False,
    frame_weights: Floats | None = None,
    evidence: HistoryEvidence | None = None,
) -> tuple[RankedChunk, ...]:
    """Rank the best chunks of the best `limit` files; other good chunks follow the best one.

    A file's other chunks are ranked if they are among the best chunks of all these files
    (`best_places_threshold`), at most `MAX_OTHER_PLACES` of each file. With `all_chunks`, the
    `limit` most relevant chunks of these files are ranked independently of their files.
    `holds_phrases` means that the allowed chunks contain the quoted phrases, so that they need no
    other evidence. `frame_weights`, shape (C,), is positive for chunks that a frame of the question
    names: they are the best places of their files, those with the largest value first, and have some
    relevance. Statistics cover the whole index: a filter changes which files are shown, not their
    relative order.

    With `evidence`, the history of the index orders the files after the first ones.
    """
    matrix = scored.matrix
    if not len(matrix.paths):
        return ()
    eligible = eligible_files(matrix, holds_phrases=holds_phrases)
    if allowed_chunks is not None:
        eligible &= np.logical_or.reduceat(allowed_chunks, matrix.chunks.starts)
    ranked = _rank_files(scored, eligible, evidence, limit)
    files = ranked.files
    place_scores = scored.place_scores
    if frame_weights is not None and len(place_scores):
        place_scores = place_scores + frame_weights * np.ptp(place_scores)
        scored = replace(scored, frame_weights=frame_weights)
    chunk_scores = scored.relevances_of(ALL_CHUNKS) if all_chunks else place_scores
    sorted_chunks = _sort_chunks(matrix, files, chunk_scores, allowed_chunks)
    chunks = (
        _choose_all_chunks(sorted_chunks, chunk_scores, limit)
        if all_chunks
        else _choose_chunks(sorted_chunks, place_scores, limit)
    )
    places = (
        _places_of_files(scored, sorted_chunks, files[:BUNDLED_FILES])
        if matrix.is_report and not all_chunks
        else {}
    )
    signals = _largest_signals(scored.by_signal, files)
    return _make_ranked_chunks(
        replace(scored, scores=ranked.scores),
        chunks,
        place_scores,
        {file: (*ranked.history.get(file, ()), *signals[file]) for file in files},
        places,
    )


def rank_groups(
    scored: ScoredMatrix, numbers: Sequence[int], limits: Sequence[int]
) -> list[tuple[RankedChunk, ...]]:
    """Rank the best chunks of some indexes of a joint matrix, each with its own limit.

    Each result equals that of `rank_chunks` for the part of the index, without options and without
    the places of a report. Operations on arrays run once for all indexes: for a small index, each
    costs as much as its arithmetic.
    """
    matrix = scored.matrix
    eligible = eligible_files(matrix, holds_phrases=False)
    files_by_index = [
        _sort_files(matrix, scored.scores, rows.start + np.flatnonzero(eligible[rows]), limit)
        for rows, limit in zip(map(matrix.groups.rows, numbers), limits, strict=True)
    ]
    files = list(chain.from_iterable(files_by_index))
    candidates = _sort_chunks(matrix, files, scored.place_scores, None)
    scores = scored.place_scores[candidates.chunks]
    marks = [
        _mark_shown(candidates.ranks[rows], scores[rows], limit)
        for rows, limit in zip(
            candidates.split(list(map(len, files_by_index))), limits, strict=True
        )
    ]
    ranked = iter(
        _make_ranked_chunks(
            scored,
            candidates.chunks[np.concatenate(marks)],
            scored.place_scores,
            _largest_signals(scored.by_signal, files),
            {},
        )
    )
    return [tuple(islice(ranked, int(np.count_nonzero(mark)))) for mark in marks]


@dataclass(frozen=True, slots=True)
class _RankedFiles:
    """Ranked files, best first, the scores of all files, (F,), and evidence of history by file."""

    files: list[int]
    scores: Floats
    history: Mapping[int, tuple[tuple[str, float], ...]] = field(default_factory=dict)


def _rank_files(
    scored: ScoredMatrix, eligible: Mask, evidence: HistoryEvidence | None, limit: int
) -> _RankedFiles:
    """Rank the best `limit` of the eligible files, by their scores and the history if there is one."""
    if evidence is not None:
        return _rank_by_history(scored, eligible, evidence, limit)
    files = _sort_files(scored.matrix, scored.scores, np.flatnonzero(eligible), limit)
    return _RankedFiles(files, scored.scores)


def _rank_by_history(
    scored: ScoredMatrix, eligible: Mask, evidence: HistoryEvidence, limit: int
) -> _RankedFiles:
    """Rank the best `limit` of the eligible files; history orders all after the first ones.

    History moves files that are ranked anyway: it adds none, and none that a filter excludes. Files
    after the first `TAIL_FILES` keep their places, so that a larger limit does not change the order.
    """
    matrix = scored.matrix
    ranked = np.array(
        _sort_files(matrix, scored.scores, np.flatnonzero(eligible), max(limit, TAIL_FILES)),
        np.int64,
    )
    files = ranked[:TAIL_FILES]
    tail = evidence.order([matrix.paths[file] for file in files], scored.scores[files])
    scores = scored.scores.copy()
    scores[files[tail.order]] = tail.scores
    best = tail.order[:limit]
    history = {
        int(files[rank]): tuple(
            (name, float(values[rank])) for name, values in tail.evidence.items() if values[rank]
        )
        for rank in best
    }
    later = ranked[TAIL_FILES:limit]
    return _RankedFiles([*files[best].tolist(), *later.tolist()], scores, history)


@dataclass(frozen=True, slots=True)
class _SortedChunks:
    """The allowed chunks of f sorted files, file by file, best first: n."""

    chunks: Ints  # (n,)
    ranks: Ints  # (n,): of each in its file, from 0
    counts: Ints  # (f,): how many each file has

    def of_file(self, number: int) -> Ints:
        """Return the chunks of a file, best first."""
        end = int(self.counts[: number + 1].sum())
        return self.chunks[end - int(self.counts[number]) : end]

    def split(self, file_counts: Sequence[int]) -> list[slice]:
        """Return the rows of consecutive groups with these numbers of files."""
        ends = np.cumsum([0, *self.counts])[np.cumsum([0, *file_counts])].tolist()
        return [slice(start, end) for start, end in pairwise(ends)]


def _sort_chunks(
    matrix: SignalMatrix, files: Sequence[int], scores: Floats, allowed: Mask | None
) -> _SortedChunks:
    """Sort the allowed chunks of each of the files. Equal scores keep their order in the file."""
    ends = np.append(matrix.chunks.starts[1:], len(matrix.chunks.keys))[files]
    starts = matrix.chunks.starts[files]
    counts = ends - starts
    chunks = join_ranges(starts, counts)
    numbers = np.repeat(np.arange(len(files)), counts)
    if allowed is not None:
        passing = allowed[chunks]
        chunks, numbers = chunks[passing], numbers[passing]
        counts = np.bincount(numbers, minlength=len(files))
    order = np.lexsort((-scores[chunks], numbers))
    return _SortedChunks(chunks[order], join_ranges(np.zeros_like(counts), counts), counts)


def _places_of_files(
    scored: ScoredMatrix, sorted_chunks: _SortedChunks, files: Sequence[int]
) -> dict[int, tuple[RankedPlace, ...]]:
    """Map each of the first files to the first of its sorted chunks, as places."""
    relevances = scored.relevances_of(ALL_CHUNKS)
    places = dict[int, tuple[RankedPlace, ...]]()
    for rank, file in enumerate(files):
        chunks = sorted_chunks.of_file(rank)[:MAX_BUNDLED_PLACES]
        columns = (
            *scored.matrix.chunks.keys[chunks].T.tolist(),
            scored.place_scores[chunks].tolist(),
            relevances[chunks].tolist(),
        )
        places[file] = tuple(map(RankedPlace, *columns))
    return places


def _choose_chunks(candidates: _SortedChunks, place_scores: Floats, limit: int) -> Ints:
    """Return the chunks to show of the sorted files, in their order."""
    is_shown = _mark_shown(candidates.ranks, place_scores[candidates.chunks], limit)
    chunks: Ints = candidates.chunks[is_shown]
    return chunks


def _mark_shown(ranks: Ints, scores: Floats, limit: int) -> Mask:
    """Mark the chunks to show: the best of each file, and others with good scores.

    `ranks` are those of the chunks in their files, from 0.
    """
    is_good = scores >= best_places_threshold(scores, limit)
    is_shown: Mask = (ranks == 0) | (is_good & (ranks <= MAX_OTHER_PLACES))
    return is_shown


def _choose_all_chunks(candidates: _SortedChunks, relevances: Floats, limit: int) -> Ints:
    """Return the `limit` most relevant chunks of the files."""
    order = np.argsort(-relevances[candidates.chunks], kind="stable")
    chunks: Ints = candidates.chunks[order[:limit]]
    return chunks


def _largest_signals(
    by_signal: Mapping[str, Floats], files: Sequence[int]
) -> dict[int, tuple[tuple[str, float], ...]]:
    """Map each file to its `MAX_SIGNALS` largest signals with weight x value, the largest first."""
    numbers = np.array(files, np.int64)
    columns = np.array([values.take(numbers) for values in by_signal.values()], np.float32)
    rows = np.ascontiguousarray(columns.reshape(len(by_signal), len(files)).T)  # (f, S)
    order = np.argsort(-np.abs(rows), axis=1, kind="stable")[:, :MAX_SIGNALS]
    largest = rows[np.arange(len(rows))[:, None], order]
    names = tuple(by_signal)
    # Converted to Python values in one step: reading each value from its array costs more than the
    # whole function.
    return {
        file: tuple((names[number], value) for number, value in zip(*row, strict=True) if value)
        for file, *row in zip(files, order.tolist(), largest.tolist(), strict=True)
    }


def _make_ranked_chunks(
    scored: ScoredMatrix,
    chunks: Ints,
    place_scores: Floats,
    signals: Mapping[int, tuple[tuple[str, float], ...]],
    places: Mapping[int, tuple[RankedPlace, ...]],
) -> tuple[RankedChunk, ...]:
    """Make ranked chunks; `signals` and `places` are those of their files."""
    signals_of_chunks = scored.matrix.chunks
    files = signals_of_chunks.files[chunks]
    cosines = signals_of_chunks.cosines
    values = (
        signals_of_chunks.scores,
        signals_of_chunks.coverage,
        np.full(len(place_scores), np.nan, np.float32) if cosines is None else cosines,
    )
    # Python values column by column: to read each from its array costs more than all here
    rows = zip(
        files.tolist(),
        *signals_of_chunks.keys[chunks].T.tolist(),
        scored.scores[files].tolist(),
        place_scores[chunks].tolist(),
        scored.relevances_of(chunks).tolist(),
        *(column[chunks].tolist() for column in values),
        strict=True,
    )
    return tuple(
        RankedChunk(
            path=scored.matrix.paths[file],
            start_byte=start_byte,
            end_byte=end_byte,
            score=score,
            place_score=place_score,
            relevance=relevance,
            lexical=lexical,
            coverage=coverage,
            cosine=None if math.isnan(cosine) else cosine,
            signals=signals[file],
            compared_places=places.get(file, ()),
        )
        for file, start_byte, end_byte, score, place_score, relevance, lexical, coverage, cosine in rows
    )


def rank_files(matrix: SignalMatrix, is_name: bool, weights: Weights) -> list[int]:
    """Rank the compared files that pass the filter.

    The order is that of `rank_chunks`, but files without evidence are not dropped.
    """
    scores, _ = score_files(matrix, is_name, weights)
    eligible = eligible_files(matrix, holds_phrases=True)
    return _sort_files(matrix, scores, np.flatnonzero(eligible), len(matrix.paths))


def _sort_files(matrix: SignalMatrix, scores: Floats, eligible: Ints, limit: int) -> list[int]:
    """Return the best `limit` of the `eligible` files, best first.

    Equal scores are ordered by path, not by file number: numbers depend on the order of arrival and
    on merges.
    """
    best = select_top(eligible, scores.take(eligible), limit, matrix.paths)
    files = best.tolist()
    rows = zip(
        (-scores.take(best)).tolist(), map(matrix.paths.__getitem__, files), files, strict=True
    )
    return [file for *_, file in sorted(rows)]


def score_files(
    matrix: SignalMatrix, is_name: bool, weights: Weights
) -> tuple[Floats, dict[str, Floats]]:
    """Return the scores of the files, (F,), and the terms of their sums by signal."""
    by_signal = weighted_signals(
        compute_signals(matrix),
        weights.select_files(is_name, matrix.chunks.cosines is not None, matrix.is_report),
    )
    scores = np.zeros(len(matrix.paths), np.float32)
    for values in by_signal.values():
        scores += values
    return scores, by_signal


def relevance_scores(
    matrix: SignalMatrix,
    is_name: bool,
    weights: Weights,
    scores: Floats,
    by_signal: Mapping[str, Floats],
) -> tuple[Floats, Floats]:
    """Return the file scores from which relevance is estimated.

    The second array has the part of the scores from definitions of a name. Both are (F,).

    If no file defines the name as written, the files that define it in another case get the share.
    This does not change their order, but makes it more likely that the query meant them. If no file
    defines the name at all, the files that use it get equal, lower shares: a plain word that one
    file happens to contain must not outweigh the definition in another index.
    """
    definition_share = by_signal.get("definition_share", np.zeros(len(matrix.paths), np.float32))
    if not is_name:
        return scores, definition_share
    groups = matrix.groups
    weight = np.float32(
        weights.select_files(is_name, matrix.chunks.cosines is not None).get(
            "definition_share", 0.0
        )
    )
    defining = matrix.values["defined_folded"]
    is_defined = groups.spread(groups.largest(defining) > 0)
    using = definition_share > 0
    using_counts = np.maximum(groups.counts(using), 1)
    shares = np.float32(_USE_SHARE) * np.minimum(1, _FEW_USING_FILES / using_counts)
    use = using * groups.spread((shares * weight).astype(np.float32))
    definition = np.where(
        groups.spread(groups.largest(definition_share) > 0),
        definition_share,
        ranking_signals.definition_shares(defining, defining, groups=groups) * weight,
    )
    return np.where(is_defined, scores, scores - definition_share), np.where(
        is_defined, definition, use
    )


def eligible_files(matrix: SignalMatrix, *, holds_phrases: bool) -> NDArray[np.bool_]:
    """Return a mask (F,) of the files that may be shown."""
    eligible = np.ones(len(matrix.paths), np.bool_) if holds_phrases else has_evidence(matrix)
    return eligible if matrix.allowed is None else eligible & matrix.allowed


def has_evidence(matrix: SignalMatrix) -> NDArray[np.bool_]:
    """Return a mask (F,) of the files that match the query by a word, a name or a vector.

    Location and size alone are no evidence. A vector with a negative cosine is no evidence either.
    """
    evident = (
        (matrix.values["file_words"] > 0)
        | (matrix.values["name_coverage"] > 0)
        | (matrix.values["defined_folded"] > 0)
    )
    return evident if matrix.best_cosines is None else evident | (matrix.best_cosines > 0)


def weighted_signals(
    values: Mapping[str, Floats], weights: Mapping[str, float]
) -> dict[str, Floats]:
    """Multiply each signal by its weight."""
    return {name: values[name] * np.float32(weight) for name, weight in weights.items()}
