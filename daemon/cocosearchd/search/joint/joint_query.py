"""Scores the files of many small indexes together, for one question in the profile `code`.

One pass scores all files of all these indexes. A file gets the same score as in its index alone.
The scores give upper bounds for the relevance of the hits of each index. Therefore only indexes
whose hits an answer may show are ranked, and only their rows are read.
"""

import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cocosearchd.model import IndexRecord
from cocosearchd.search.code.code_candidates import FULL_COVERAGE, count_results
from cocosearchd.search.code.code_profile import (
    FRAME_RELEVANCE,
    RankedChunk,
    ScoredMatrix,
    Weights,
    eligible_files,
    rank_groups,
    score_matrix,
    split_scores,
)
from cocosearchd.search.code.code_query import CodeQuery, prepare_terms
from cocosearchd.search.code.file_masks import restricts_files
from cocosearchd.search.code.place_scores import ALL_CHUNKS
from cocosearchd.search.history.history_evidence import HEAD_FILES
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.analysis.terms import QueryTerms
from cocosearchd.search.lexical.array_types import Floats, Mask
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_corpus_matrix,
)
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.scoring.candidate_selection import are_all_candidates
from cocosearchd.search.lexical.scoring.corpus import Corpus, join_corpora
from cocosearchd.search.plan import Plan
from cocosearchd.search.reports.report_signals import ReportScorer

CACHED_CORPORA = 4  # joined corpora: each takes some 100 bytes per chunk


@dataclass(frozen=True, slots=True)
class JointIndex:
    """An index of a joint question, with the snapshot that answers and the plan of the question.

    `incompleteness` is a sentence about files that the snapshot lacks, in whole or in part.
    """

    record: IndexRecord
    lexical: LexicalIndex
    snapshot: IndexSnapshot
    plan: Plan
    incompleteness: str | None = None
    history: HistoryIndex | None = None


@dataclass(frozen=True, slots=True)
class ScoredIndex:
    """An index with scored files: it has the number `number` in `scores`.

    `relevances[n]` is an upper bound for the hit at position n and all later hits. The tuple is
    empty if no file may be shown. If `has_every_word` is False, no hit has every word of the
    question.
    """

    code_query: CodeQuery
    scores: ScoredMatrix
    number: int
    relevances: tuple[float, ...]
    has_every_word: bool
    is_named_by_frame: bool  # a report has a frame in one of its files

    def rank(self) -> tuple[RankedChunk, ...]:
        """Rank the best chunks of the index."""
        return self.code_query.rank_scored(split_scores(self.scores, self.number))

    @property
    def is_ranked_alone(self) -> bool:
        """True if more than scores decides which chunks are shown."""
        query = self.code_query
        return self.scores.matrix.is_report or query.plan.where.has_symbols


def rank_indexes(indexes: Sequence[ScoredIndex]) -> list[tuple[RankedChunk, ...]]:
    """Rank the best chunks of each index; those with common scores together."""
    numbers_by_scores = defaultdict[int, list[int]](list)
    ranked = dict[int, tuple[RankedChunk, ...]]()
    for number, index in enumerate(indexes):
        if index.is_ranked_alone:
            ranked[number] = index.rank()
        else:
            numbers_by_scores[id(index.scores)].append(number)
    for numbers in numbers_by_scores.values():
        group = [indexes[number] for number in numbers]
        limits = [index.code_query.limit for index in group]
        chunks = rank_groups(group[0].scores, [index.number for index in group], limits)
        ranked |= zip(numbers, chunks, strict=True)
    return [ranked[number] for number in range(len(indexes))]


@dataclass(frozen=True, slots=True)
class _JoinedCorpus:
    """A joined corpus, and the snapshots of its parts; their end drops it from the cache."""

    corpus: Corpus
    snapshots: tuple[weakref.ref[IndexSnapshot], ...]


def is_joinable(plan: Plan) -> bool:
    """Return True if the results of a plan depend only on scores of files in memory."""
    return (
        plan.profile == "code"
        and plan.uses_keywords
        and plan.reranker == "disabled"
        and not (plan.listing or plan.all_chunks or plan.where.phrases)
    )


