"""The immutable state of the lexical index, and the signal matrix of a query over it.

A signal matrix has one value per signal for each candidate file. Statistics (N, document
frequencies, average lengths, the largest value of a signal) are computed over live documents at
query time. Therefore the answer does not depend on the order in which files were added and removed.
In a large index, only the candidate files are scored chunk by chunk: see `candidate_selection`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cocosearchd.search.lexical import ranking_signals
from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.array_types import Floats, Ints, Mask
from cocosearchd.search.lexical.row_groups import Groups, make_groups
from cocosearchd.search.lexical.scoring.bm25 import (
    FileHits,
    find_file_hits,
    mark_files_with_all_terms,
    score_chunks,
    score_fields,
    score_files_by_words,
)
from cocosearchd.search.lexical.scoring.candidate_selection import (
    are_all_candidates,
    covers_limit,
    select_candidates,
)
from cocosearchd.search.lexical.scoring.corpus import (
    CandidateFiles,
    Candidates,
    Corpus,
    FieldStatistics,
    gather_candidates,
)
from cocosearchd.search.lexical.scoring.name_scores import (
    DefinitionMatches,
    chunk_cosines,
    file_cosines,
    match_definitions,
    score_chunk_names,
)
from cocosearchd.search.lexical.scoring.nearest_vectors import compare_vectors
from cocosearchd.search.lexical.segments.live_documents import (
    FileFilter,
    LiveDocuments,
    collect_live_documents,
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


@dataclass(frozen=True)
class IndexSnapshot:
    """Segment views with the names of their files and the field statistics of their live documents."""

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
        """Names of the language of nearly all code; () without one."""
        return ranking_signals.common_language(
            sum(map(_count_languages, self.views, self.path_names), Counter[str]())
        )

    @cached_property
    def live_documents(self) -> LiveDocuments:
        """The live documents, computed by the first query after a commit.

        They are lazy because no query follows many commits.
        """
        return collect_live_documents(self.views, self.path_names)

    @cached_property
    def definition_masks(self) -> tuple[Mask, ...]:
        """For each view, the mask of the chunks in which a definition begins.

        The first query after a commit computes them.
        """
        return tuple(view.segment.defining_chunks() for view in self.views)

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus of the live documents, computed by the first query after a commit."""
        return Corpus(
            views=self.views,
            path_names=self.path_names,
            definition_masks=self.definition_masks,
            view_groups=make_groups([len(self.views)]),
            live=self.live_documents,
            statistics=(self.statistics,),
        )


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
    """Statistics of all live files of each index. Values of candidate files are relative to them."""

    name_coverage: Floats  # (G,): largest share of a file name that the query explains
    cosine_mean: Floats  # (G,): mean of the cosines of files
    cosine_deviation: Floats  # (G,): standard deviation of the cosines of files


@dataclass(frozen=True, slots=True)
class ChunkSignals:
    """Signals of the C chunks of F candidate files."""

    groups: Groups  # of the chunks, by index
    starts: Ints  # (F,): the first chunk of each file
    files: Ints  # (C,): the file of each chunk
    keys: Ints  # (C, 2)
    scores: Floats  # (C,): text and header
    # (C,): share of the query's idf mass that the chunk has, 0 to 1
    coverage: Floats
    # (C,): best definition value for an identifier of the query, plus a bonus if the case is equal
    names: Floats
    defines: Mask  # (C,): a definition begins in the chunk
    # (C,); NaN for a chunk without a vector; None if the query has no vector
    cosines: Floats | None
    nearest: Floats | None  # (F,): best cosine of the chunks of each file
    of_files: dict[str, Floats]  # chunk_words, mean_chunk_words, chunk_points: (F,)


