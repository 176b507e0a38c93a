"""Finds the matching lines of a content, with columns and surrounding lines. Pure.

It runs in a worker process. The cost of an expression is linear, but a large program may still take
seconds on a large file, and compiling an expression holds the interpreter lock.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice

import re2

from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineMatches, LineOptions, MatchingLine

MAX_LINE = 400  # characters that are shown of a line
_LEAD = 100  # shown characters before the match
_ELLIPSIS = "…"
_ANYWHERE = re2._Anchor.UNANCHORED
_BOM = b"\xef\xbb\xbf"


_Span = tuple[int, int]  # a range of bytes; a line without its line end
# Finds the first match from a position on; the span begins at -1 if there is no match.
_Search = Callable[[bytes, int], _Span]


class LineMatcher:
    """Finds the lines that match a pattern. Raises `re2.error` for an invalid pattern."""

    def __init__(self, pattern: LinePattern) -> None:
        options = re2.Options()
        options.log_errors = False
        options.case_sensitive = not pattern.ignore_case
        options.never_nl = True  # nothing matches a line end
        # Compile the bare pattern first: otherwise an unbalanced pattern could close the group that
        # is put around it.
        re2.compile(pattern.expression, options)
        self._ignores_returns = pattern.ignores_carriage_returns
        options.never_capture = True  # each group would cost time and memory
        self._word = re2.compile(pattern.word_expression, options) if pattern.whole_words else None
        self._search = _literal_search(pattern.literal) or _expression_search(
            pattern.line_expression, options
        )
        self._lines_with_literal = (
            None if pattern.literal is None else re.compile(re.escape(pattern.literal) + rb"[^\n]*")
        )

    def find(self, content: bytes, options: LineOptions, after_line: int = 0) -> LineMatches:
        """Find the matching lines after line `after_line`, which matches. Ignore a byte order mark."""
        content = self._searched(content)
        position = _offset_after(content, after_line)
        max_lines = min(1, options.max_lines) if options.first_only else options.max_lines
        spans = list(islice(self._spans(content, position), max_lines))
        if spans:
            position = spans[-1][1] + 1
        is_counted = not (options.first_only and spans)
        count = len(spans) + (self._count(content, position, options) if is_counted else 0)
        return LineMatches(
            count, tuple(self._describe(content, spans, options.context, after_line))
        )

    def count(self, content: bytes, options: LineOptions, after_line: int = 0) -> int:
        """Count the matching lines, like `find`."""
        content = self._searched(content)
        return self._count(content, _offset_after(content, after_line), options)

    def _searched(self, content: bytes) -> bytes:
        """Return a content without a byte order mark, and without ignored carriage returns."""
        content = content.removeprefix(_BOM)
        if self._ignores_returns:
            content = content.replace(b"\r\n", b"\n").removesuffix(b"\r")
        return content

    def _count(self, content: bytes, position: int, options: LineOptions) -> int:
        """Count the matching lines from the start of a line on.

        For a literal, one call finds all lines, at a third of the cost of one call per line.
        """
        if options.first_only:
            return sum(1 for _ in islice(self._spans(content, position), 1))
        if self._lines_with_literal is not None:
            return len(self._lines_with_literal.findall(content, position))
        count = 0
        size = len(content)
        # An empty match may begin after the last line end
        last_start = size - content.endswith(b"\n")
        while position < size:
            first, last = self._search(content, position)
            if first < 0 or first > last_start:
                break
            count += 1
            position = content.find(b"\n", last) + 1 or size
        return count

    def _spans(self, content: bytes, position: int) -> Iterator[_Span]:
        """Yield the matching lines from the start of a line on."""
        while position < len(content):
            first, last = self._search(content, position)
            if first < 0 or (first == len(content) and content.endswith(b"\n")):
                return
            start = content.rfind(b"\n", position, first) + 1 or position
            end = content.find(b"\n", last)
            end = len(content) if end < 0 else end
            yield start, end
            position = end + 1

    def _describe(
        self, content: bytes, spans: list[_Span], context: int, after_line: int
    ) -> Iterator[MatchingLine]:
        if not spans:
            return
        number = 1
        counted = 0  # bytes up to here are counted in `number`
        # First byte that is not shown with an earlier line, of an earlier page too
        free = _offset_after(content, after_line + context) if after_line else 0
        starts = [start for start, _ in spans]
        next_starts = [*starts[1:], self._start_after(content, spans[-1], context)]
        for (start, end), next_start in zip(spans, next_starts, strict=True):
            number += content.count(b"\n", counted, start)
            counted = start
            lines_before = _lines_before(content, start, min(free, start), context)
            lines_after = _lines_after(content, end + 1, next_start, context)
            free = end + 1 + sum(len(line) + 1 for line in lines_after)
            line = content[start:end]
            yield MatchingLine(
                number,
                *self._show(line),
                tuple(map(_clip, lines_before)),
                tuple(map(_clip, lines_after)),
            )

    def _start_after(self, content: bytes, span: _Span, context: int) -> int:
        """Return the start of the next matching line: the context of a line ends before it."""
        if not context:
            return len(content)
        return next(iter(self._spans(content, span[1] + 1)), (len(content), 0))[0]

    def _show(self, line: bytes) -> tuple[int, str]:
        """Return the column of the match in a line, and the text around it."""
        start, _ = self._search(line, 0)
        column = len(line[: max(0, start)].decode("utf-8", "replace"))
        if self._word is not None and (start or self._word.match(line) is None):
            column += 1  # the match includes the character before the word
        return column + 1, _clip(line, column)


def _literal_search(literal: bytes | None) -> _Search | None:
    if literal is None:
        return None
    size = len(literal)

    def search(content: bytes, position: int) -> _Span:
        first = content.find(literal, position)
        return first, first + size

    return search


def _expression_search(expression: str, options: re2.Options) -> _Search:
    # The public wrapper makes a generator and an object for each match, at three times the cost.
    match = re2.compile(expression, options)._regexp.Match

    def search(content: bytes, position: int) -> _Span:
        ((first, last),) = match(_ANYWHERE, content, position, len(content))
        return first, last

    return search


def _offset_after(content: bytes, line: int) -> int:
    """Return the offset after the first `line` lines."""
    offset = 0
    for _ in range(line):
        offset = content.find(b"\n", offset) + 1
        if not offset:
            return len(content)
    return offset


def _lines_before(content: bytes, start: int, free: int, count: int) -> list[bytes]:
    lines = list[bytes]()
    while len(lines) < count and start > free:
        previous = max(content.rfind(b"\n", free, start - 1) + 1, free)
        lines.append(content[previous : start - 1])
        start = previous
    return lines[::-1]


def _lines_after(content: bytes, start: int, last: int, count: int) -> list[bytes]:
    lines = list[bytes]()
    while len(lines) < count and start < last:
        end = content.find(b"\n", start, last)
        end = last if end < 0 else end
        lines.append(content[start:end])
        start = end + 1
    return lines


def _clip(line: bytes, column: int = 0) -> str:
    """Decode a line; of a long line, the part around a column."""
    text = line.decode("utf-8", "replace").removesuffix("\r")
    if len(text) <= MAX_LINE:
        return text
    first = max(0, min(column - _LEAD, len(text) - MAX_LINE))
    clipped = text[first : first + MAX_LINE]
    lead = _ELLIPSIS if first else ""
    return f"{lead}{clipped}{_ELLIPSIS if first + MAX_LINE < len(text) else ''}"
