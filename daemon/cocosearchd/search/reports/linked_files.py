"""Scores files that define names that the files mentioned in a report use. Pure.

A report shows how a program is used. The fix is often one step further: in code that the mentioned
files call. If few files define a term, the term links each file that contains it to these files.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.array_types import Floats, Ints, Mask, concatenate, join_ranges
from cocosearchd.search.lexical.ranking_signals import scale_to_maximum
from cocosearchd.search.lexical.scoring.candidate_selection import select_top
from cocosearchd.search.lexical.scoring.corpus import Corpus
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView

SEED_FILES = 10  # files that a question mentions most: as many as on the first page of an answer
# If the mention scores of two files differ by this, one file counts e times as much as the other.
SEED_SPREAD = 0.5
# If more files define a term, the term says little about the code that its users call.
MAX_DEFINING_FILES = 8
# Terms that are in more than this share of all files are ignored: they cost time and weigh little.
COMMON_SHARE = 0.1
MIN_COMMON = 50  # files: a term in at most so many files is never ignored
# Terms that are followed. Ten files have some 3,000 terms, but a file of data may have a million.
MAX_TERMS = 20_000
MIN_FILES = 20  # files: an index with at most so many is shown as a whole, without links


class _Terms(NamedTuple):
    """T terms that link files that contain them to the few files that define them."""

    hashes: NDArray[np.uint64]  # (T,)
    having: Ints  # (T,): number of live files that have the term
    defining: Ints  # (T,): number of live files with a definition whose name has the term


def score_linked_files(corpus: Corpus, mentioned: Floats) -> Floats:
    """Score each live file by how much the mentioned files use its definitions: (F,), 0 to 1.

    `mentioned` tells how much the question mentions each file, (F,). Tests, documents and examples
    are neither followed nor found. A term counts more if fewer files have it.
    """
    scores = [
        _score_index(part, mentioned[corpus.file_groups.rows(number)])
        for number, part in enumerate(corpus.parts or (corpus,))
    ]
    return concatenate(scores, np.float32)


def _score_index(corpus: Corpus, mentioned: Floats) -> Floats:
    count = len(corpus.live.paths)
    if count <= MIN_FILES:
        return np.zeros(count, np.float32)
    is_code = _mark_code(corpus)
    seeds = _weigh_seeds(corpus, np.where(is_code, mentioned, np.float32(0)))
    terms = _select_linking(corpus, _find_terms(corpus, np.flatnonzero(seeds)))
    files, numbers, is_defined = _find_pairs(corpus, terms.hashes)
    uses = np.bincount(numbers, np.where(is_defined, 0, seeds[files]), len(terms.hashes))
    shares = uses * np.log1p(count / terms.having) / terms.defining
    links = np.bincount(files[is_defined], shares[numbers[is_defined]], count) * is_code
    return scale_to_maximum(np.log1p(links).astype(np.float32))


def _mark_code(corpus: Corpus) -> Mask:
    signals = corpus.live.file_signals
    return ~(signals["test"] + signals["prose"] + signals["aside"]).astype(np.bool_)


def _weigh_seeds(corpus: Corpus, mentioned: Floats) -> Floats:
    """Return the weights of the seed files, (F,): 0 for all other files; the sum is 1 or 0."""
    weights = np.zeros(len(mentioned), np.float32)
    positive = np.flatnonzero(mentioned > 0)
    seeds = select_top(positive, mentioned[positive], SEED_FILES, corpus.live.paths)
    if len(seeds):
        values = np.exp((mentioned[seeds] - mentioned[seeds].max()) / SEED_SPREAD)
        weights[seeds] = values / values.sum()
    return weights


def _find_terms(corpus: Corpus, files: Ints) -> NDArray[np.uint64]:
    """Return the unique term hashes of some live files, ascending.

    If there are more than `MAX_TERMS`, the first ones are taken: hashes are a fair sample, whatever
    segments the files are in.
    """
    hashes = [
        view.segment.file_terms[_terms_of_files(view.segment, numbers)]
        for view, numbers in zip(corpus.views, corpus.live.by_segment(files), strict=True)
        if len(numbers)
    ]
    terms = hashes[0] if len(hashes) == 1 else np.unique(concatenate(hashes, np.uint64))
    return terms[:MAX_TERMS]


def _terms_of_files(segment: Segment, files: Ints) -> Ints:
    """Return the unique term numbers of some files of a segment, ascending."""
    rows = _rows_of_files(segment, files)
    return rows[np.diff(rows, prepend=-1) > 0]


def _rows_of_files(segment: Segment, files: Ints) -> Ints:
    """Return the term number of each posting of some files of a segment, ascending."""
    is_chosen = np.zeros(segment.file_count, np.bool_)
    is_chosen[files] = True
    rows = np.flatnonzero(is_chosen.take(segment.posting_files))
    return segment.file_slices.searchsorted(rows, side="right") - 1


def _select_linking(corpus: Corpus, hashes: NDArray[np.uint64]) -> _Terms:
    """Select the terms that only few live files define, without terms that are common in all files."""
    having = np.zeros(len(hashes), np.int64)
    for view in corpus.views:
        having += _count_live(view, hashes)
    is_rare = having <= max(MIN_COMMON, int(COMMON_SHARE * len(corpus.live.paths)))
    defining = np.zeros(len(hashes), np.int64)
    for view, rows in zip(corpus.views, corpus.defining_rows, strict=True):
        defining += np.where(is_rare, _count_defining(view, rows, hashes), 0)
    is_linking = (defining > 0) & (defining <= MAX_DEFINING_FILES)
    return _Terms(hashes[is_linking], having[is_linking], defining[is_linking])


def _count_defining(view: SegmentView, defining_rows: Ints, hashes: NDArray[np.uint64]) -> Ints:
    """Count the live files of a view that define each term, (T,), among the `defining_rows`."""
    segment = view.segment
    if view.alive is not None:
        is_live = view.alive.take(segment.posting_files.take(defining_rows))
        defining_rows = defining_rows[is_live]
    starts, ends = segment.file_row_bounds(hashes)
    counts: Ints = defining_rows.searchsorted(ends) - defining_rows.searchsorted(starts)
    return counts


def _count_live(view: SegmentView, hashes: NDArray[np.uint64]) -> Ints:
    """Count the live files of a view that have each term, (T,)."""
    segment = view.segment
    starts, ends = segment.file_row_bounds(hashes)
    counts: Ints = ends - starts
    if view.alive is not None:
        dead = _rows_of_files(segment, np.flatnonzero(~view.alive))
        dead_hashes, dead_counts = np.unique(segment.file_terms[dead], return_counts=True)
        _, terms, rows = np.intersect1d(hashes, dead_hashes, return_indices=True)
        counts[terms] -= dead_counts[rows]
    return counts


def _expand(segment: Segment, hashes: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Return the postings of the terms in a segment, and the term number of each posting."""
    starts, ends = segment.file_row_bounds(hashes)
    counts = ends - starts
    return join_ranges(starts, counts), np.repeat(np.arange(len(hashes)), counts)


def _find_pairs(corpus: Corpus, hashes: NDArray[np.uint64]) -> tuple[Ints, Ints, Mask]:
    """Return the pairs of a live file and a term that it contains.

    The mask selects the pairs in which the file defines the term.
    """
    files, terms, defined = list[Ints](), list[Ints](), list[Mask]()
    for number, view in enumerate(corpus.views):
        rows, terms_of_rows = _expand(view.segment, hashes)
        numbers, live = corpus.number_files(number, view.segment.posting_files.take(rows))
        is_defined = view.segment.posting_defined.take(rows) > 0
        files.append(numbers)
        terms.append(terms_of_rows if live is None else terms_of_rows[live])
        defined.append(is_defined if live is None else is_defined[live])
    return (
        concatenate(files, np.int64),
        concatenate(terms, np.int64),
        concatenate(defined, np.bool_),
    )
