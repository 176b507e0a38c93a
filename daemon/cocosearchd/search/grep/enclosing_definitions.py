"""Finds the innermost definitions around lines, from the packed symbols of files. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cocosearchd.languages.symbol_table import PackedSymbols

Line = tuple[str, int]  # path, line from 1


@dataclass(frozen=True, slots=True)
class EnclosingDefinition:
    """The kind and the qualified name of a definition."""

    kind: str
    name: str


def enclosing_definitions(
    symbols: Mapping[str, bytes], lines: Sequence[Line]
) -> dict[Line, EnclosingDefinition]:
    """Find the innermost definition around each line, if it has one.

    `symbols` maps each file to its symbols, packed by `symbol_table`. Call it in a thread: a file may
    have 20,000 symbols.
    """
    numbers = defaultdict[str, list[int]](list)
    for path, number in lines:
        numbers[path].append(number)
    return {
        (path, number): EnclosingDefinition(symbol.kind, symbol.qualified_name)
        for path, lines_of_file in numbers.items()
        for number, symbol in PackedSymbols(symbols.get(path, b"")).innermost(lines_of_file).items()
    }