@dataclass(frozen=True, slots=True)
class SignalMatrix:
    """Signals of F candidate files and their C chunks for one query, in one or several indexes.

    The values are raw; the ranking profile scales them.
    """

    groups: Groups  # of the files, by index
    view_groups: Groups  # of the views, by index
    paths: Sequence[str]  # (F,)
    languages: Sequence[str]  # (F,)
    allowed: Mask | None  # (F,): the files that may be shown; None for all
    values: dict[str, Floats]  # signal -> (F,)
    corpus: CorpusStatistics
    chunks: ChunkSignals
    candidates: Sequence[CandidateFiles]  # by view
    is_report: bool  # True if the question is a report, which has additional signals
    # (F,): cosine of the mean vector of each file; NaN without vectors
    file_cosines: Floats | None
    best_cosines: Floats | None  # (F,): cosine of the best chunk of each file

    def slices(self, number: int) -> tuple[slice, slice]:
        """Return the rows of the files and of the chunks of one index."""
        return self.groups.rows(number), self.chunks.groups.rows(number)

    def covers_limit(self, limit: int) -> bool:
        """Return True if the matrix for a higher `limit` of shown files would be the same."""
        if self.allowed is None:
            return covers_limit(len(self.paths), limit)
        return covers_limit(int(np.count_nonzero(self.allowed)), limit)


def split_matrix(matrix: SignalMatrix, number: int) -> SignalMatrix:
    """Return the part of a joint matrix that belongs to index `number`."""
    files, chunks = matrix.slices(number)
    corpus = matrix.corpus
    return replace(
        matrix,
        groups=make_groups([files.stop - files.start]),
        view_groups=make_groups([len(matrix.candidates[matrix.view_groups.rows(number)])]),
        paths=matrix.paths[files],
        languages=matrix.languages[files],
        allowed=None if matrix.allowed is None else matrix.allowed[files],
        values={name: values[files] for name, values in matrix.values.items()},
        corpus=CorpusStatistics(
            corpus.name_coverage[number : number + 1],
            corpus.cosine_mean[number : number + 1],
            corpus.cosine_deviation[number : number + 1],
        ),
        chunks=_split_chunks(matrix.chunks, files, chunks),
        candidates=matrix.candidates[matrix.view_groups.rows(number)],
        file_cosines=None if matrix.file_cosines is None else matrix.file_cosines[files],
        best_cosines=None if matrix.best_cosines is None else matrix.best_cosines[files],
    )


def _split_chunks(signals: ChunkSignals, files: slice, chunks: slice) -> ChunkSignals:
    return ChunkSignals(
        groups=make_groups([chunks.stop - chunks.start]),
        starts=signals.starts[files] - chunks.start,
        files=signals.files[chunks] - files.start,
        keys=signals.keys[chunks],
        scores=signals.scores[chunks],
        coverage=signals.coverage[chunks],
        names=signals.names[chunks],
        defines=signals.defines[chunks],
        cosines=None if signals.cosines is None else signals.cosines[chunks],
        nearest=None if signals.nearest is None else signals.nearest[files],
        of_files={name: values[files] for name, values in signals.of_files.items()},
    )


# Computes the signals of a report for all live files of a corpus: name -> (F,), at least 0.
ReportSignals = Callable[[Corpus], Mapping[str, Floats]]


def make_snapshot(
    views: Sequence[SegmentView], generation: int, *snapshots: IndexSnapshot
) -> IndexSnapshot:
    """Make a snapshot of `views`.

    If one of `snapshots` has a segment too, its file names are reused.
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


def merge_segments_of(
    snapshot: IndexSnapshot, policy: MergePolicy
) -> Callable[[IndexSnapshot], IndexSnapshot] | None:
    """Merge segments of `snapshot`; return a function that applies the merges to a later snapshot.

    Return None if there is nothing to merge.
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


