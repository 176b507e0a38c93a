"""Segments are merged and written anew: what is alive in some parts as one segment, and when that
is worth it.

The end of the list of parts is where commits add theirs. A part is merged with those behind it when
these are together as large, so that each row is written as often as the logarithm of how many
commits there were.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.segments.segment import (
    Array,
    Ints,
    Mask,
    Segment,
    SegmentView,
    quantise_to_bits,
)

# No merge beside commits passes this: it takes 0.4 s, for which a commit waits; at rest one of 430,000 chunks takes
# 1.5 s of CPU and 0.6 GB, half of which is the result (measured).
SEGMENT_CHUNKS, LARGEST_CHUNKS = 100_000, 500_000
_FILE_COLUMNS = ("digests", "characters", "file_lengths", "file_vectors", "file_scales")
_CHUNK_COLUMNS = ("keys", "start_lines", "chunk_lengths", "vectors", "scales")


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """How well parts are kept in order: the more, the less a query costs, and the more a commit."""

    # a part is merged with those behind it unless they are together this many times smaller
    ratio: int
    dead: float  # share of the files of a part above which it is written anew
    small: int  # chunks: parts at the end that have together no more are always one
    most: int = SEGMENT_CHUNKS  # chunks of a part that is written


@dataclass(frozen=True, slots=True)
class SegmentMerge:
    """Adjacent parts of a list, as one segment of what is alive in them; None: of nothing."""

    run: range
    segment: Segment | None


# While commits come: a row is written 4 times in the course of 300 commits, against 10 times with
# the order below, and there are 4 parts on average against 2.6 (simulated). No part is written anew
# because much of it is dead: all of it may die soon, or come back.
BUSY = MergePolicy(1, 1, 0)
# Each part costs a query 0.3 ms, and a merge of 2,000 chunks takes 8 ms, once nobody saves any
# more.
QUIET = MergePolicy(4, 0.2, 2000)
RESTING = replace(QUIET, most=LARGEST_CHUNKS)
# no part is more than one of so many of a balanced run: a row is in few of these, which are dear
_BALANCE = 3


def compact(parts: Sequence[SegmentView], order: MergePolicy) -> tuple[SegmentView, ...]:
    """Parts in order, without those that have nothing alive."""
    return apply_merges(parts, perform_merges(parts, order), parts)


def perform_merges(parts: Sequence[SegmentView], order: MergePolicy) -> list[SegmentMerge]:
    """What puts parts in order, ascending."""
    living = [number for number, part in enumerate(parts) if part.live_file_count]
    runs = _select_runs([parts[number] for number in living], order)
    found = [
        SegmentMerge(range(n, n + 1), None)
        for n, part in enumerate(parts)
        if not part.live_file_count
    ]
    for run in runs:
        first, last = living[run.start], living[run.stop - 1] + 1
        found = [each for each in found if not first <= each.run.start < last]
        found.append(SegmentMerge(range(first, last), merge_segments(parts[first:last])))
    return sorted(found, key=lambda each: each.run.start)


def apply_merges(
    before: Sequence[SegmentView], made: Sequence[SegmentMerge], now: Sequence[SegmentView]
) -> tuple[SegmentView, ...]:
    """Parts as they are `now`, with what was merged of those of `before` in place of these.

    Since then files may have died, parts come, and parts been merged: of the first that is another,
    and of what is behind it, nothing is replaced. Nor is a part to which files came back: what was
    merged has none of them.
    """
    pairs = enumerate(zip(before, now, strict=False))
    same = next(
        (n for n, (a, b) in pairs if a.segment is not b.segment), min(len(before), len(now))
    )
    found, at = list[SegmentView](), 0
    for each in made:
        if each.run.stop > same:
            break
        if any(
            before[number].restored_generations is not now[number].restored_generations
            for number in each.run
        ):
            continue
        found.extend(now[at : each.run.start])
        at = each.run.stop
        if each.segment is not None:
            some = zip(before[each.run.start : at], now[each.run.start : at], strict=True)
            died = np.flatnonzero(
                ~np.concatenate([_still_alive(old, new) for old, new in some])
            ).tolist()
            found.append(
                SegmentView(each.segment).with_deleted(died) if died else SegmentView(each.segment)
            )
    return tuple(each for each in (*found, *now[at:]) if each.live_file_count)


def _still_alive(before: SegmentView, now: SegmentView) -> Mask:
    """Which of the files that were alive in a part are."""
    if now.alive is None:
        return np.ones(now.segment.file_count, np.bool_)
    return now.alive if before.alive is None else now.alive[before.alive]


def _select_runs(parts: Sequence[SegmentView], order: MergePolicy) -> list[range]:
    """The adjacent ones of some living parts that are to be one, or to be written anew. Apart from
    each other.
    """
    if not parts:
        return []
    first = _find_tail_start(parts, order)
    tail = (
        range(first, len(parts))
        if len(parts) - first > 1 or _has_many_dead(parts[first], order)
        else range(0)
    )
    balanced = _find_balanced_run(parts[: tail.start] if tail else parts, order)
    dead = [
        range(n, n + 1)
        for n in range(first)
        if n not in balanced and _has_many_dead(parts[n], order)
    ]
    return [run for run in (balanced, tail, *dead) if run]


def _find_tail_start(parts: Sequence[SegmentView], order: MergePolicy) -> int:
    """Where the parts begin that become one because of what came last."""
    first, chunks = len(parts) - 1, parts[-1].segment.chunk_count
    while first:
        before = parts[first - 1].segment.chunk_count
        together = chunks + before
        if together > SEGMENT_CHUNKS or (chunks * order.ratio < before and together > order.small):
            break
        first, chunks = first - 1, chunks + before
    return first


def _find_balanced_run(parts: Sequence[SegmentView], order: MergePolicy) -> range:
    """The longest run of parts none of which is large beside the others, at an order that has large
    parts.
    """
    best = range(0)
    if order.most == SEGMENT_CHUNKS:
        return best
    for first in range(len(parts)):
        chunks = largest = 0
        for last in range(first, len(parts)):
            size = parts[last].segment.chunk_count
            chunks, largest = chunks + size, max(largest, size)
            if chunks > order.most:
                break
            if largest * _BALANCE <= chunks and last + 1 - first > len(best):
                best = range(first, last + 1)
    return best


def _has_many_dead(part: SegmentView, order: MergePolicy) -> bool:
    return (
        part.segment.chunk_count <= order.most
        and part.live_file_count < (1 - order.dead) * part.segment.file_count
    )


def merge_segments(parts: Sequence[SegmentView]) -> Segment:
    """One segment of what is alive in `parts`, in their order."""
    segments = [part.segment for part in parts]
    files, chunks = [part.alive for part in parts], [part.alive_chunks for part in parts]
    new_files = _renumber(files, [each.file_count for each in segments])
    new_chunks = _renumber(chunks, [each.chunk_count for each in segments])
    fixed = {
        name: _select_alive([getattr(each, name) for each in segments], files)
        for name in _FILE_COLUMNS
    }
    fixed |= {
        name: _select_alive([getattr(each, name) for each in segments], chunks)
        for name in _CHUNK_COLUMNS
    }
    counts = _select_alive([each.chunk_ends - each.chunk_starts for each in segments], files)
    ends = np.cumsum(counts)
    paths, path_ends = _merge_texts([(each.paths, each.path_ends) for each in segments], files)
    languages, language_ends = _merge_texts(
        [(each.languages, each.language_ends) for each in segments], files
    )
    return Segment(
        paths=paths,
        path_ends=path_ends,
        languages=languages,
        language_ends=language_ends,
        chunk_starts=ends - counts,
        chunk_ends=ends,
        chunk_files=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        without_vector=np.flatnonzero(fixed["scales"] == 0),
        binary_vectors=quantise_to_bits(fixed["vectors"]),
        generations=_select_alive([part.generations for part in parts], files),
        **fixed,
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


def _select_alive(columns: Sequence[Array], alive: Sequence[Mask | None]) -> Array:
    return np.concatenate(
        [each if mask is None else each[mask] for each, mask in zip(columns, alive, strict=True)]
    )


def _merge_texts(
    packed: Sequence[tuple[NDArray[np.uint8], Ints]], alive: Sequence[Mask | None]
) -> tuple[NDArray[np.uint8], Ints]:
    """Texts that are packed all in one, and where each ends."""
    sizes = [np.diff(ends, prepend=0) for _, ends in packed]
    inside = [
        None if mask is None else np.repeat(mask, size)
        for mask, size in zip(alive, sizes, strict=True)
    ]
    return _select_alive([blob for blob, _ in packed], inside), np.cumsum(
        _select_alive(sizes, alive), dtype=np.int64
    )


def _merge_postings(
    segments: Sequence[Segment], renumbered: Sequence[Ints], of: str, columns: Sequence[str]
) -> dict[str, Array]:
    """The rows of all segments: by term, those of a term as they were, segments in order.

    Terms are sorted, not rows: there are many times fewer of them.
    """
    numbers = np.concatenate(
        [
            new[getattr(each, f"posting_{of}s")]
            for each, new in zip(segments, renumbered, strict=True)
        ]
    )
    terms = np.concatenate([getattr(each, f"{of}_terms") for each in segments])
    slices = [getattr(each, f"{of}_slices") for each in segments]
    sizes = np.concatenate([np.diff(each) for each in slices])
    order = np.argsort(terms, kind="stable")
    terms, sizes, starts = terms[order], sizes[order], (np.cumsum(sizes) - sizes)[order]
    ends = np.cumsum(sizes)
    rows = np.repeat(starts - (ends - sizes), sizes) + np.arange(len(numbers))
    numbers = numbers[rows]
    if not numbers.min(initial=0) < 0:
        kept = rows
    else:
        alive = numbers >= 0
        numbers, kept = numbers[alive], rows[alive]
        ends = np.append(0, np.cumsum(alive))[ends]
    # of the segments that have a term
    last = np.append(terms[1:] != terms[:-1], True)[: len(terms)]
    terms, ends = terms[last], ends[last]
    some = np.diff(ends, prepend=0) > 0
    found: dict[str, Array] = {
        f"{of}_terms": terms[some],
        f"{of}_slices": np.append(0, ends[some]),
        f"posting_{of}s": numbers.astype(np.int32),
    }
    return found | {
        name: np.concatenate([getattr(each, name) for each in segments])[kept] for name in columns
    }


def _merge_names(
    segments: Sequence[Segment], renumbered: Sequence[Ints], of: str
) -> dict[str, Array]:
    chunks = np.concatenate(
        [new[getattr(s, f"{of}_chunks")] for s, new in zip(segments, renumbered, strict=True)]
    )
    names = np.concatenate([getattr(s, f"{of}_names") for s in segments])
    order = np.argsort(names, kind="stable")
    order = order[chunks[order] >= 0]
    return {
        f"{of}_names": names[order],
        f"{of}_chunks": chunks[order].astype(np.int32),
        f"{of}_values": np.concatenate([getattr(s, f"{of}_values") for s in segments])[order],
    }


def _merge_symbols(segments: Sequence[Segment], renumbered: Sequence[Ints]) -> dict[str, Array]:
    found = _merge_postings(segments, renumbered, "symbol", ())
    terms = np.concatenate([each.symbol_terms for each in segments])
    order = np.argsort(terms, kind="stable")
    firsts = order[np.searchsorted(terms[order], found["symbol_terms"])]
    blob, sizes = (
        np.concatenate([each.symbol_names for each in segments]),
        np.concatenate([np.diff(each.symbol_ends, prepend=0) for each in segments]),
    )
    starts, sizes = (np.cumsum(sizes) - sizes)[firsts], sizes[firsts]
    ends = np.cumsum(sizes)
    return found | {
        "symbol_kinds": np.concatenate([each.symbol_kinds for each in segments])[firsts],
        "symbol_names": blob[np.repeat(starts - (ends - sizes), sizes) + np.arange(sizes.sum())],
        "symbol_ends": ends,
    }


def _renumber(alive: Sequence[Mask | None], sizes: Sequence[int]) -> list[Ints]:
    """Per mask: the new number of each element over all masks, -1 for the dead."""
    found, base = [], 0
    for mask, size in zip(alive, sizes, strict=True):
        numbers = (
            np.arange(base, base + size)
            if mask is None
            else np.where(mask, np.cumsum(mask) - 1 + base, -1)
        )
        found.append(numbers)
        base += size if mask is None else int(mask.sum())
    return found
