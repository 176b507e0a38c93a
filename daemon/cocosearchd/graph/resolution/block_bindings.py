"""Finds bindings of variables, closures and blocks included, by name and line of a file. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from cocosearchd.languages.code_facts import Binding, FactGroups

# The region of a line for a name is the first line of the innermost block that binds the name, or
# one of these.
ANYWHERE = 0  # no block binds the name, or the location is unknown
OUTSIDE = -1  # the line is outside of all blocks that bind the name
# Code with deeper nesting of blocks is generated.
_MAX_NESTING = 1000

_Block = tuple[int, int]  # first and last line
_WHOLE_SYMBOL: _Block = (0, 0)


class BlockBindings:
    """Finds the bindings of a name at a line; the innermost block around the line has priority.

    The bindings of a name are arranged at its first lookup.
    """

    def __init__(self, bindings: FactGroups[Binding]) -> None:
        """`bindings` are the bindings of a file, grouped by name."""
        self._bindings = bindings
        self._names: dict[str, _NameBindings] = {}

    def of_name(self, name: str) -> Sequence[Binding]:
        """Return all bindings of a name, in order."""
        return self._bindings.find(name)

    def region(self, name: str, line: int) -> int:
        """Return the region of a line. All lines of a region have the same bindings of the name."""
        blocks = self._arrange(name).blocks
        return ANYWHERE if blocks is None or not line else blocks.region(blocks.innermost(line))

    def region_of_value(self, item: Binding, first_name: str) -> int:
        """Return the region in which the value of a binding is evaluated.

        `first_name` is the first name of the value. In a block, the value of `x := x.next()` begins
        with the variable `x` outside of the block.
        """
        blocks = self._arrange(first_name).blocks
        if first_name != item.name or not item.last_line or blocks is None:
            return self.region(first_name, item.first_line)
        return blocks.region(blocks.outer(blocks.innermost(item.first_line)))

    def find(self, position: int, name: str, region: int = ANYWHERE) -> Sequence[Binding]:
        """Return the bindings of a name in a symbol that are valid in a region."""
        return self._arrange(name).find(position, region)

    def _arrange(self, name: str) -> "_NameBindings":
        bindings = self._names.get(name)
        if bindings is None:
            if name not in self._bindings:
                return _NO_BINDINGS
            bindings = self._names[name] = _NameBindings(self._bindings.find(name))
        return bindings


class _NameBindings:
    """The bindings of one name in a file, by symbol and block."""

    def __init__(self, bindings: Sequence[Binding]) -> None:
        blocks = {(item.first_line, item.last_line) for item in bindings if item.last_line}
        self.blocks = _NestedBlocks(blocks) if blocks else None
        self._of_symbol: dict[int, list[Binding]] = defaultdict(list)
        self._of_block: dict[tuple[int, _Block], list[Binding]] = defaultdict(list)
        for item in bindings:
            self._of_symbol[item.symbol].append(item)
            if blocks:
                lines = (item.first_line, item.last_line)
                self._of_block[item.symbol, lines].append(item)

    def find(self, position: int, region: int) -> Sequence[Binding]:
        """Return the bindings in a symbol that are valid in a region."""
        if self.blocks is None or region == ANYWHERE:
            return self._of_symbol.get(position, ())
        number = self.blocks.innermost(region)
        for _ in range(_MAX_NESTING):
            if number < 0:
                break
            bindings = self._of_block.get((position, self.blocks.lines[number]))
            if bindings:
                return bindings
            number = self.blocks.outer(number)
        return self._of_block.get((position, _WHOLE_SYMBOL), ())


class _NestedBlocks:
    """The blocks that bind one name, outer before inner. Two blocks are nested or disjoint."""

    def __init__(self, blocks: Iterable[_Block]) -> None:
        self.lines = sorted(blocks, key=lambda block: (block[0], -block[1]))
        self._outer: list[int] = []
        open_blocks: list[int] = []
        for number, (first, _) in enumerate(self.lines):
            while open_blocks and self.lines[open_blocks[-1]][1] < first:
                open_blocks.pop()
            self._outer.append(open_blocks[-1] if open_blocks else -1)
            open_blocks.append(number)

    def innermost(self, line: int) -> int:
        """Return the number of the innermost block around a line, or -1."""
        number = bisect_right(self.lines, line, key=lambda block: block[0]) - 1
        for _ in range(_MAX_NESTING):
            if number < 0 or line <= self.lines[number][1]:
                return number
            number = self._outer[number]
        return -1

    def outer(self, number: int) -> int:
        """Return the number of the block around a block, or -1."""
        return self._outer[number] if number >= 0 else number

    def region(self, number: int) -> int:
        """Return the region of the lines of a block; -1 stands for outside of all blocks."""
        return self.lines[number][0] if number >= 0 else OUTSIDE


_NO_BINDINGS = _NameBindings(())