def compute_signal_matrix(
    snapshot: IndexSnapshot,
    query: QueryTerms,
    terms: TermCache,
    vector: Floats | None = None,
    file_filter: FileFilter | None = None,
    limit: int = 0,
    report_signals: ReportSignals | None = None,
) -> SignalMatrix:
    """Compute the signal matrix of the candidate files.

    `vector` is the vector of the query, (dimension,). `file_filter` chooses the files that may be
    shown. `report_signals` computes the additional signals of a report. `limit` is the number of
    files that will be shown. In a large index, only candidate files are scored: the best files of
    the whole index, so that a filter does not change how files compare with each other, and the
    best files that pass the filter.
    """
    allowed = None if file_filter is None else file_filter(snapshot.live_documents)
    of_report = None if report_signals is None else report_signals(snapshot.corpus)
    return compute_corpus_matrix(
        snapshot.corpus,
        query,
        terms,
        vector,
        allowed,
        limit,
        of_report,
    )


def compute_corpus_matrix(
    corpus: Corpus,
    query: QueryTerms,
    terms: TermCache,
    vector: Floats | None,
    allowed: Mask | None,
    limit: int,
    report_signals: Mapping[str, Floats] | None,
) -> SignalMatrix:
    """Compute the signal matrix of a corpus, like `compute_signal_matrix`.

    `allowed` marks the files that may be shown, (F,). In a corpus of several indexes every file is
    a candidate, so each file has the same values as in its index alone.
    """
    live = corpus.live
    definitions = match_definitions(corpus, query)
    hits = find_file_hits(corpus, query)
    values = _file_signals(corpus, query, terms, definitions, hits) | dict(report_signals or {})
    candidates = _select_candidates(corpus, values, vector, allowed, limit, report_signals)
    files = candidates.files
    chunks = _chunk_signals(corpus, query, definitions, candidates, vector)
    cosines = None if vector is None else _file_cosines(corpus, files, vector)
    question_signals = _question_signals(live, query, is_report=report_signals is not None)
    is_whole = len(files) == len(live.paths)
    return SignalMatrix(
        groups=candidates.file_groups,
        view_groups=corpus.view_groups,
        paths=live.paths if is_whole else tuple(map(live.paths.__getitem__, files.tolist())),
        languages=live.languages
        if is_whole
        else tuple(map(live.languages.__getitem__, files.tolist())),
        allowed=allowed if allowed is None or is_whole else allowed.take(files),
        values={
            name: values_of_signal if is_whole else values_of_signal.take(files)
            for name, values_of_signal in (values | question_signals).items()
        }
        | score_fields(corpus, hits, query, candidates)
        | chunks.of_files,
        corpus=_corpus_statistics(corpus, values["name_coverage"], files, cosines, vector),
        chunks=chunks,
        candidates=candidates.by_view,
        is_report=report_signals is not None,
        file_cosines=cosines,
        best_cosines=None
        if chunks.nearest is None or cosines is None
        else np.fmax(chunks.nearest, cosines),
    )


def _select_candidates(
    corpus: Corpus,
    values: Mapping[str, Floats],
    vector: Floats | None,
    allowed: Mask | None,
    limit: int,
    report_signals: Mapping[str, Floats] | None,
) -> Candidates:
    """Select the candidate files. In a small index or several indexes, these are all files."""
    if len(corpus.statistics) > 1 or are_all_candidates(len(corpus.live.paths), limit):
        return corpus.all_candidates
    nearness = None if vector is None else compare_vectors(corpus.views, corpus.live, vector)
    mentioned = np.sum(list(report_signals.values()), axis=0) if report_signals else None
    paths = corpus.live.paths
    files = select_candidates(values, nearness, allowed, limit, paths, mentioned)
    return gather_candidates(corpus, files)


def _question_signals(
    live: LiveDocuments, query: QueryTerms, *, is_report: bool
) -> dict[str, Floats]:
    """Return the signals of live files for a question: signal -> (F,).

    The signal `test_unasked` marks tests if the query is a sentence that does not ask for tests.
    For a report it always marks tests: a report may mention a failing test, but it is about the
    tested code.
    """
    is_sentence = not query.is_name and not ranking_signals.asks_for_tests(query.words)
    is_unasked = is_report or is_sentence
    tests = live.file_signals["test"]
    return live.file_signals | {"test_unasked": tests if is_unasked else np.zeros_like(tests)}


