"""Packs the ranges of the definitions of a file. Pure.

They are stored with the file, so that hits can be expanded later without parsing again. Each
definition of more than one line has four little-endian 32-bit numbers: its byte range and its line
range.
"""

import heapq
import struct
from collections.abc import Iterable

from cocosearchd.model import Symbol

_RANGE = struct.Struct("<4I")


def pack(symbols: Iterable[Symbol]) -> bytes:
    """Pack the ranges of the definitions of a file, in the order of its symbols."""
    return b"".join(
        _RANGE.pack(symbol.start_byte, symbol.end_byte, symbol.start_line, symbol.end_line)
        for symbol in symbols
        if symbol.start_line < symbol.end_line
    )


def enclosing(ranges: bytes, data: bytes, start_byte: int, end_byte: int) -> tuple[int, int] | None:
    """Return the lines (from 1, inclusive) of the smallest definition around a byte range, or None.

    `ranges` must belong to the same content as `data`. Blanks at both ends of the range are
    ignored.
    """
    text = data[start_byte:end_byte]
    start = start_byte + len(text) - len(text.lstrip())
    end = end_byte - (len(text) - len(text.rstrip()))
    smallest = len(data) + 1
    lines = None
    for first, last, first_line, last_line in _RANGE.iter_unpack(ranges):
        if first <= start and end <= last and last - first < smallest:
            smallest = last - first
            lines = (first_line, last_line)
    return lines


def largest_starting(ranges: bytes, start_byte: int, end_byte: int) -> tuple[int, int] | None:
    """Return the lines of the largest definition that leaves a byte range.

    It starts in the range and ends after it. Return None if there is no such definition.

    For example, the range may have imports and then the head of the definition, without its body.
    """
    largest = 0
    lines = None
    for first, last, first_line, last_line in _RANGE.iter_unpack(ranges):
        if start_byte <= first < end_byte < last and last - first > largest:
            largest = last - first
            lines = (first_line, last_line)
    return lines


def innermost_start(ranges: bytes, line: int) -> int | None:
    """Return the first line of the smallest definition around a line, or None."""
    around = [
        (last - first, first_line)
        for first, last, first_line, last_line in _RANGE.iter_unpack(ranges)
        if first_line <= line <= last_line
    ]
    return min(around)[1] if around else None


def innermost_starts(ranges: bytes, lines: Iterable[int]) -> dict[int, int]:
    """Return the result of `innermost_start` for several lines; lines without one are left out.

    One pass serves all lines: a file may have 20,000 definitions, and as many matching lines.
    """
    waiting = sorted(
        (first_line, last - first, last_line)
        for first, last, first_line, last_line in _RANGE.iter_unpack(ranges)
    )
    starts = dict[int, int]()
    open_ranges = list[tuple[int, int, int]]()  # a heap of size, first line, last line
    number = 0
    for line in sorted(set(lines)):
        while number < len(waiting) and waiting[number][0] <= line:
            first_line, size, last_line = waiting[number]
            heapq.heappush(open_ranges, (size, first_line, last_line))
            number += 1
        while open_ranges and open_ranges[0][2] < line:
            heapq.heappop(open_ranges)  # later lines are not in it either
        if open_ranges:
            starts[line] = open_ranges[0][1]
    return starts
