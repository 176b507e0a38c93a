"""Immutable state of the lexical index, and the feature matrix of a query over it

A feature matrix has one value per signal for each candidate file. Statistics (N, document
frequencies, average lengths, the largest value of a signal) are counted over live documents at
query time, so that the answer does not depend on the order in which files came and went. In a large
index only the candidate files are scored chunk by chunk; see `candidate_selection`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.array_types import Floats, Ints, Mask
from cocosearchd.search.lexical.scoring.bm25 import (
    FieldStatistics,
    FileHits,
    find_file_hits,
    mark_files_with_all_terms,
    score_chunks,
    score_fields,
    score_files,
)
from cocosearchd.search.lexical.scoring.candidate_selection import (
    CandidateFiles,
    locate_chunks,
    select_candidates,
    suffices,
)
from cocosearchd.search.lexical.scoring.name_scores import (
    DefinitionMatches,
    chunk_cosines,
    match_definitions,
    score_chunk_names,
)
from cocosearchd.search.lexical.scoring.nearest_vectors import NearestVectors, compare_vectors
from cocosearchd.search.lexical.segments.live_documents import (
    FileFilter,
    LiveDocuments,
    collect_live_documents,
    concatenate,
    select_live,
)
from cocosearchd.search.lexical.segments.path_names import (
    PathNames,
    best_name_match,
    make_name_query,
    read_path_names,
    stem_coverage,
)
from cocosearchd.search.lexical.segments.segment import SegmentView
from cocosearchd.search.lexical.segments.segment_merge import (
    MergePolicy,
    apply_merges,
    perform_merges,
)

_FILE_SIGNALS = (
    "file_words",
    "name_coverage",
    "defined_exactly",
    "defined_folded",
    "whole",
    "stem_match",
)


@dataclass(frozen=True)
class IndexSnapshot:
    """Segment views, the names of their files, and the field statistics of their live documents."""

    views: tuple[SegmentView, ...]
    path_names: tuple[PathNames, ...]
    generation: int
    statistics: FieldStatistics

    @property
    def file_count(self) -> int:
        """Number of live files."""
        return self.statistics.files

    @property
    def chunk_count(self) -> int:
        """Number of live chunks."""
        return self.statistics.chunks

    @cached_property
    def common_language(self) -> tuple[str, ...]:
        """Names of the language that nearly all code is written in; () without one."""
        return features.common_language(
            sum(map(_count_languages, self.views, self.path_names), Counter[str]())
        )

    @cached_property
    def live_documents(self) -> LiveDocuments:
        """Live documents, computed by the first query after a commit.

        Many commits are not followed by a query.
        """
        return collect_live_documents(self.views, self.path_names)

    @cached_property
    def definition_masks(self) -> tuple[Mask, ...]:
        """Masks of the chunks of each view in which a definition begins.

        Computed by the first query after a commit.
        """
        return tuple(view.segment.defining_chunks() for view in self.views)


def _count_languages(view: SegmentView, names: PathNames) -> Counter[str]:
    """Count the live files of each language."""
    if view.alive is None:
        return names.language_counts
    dead = np.flatnonzero(~view.alive)
    if 2 * len(dead) < len(view.alive):
        return names.language_counts - Counter(map(names.languages.__getitem__, dead.tolist()))
    return Counter(map(names.languages.__getitem__, np.flatnonzero(view.alive).tolist()))


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """Statistics of all live files, which the candidate files are measured against."""

    name_coverage: float  # largest share of a file's name that the query explains
    cosine_mean: float  # mean of the cosines of files
    cosine_deviation: float  # standard deviation of the cosines of files


@dataclass(frozen=True, slots=True)
class ChunkSignals:
    """Signals of the C chunks of F candidate files."""

    starts: Ints  # (F,): the first chunk of each file
    files: Ints  # (C,): the file of each chunk
    keys: Ints  # (C, 2)
    scores: Floats  # (C,): text and header
    # (C,): share of the query's idf mass that the chunk has, 0 to 1
    coverage: Floats
    # (C,): best definition value for an identifier of the query, and a lead if its case agrees
    names: Floats
    defines: Mask  # (C,): a definition begins in the chunk
    cosines: Floats | None  # (C,); NaN for a chunk without a vector. None: the query has no vector
    nearest: Floats | None  # (F,): best cosine of a chunk of each file
    of_files: dict[str, Floats]  # chunk_words, mean_chunk_words, chunk_points: (F,)


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """Signals of F candidate files and their C chunks for one query.

    The values are raw; the profile scales them.
    """

    generation: int
    paths: Sequence[str]  # (F,)
    languages: Sequence[str]  # (F,)
    allowed: Mask | None  # (F,): the files that may be shown; None: all
    values: dict[str, Floats]  # signal -> (F,)
    corpus: CorpusStatistics
    chunks: ChunkSignals
    candidates: Sequence[CandidateFiles]  # by view of the snapshot
    is_report: bool  # a long question, which has signals of its own
    # (F,): of the mean vector of each file; NaN without vectors
    file_cosines: Floats | None
    best_cosines: Floats | None  # (F,): of a file's best chunk

    def suffices(self, limit: int) -> bool:
        """Return whether a matrix made for more files to show, `limit`, would be the same."""
        if self.allowed is None:
            return suffices(len(self.paths), limit)
        return suffices(int(np.count_nonzero(self.allowed)), limit)


# Signals of a long question for all live files of a snapshot: name -> (F,), from 0.
ReportSignals = Callable[[IndexSnapshot], Mapping[str, Floats]]


def make_snapshot(
    views: Sequence[SegmentView], generation: int, *snapshots: IndexSnapshot
) -> IndexSnapshot:
    """Make a snapshot of `views`.

    The names of segments that one of the `snapshots` also has are taken from it.
    """
    known_names = {
        id(view.segment): names
        for snapshot in snapshots
        for view, names in zip(snapshot.views, snapshot.path_names, strict=True)
    }
    lengths_of_chunks = [view.segment.chunk_lengths[view.live_chunks] for view in views]
    lengths_of_files = [view.segment.file_lengths[view.live_files] for view in views]
    chunks = sum(map(len, lengths_of_chunks))
    files = sum(map(len, lengths_of_files))
    chunk_sum = float(sum(lengths.sum(dtype=np.float64) for lengths in lengths_of_chunks))
    file_sums = sum(
        (lengths.sum(axis=0, dtype=np.float64) for lengths in lengths_of_files), np.zeros(4)
    )
    return IndexSnapshot(
        views=tuple(views),
        path_names=tuple(
            known_names.get(id(view.segment)) or read_path_names(view.segment) for view in views
        ),
        generation=generation,
        statistics=FieldStatistics(
            files, chunks, chunk_sum / max(chunks, 1), tuple((file_sums / max(files, 1)).tolist())
        ),
    )


def plan_merge(
    snapshot: IndexSnapshot, policy: MergePolicy
) -> Callable[[IndexSnapshot], IndexSnapshot] | None:
    """Merge segments of `snapshot`, and return the function that applies the merges to a later one.

    None: there is nothing to merge.
    """
    merges = perform_merges(snapshot.views, policy)
    if not merges:
        return None
    merged_names = make_snapshot(
        [SegmentView(merge.segment) for merge in merges if merge.segment is not None],
        snapshot.generation,
    )
    return lambda later: make_snapshot(
        apply_merges(snapshot.views, merges, later.views), later.generation, later, merged_names
    )


def compute_features(
    snapshot: IndexSnapshot,
    query: QueryTerms,
    terms: TermCache,
    vector: Floats | None = None,
    file_filter: FileFilter | None = None,
    limit: int = 0,
    report_signals: ReportSignals | None = None,
) -> FeatureMatrix:
    """Compute the feature matrix of the candidate files.

    `vector`: of the query, (dimension,). `file_filter`: which files may be shown.
    `report_signals`: of a long question, which become signals of the matrix.

    In a large index the candidate files are scored: those of the whole index, so that a filter
    does not change how files compare with each other, and those that pass the filter. `limit`
    is the number of files that are going to be shown.
    """
    live = snapshot.live_documents
    definitions = [match_definitions(view.segment, query) for view in snapshot.views]
    hits = find_file_hits(snapshot.views, query)
    values = _file_signals(snapshot, query, terms, definitions, hits)
    nearness = None if vector is None else compare_vectors(snapshot.views, live, vector)
    allowed = None if file_filter is None else file_filter(live)
    of_report = {} if report_signals is None else dict(report_signals(snapshot))
    mentioned = np.sum(list(of_report.values()), axis=0) if of_report else None
    values |= of_report
    files = select_candidates(values, nearness, allowed, limit, live.paths, mentioned)
    candidates = [
        locate_chunks(view.segment, numbers)
        for view, numbers in zip(snapshot.views, live.by_segment(files), strict=True)
    ]
    fields = score_fields(hits, snapshot.statistics, query, candidates)
    chunks = _chunk_signals(snapshot, query, definitions, candidates, vector)
    cosines = None if nearness is None else nearness.means(files)
    question_signals = _question_signals(live, query, is_report=report_signals is not None)
    return FeatureMatrix(
        generation=snapshot.generation,
        paths=tuple(map(live.paths.__getitem__, files.tolist())),
        languages=tuple(map(live.languages.__getitem__, files.tolist())),
        allowed=None if allowed is None else allowed[files],
        values={
            name: values_of_signal[files]
            for name, values_of_signal in (values | question_signals).items()
        }
        | fields
        | chunks.of_files,
        corpus=_corpus_statistics(values["name_coverage"], nearness, live.sample),
        chunks=chunks,
        candidates=candidates,
        is_report=report_signals is not None,
        file_cosines=cosines,
        best_cosines=None
        if chunks.nearest is None or cosines is None
        else np.fmax(chunks.nearest, cosines),
    )


def _question_signals(
    live: LiveDocuments, query: QueryTerms, *, is_report: bool
) -> dict[str, Floats]:
    """Return the signals of live files for a question: signal -> (F,).

    A test is no answer to a sentence that does not ask for tests: "test_unasked". A report may
    speak of tests, as where one fails, and is about the code that they test.
    """
    is_sentence = not query.is_symbol and not features.asks_for_tests(query.words)
    is_unasked = is_report or is_sentence
    tests = live.file_signals["test"]
    return live.file_signals | {"test_unasked": tests if is_unasked else np.zeros_like(tests)}


def _corpus_statistics(
    stem_shares: Floats, nearness: NearestVectors | None, sample: Ints
) -> CorpusStatistics:
    mean = 0.0
    deviation = 1.0
    if nearness is not None:
        mean, deviation = features.mean_and_deviation(nearness.means(sample))
    return CorpusStatistics(float(stem_shares.max(initial=0)), mean, deviation)


def _file_signals(
    snapshot: IndexSnapshot,
    query: QueryTerms,
    terms: TermCache,
    definitions: Sequence[DefinitionMatches],
    hits: Sequence[FileHits],
) -> dict[str, Floats]:
    """Signals of the words and the name of each live file: signal -> (F,)."""
    name_query = make_name_query(
        query.words, [terms.stem(word) for word in query.words], query.shares
    )
    rows: list[dict[str, Floats]] = [
        {
            "file_words": words,
            **matches.of_files,
            "name_coverage": stem_coverage(names, name_query),
            "stem_match": best_name_match(names, query.identifiers),
        }
        for words, matches, names in zip(
            score_files(hits, snapshot.statistics, query),
            definitions,
            snapshot.path_names,
            strict=True,
        )
    ]
    values = {
        name: select_live(snapshot.views, [row[name] for row in rows]) for name in _FILE_SIGNALS
    }
    # The name as written in the query goes before any part of it. A name that no file defines, in
    # any case, belongs to the files that have its words.
    usage = (
        select_live(snapshot.views, mark_files_with_all_terms(hits))
        if query.is_symbol and not values["defined_folded"].any()
        else None
    )
    values["definition_share"] = features.definition_shares(
        values.pop("whole"), values["defined_exactly"], usage
    )
    return values


def _chunk_signals(
    snapshot: IndexSnapshot,
    query: QueryTerms,
    definitions: Sequence[DefinitionMatches],
    candidates: Sequence[CandidateFiles],
    vector: Floats | None,
) -> ChunkSignals:
    """Signals of the chunks of the candidate files, in the order of the views."""
    scores, coverage = score_chunks(snapshot.views, snapshot.statistics, query, candidates)
    cosines = None if vector is None else chunk_cosines(candidates, vector)
    counts = concatenate([candidate.counts for candidate in candidates]).astype(np.int64)
    starts = np.cumsum(counts) - counts
    files = np.repeat(np.arange(len(counts)), counts)
    term_count = sum(times for _, times in query.terms)
    chunk_words = features.best_three(scores, starts, files)
    is_empty = not len(counts)
    return ChunkSignals(
        starts=starts,
        files=files,
        keys=concatenate([candidate.segment.keys[candidate.chunks] for candidate in candidates])
        .astype(np.int64)
        .reshape(-1, 2),
        scores=scores,
        coverage=coverage,
        names=score_chunk_names(candidates, definitions),
        defines=concatenate(
            [
                mask[candidate.chunks]
                for mask, candidate in zip(snapshot.definition_masks, candidates, strict=True)
            ]
        ).astype(np.bool_),
        cosines=cosines,
        nearest=cosines if cosines is None or is_empty else np.fmax.reduceat(cosines, starts),
        of_files={
            "chunk_words": chunk_words,
            "mean_chunk_words": scores
            if is_empty
            else (np.add.reduceat(scores, starts) / counts).astype(np.float32),
            "chunk_points": chunk_words / np.float32(term_count or 1),
        },
    )
