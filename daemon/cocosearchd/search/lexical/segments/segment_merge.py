"""Merges the live documents of adjacent segments into one segment, by a merge policy.

Commits append segments to the list of views. A segment is merged with the segments after it when
these are together as large. Therefore each row is written about log(number of commits) times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from cocosearchd.search.lexical.array_types import Array, Ints, Mask
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView, quantise_to_bits

# Limits of merges, in chunks: while commits come, and while idle. A merge of 100,000 chunks takes
# 0.4 s, and a commit waits for it. A merge of 430,000 chunks takes 1.5 s of CPU and 0.6 GB; half of
# the memory is the result (measured).
SEGMENT_CHUNKS = 100_000
LARGEST_CHUNKS = 500_000
_FILE_COLUMNS = ("digests", "characters", "file_lengths", "file_vectors", "file_scales")
_CHUNK_COLUMNS = ("keys", "chunk_lengths", "vectors", "scales")


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """Thresholds of merges: tighter thresholds make queries cheaper and commits more expensive."""

    # a segment is merged with the segments after it unless these are together this many times
    # smaller
    ratio: int
    max_dead_share: float  # share of dead files above which a segment is rewritten
    floor_chunks: int  # segments at the end with together at most so many chunks are always merged
    max_chunks: int = SEGMENT_CHUNKS  # chunks of a merged segment


@dataclass(frozen=True, slots=True)
class SegmentMerge:
    """A run of adjacent views, and the segment of their live documents.

    The segment is None if no document is alive.
    """

    run: range
    segment: Segment | None


# Policy while commits come. In a simulation of 300 commits, a row is written 4 times (10 times with
# the policy below), and there are 4 segments on average (2.6 with the policy below). Dead files do
# not cause a rewrite of a segment: the rest may die soon, or the dead files may come back.
BUSY = MergePolicy(ratio=1, max_dead_share=1, floor_chunks=0)
# Policies of an idle index: each segment costs a query 0.3 ms, and a merge of 2,000 chunks takes 8
# ms.
QUIET = MergePolicy(ratio=4, max_dead_share=0.2, floor_chunks=2000)
RESTING = replace(QUIET, max_chunks=LARGEST_CHUNKS)
# In a balanced run, no segment has more than 1 / _BALANCE of the chunks. Therefore a row takes part
# in few of these expensive merges.
_BALANCE = 3


def compact(views: Sequence[SegmentView], policy: MergePolicy) -> tuple[SegmentView, ...]:
    """Merge views by a policy, and drop views without live documents."""
    return apply_merges(views, perform_merges(views, policy), views)


def perform_merges(views: Sequence[SegmentView], policy: MergePolicy) -> list[SegmentMerge]:
    """Merge the segments that a policy selects; return the merges in ascending order of their runs."""
    live = [number for number, view in enumerate(views) if view.live_file_count]
    runs = _select_runs([views[number] for number in live], policy)
    merges = [
        SegmentMerge(range(n, n + 1), None)
        for n, view in enumerate(views)
        if not view.live_file_count
    ]
    for run in runs:
        first = live[run.start]
        last = live[run.stop - 1] + 1
        merges = [merge for merge in merges if not first <= merge.run.start < last]
        merges.append(SegmentMerge(range(first, last), merge_segments(views[first:last])))
    return sorted(merges, key=lambda merge: merge.run.start)


def apply_merges(
    earlier: Sequence[SegmentView],
    merges: Sequence[SegmentMerge],
    later: Sequence[SegmentView],
) -> tuple[SegmentView, ...]:
    """Apply merges of the views `earlier` to a later list of the views, `later`.

    In between, files may have died, and views may have been added or merged. Merges apply only up
    to the first view that has another segment. A run with restored files is not replaced either,
    because the merged segment lacks these files.
    """
    unchanged = _count_same_segments(earlier, later)
    views = list[SegmentView]()
    position = 0
    for merge in merges:
        if merge.run.stop > unchanged:
            break
        run = slice(merge.run.start, merge.run.stop)
        pairs = list(zip(earlier[run], later[run], strict=True))
        if any(old.restored_generations is not new.restored_generations for old, new in pairs):
            continue
        views.extend(later[position : run.start])
        position = run.stop
        if merge.segment is not None:
            views.append(_view_merged(merge.segment, pairs))
    return tuple(view for view in (*views, *later[position:]) if view.live_file_count)


def _count_same_segments(earlier: Sequence[SegmentView], later: Sequence[SegmentView]) -> int:
    """Count the leading views that have the same segments in both lists."""
    pairs = zip(earlier, later, strict=False)
    same = takewhile(lambda pair: pair[0].segment is pair[1].segment, pairs)
    return sum(1 for _ in same)


def _view_merged(segment: Segment, pairs: Sequence[tuple[SegmentView, SegmentView]]) -> SegmentView:
    """Make the view of a merged segment: files that have died since the merge are dead."""
    alive = np.concatenate([_still_alive(old, new) for old, new in pairs])
    view = SegmentView(segment)
    return view if alive.all() else view.with_deleted(np.flatnonzero(~alive).tolist())


def _still_alive(earlier: SegmentView, later: SegmentView) -> Mask:
    """Mark the files that are still alive, among the files that were alive in the earlier view."""
    if later.alive is None:
        return np.ones(later.segment.file_count, np.bool_)
    return later.alive if earlier.alive is None else later.alive[earlier.alive]


def _select_runs(views: Sequence[SegmentView], policy: MergePolicy) -> list[range]:
    """Select disjoint runs of live views: each run is merged into one segment."""
    if not views:
        return []
    first = _find_tail_start(views, policy)
    tail = (
        range(first, len(views))
        if len(views) - first > 1 or _has_many_dead(views[first], policy)
        else range(0)
    )
    balanced = _find_balanced_run(views[: tail.start] if tail else views, policy)
    dead = [
        range(n, n + 1)
        for n in range(first)
        if n not in balanced and _has_many_dead(views[n], policy)
    ]
    return [run for run in (balanced, tail, *dead) if run]


def _find_tail_start(views: Sequence[SegmentView], policy: MergePolicy) -> int:
    """Find the first view of the tail that is merged after the last commit."""
    first = len(views) - 1
    chunks = views[-1].segment.chunk_count
    while first:
        previous = views[first - 1].segment.chunk_count
        together = chunks + previous
        if together > SEGMENT_CHUNKS or (
            chunks * policy.ratio < previous and together > policy.floor_chunks
        ):
            break
        first = first - 1
        chunks = chunks + previous
    return first


def _find_balanced_run(views: Sequence[SegmentView], policy: MergePolicy) -> range:
    """Find the longest balanced run: no view in it is large compared with the run.

    Only a policy with large segments has such runs.
    """
    best = range(0)
    if policy.max_chunks == SEGMENT_CHUNKS:
        return best
    for first in range(len(views)):
        chunks = largest = 0
        for last in range(first, len(views)):
            size = views[last].segment.chunk_count
            chunks = chunks + size
            largest = max(largest, size)
            if chunks > policy.max_chunks:
                break
            if largest * _BALANCE <= chunks and last + 1 - first > len(best):
                best = range(first, last + 1)
    return best


def _has_many_dead(view: SegmentView, policy: MergePolicy) -> bool:
    return (
        view.segment.chunk_count <= policy.max_chunks
        and view.live_file_count < (1 - policy.max_dead_share) * view.segment.file_count
    )


def merge_segments(views: Sequence[SegmentView]) -> Segment:
    """Merge the live documents of `views` into one segment, in their order."""
    segments = [view.segment for view in views]
    files = [view.live_files for view in views]
    chunks = [view.live_chunks for view in views]
    new_files = _renumber(files, [segment.file_count for segment in segments])
    new_chunks = _renumber(chunks, [segment.chunk_count for segment in segments])
    fixed = _merge_columns(segments, files, _FILE_COLUMNS)
    fixed |= _merge_columns(segments, chunks, _CHUNK_COLUMNS)
    counts = _select([segment.chunk_ends - segment.chunk_starts for segment in segments], files)
    ends = np.cumsum(counts)
    return Segment(
        chunk_starts=ends - counts,
        chunk_ends=ends,
        chunk_files=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        without_vector=np.flatnonzero(fixed["scales"] == 0),
        binary_vectors=quantise_to_bits(fixed["vectors"]),
        generations=_select([view.generations for view in views], files),
        **fixed,
        **_merge_texts(segments, files, "paths", "path_ends"),
        **_merge_texts(segments, files, "languages", "language_ends"),
        **_merge_postings(segments, new_chunks, "chunk", ("posting_counts",)),
        **_merge_postings(
            segments,
            new_files,
            "file",
            ("posting_everything", "posting_defined", "posting_commented", "posting_paths"),
        ),
        **_merge_names(segments, new_chunks, "exact"),
        **_merge_names(segments, new_chunks, "folded"),
        **_merge_symbols(segments, new_chunks),
    )


def _select(columns: Sequence[Array], live: Sequence[slice | Mask]) -> Array:
    return np.concatenate([column[rows] for column, rows in zip(columns, live, strict=True)])


def _merge_columns(
    segments: Sequence[Segment], live: Sequence[slice | Mask], names: Sequence[str]
) -> dict[str, Array]:
    return {name: _select([getattr(segment, name) for segment in segments], live) for name in names}


def _merge_texts(
    segments: Sequence[Segment], live: Sequence[slice | Mask], texts: str, ends: str
) -> dict[str, Array]:
    """Merge concatenated texts and their ends."""
    sizes = [np.diff(getattr(segment, ends), prepend=0) for segment in segments]
    inside = [
        rows if isinstance(rows, slice) else np.repeat(rows, size)
        for rows, size in zip(live, sizes, strict=True)
    ]
    return {
        **_merge_columns(segments, inside, (texts,)),
        ends: np.cumsum(_select(sizes, live), dtype=np.int64),
    }


def _merge_postings(
    segments: Sequence[Segment], new_numbers: Sequence[Ints], kind: str, columns: Sequence[str]
) -> dict[str, Array]:
    """Merge the rows of all segments by term; the rows of a term keep their order.

    Terms are sorted instead of rows, because there are many times fewer terms.
    """
    numbers = np.concatenate(
        [
            numbers_by_row[getattr(segment, f"posting_{kind}s")]
            for segment, numbers_by_row in zip(segments, new_numbers, strict=True)
        ]
    )
    terms = np.concatenate([getattr(segment, f"{kind}_terms") for segment in segments])
    slices = [getattr(segment, f"{kind}_slices") for segment in segments]
    sizes = np.concatenate([np.diff(bounds) for bounds in slices])
    terms, ends, rows = _sort_by_term(terms, sizes)
    numbers = numbers[rows]
    if not numbers.min(initial=0) < 0:
        selected = rows
    else:
        alive = numbers >= 0
        numbers = numbers[alive]
        selected = rows[alive]
        ends = np.append(0, np.cumsum(alive))[ends]
    # marks the entry of the last segment that has a term
    last = np.append(terms[1:] != terms[:-1], True)[: len(terms)]
    terms = terms[last]
    ends = ends[last]
    has_rows = np.diff(ends, prepend=0) > 0
    columns_by_name: dict[str, Array] = {
        f"{kind}_terms": terms[has_rows],
        f"{kind}_slices": np.append(0, ends[has_rows]),
        f"posting_{kind}s": numbers.astype(np.int32),
    }
    return columns_by_name | {
        name: np.concatenate([getattr(segment, name) for segment in segments])[selected]
        for name in columns
    }


def _sort_by_term(terms: Array, sizes: Ints) -> tuple[Array, Ints, Ints]:
    """Return the sorted terms, the end of each term's rows, and the sorted rows as old positions.

    `sizes` are the numbers of adjacent rows of the terms, in the old order.
    """
    order = np.argsort(terms, kind="stable")
    starts = (np.cumsum(sizes) - sizes)[order]
    sizes = sizes[order]
    ends = np.cumsum(sizes)
    rows = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    return terms[order], ends, rows


def _merge_names(
    segments: Sequence[Segment], new_numbers: Sequence[Ints], kind: str
) -> dict[str, Array]:
    chunks = np.concatenate(
        [
            numbers_by_row[getattr(segment, f"{kind}_chunks")]
            for segment, numbers_by_row in zip(segments, new_numbers, strict=True)
        ]
    )
    names = np.concatenate([getattr(segment, f"{kind}_names") for segment in segments])
    order = np.argsort(names, kind="stable")
    order = order[chunks[order] >= 0]
    return {
        f"{kind}_names": names[order],
        f"{kind}_chunks": chunks[order].astype(np.int32),
        f"{kind}_values": np.concatenate(
            [getattr(segment, f"{kind}_values") for segment in segments]
        )[order],
    }


def _merge_symbols(segments: Sequence[Segment], new_numbers: Sequence[Ints]) -> dict[str, Array]:
    columns = _merge_postings(segments, new_numbers, "symbol", ())
    terms = np.concatenate([segment.symbol_terms for segment in segments])
    order = np.argsort(terms, kind="stable")
    firsts = order[np.searchsorted(terms[order], columns["symbol_terms"])]
    blob = np.concatenate([segment.symbol_names for segment in segments])
    sizes = np.concatenate([np.diff(segment.symbol_ends, prepend=0) for segment in segments])
    starts = (np.cumsum(sizes) - sizes)[firsts]
    sizes = sizes[firsts]
    ends = np.cumsum(sizes)
    return columns | {
        "symbol_kinds": np.concatenate([segment.symbol_kinds for segment in segments])[firsts],
        "symbol_names": blob[np.repeat(starts - (ends - sizes), sizes) + np.arange(sizes.sum())],
        "symbol_ends": ends,
    }


def _renumber(live: Sequence[slice | Mask], sizes: Sequence[int]) -> list[Ints]:
    """Number the live elements across all columns of these sizes; dead elements get -1."""
    renumbered = []
    base = 0
    for rows, size in zip(live, sizes, strict=True):
        numbers = np.full(size, -1, np.int64)
        count = len(numbers[rows])
        numbers[rows] = np.arange(base, base + count)
        renumbered.append(numbers)
        base += count
    return renumbered
