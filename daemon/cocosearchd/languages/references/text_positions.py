"""Finds lines, columns and regions of a text, mostly for ascending positions. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain


class TextPositions:
    """Converts byte positions to lines and columns, from 1. Columns count characters."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        lengths = map((1).__add__, map(len, data.split(b"\n")))
        self._starts = list(accumulate(chain((0,), lengths)))
        self._starts.pop()  # the end of the last line

    def find_line(self, position: int) -> int:
        """Return the line of a position. Positions may come in any order."""
        return bisect_right(self._starts, position)

    def locate(self, positions: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the lines and columns of ascending positions."""
        lines = list(map(partial(bisect_right, self._starts), positions))
        starts = self._starts
        if self._data.isascii():
            return lines, [
                position - starts[line - 1] + 1
                for line, position in zip(lines, positions, strict=True)
            ]
        return lines, list(self._count_characters(lines, positions))

    def _count_characters(self, lines: Iterable[int], positions: Iterable[int]) -> Iterator[int]:
        """Yield the columns of ascending positions. Each character of a line is decoded only once."""
        last_line, start, column = 0, 0, 1
        for line, position in zip(lines, positions, strict=True):
            if line != last_line:
                last_line, start, column = line, self._starts[line - 1], 1
            column += len(self._data[start:position].decode("utf-8", "replace"))
            start = position
            yield column


class Regions:
    """Byte ranges that may nest, for look-ups at ascending positions."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(ranges, reverse=True)
        self._end = 0

    def cover(self, position: int) -> bool:
        """Return True if a range contains this position."""
        while self._waiting and self._waiting[-1][0] <= position:
            self._end = max(self._end, self._waiting.pop()[1])
        return position < self._end
