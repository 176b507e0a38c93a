"""Enclosing symbols of byte positions: the innermost, the owner of a variable. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial

from cocosearchd.languages.code_facts import TOP_LEVEL
from cocosearchd.languages.references.variable_scopes import NEVER
from cocosearchd.languages.symbols import MINOR_KINDS
from cocosearchd.model import Symbol


class EnclosingSymbols:
    """The symbols of one file, outer before inner, by position.

    The text is cut where the innermost symbol changes, so that a position is found by bisection.
    """

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self._symbols = symbols
        self._parents: list[int] = []
        open_symbols: list[int] = []
        for number, symbol in enumerate(symbols):
            while open_symbols and symbols[open_symbols[-1]].end_byte <= symbol.start_byte:
                open_symbols.pop()
            self._parents.append(open_symbols[-1] if open_symbols else TOP_LEVEL)
            open_symbols.append(number)
        self._owners = self._find_owners()
        self._starts = [0]  # of the parts of the text
        self._innermost = [TOP_LEVEL]  # symbol of each part
        for number in range(len(symbols)):
            self._add_parts(number)

    def _find_owners(self) -> list[int]:
        """Return the innermost symbol that may own variables, by symbol; it may be the symbol."""
        owners: list[int] = []
        for number, (symbol, parent) in enumerate(zip(self._symbols, self._parents, strict=True)):
            outer = owners[parent] if parent != TOP_LEVEL else TOP_LEVEL
            owners.append(outer if symbol.kind in MINOR_KINDS else number)
        return owners

    def _add_parts(self, number: int) -> None:
        """Add the parts from the start of a symbol to the start of the next one."""
        symbols = self._symbols
        start = symbols[number].start_byte
        limit = symbols[number + 1].start_byte if number + 1 < len(symbols) else NEVER
        while True:
            self._starts.append(start)
            self._innermost.append(number)
            if number == TOP_LEVEL or symbols[number].end_byte >= limit:
                break
            start = max(start, symbols[number].end_byte)
            number = self._parents[number]

    def innermost(self, position: int) -> int:
        """Return the innermost symbol at a position."""
        return self._innermost[bisect_right(self._starts, position) - 1]

    def innermost_of_all(self, positions: Iterable[int]) -> list[int]:
        """Return the innermost symbol at each position."""
        # the part before that of a position has the number that its start has from 1
        innermost = [TOP_LEVEL, *self._innermost]
        parts = map(partial(bisect_right, self._starts), positions)
        return list(map(innermost.__getitem__, parts))

    def owner(self, symbol: int) -> int:
        """Return the innermost symbol around a variable: constants own none."""
        return symbol if symbol == TOP_LEVEL else self._owners[symbol]

    def outer_owner(self, symbol: int) -> int:
        """Return the innermost symbol around another one that may own variables."""
        return self.owner(self._parents[symbol])
