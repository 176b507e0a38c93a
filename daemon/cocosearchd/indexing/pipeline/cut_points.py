"""Where a file may be cut: the cost of each line as the first of a chunk, and the pieces that
follow from it. Pure.

Only lines, indentation and the ranges of definitions are looked at, so it works the same for every
language, for broken files and for plain text, and costs a fraction of what parsing does.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise, repeat
from operator import add


class SpanRank(IntEnum):
    """What a span is worth. CONTAINER and SCOPE are opened to their members."""

    MINOR = 0  # may share a chunk with anything
    LEAF = 1  # has a chunk of its own
    CONTAINER = 2  # so has its head
    SCOPE = 3  # its head may share a chunk with the first member


# a member of an enumeration costs a lookup in Python each time
MINOR, LEAF, CONTAINER, SCOPE = SpanRank


@dataclass(frozen=True, slots=True)
class CodeSpan:
    """A definition or block as a byte range. Spans nest or are apart."""

    start_byte: int
    end_byte: int
    rank: SpanRank


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Bytes: what a chunk aims at, below what it is packed with others, up to what a definition
    stays whole.
    """

    aim: int
    minimum: int
    whole: int


@dataclass(frozen=True, slots=True)
class CutPlan:
    """Lines of a file, from 0. `starts` has one entry more than there are lines: the size of the
    file.
    """

    starts: Sequence[int]
    costs: Sequence[int]  # of cutting before a line
    members: Sequence[int]  # how many definitions with a chunk of their own start before a line
    ends: dict[
        int, tuple[int, SpanRank]
    ]  # first line of an outermost definition -> the line after its last, and its rank


# Costs. One level of nesting outweighs any indentation; a line that closes or continues something
# is a bad start.
_DEPTH, _STATEMENT, _PER_COLUMN, _AFTER_BLANK, _CLOSER = 10_000, 100, 10, 5, 5_000
_MAX_COLUMNS, _TAB, _MAX_DEPTH = 100, 4, 50
# A small rest may make a chunk this much longer than the aim rather than be alone.
_SLACK = 1.5
# Deeper than this, lines are packed as they come. Real code stays below 20.
_MAX_ROUNDS = 60

# What belongs to the definition right below: comments, decorators, attributes, annotations.
_ATTACHED = re.compile(rb"[ \t]*(?:#|//|/\*|\*|--|;;|@|<!--|\{-|\[[A-Z#]|template\b|%)")
_CLOSING, _CONTINUING_FIRST = 1, 2
_FIRST = bytes(
    _CLOSING * (each in b")]}") or _CONTINUING_FIRST * (each in b"edfctbr") for each in range(256)
)
_CONTINUING = re.compile(
    rb"(?:end|else|elif|elsif|except|catch|finally|fi|done|esac|then|do|begin|rescue|ensure)\b"
)
_BREAK = re.compile(rb"[\s,;>})\]](?=[^\s,;>})\]])")

_Piece = tuple[int, int, bool]  # first line, line after the last, whether it is a definition


