"""Computes BM25 scores for one query: live files by all text, candidates by field and chunk. Pure.

The rows of the terms are looked up segment by segment. Then all terms of all segments are scored at
once: many small array operations would cost more than the arithmetic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical import ranking_signals
from cocosearchd.search.lexical.analysis.terms import QueryTerms
from cocosearchd.search.lexical.array_types import (
    Array,
    Floats,
    Ints,
    Mask,
    concatenate,
    join_ranges,
    mark_changes,
)
from cocosearchd.search.lexical.scoring.corpus import Candidates, Corpus
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView

# k1 and b by field: tuned on the development half within the usual ranges; the optimum is flat.
_CHUNK_BM25 = (1.5, 0.75)
_FILE_BM25 = (2.5, 0.6)
_FIELDS = {  # column, place of its length, k1, b
    "definition_words": ("posting_defined", 1, 1.2, 0.6),
    "comment_words": ("posting_commented", 2, 1.5, 0.75),
    "path_words": ("posting_paths", 3, 1.2, 0.5),
}
# At least `MANY_RUNS` runs with fewer rows than `SHORT_RUN` on average, such as those of many small
# indexes, are read by one operation: reading one run alone takes as long as copying some hundred rows.
MANY_RUNS = 64
SHORT_RUN = 64
_FindBounds = Callable[[Segment, NDArray[np.uint64]], tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True)
class PostingRuns:
    """Rows of the terms of a query: one run per view and term, view by view."""

    views: Ints  # (n,)
    terms: Ints  # (n,): number of the term in the query
    starts: Ints  # (n,): first row, in the columns of the segment
    ends: Ints  # (n,)

    @property
    def counts(self) -> Ints:
        """The number of rows of each run, (n,)."""
        counts: Ints = self.ends - self.starts
        return counts

    def concatenate(self, views: Sequence[SegmentView], column: str, kind: type) -> Array:
        """Concatenate the values of a column for all runs: (R,)."""
        columns = [getattr(view.segment, column) for view in views]
        counts = self.counts
        if len(counts) >= MANY_RUNS and int(counts.sum()) < SHORT_RUN * len(counts):
            return concatenate(self._take_rows(columns, counts), kind)
        return concatenate(
            [
                columns[view][start:end]
                for view, start, end in zip(
                    self.views.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True
                )
            ],
            kind,
        )

    def _take_rows(self, columns: Sequence[Array], counts: Ints) -> list[Array]:
        """Return the values of a column for the runs of each view, by one operation for a view."""
        rows = join_ranges(self.starts, counts)
        firsts = np.flatnonzero(mark_changes(self.views))
        row_ends = np.cumsum(np.add.reduceat(counts, firsts)).tolist()
        return [
            columns[view].take(rows[start:end])
            for view, start, end in zip(
                self.views[firsts].tolist(), [0, *row_ends], row_ends, strict=False
            )
        ]


@dataclass(frozen=True, slots=True)
class FileHits:
    """The live files of a corpus that contain the terms of a query.

    The table has R rows, in one run per view and term, without dead files. A run ends at its entry
    of `run_ends`.
    """

    runs: PostingRuns
    run_ends: Ints  # (n,): ends of the runs among the R rows
    live: Mask | None  # mask of the rows of `runs` that belong to live files; None for all
    files: Ints  # (R,): numbers of live files
    terms: Ints  # (R,)
    groups: NDArray[np.int32]  # (R,): number of the index

    def column(self, corpus: Corpus, name: str) -> Floats:
        """Return the values of a segment column for the rows, (R,)."""
        values: Floats = self.runs.concatenate(corpus.views, name, np.float32)
        return values if self.live is None else values[self.live]

    def document_counts(self, corpus: Corpus, terms: int, having: Mask | None = None) -> Ints:
        """Count the files of each index that have each term, (G, terms).

        The mask `having`, (R,), selects the rows that count.
        """
        bounds = np.append(0, self.run_ends)
        if having is not None:
            bounds = np.append(0, np.cumsum(having)).take(bounds)
        return sum_runs(corpus, self.runs, bounds[1:] - bounds[:-1], terms)


class IdLookup:
    """A lookup from numbers to their positions in a selection."""

    def __init__(self, size: int, selected: Ints) -> None:
        """Mark the `selected` numbers, which are distinct.

        All numbers, also those looked up, are below `size`.
        """
        self._is_selected = np.zeros(size, np.bool_)
        self._is_selected[selected] = True
        self._positions = np.empty(size, np.int32)  # only selected entries are ever written or read
        self._positions[selected] = np.arange(len(selected), dtype=np.int32)

    def __call__(self, numbers: NDArray[np.integer]) -> tuple[Ints, NDArray[np.int32]]:
        """Find the selected ones of `numbers`: their indices, and their positions in the selection."""
        (matches,) = self._is_selected.take(numbers).nonzero()
        return matches, self._positions.take(numbers.take(matches))


def find_file_hits(corpus: Corpus, query: QueryTerms) -> FileHits:
    """Find the live files that have the terms of a query."""
    runs = find_runs(corpus, _term_hashes(query), Segment.file_row_bounds)
    files = runs.concatenate(corpus.views, "posting_files", np.int64)
    files += np.repeat(np.array(corpus.live.starts, np.int64)[runs.views], runs.counts)
    terms = np.repeat(runs.terms, runs.counts)
    run_ends = np.cumsum(runs.counts)
    live = None
    if any(view.alive is not None for view in corpus.views):
        live = _renumber_live(corpus, runs, run_ends, files)
        run_ends = np.append(0, np.cumsum(live))[run_ends]
        files, terms = files[live], terms[live]
    return FileHits(runs, run_ends, live, files, terms, corpus.file_groups.numbers[files])


def _renumber_live(corpus: Corpus, runs: PostingRuns, run_ends: Ints, files: Ints) -> Mask:
    """Renumber the rows of `files` in place as live files; return the mask of the live rows."""
    live = np.ones(len(files), np.bool_)
    for view, end, count in zip(
        runs.views.tolist(), run_ends.tolist(), runs.counts.tolist(), strict=True
    ):
        rows = slice(end - count, end)
        numbers, mask = corpus.number_files(view, files[rows] - corpus.live.starts[view])
        if mask is not None:
            live[rows] = mask
            files[rows][mask] = numbers
    return live


def mark_files_with_all_terms(corpus: Corpus, hits: FileHits, query: QueryTerms) -> Floats:
    """Return 1 for live files that have all terms of the query, else 0: (F,)."""
    counts = np.bincount(hits.files, minlength=len(corpus.live.paths))
    marks: Floats = ((counts > 0) & (counts == len(query.terms))).astype(np.float32)
    return marks


def score_files_by_words(corpus: Corpus, hits: FileHits, query: QueryTerms) -> Floats:
    """Score the live files by BM25 over all their text, (F,)."""
    counts = hits.document_counts(corpus, len(query.terms))
    weights = _idfs(counts, corpus.file_counts) * _query_frequencies(query)
    shares = ranking_signals.bm25(
        _pick(weights, hits.groups, hits.terms),
        hits.column(corpus, "posting_everything"),
        corpus.file_lengths[:, 0].take(hits.files),
        _averages(corpus.file_averages[:, 0], hits.groups),
        *_FILE_BM25,
    )
    scores: Floats = np.bincount(hits.files, shares, len(corpus.live.paths)).astype(np.float32)
    return scores


def score_fields(
    corpus: Corpus, hits: FileHits, query: QueryTerms, candidates: Candidates
) -> dict[str, Floats]:
    """Score the candidate files by BM25 over each field: field -> (f,)."""
    positions: NDArray[np.integer] = hits.files
    rows: slice | Ints = slice(None)
    if len(candidates.files) < len(corpus.live.paths):
        rows, positions = IdLookup(len(corpus.live.paths), candidates.files)(hits.files)
    groups, terms = hits.groups[rows], hits.terms[rows]
    lengths = corpus.file_lengths[hits.files[rows]]
    columns = [hits.column(corpus, column) for column, *_ in _FIELDS.values()]
    counts = [hits.document_counts(corpus, len(query.terms), tf > 0) for tf in columns]
    weights = _idfs(np.array(counts), corpus.file_counts) * _query_frequencies(query)
    scores = dict[str, Floats]()
    for (name, (_, number, k1, b)), tf, field_weights in zip(
        _FIELDS.items(), columns, weights, strict=True
    ):
        shares = ranking_signals.bm25(
            _pick(field_weights, groups, terms),
            tf[rows],
            lengths[:, number],
            _averages(corpus.file_averages[:, number], groups),
            k1,
            b,
        )
        scores[name] = np.bincount(positions, shares, len(candidates.files)).astype(np.float32)
    return scores


def score_chunks(
    corpus: Corpus, query: QueryTerms, candidates: Candidates
) -> tuple[Floats, Floats]:
    """Score the candidate chunks by BM25, and compute their coverage.

    The coverage is the share of the query's idf mass that a chunk has, 0 to 1.
    """
    runs = find_runs(corpus, _term_hashes(query), Segment.chunk_row_bounds)
    counts = sum_runs(corpus, runs, count_live_chunks(corpus, runs), len(query.terms))
    idfs = _idfs(counts, corpus.chunk_counts)
    weights = idfs * _query_frequencies(query)
    positions, terms, tf = _match_chunks(corpus, candidates, runs)
    groups = candidates.chunk_groups.numbers.take(positions)
    shares = ranking_signals.bm25(
        _pick(weights, groups, terms),
        tf,
        candidates.lengths.take(positions),
        _averages(corpus.chunk_averages, groups),
        *_CHUNK_BM25,
    )
    size = len(candidates.lengths)
    scores: Floats = np.bincount(positions, shares, size).astype(np.float32)
    coverage: Floats = np.bincount(positions, _pick(idfs, groups, terms), size).astype(np.float32)
    ideals: Floats = idfs.sum(axis=1)
    ideals[ideals == 0] = 1
    ideals = candidates.chunk_groups.spread(ideals)
    return scores, coverage / ideals


def _match_chunks(
    corpus: Corpus, candidates: Candidates, runs: PostingRuns
) -> tuple[Ints, Ints, Floats]:
    """Match rows to candidate chunks; return the position of each chunk, its term and frequency."""
    if not all(candidate.are_all for candidate in candidates.by_view):
        return _look_up_chunks(corpus, candidates, runs)
    positions = runs.concatenate(corpus.views, "posting_chunks", np.int64)
    positions += np.repeat(candidates.chunk_starts[runs.views], runs.counts)
    counts = runs.concatenate(corpus.views, "posting_counts", np.float32)
    return positions, np.repeat(runs.terms, runs.counts), counts


def _look_up_chunks(
    corpus: Corpus, candidates: Candidates, runs: PostingRuns
) -> tuple[Ints, Ints, Floats]:
    """Match only some rows, because only some chunks are candidates."""
    ends = np.cumsum([candidate.segment.chunk_count for candidate in candidates.by_view])
    firsts = np.append(0, ends)  # numbers of chunks across all segments
    selected = np.concatenate(
        [
            candidate.chunks + first
            for candidate, first in zip(candidates.by_view, firsts, strict=False)
        ]
    )
    counts = runs.counts
    chunks = runs.concatenate(corpus.views, "posting_chunks", np.int64)
    chunks += np.repeat(firsts[runs.views], counts)
    matches, positions = IdLookup(int(firsts[-1]), selected)(chunks)
    return (
        positions.astype(np.int64),
        np.repeat(runs.terms, counts).take(matches),
        runs.concatenate(corpus.views, "posting_counts", np.uint8).take(matches).astype(np.float32),
    )


def find_runs(corpus: Corpus, hashes: NDArray[np.uint64], find_bounds: _FindBounds) -> PostingRuns:
    """Find the rows of the terms in each view."""
    bounds = [find_bounds(view.segment, hashes) for view in corpus.views]
    shape = (len(bounds), len(hashes))
    starts = concatenate([first for first, _ in bounds], np.int64).reshape(shape)
    ends = concatenate([last for _, last in bounds], np.int64).reshape(shape)
    views, terms = np.nonzero(ends > starts)
    return PostingRuns(views, terms, starts[views, terms], ends[views, terms])


def count_live_chunks(corpus: Corpus, runs: PostingRuns) -> Ints:
    """Count the live chunks of each run, (n,)."""
    counts = runs.counts
    if any(view.alive_chunks is not None for view in corpus.views):
        for number, view in enumerate(runs.views.tolist()):
            rows = slice(int(runs.starts[number]), int(runs.ends[number]))
            counts[number] = count_live_rows(corpus.views[view], rows)
    return counts


def count_live_rows(view: SegmentView, rows: slice) -> int:
    """Count the live chunks among the rows of a term."""
    if view.alive_chunks is None:
        return int(rows.stop) - int(rows.start)
    return int(np.count_nonzero(view.alive_chunks.take(view.segment.posting_chunks[rows])))


def sum_runs(corpus: Corpus, runs: PostingRuns, counts: Ints, terms: int) -> Ints:
    """Sum the counts of runs by index and term: (G, terms)."""
    groups = corpus.view_groups.numbers[runs.views].astype(np.int64)
    sums = np.bincount(groups * terms + runs.terms, counts, len(corpus.statistics) * terms)
    totals: Ints = sums.astype(np.int64).reshape(len(corpus.statistics), terms)
    return totals


def _pick(values: Floats, groups: NDArray[np.integer], terms: Ints) -> Floats:
    """Return for each pair of group and term its value in `values`, (G, T)."""
    if len(values) == 1:
        row: Floats = values[0]
        return row.take(terms)
    numbers: Ints = groups * np.int64(values.shape[1]) + terms
    flat: Floats = values.ravel()
    return flat.take(numbers)


def _averages(averages: Floats, groups: NDArray[np.integer]) -> Floats:
    """Return the average of each row's group; for a single group, only its average: (1,)."""
    return averages if len(averages) == 1 else averages[groups]


def _term_hashes(query: QueryTerms) -> NDArray[np.uint64]:
    return np.array([term for term, _ in query.terms], np.uint64)


def _query_frequencies(query: QueryTerms) -> Floats:
    return np.array([frequency for _, frequency in query.terms], np.float32)


def _idfs(counts: Ints, totals: Ints) -> Floats:
    """Compute term weights for each index: (G, T). `counts` of `totals` documents have the term."""
    return ranking_signals.idf(counts, totals[:, None]).astype(np.float32)
