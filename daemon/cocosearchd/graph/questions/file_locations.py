"""Finds the definitions around a line of a file, and the uses and imports on the line. Pure."""

from collections.abc import Sequence

from cocosearchd.graph.code_files import WHOLE_FILE, CodeFile
from cocosearchd.languages.code_facts import Import, Use


def enclosing_symbol(file: CodeFile, line: int) -> int:
    """Return the position of the innermost definition around a line, or `WHOLE_FILE`."""
    innermost = WHOLE_FILE
    for position, symbol in enumerate(file.symbols):
        if symbol.start_line <= line <= symbol.end_line and (
            innermost == WHOLE_FILE or _is_inside(file, position, innermost)
        ):
            innermost = position
    return innermost


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


def _is_inside(file: CodeFile, inner: int, outer: int) -> bool:
    first, second = file.symbols[inner], file.symbols[outer]
    return first.start_byte >= second.start_byte and first.end_byte <= second.end_byte