def plan_cuts(data: bytes, spans: Iterable[CodeSpan]) -> CutPlan:
    """The lines of a file and what cutting before each costs."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    texts, tabs, costs = [line.lstrip() for line in lines], b"\t" in data, list[int]()
    base = _STATEMENT - _AFTER_BLANK
    for line, text in zip(lines, texts, strict=True):
        if not text:
            costs.append(_STATEMENT + _CLOSER)
            base = _STATEMENT - _AFTER_BLANK
            continue
        columns = len(line) - len(text)
        cost, base = base, _STATEMENT
        if columns:
            columns += (_TAB - 1) * line.count(b"\t", 0, columns) if tabs else 0
            cost += min(columns, _MAX_COLUMNS) * _PER_COLUMN
        first = _FIRST[text[0]]
        if first and (first == _CLOSING or _CONTINUING.match(text)):
            cost += _CLOSER
        costs.append(cost)
    blanks = [not text for text in texts]
    starts = [0, *accumulate(map((1).__add__, map(len, lines)))]  # a line with its end
    starts[-1] = len(data)
    return _nested(data, starts, costs, blanks, spans)


def _nested(
    data: bytes, starts: list[int], costs: list[int], blanks: list[bool], spans: Iterable[CodeSpan]
) -> CutPlan:
    """The plan with the definitions put in: boundaries are cheap, and the deeper inside, the
    dearer.
    """
    count = len(costs)
    depths, members = [0] * (count + 2), [0] * (count + 1)
    ends: dict[int, tuple[int, SpanRank]] = {}
    # (first line, line after the last, rank) of what is open
    around: list[tuple[int, int, SpanRank]] = []
    floor = 0
    for span in sorted(spans, key=lambda span: (span.start_byte, -span.end_byte)):
        line = bisect_right(starts, span.start_byte, 0, count) - 1
        end = bisect_right(starts, max(span.start_byte, span.end_byte - 1), 0, count)
        if end - line < 2 or span.end_byte > len(data):
            continue
        while around and around[-1][1] < end:
            floor = max(floor, around.pop()[1])
        lowest = max(floor, around[-1][0] + 1) if around else floor
        first = _attached(data, starts, blanks, line, lowest)
        depths[first + 1] += 1
        depths[end] -= 1
        boundary = _STATEMENT // 2 if span.rank is MINOR else 0
        costs[first] = min(costs[first], boundary)
        after = end
        while after < count and blanks[after]:
            after += 1
        if after < count and costs[after] < _CLOSER:
            costs[after] = min(costs[after], boundary + 1)
        if first not in ends and all(rank >= CONTAINER for _, _, rank in around):
            ends[first] = end, span.rank
            members[first] += span.rank in (LEAF, CONTAINER)
        around.append((first, end, span.rank))
    levels = (
        [min(depth, _MAX_DEPTH) * _DEPTH for depth in accumulate(depths)] if ends else repeat(0)
    )
    return CutPlan(starts, list(map(add, costs, levels)), [0, *accumulate(members)], ends)


def _attached(data: bytes, starts: list[int], blanks: list[bool], line: int, lowest: int) -> int:
    """The first line of the comments and attributes right above a line."""
    while line > lowest and not blanks[line - 1] and _ATTACHED.match(data, starts[line - 1]):
        line -= 1
    return line


def cut_lines(plan: CutPlan, sizes: ChunkSizes) -> tuple[tuple[int, int], ...]:
    """Line ranges (half-open) that cover the file in order, each one about a definition or at most
    about the aim.
    """
    return tuple((first, last) for first, last, _ in _cut(plan, sizes, 0, len(plan.costs), 0))


def _cut(plan: CutPlan, sizes: ChunkSizes, first: int, last: int, rounds: int) -> list[_Piece]:
    rank = _definition(plan, sizes, first, last) if first in plan.ends else None
    if last - first < 2:
        return [(first, last, rank is not None)]
    size, leaf = plan.starts[last] - plan.starts[first], rank is LEAF
    if size <= (sizes.whole if leaf else sizes.aim) and (
        leaf or plan.members[last] == plan.members[first + 1]
    ):
        return [(first, last, rank is not None)]
    if rounds > _MAX_ROUNDS:
        parts: list[_Piece] = [(line, line + 1, False) for line in range(first, last)]
    else:
        inner = plan.costs[first + 1 : last]
        limit = min(inner) + 1
        at = [first, *[line for line, cost in enumerate(inner, first + 1) if cost <= limit], last]
        parts = [part for lo, hi in pairwise(at) for part in _cut(plan, sizes, lo, hi, rounds + 1)]
        if rank is CONTAINER:
            parts[0] = (*parts[0][:2], True)
    packed = _packed(plan, sizes, parts)
    return packed if rank is None else [(lo, hi, True) for lo, hi, _ in packed]


def _definition(plan: CutPlan, sizes: ChunkSizes, first: int, last: int) -> SpanRank | None:
    """The rank of the definition that a line range is, give or take a few closing lines; None if it
    is none.

    One begins with its first line.
    """
    end, rank = plan.ends[first]
    if (
        not first < end <= last
        or rank is MINOR
        or plan.starts[last] - plan.starts[end] >= sizes.minimum
    ):
        return None
    return rank if plan.members[last] == plan.members[end] else None


def _packed(plan: CutPlan, sizes: ChunkSizes, parts: Iterable[_Piece]) -> list[_Piece]:
    """Neighbours joined: statements up to the aim, small rests with what follows, else with what
    they follow.

    Two definitions are never joined.
    """
    packed: list[_Piece] = []
    for part in parts:
        if (
            packed
            and (part[2] or not packed[-1][2])
            and _fits(plan, sizes, packed[-1], part, sizes.aim)
        ):
            packed[-1] = (packed[-1][0], part[1], part[2] or packed[-1][2])
        else:
            packed.append(part)
    joined: list[_Piece] = []
    for part in packed:
        if joined and not part[2] and _fits(plan, sizes, joined[-1], part, int(sizes.aim * _SLACK)):
            joined[-1] = (joined[-1][0], part[1], joined[-1][2])
        else:
            joined.append(part)
    return joined


def _fits(plan: CutPlan, sizes: ChunkSizes, one: _Piece, other: _Piece, room: int) -> bool:
    """Whether two neighbours may be one piece of at most `room` bytes."""
    (first, middle, defines), (_, last, also), starts = one, other, plan.starts
    if (defines and also) or starts[last] - starts[first] > room:
        return False
    if not (defines or also) and room <= sizes.aim:
        return True
    return (
        starts[middle] - starts[first] < sizes.minimum
        or starts[last] - starts[middle] < sizes.minimum
    )


def split_long_range(data: bytes, start: int, end: int, cap: int) -> Iterator[tuple[int, int]]:
    """Parts of a range up to `cap` bytes: cut at a line, else at a blank, not inside of a
    character. None is blank.
    """
    while start < end:
        stop = end if end - start <= cap else _break_before(data, start, start + cap)
        text = data[start:stop].rstrip()
        if text:
            yield start, start + len(text)
        start = stop


def _break_before(data: bytes, start: int, limit: int) -> int:
    """The best place to cut in the last quarter before `limit`."""
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
