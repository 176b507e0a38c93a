"""Finds the enclosing symbols of byte positions: the innermost, and the owner of a variable. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from cocosearchd.languages.code_facts import TOP_LEVEL
from cocosearchd.languages.references.variable_scopes import NEVER
from cocosearchd.languages.symbols import MINOR_KINDS
from cocosearchd.model import Symbol


class EnclosingSymbols:
    """Looks up enclosing symbols in one file. Symbols are in order of position, outer before inner.

    The text is cut into parts where the innermost symbol changes, so that bisection finds a
    position.
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
        self._types = {number for number, symbol in enumerate(symbols) if symbol.kind == "type"}
        self._starts = [0]  # start of each part of the text
        self._innermost = [TOP_LEVEL]  # innermost symbol of each part
        for number in range(len(symbols)):
            self._add_parts(number)

    def _find_owners(self) -> list[int]:
        """Return for each symbol the innermost symbol, itself included, that may own variables."""
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

    def innermost_of_all(self, positions: Sequence[int]) -> list[int]:
        """Return the innermost symbol at each position. Positions ascend."""
        innermost: list[int] = []
        for start, symbol in zip(self._starts[1:], self._innermost, strict=False):
            count = bisect_left(positions, start, len(innermost)) - len(innermost)
            if count:
                innermost += [symbol] * count
        return innermost + [self._innermost[-1]] * (len(positions) - len(innermost))

    def owners_of_all(self, positions: Sequence[int], names: Iterable[str]) -> list[int]:
        """Return for each position the innermost symbol that owns the variable named there.

        Positions ascend. Constants own no variables, and a type alias does not own its own name.
        """
        owners = [TOP_LEVEL, *self._owners]
        symbols, parents = self._symbols, self._parents
        result: list[int] = []
        for symbol, name in zip(self.innermost_of_all(positions), names, strict=True):
            owner = owners[symbol + 1]
            if owner in self._types and symbols[owner].name == name:
                owner = owners[parents[owner] + 1]
            result.append(owner)
        return result

    def start(self, symbol: int) -> int:
        """Return the start byte of a symbol; -1 for `TOP_LEVEL`."""
        return self._symbols[symbol].start_byte if symbol != TOP_LEVEL else -1
