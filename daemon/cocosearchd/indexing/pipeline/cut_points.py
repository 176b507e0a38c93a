"""Finds the cut points of a file: the cost of a cut before each line, and the best pieces. Pure.

It uses only lines, indentation and the ranges of definitions. Therefore it works the same for every
language, for broken files and for plain text, and takes a fraction of the time of parsing.

If cuts move, raise `chunker.VERSION`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from operator import add


class SpanRank(IntEnum):
    """Rank of a span. CONTAINER and SCOPE are split into their members."""

    MINOR = 0  # may share a chunk with anything
    LEAF = 1  # has its own chunk
    CONTAINER = 2  # its head has its own chunk
    SCOPE = 3  # its head may share a chunk with the first member


# module constants: each use of an enumeration member would cost a lookup
MINOR, LEAF, CONTAINER, SCOPE = SpanRank


@dataclass(frozen=True, slots=True)
class CodeSpan:
    """A definition or block as a byte range. Two spans nest or are disjoint."""

    start_byte: int
    end_byte: int
    rank: SpanRank


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Chunk sizes in bytes."""

    target: int  # of a chunk
    minimum: int  # smaller pieces are packed with others
    definition: int  # a definition up to this size stays in one piece


@dataclass(frozen=True, slots=True)
class CutPlan:
    """Lines of a file, from 0. `starts` has one more entry than lines: the size of the file."""

    starts: Sequence[int]
    costs: Sequence[int]  # of a cut before a line
    # definitions with a chunk of their own that start before a line
    definition_counts: Sequence[int]
    # first line of an outermost definition -> the line after its last, and its rank
    ends: dict[int, tuple[int, SpanRank]]


# Costs. One level of nesting outweighs any indentation. A line that closes or continues a statement
# is a bad start.
_DEPTH = 10_000
_STATEMENT = 100
_PER_COLUMN = 10
_AFTER_BLANK = 5
_CLOSER = 5_000
_MAX_COLUMNS = 100
_TAB = 4
_MAX_DEPTH = 50
# A small rest joins the chunk before it, which may become longer than the target by this factor.
_SLACK = 1.5
# Beyond this depth, lines are packed in order. Real code stays below 20.
_MAX_ROUNDS = 60

# Lines that belong to the definition below: comments, decorators, attributes, annotations.
_ATTACHED = re.compile(rb"[ \t]*(?:#|//|/\*|\*|--|;;|@|<!--|\{-|\[[A-Z#]|template\b|%)")
# Words that continue or end a block. Most lines begin with none of their first letters.
_CONTINUING_WORDS = (
    *(b"end", b"else", b"elif", b"elsif", b"except", b"catch", b"finally", b"fi", b"done"),
    *(b"esac", b"then", b"do", b"begin", b"rescue", b"ensure"),
)
_CONTINUING = re.compile(rb"(?:%s)\b" % b"|".join(_CONTINUING_WORDS))
_CONTINUING_LETTERS = frozenset(word[0] for word in _CONTINUING_WORDS)
# By first byte of a line: whether the line may close or continue a block.
_CLOSING = 1
_CONTINUING_FIRST = 2
_LINE_START_CLASS = bytes(
    _CLOSING * (byte in b")]}") or _CONTINUING_FIRST * (byte in _CONTINUING_LETTERS)
    for byte in range(256)
)
_BREAK = re.compile(rb"[\s,;>})\]](?=[^\s,;>})\]])")

_Piece = tuple[int, int, bool]  # first line, line after the last, true for a definition


def plan_cuts(data: bytes, spans: Iterable[CodeSpan]) -> CutPlan:
    """Return the lines of a file and the cost of a cut before each."""
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    texts = [line.lstrip() for line in lines]
    tabs = b"\t" in data
    costs = list[int]()
    base = _STATEMENT - _AFTER_BLANK
    for line, text in zip(lines, texts, strict=True):
        if not text:
            costs.append(_STATEMENT + _CLOSER)
            base = _STATEMENT - _AFTER_BLANK
            continue
        columns = len(line) - len(text)
        cost = base
        base = _STATEMENT
        if columns:
            columns += (_TAB - 1) * line.count(b"\t", 0, columns) if tabs else 0
            cost += min(columns, _MAX_COLUMNS) * _PER_COLUMN
        first = _LINE_START_CLASS[text[0]]
        if first and (first == _CLOSING or _CONTINUING.match(text)):
            cost += _CLOSER
        costs.append(cost)
    blanks = [not text for text in texts]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]  # a line with its end
    starts[-1] = len(data)
    return _plan_with_definitions(data, starts, costs, blanks, spans)


