"""Coverage of a text by the chunks of files: the share of its words that are in one place. Pure."""

from collections.abc import Sequence

import numpy as np

from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.lexical.scoring.bm25 import count_live_rows
from cocosearchd.search.lexical.scoring.corpus import FieldStatistics
from cocosearchd.search.lexical.segments.live_documents import select_live
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView

MIN_TERMS = 3  # of a text: fewer are no evidence that a place has the text
# Terms that more chunks have, of all: they cost time, and weigh little.
COMMON_SHARE = 0.1
MIN_COMMON = 50  # chunks


def cover_files(
    views: Sequence[SegmentView], statistics: FieldStatistics, terms: Sequence[int]
) -> Floats:
    """Return the largest share of a text, by idf, that a chunk of each live file has: (F,), 0 to 1.

    `terms` are the hashes of the text. Those that nothing has, such as values in a message, do not
    count; neither do common ones. It is 0 for every file if fewer than `MIN_TERMS` are left.
    """
    hashes = np.array(terms, np.uint64)
    rows = [view.segment.chunk_rows(hashes) for view in views]
    counts = np.array(
        [
            [count_live_rows(view, row) for row in of_view]
            for view, of_view in zip(views, rows, strict=True)
        ],
        np.int64,
    )
    totals = counts.reshape(len(views), len(terms)).sum(axis=0)
    most = max(MIN_COMMON, statistics.chunks * COMMON_SHARE)
    used = np.flatnonzero((totals > 0) & (totals <= most)).tolist()
    idfs = {number: float(features.idf(int(totals[number]), statistics.chunks)) for number in used}
    idf_sum = sum(idfs.values())
    if len(used) < MIN_TERMS or not idf_sum:
        return np.zeros(statistics.files, np.float32)
    shares = {number: np.float32(idf / idf_sum) for number, idf in idfs.items()}
    return select_live(
        views,
        [
            _cover_segment(view.segment, of_view, shares)
            for view, of_view in zip(views, rows, strict=True)
        ],
    )


def _cover_segment(
    segment: Segment, rows: Sequence[slice], shares: dict[int, np.float32]
) -> Floats:
    """Return the largest sum of shares in a chunk of each file of a segment, (F,)."""
    covered = np.zeros(segment.chunk_count, np.float32)
    for number, share in shares.items():
        covered[segment.posting_chunks[rows[number]]] += share
    if not len(covered):
        return np.zeros(segment.file_count, np.float32)
    best: Floats = np.maximum.reduceat(covered, segment.chunk_starts)
    return best
