"""Finds the definitions around changed lines, and maps lines of a text to a later text. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cocosearchd.graph.code_files import WHOLE_FILE, CodeFile
from cocosearchd.model import Symbol


class Hunk(NamedTuple):
    """A difference between two texts, without context: `@@ -old +new @@`.

    Lines count from 1. If a side has no lines (its count is 0), its start is the line before the
    place.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int

    @property
    def last_old(self) -> int:
        """The last line of the hunk in the earlier text."""
        return self.old_start + max(self.old_count, 1) - 1

    @property
    def last_new(self) -> int:
        """The last line of the hunk in the later text."""
        return self.new_start + max(self.new_count, 1) - 1


def changed_symbols(file: CodeFile, hunks: Iterable[Hunk]) -> tuple[int, ...]:
    """Return the positions of the innermost definitions with changed lines, ascending.

    The later side of `hunks` is the text of the file. Lines outside of all definitions count as
    `WHOLE_FILE`. Removed lines count as a change of the innermost definition around the gap.
    """
    owners = _LineOwners(file.symbols)
    distinct = set(hunks)
    positions = owners.of_spans((h.new_start, h.last_new) for h in distinct if h.new_count)
    positions |= {owners.around_gap(hunk.new_start) for hunk in distinct if not hunk.new_count}
    return tuple(sorted(positions))


def shift_hunks(hunks: Sequence[Hunk], later: Sequence[Hunk]) -> tuple[Hunk, ...]:
    """Return hunks with their later side mapped to a later text.

    `hunks` lead from a first text to a second text, and `later` from the second to a third; both
    ascend. If the third text has changed a line again, the line is mapped to that change.
    """
    lasts = [hunk.last_old for hunk in later]
    return tuple(_shift(hunk, later, lasts) for hunk in hunks)


def _shift(hunk: Hunk, later: Sequence[Hunk], lasts: Sequence[int]) -> Hunk:
    first = _shift_line(hunk.new_start, later, lasts, at_end=False)
    last = _shift_line(hunk.last_new, later, lasts, at_end=True)
    count = max(first, last) - first + 1 if hunk.new_count else 0
    return hunk._replace(new_start=first, new_count=count)


def _shift_line(line: int, later: Sequence[Hunk], lasts: Sequence[int], *, at_end: bool) -> int:
    index = bisect_left(lasts, line)
    if index < len(later) and later[index].old_count and later[index].old_start <= line:
        return later[index].last_new if at_end else later[index].new_start
    if not index:
        return line
    return line + later[index - 1].last_new - later[index - 1].last_old


@dataclass(slots=True)
class _LineOwners:
    """The innermost definition of each line, as ranges of lines with the same innermost definition."""

    symbols: Sequence[Symbol]
    starts: list[int] = field(default_factory=list)  # first line of each range
    # Innermost definition of each range, or `WHOLE_FILE`
    owners: list[int] = field(default_factory=list)
    outer: dict[int, int] = field(default_factory=dict)  # definition -> definition around it

    def __post_init__(self) -> None:
        self._start_range(1, WHOLE_FILE)
        around = list[int]()
        for position in sorted(range(len(self.symbols)), key=self._text_order):
            self._close(around, self.symbols[position].start_line)
            self.outer[position] = around[-1] if around else WHOLE_FILE
            around.append(position)
            self._start_range(self.symbols[position].start_line, position)
        self._close(around, None)

    def of_spans(self, spans: Iterable[tuple[int, int]]) -> set[int]:
        """Return the innermost definitions of spans of lines, each with its first and last line.

        Each range is read once: after `shift_hunks`, thousands of hunks may span the whole file.
        """
        positions = set[int]()
        unread = 0
        for first, last in sorted(spans):
            start = max(unread, bisect_right(self.starts, first) - 1)
            unread = max(start, bisect_right(self.starts, last))
            positions.update(self.owners[start:unread])
        return positions

    def around_gap(self, line: int) -> int:
        """Return the innermost definition that contains both `line` and the next line."""
        owner = self.owners[max(0, bisect_right(self.starts, line) - 1)]
        while owner != WHOLE_FILE and self.symbols[owner].end_line <= line:
            owner = self.outer[owner]
        return owner

    def _text_order(self, position: int) -> tuple[int, int, int]:
        symbol = self.symbols[position]
        return symbol.start_line, -symbol.end_line, position

    def _close(self, around: list[int], line: int | None) -> None:
        """End the open definitions that end before a line; all with None."""
        while around and (line is None or self.symbols[around[-1]].end_line < line):
            end = self.symbols[around.pop()].end_line
            self._start_range(end + 1, around[-1] if around else WHOLE_FILE)

    def _start_range(self, line: int, owner: int) -> None:
        if self.starts and self.starts[-1] >= line:
            self.owners[-1] = owner
        else:
            self.starts.append(line)
            self.owners.append(owner)
