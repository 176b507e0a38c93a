"""Finds the definitions around a line of a file, and the uses and imports on the line. Pure."""

from bisect import bisect_left
from collections.abc import Sequence

from cocosearchd.graph.code_files import WHOLE_FILE, CodeFile
from cocosearchd.graph.resolution.file_names import names_of
from cocosearchd.languages.code_facts import Import, Use
from cocosearchd.languages.symbol_table import values_of as symbol_values


class _NestedLines:
    """The lines of the definitions of a file, as a tree: outer definitions have inner ones."""

    def __init__(self, file: CodeFile) -> None:
        self._first_lines = symbol_values(file.symbols, "start_line")
        self._inner: dict[int, list[int]] = {}
        # Last lines of the inner definitions of each one, ascending: a definition that ends before
        # an earlier one has the line of the earlier one.
        self._last_lines: dict[int, list[int]] = {}
        last_lines = symbol_values(file.symbols, "end_line")
        for position, outer in enumerate(names_of(file).parents):
            lasts = self._last_lines.setdefault(outer, [])
            lasts.append(max(last_lines[position], lasts[-1] if lasts else 0))
            self._inner.setdefault(outer, []).append(position)

    def innermost(self, line: int) -> int:
        """Return the position of the innermost definition around a line, or `WHOLE_FILE`.

        Of several definitions on one line, the first is chosen.
        """
        around = WHOLE_FILE
        while (inner := self._first_inner(around, line)) is not None:
            around = inner
        return around

    def _first_inner(self, outer: int, line: int) -> int | None:
        number = bisect_left(self._last_lines.get(outer, ()), line)
        if number == len(self._last_lines.get(outer, ())):
            return None
        position = self._inner[outer][number]
        return position if self._first_lines[position] <= line else None


def enclosing_symbol(file: CodeFile, line: int) -> int:
    """Return the position of the innermost definition around a line, or `WHOLE_FILE`."""
    return file.derived.get(_NestedLines, file).innermost(line)


def starting_symbol(file: CodeFile, line: int) -> int:
    """Return the position of the first definition that begins on a line, or `WHOLE_FILE`."""
    positions = (
        position for position, symbol in enumerate(file.symbols) if symbol.start_line == line
    )
    return next(positions, WHOLE_FILE)


def uses_at(file: CodeFile, line: int, column: int = 0) -> Sequence[Use]:
    """Return the uses on a line, in order; with a column, only uses with their name at the column."""
    return [
        use
        for use in file.facts.uses
        if use.line == line and (not column or use.column <= column <= use.column + len(use.name))
    ]


def imports_at(file: CodeFile, line: int) -> Sequence[Import]:
    """Return the imports on a line."""
    return [item for item in file.facts.imports if item.line == line]


def near_symbols(file: CodeFile, line: int, limit: int) -> Sequence[int]:
    """Return, in order, the positions of the definitions that begin nearest to a line."""
    nearest = sorted(range(len(file.symbols)), key=lambda i: abs(file.symbols[i].start_line - line))
    return sorted(nearest[:limit])
