"""Computes how much of a text one chunk of a file covers: the share of its words there. Pure."""

from collections.abc import Sequence

import numpy as np

from cocosearchd.search.lexical import ranking_signals
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.lexical.scoring.bm25 import (
    PostingRuns,
    count_live_chunks,
    find_runs,
    sum_runs,
)
from cocosearchd.search.lexical.scoring.corpus import Corpus
from cocosearchd.search.lexical.segments.live_documents import select_live
from cocosearchd.search.lexical.segments.segment import Segment

MIN_TERMS = 3  # counted terms of a text: fewer are no evidence that a place has the text
# Terms that are in more than this share of all chunks are ignored: they cost time and weigh little.
COMMON_SHARE = 0.1
MIN_COMMON = 50  # chunks: a term in at most so many chunks is never ignored


def cover_files(corpus: Corpus, terms: Sequence[int]) -> Floats:
    """Return for each live file the largest share of a text in one of its chunks: (F,), 0 to 1.

    Shares are weighted by idf. `terms` are the term hashes of the text. In each index, terms that
    no chunk has (such as values in a message) and common terms do not count. If fewer than
    `MIN_TERMS` terms are left, every file of the index has 0.
    """
    runs = find_runs(corpus, np.array(terms, np.uint64), Segment.chunk_row_bounds)
    counts = sum_runs(corpus, runs, count_live_chunks(corpus, runs), len(terms))
    most = np.maximum(MIN_COMMON, corpus.chunk_counts * COMMON_SHARE)
    is_used = (counts > 0) & (counts <= most[:, None])
    is_used &= (np.count_nonzero(is_used, axis=1) >= MIN_TERMS)[:, None]
    idfs = np.where(is_used, ranking_signals.idf(counts, corpus.chunk_counts[:, None]), 0)
    sums = idfs.sum(axis=1, keepdims=True)
    shares = (idfs / np.where(sums > 0, sums, 1)).astype(np.float32)
    return select_live(corpus.views, _cover_views(corpus, runs, shares))


def _cover_views(corpus: Corpus, runs: PostingRuns, shares: Floats) -> list[Floats]:
    """Return, by view, for each file of the segment its largest sum of shares in one chunk, (F,)."""
    covered: list[Floats | None] = [None] * len(corpus.views)
    weights = shares[corpus.view_groups.numbers[runs.views], runs.terms]
    for number in np.flatnonzero(weights).tolist():
        view = int(runs.views[number])
        segment = corpus.views[view].segment
        of_view = covered[view]
        if of_view is None:
            of_view = covered[view] = np.zeros(segment.chunk_count, np.float32)
        rows = slice(int(runs.starts[number]), int(runs.ends[number]))
        of_view[segment.posting_chunks[rows]] += weights[number]
    return [
        np.zeros(view.segment.file_count, np.float32)
        if of_view is None
        else np.maximum.reduceat(of_view, view.segment.chunk_starts)
        for view, of_view in zip(corpus.views, covered, strict=True)
    ]
