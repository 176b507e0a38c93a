"""Bindings of the variables of closures and blocks in one file, by name and line. Pure"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from cocosearchd.languages.code_facts import Binding

# Regions of a name: the first line of the innermost block that binds it, or these.
ANYWHERE = 0  # no block binds the name, or the place is not known
OUTSIDE = -1  # outside of all blocks that bind the name
# Blocks deeper than this in each other are generated.
_MAX_NESTING = 1000

_Block = tuple[int, int]  # first and last line
_WHOLE_SYMBOL: _Block = (0, 0)


class BlockBindings:
    """Finds what a name is bound to at a line: in the innermost block around it first."""

    def __init__(self, bindings: Iterable[Binding]) -> None:
        blocks: dict[str, set[_Block]] = defaultdict(set)
        for item in bindings:
            if item.last_line:
                blocks[item.name].add((item.first_line, item.last_line))
        self._blocks = {name: _NestedBlocks(items) for name, items in blocks.items()}
        self._bindings: dict[tuple[int, str, _Block], list[Binding]] = defaultdict(list)
        for item in bindings if blocks else ():
            if item.name in blocks:
                key = item.symbol, item.name, (item.first_line, item.last_line)
                self._bindings[key].append(item)

    def region(self, name: str, line: int) -> int:
        """Return the region of a line: in all its lines the name is bound to the same."""
        blocks = self._blocks.get(name)
        return ANYWHERE if blocks is None or not line else blocks.region(blocks.innermost(line))

    def region_of_value(self, item: Binding, first_name: str) -> int:
        """Return the region where the text of a binding is evaluated that begins with a name.

        `x := x.next()` in a block begins with the variable outside of it.
        """
        if first_name != item.name or not item.last_line:
            return self.region(first_name, item.first_line)
        blocks = self._blocks[first_name]
        return blocks.region(blocks.outer(blocks.innermost(item.first_line)))

    def find(self, symbol: int, name: str, region: int) -> Sequence[Binding] | None:
        """Return the bindings of a name in a symbol that hold in a region; None for all of them."""
        blocks = self._blocks.get(name)
        if blocks is None or region == ANYWHERE:
            return None
        number = blocks.innermost(region)
        for _ in range(_MAX_NESTING):
            if number < 0:
                break
            bindings = self._bindings.get((symbol, name, blocks.lines[number]))
            if bindings:
                return bindings
            number = blocks.outer(number)
        return self._bindings.get((symbol, name, _WHOLE_SYMBOL), ())


class _NestedBlocks:
    """The blocks of one name, outer before inner. Blocks nest, or are apart from each other."""

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
        """Return the region of the lines of a block; -1 is outside of all."""
        return self.lines[number][0] if number >= 0 else OUTSIDE