def is_small(snapshot: IndexSnapshot, plan: Plan) -> bool:
    """Return True if an index is so small that every query compares all of its files."""
    return are_all_candidates(snapshot.file_count, count_results(plan))


class JointScorer:
    """Scores small indexes together, with a cache of the joined corpora of the last questions.

    A joined corpus is dropped when one of its snapshots is: it would keep replaced segments in memory.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._corpora = OrderedDict[tuple[int, ...], _JoinedCorpus]()
        # reentrant: Python may free a snapshot, and call `_drop`, at any moment
        self._lock = threading.RLock()

    def forget(self) -> None:
        """Free the memory of the cached corpora."""
        with self._lock:
            self._corpora.clear()

    def score(self, indexes: Sequence[JointIndex], vector: Floats | None) -> list[ScoredIndex]:
        """Score indexes for their common question; each index has files. Call it in a thread.

        `vector` is the vector of the question, (dimension,).
        """
        scored = dict[int, ScoredIndex]()
        for numbers in _group_by_terms(indexes):
            group = [indexes[number] for number in numbers]
            scored |= zip(numbers, self._score_group(group, vector), strict=True)
        return [scored[number] for number in range(len(indexes))]

    def _score_group(
        self, indexes: Sequence[JointIndex], vector: Floats | None
    ) -> list[ScoredIndex]:
        """Score indexes in which the question has the same terms."""
        first = indexes[0]
        corpus = self._join([index.snapshot for index in indexes])
        terms, scorer = prepare_terms(first.lexical, first.plan)
        queries = [self._code_query(index, terms, vector, scorer) for index in indexes]
        matrix = compute_corpus_matrix(
            corpus,
            terms,
            first.lexical.terms,
            vector,
            _allowed_files(queries),
            queries[0].needed,
            None if scorer is None else scorer(corpus),
        )
        scores = score_matrix(matrix, terms.is_name, self._weights)
        return _bound(queries, scores)

    def _code_query(
        self,
        index: JointIndex,
        terms: QueryTerms,
        vector: Floats | None,
        scorer: ReportScorer | None,
    ) -> CodeQuery:
        result_count = count_results(index.plan)
        return CodeQuery(
            record=index.record,
            lexical=index.lexical,
            snapshot=index.snapshot,
            plan=index.plan,
            terms=terms,
            vector=vector,
            weights=self._weights,
            limit=result_count,
            needed=result_count,
            report_signals=scorer,
            incompleteness=index.incompleteness,
            history=index.history,
        )

    def _join(self, snapshots: Sequence[IndexSnapshot]) -> Corpus:
        corpora = [snapshot.corpus for snapshot in snapshots]
        if len(corpora) == 1:
            return corpora[0]
        key = tuple(map(id, corpora))
        with self._lock:
            joined = self._corpora.pop(key, None)
        if joined is None:
            # It refers to its parts, so Python cannot reuse their ids
            drop = partial(self._drop, key)
            references = tuple(weakref.ref(snapshot, drop) for snapshot in snapshots)
            joined = _JoinedCorpus(join_corpora(corpora), references)
        with self._lock:
            self._corpora[key] = joined
            while len(self._corpora) > CACHED_CORPORA:
                self._corpora.popitem(last=False)
        return joined.corpus

    def _drop(self, key: tuple[int, ...], _: weakref.ref[IndexSnapshot]) -> None:
        with self._lock:
            self._corpora.pop(key, None)


def _group_by_terms(indexes: Sequence[JointIndex]) -> list[list[int]]:
    """Group the numbers of the indexes in which the question has the same terms.

    The terms differ only by words in the name of an index or of its common language.
    """
    report = indexes[0].plan.report
    text = indexes[0].plan.text if report is None else " ".join(part.text for part in report.parts)
    words = indexes[0].lexical.terms.find_terms(text)
    groups = defaultdict[Hashable, list[int]](list)
    for number, index in enumerate(indexes):
        lexical = index.lexical
        names = lexical.name_terms & words
        groups[names, words.intersection(lexical.common_language)].append(number)
    return list(groups.values())


def _allowed_files(queries: Sequence[CodeQuery]) -> Mask | None:
    """Return the mask of the files of all indexes that pass the filter; None if all do."""
    if not any(map(restricts_files, {query.plan.where for query in queries})):
        return None
    masks = [query.allowed_files(query.snapshot.live_documents) for query in queries]
    if all(mask is None for mask in masks):
        return None
    return np.concatenate(
        [
            np.ones(query.snapshot.file_count, np.bool_) if mask is None else mask
            for query, mask in zip(queries, masks, strict=True)
        ]
    )


def _bound(queries: Sequence[CodeQuery], scores: ScoredMatrix) -> list[ScoredIndex]:
    """Compute upper bounds for the relevance of the hits of each index."""
    matrix = scores.matrix
    relevances = [
        of_index if query.evidence is None else _bound_tail(of_index)
        for query, of_index in zip(queries, _bound_relevances(queries[0], scores), strict=True)
    ]
    coverage = matrix.chunks.groups.largest(matrix.chunks.coverage) >= FULL_COVERAGE
    are_named = matrix.groups.counts(_named_by_frame(matrix)) > 0
    rows = zip(queries, relevances, coverage.tolist(), are_named.tolist(), strict=True)
    return [
        ScoredIndex(query, scores, number, of_index, has_every_word, is_named)
        for number, (query, of_index, has_every_word, is_named) in enumerate(rows)
    ]


def _bound_relevances(query: CodeQuery, scores: ScoredMatrix) -> list[tuple[float, ...]]:
    """Return for each index the upper bound of the hits at each rank and after it.

    Results keep the order of their files, so a hit at a rank belongs to that file or to a later
    one. There are only as many ranks as results.
    """
    matrix = scores.matrix
    files = np.flatnonzero(eligible_files(matrix, holds_phrases=False))
    relevances = _hit_relevances(query, scores)[files]
    groups = matrix.groups.numbers[files]
    # With equal scores, the least relevant file comes first: that gives the largest limits.
    order = np.lexsort((relevances, -scores.scores[files], groups))
    count = len(matrix.groups)
    # One pass from the end covers all indexes: the values of each index are shifted above those of
    # the later indexes.
    ranges = 2.0 * (count - groups[order])
    limits = np.maximum.accumulate((relevances[order] + ranges)[::-1])[::-1] - ranges
    values = limits.astype(np.float32).tolist()
    ends = np.searchsorted(groups[order], np.arange(count), side="right").tolist()
    starts = [0, *ends][:count]
    return [
        tuple(values[start : min(end, start + query.plan.limit)])
        for start, end in zip(starts, ends, strict=True)
    ]


def _bound_tail(relevances: tuple[float, ...]) -> tuple[float, ...]:
    """Return upper bounds that also hold if history moves any file to any place behind the head."""
    head, tail = relevances[:HEAD_FILES], relevances[HEAD_FILES:]
    return (*head, *tail[:1] * len(tail))


def _hit_relevances(query: CodeQuery, scores: ScoredMatrix) -> Floats:
    """Return an upper bound for the relevance of the hit of each file: (F,).

    It is the relevance of the best place. A filter on symbols, or a frame of the question,
    may choose any chunk of a file: then it is the largest relevance of a chunk. A frame gives its
    chunk some relevance.
    """
    chunks = scores.matrix.chunks
    relevances = scores.relevances_of(ALL_CHUNKS)
    largest: Floats = np.maximum.reduceat(relevances, chunks.starts)
    is_named = _named_by_frame(scores.matrix)
    largest[is_named] = np.maximum(largest[is_named], np.float32(FRAME_RELEVANCE))
    # a hit may be another place than the best of its file
    if query.plan.where.has_symbols or query.plan.min_relevance or query.plan.min_evidence:
        return largest
    best_places = np.maximum.reduceat(scores.place_scores, chunks.starts)
    positions = np.flatnonzero(scores.place_scores == best_places[chunks.files])
    firsts = positions[np.diff(chunks.files[positions], prepend=-1) > 0]
    return np.where(is_named, largest, relevances[firsts])


def _named_by_frame(matrix: SignalMatrix) -> Mask:
    """Mark the files with a frame of a report, (F,)."""
    if not matrix.is_report:
        return np.zeros(len(matrix.paths), np.bool_)
    marks: Mask = matrix.values["frame"] > 0
    return marks