def _plan_with_definitions(
    data: bytes, starts: list[int], costs: list[int], blanks: list[bool], spans: Iterable[CodeSpan]
) -> CutPlan:
    """Return the plan with definitions: boundaries are cheap, and depth raises the cost."""
    count = len(costs)
    depths = [0] * (count + 2)
    members = [0] * (count + 1)
    ends: dict[int, tuple[int, SpanRank]] = {}
    # first line, line after the last, rank
    open_spans: list[tuple[int, int, SpanRank]] = []
    floor = 0
    for span in sorted(spans, key=lambda span: (span.start_byte, -span.end_byte)):
        line = bisect_right(starts, span.start_byte, 0, count) - 1
        end = bisect_right(starts, max(span.start_byte, span.end_byte - 1), 0, count)
        if end - line < 2 or span.end_byte > len(data):
            continue
        while open_spans and open_spans[-1][1] < end:
            floor = max(floor, open_spans.pop()[1])
        lowest = max(floor, open_spans[-1][0] + 1) if open_spans else floor
        first = _find_attached(data, starts, blanks, line, lowest)
        depths[first + 1] += 1
        depths[end] -= 1
        _mark_boundaries(costs, blanks, first, end, span.rank)
        if first not in ends and all(rank >= CONTAINER for _, _, rank in open_spans):
            ends[first] = end, span.rank
            members[first] += span.rank in (LEAF, CONTAINER)
        open_spans.append((first, end, span.rank))
    return CutPlan(
        starts, _raise_by_depth(costs, depths) if ends else costs, [0, *accumulate(members)], ends
    )


def _raise_by_depth(costs: list[int], depth_changes: Iterable[int]) -> list[int]:
    """Add the cost of the definitions around each line to the cost of the line."""
    levels = (min(depth, _MAX_DEPTH) * _DEPTH for depth in accumulate(depth_changes))
    return list(map(add, costs, levels))


def _mark_boundaries(
    costs: list[int], blanks: list[bool], first: int, end: int, rank: SpanRank
) -> None:
    """Make cuts cheap before a definition and before the next text after it."""
    boundary = _STATEMENT // 2 if rank is MINOR else 0
    costs[first] = min(costs[first], boundary)
    after = end
    while after < len(costs) and blanks[after]:
        after += 1
    if after < len(costs) and costs[after] < _CLOSER:
        costs[after] = min(costs[after], boundary + 1)


def _find_attached(
    data: bytes, starts: list[int], blanks: list[bool], line: int, lowest: int
) -> int:
    """Return the first line of the comments and attributes directly above a line."""
    while line > lowest and not blanks[line - 1] and _ATTACHED.match(data, starts[line - 1]):
        line -= 1
    return line


def cut_lines(plan: CutPlan, sizes: ChunkSizes) -> tuple[tuple[int, int], ...]:
    """Return line ranges (half-open) that cover the file in order.

    Each is about a definition, or has at most about the target size.
    """
    return tuple((first, last) for first, last, _ in _cut(plan, sizes, 0, len(plan.costs), 0))


def _cut(plan: CutPlan, sizes: ChunkSizes, first: int, last: int, rounds: int) -> list[_Piece]:
    rank = _filling_rank(plan, sizes, first, last) if first in plan.ends else None
    if last - first < 2:
        return [(first, last, rank is not None)]
    if _is_whole(plan, sizes, first, last, rank):
        return [(first, last, rank is not None)]
    parts = _parts(plan, sizes, first, last, rounds)
    if rank is CONTAINER and rounds <= _MAX_ROUNDS:
        parts[0] = (*parts[0][:2], True)
    packed = _join_pieces(plan, sizes, parts)
    return packed if rank is None else [(lo, hi, True) for lo, hi, _ in packed]