def _file_cosines(corpus: Corpus, files: Ints, vector: Floats) -> Floats:
    """Return the cosines of the mean vectors of files, (f,); NaN for a file without vectors."""
    return file_cosines(corpus.views, corpus.live.by_segment(files), vector)


def _corpus_statistics(
    corpus: Corpus,
    stem_shares: Floats,
    files: Ints,
    cosines: Floats | None,
    vector: Floats | None,
) -> CorpusStatistics:
    """Compute the statistics of all live files of each index.

    `cosines` are the cosines of the candidate `files`.
    """
    groups = corpus.file_groups
    if vector is None or cosines is None:
        means, deviations = np.zeros(len(groups), np.float32), np.ones(len(groups), np.float32)
    else:
        sample = corpus.live.sample
        is_sampled = len(sample) == len(files) == len(corpus.live.paths)
        sampled = cosines if is_sampled else corpus.sample_vectors.multiply(vector)
        means, deviations = ranking_signals.mean_and_deviation(
            sampled, groups if is_sampled else make_groups([len(sample)])
        )
    return CorpusStatistics(groups.largest(stem_shares), means, deviations)


def _file_signals(
    corpus: Corpus,
    query: QueryTerms,
    terms: TermCache,
    definitions: DefinitionMatches,
    hits: FileHits,
) -> dict[str, Floats]:
    """Compute the signals from words and names for each live file: signal -> (F,)."""
    name_query = make_name_query(
        query.words, [terms.stem(word) for word in query.words], query.shares
    )
    values = {
        "file_words": score_files_by_words(corpus, hits, query),
        "defined_exactly": definitions.of_files["defined_exactly"],
        "defined_folded": definitions.of_files["defined_folded"],
        "name_coverage": corpus.score_names(lambda names: stem_coverage(names, name_query)),
        "stem_match": corpus.score_names(lambda names: best_name_match(names, query.identifiers))
        if query.identifiers
        else np.zeros(len(corpus.live.paths), np.float32),
    }
    # The full name in the query has priority over its parts. If no file defines the name in any
    # letter case, the files that contain its words share it.
    usage = None
    if query.is_name:
        is_defined = corpus.file_groups.spread(
            corpus.file_groups.largest(values["defined_folded"]) > 0
        )
        usage = np.where(is_defined, np.float32(0), mark_files_with_all_terms(corpus, hits, query))
    values["definition_share"] = ranking_signals.definition_shares(
        definitions.of_files["whole"], values["defined_exactly"], usage, corpus.file_groups
    )
    return values


def _chunk_signals(
    corpus: Corpus,
    query: QueryTerms,
    definitions: DefinitionMatches,
    candidates: Candidates,
    vector: Floats | None,
) -> ChunkSignals:
    """Compute the signals of the chunks of the candidate files, in the order of the views."""
    scores, coverage = score_chunks(corpus, query, candidates)
    cosines = None if vector is None else chunk_cosines(candidates.by_view, vector)
    starts = candidates.starts
    term_count = sum(times for _, times in query.terms)
    best_three = ranking_signals.best_three(scores, starts, candidates.chunk_files)
    is_empty = not len(starts)
    return ChunkSignals(
        groups=candidates.chunk_groups,
        starts=starts,
        files=candidates.chunk_files,
        keys=candidates.keys,
        scores=scores,
        coverage=coverage,
        names=score_chunk_names(candidates, definitions),
        defines=candidates.defines,
        cosines=cosines,
        nearest=cosines if cosines is None or is_empty else np.fmax.reduceat(cosines, starts),
        of_files={
            "chunk_words": best_three,
            "mean_chunk_words": scores
            if is_empty
            else (np.add.reduceat(scores, starts) / candidates.counts).astype(np.float32),
            "chunk_points": best_three / np.float32(term_count or 1),
        },
    )
