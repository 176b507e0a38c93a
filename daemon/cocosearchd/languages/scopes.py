"""Where the definitions of a file lie, packed: kept with the file, it widens a hit later without
parsing again. Pure.

Four little-endian 32-bit numbers for each definition of more than one line: its byte range and its
line range.
"""

import struct
from collections.abc import Iterable

from cocosearchd.model import Symbol

_SCOPE = struct.Struct("<4I")


def pack(symbols: Iterable[Symbol]) -> bytes:
    """The scopes of a file, in the order of its symbols."""
    return b"".join(
        _SCOPE.pack(one.start_byte, one.end_byte, one.start_line, one.end_line)
        for one in symbols
        if one.start_line < one.end_line
    )


def enclosing(scopes: bytes, data: bytes, start_byte: int, end_byte: int) -> tuple[int, int] | None:
    """The line range (from 1, inclusive) of the smallest definition around a byte range; None where
    there is none.

    `scopes` are of the same content. Blanks at both ends of the range do not count.
    """
    text = data[start_byte:end_byte]
    start = start_byte + len(text) - len(text.lstrip())
    end = end_byte - (len(text) - len(text.rstrip()))
    smallest = len(data) + 1
    lines = None
    for first, last, first_line, last_line in _SCOPE.iter_unpack(scopes):
        if first <= start and end <= last and last - first < smallest:
            smallest = last - first
            lines = (first_line, last_line)
    return lines