def _is_whole(
    plan: CutPlan, sizes: ChunkSizes, first: int, last: int, rank: SpanRank | None
) -> bool:
    """Return true if a line range is small enough, and has no definition with its own chunk."""
    size = plan.starts[last] - plan.starts[first]
    if rank is LEAF:
        return size <= sizes.definition
    return (
        size <= sizes.target and plan.definition_counts[last] == plan.definition_counts[first + 1]
    )


def _parts(plan: CutPlan, sizes: ChunkSizes, first: int, last: int, rounds: int) -> list[_Piece]:
    """Cut a line range at all of its cheapest lines; beyond `_MAX_ROUNDS`, at every line."""
    if rounds > _MAX_ROUNDS:
        return [(line, line + 1, False) for line in range(first, last)]
    inner = plan.costs[first + 1 : last]
    limit = min(inner) + 1
    at = [first, *[line for line, cost in enumerate(inner, first + 1) if cost <= limit], last]
    return [part for lo, hi in pairwise(at) for part in _cut(plan, sizes, lo, hi, rounds + 1)]


def _filling_rank(plan: CutPlan, sizes: ChunkSizes, first: int, last: int) -> SpanRank | None:
    """Return the rank of the definition that begins at `first` and fills the line range, or None.

    A few closing lines may follow the definition.
    """
    end, rank = plan.ends[first]
    if (
        not first < end <= last
        or rank is MINOR
        or plan.starts[last] - plan.starts[end] >= sizes.minimum
    ):
        return None
    return rank if plan.definition_counts[last] == plan.definition_counts[end] else None


def _join_pieces(plan: CutPlan, sizes: ChunkSizes, parts: Iterable[_Piece]) -> list[_Piece]:
    """Join neighbours: statements up to the target, small rests with the next or previous piece.

    Two definitions are never joined.
    """
    packed: list[_Piece] = []
    for part in parts:
        may_join = packed and (part[2] or not packed[-1][2])
        if may_join and _fits(plan, sizes, packed[-1], part, sizes.target):
            packed[-1] = (packed[-1][0], part[1], part[2] or packed[-1][2])
        else:
            packed.append(part)
    return _with_rests(plan, sizes, packed)


def _with_rests(plan: CutPlan, sizes: ChunkSizes, pieces: Iterable[_Piece]) -> list[_Piece]:
    """Join small rests of statements with the piece before them."""
    room = int(sizes.target * _SLACK)
    joined: list[_Piece] = []
    for piece in pieces:
        if joined and not piece[2] and _fits(plan, sizes, joined[-1], piece, room):
            joined[-1] = (joined[-1][0], piece[1], joined[-1][2])
        else:
            joined.append(piece)
    return joined


def _fits(
    plan: CutPlan, sizes: ChunkSizes, first_piece: _Piece, second_piece: _Piece, room: int
) -> bool:
    """Return true if two neighbours may be one piece of at most `room` bytes."""
    first, middle, left_defines = first_piece
    _, last, right_defines = second_piece
    starts = plan.starts
    if (left_defines and right_defines) or starts[last] - starts[first] > room:
        return False
    if not (left_defines or right_defines) and room <= sizes.target:
        return True
    return (
        starts[middle] - starts[first] < sizes.minimum
        or starts[last] - starts[middle] < sizes.minimum
    )


def split_long_range(data: bytes, start: int, end: int, cap: int) -> Iterator[tuple[int, int]]:
    """Split a range into parts of at most `cap` bytes. No part is blank.

    A cut is at a line, else at a blank, never inside of a character.
    """
    while start < end:
        stop = end if end - start <= cap else _break_before(data, start, start + cap)
        text = data[start:stop].rstrip()
        if text:
            yield start, start + len(text)
        start = stop


def _break_before(data: bytes, start: int, limit: int) -> int:
    """Return the best offset to cut at, in the last quarter before `limit`."""
    earliest = limit - (limit - start) // 4
    line = data.rfind(b"\n", earliest, limit) + 1
    if line:
        return line
    window = data[earliest:limit]
    best = max((match.end() for match in _BREAK.finditer(window)), default=0)
    stop = earliest + best if best else limit
    # inside of a UTF-8 character
    while stop > start + 1 and stop > limit - 4 and data[stop] & 0xC0 == 0x80:
        stop -= 1
    if data[stop - 1 : stop + 1] == b"\r\n" and stop - 1 > start:
        stop -= 1
    return stop
