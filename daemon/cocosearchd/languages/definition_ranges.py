"""Packs the ranges of the definitions of a file. Pure.

They are stored with the file, so that hits can be expanded later without parsing again. Each
definition of more than one line has four little-endian 32-bit numbers: its byte range and its line
range.
"""

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
