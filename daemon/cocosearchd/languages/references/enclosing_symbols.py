"""Enclosing symbols of byte positions: the innermost, the owner of a variable. Pure."""

from collections.abc import Sequence

from cocosearchd.languages.code_facts import TOP_LEVEL
from cocosearchd.languages.references.variable_scopes import NEVER
from cocosearchd.languages.symbols import MINOR_KINDS
from cocosearchd.model import Symbol


class EnclosingSymbols:
    """The symbols of one file, outer before inner, by position."""

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
        self.next_change = 0  # the innermost symbol stays the same until there
        self._next = 0
        self._current = TOP_LEVEL

    def _find_owners(self) -> list[int]:
        """Return the innermost symbol that may own variables, by symbol; it may be the symbol."""
        owners: list[int] = []
        for number, (symbol, parent) in enumerate(zip(self._symbols, self._parents, strict=True)):
            outer = owners[parent] if parent != TOP_LEVEL else TOP_LEVEL
            owners.append(outer if symbol.kind in MINOR_KINDS else number)
        return owners

    def innermost(self, position: int) -> int:
        """Return the innermost symbol at a position that is not before the last one."""
        symbols = self._symbols
        while self._next < len(symbols) and symbols[self._next].start_byte <= position:
            self._current = self._next
            self._next += 1
        # A symbol that has ended has ended for all later positions as well.
        while self._current != TOP_LEVEL and symbols[self._current].end_byte <= position:
            self._current = self._parents[self._current]
        self.next_change = min(
            symbols[self._next].start_byte if self._next < len(symbols) else NEVER,
            symbols[self._current].end_byte if self._current != TOP_LEVEL else NEVER,
        )
        return self._current

    def owner(self, symbol: int) -> int:
        """Return the innermost symbol around a variable: constants own none."""
        return symbol if symbol == TOP_LEVEL else self._owners[symbol]

    def outer_owner(self, symbol: int) -> int:
        """Return the innermost symbol around another one that may own variables."""
        return self.owner(self._parents[symbol])
