"""Finds definitions that were renamed since an earlier version of their file. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.model import Symbol

_TOKENS = re.compile(r"\w+|\W+")


class _Shape(NamedTuple):
    """A definition without its name. A removed and a new definition of one shape may be a renaming."""

    kind: str
    parent: str  # qualified, by its present name
    name: str  # set if only the parent was renamed
    signature: str


def renamed_definitions(
    earlier: CodeFile, present: CodeFile, removed: Iterable[int]
) -> Mapping[int, int]:
    """Map positions of renamed definitions in the earlier file to their present positions.

    `removed` are positions in the earlier file. A definition counts as renamed if it is the only
    removed definition of its shape, and exactly one new definition has this shape. Members of a
    renamed class follow the class.
    """
    earlier_names = {symbol.qualified_name for symbol in earlier.symbols}
    added = [
        position
        for position, symbol in enumerate(present.symbols)
        if symbol.qualified_name not in earlier_names
    ]
    added_by_depth = _by_depth(present.symbols, added)
    renames = _Renames(earlier.symbols, present.symbols)
    for depth, positions in sorted(_by_depth(earlier.symbols, removed).items()):
        renames.pair(positions, added_by_depth.get(depth, ()))
    return renames.pairs


class _Renames:
    """Pairs of removed and new definitions, found level by level."""

    def __init__(self, earlier: Sequence[Symbol], present: Sequence[Symbol]) -> None:
        self._earlier = earlier
        self._present = present
        self._present_names = dict[str, str]()  # earlier qualified name -> present qualified name
        self.pairs = dict[int, int]()

    def pair(self, removed: Sequence[int], added: Sequence[int]) -> None:
        """Pair the definitions of one level: first members by name, then definitions by signature."""
        for make_shape in (_member_shape, _signature_shape):
            paired = set(self.pairs.values())
            gone = [position for position in removed if position not in self.pairs]
            new = [position for position in added if position not in paired]
            earlier_shape = partial(make_shape, present_names=self._present_names)
            self.pairs |= _pair(
                _group(self._earlier, gone, earlier_shape),
                _group(self._present, new, partial(make_shape, present_names={})),
            )
        for position in self.pairs.keys() & set(removed):
            earlier_name = self._earlier[position].qualified_name
            self._present_names[earlier_name] = self._present[self.pairs[position]].qualified_name


def _by_depth(symbols: Sequence[Symbol], positions: Iterable[int]) -> Mapping[int, Sequence[int]]:
    """Group positions by nesting depth: members are deeper than their parents."""
    groups = dict[int, list[int]]()
    for position in positions:
        groups.setdefault(symbols[position].qualified_name.count("."), []).append(position)
    return groups


def _group(
    symbols: Sequence[Symbol],
    positions: Iterable[int],
    make_shape: Callable[[Symbol], _Shape | None],
) -> Mapping[_Shape, list[int]]:
    groups = dict[_Shape, list[int]]()
    for position in positions:
        shape = make_shape(symbols[position])
        if shape is not None:
            groups.setdefault(shape, []).append(position)
    return groups


def _pair(
    gone: Mapping[_Shape, Sequence[int]], new: Mapping[_Shape, Sequence[int]]
) -> Mapping[int, int]:
    """Pair definitions that are the only ones of their shape on both sides."""
    return {
        positions[0]: new[shape][0]
        for shape, positions in gone.items()
        if len(positions) == len(new.get(shape, ())) == 1
    }


def _member_shape(symbol: Symbol, present_names: Mapping[str, str]) -> _Shape | None:
    """Return the shape that pairs a member by name; None for a definition that is no member."""
    if not symbol.parent:
        return None
    parent = present_names.get(symbol.parent, symbol.parent)
    return _Shape(symbol.kind, parent, symbol.name, "")


def _signature_shape(symbol: Symbol, present_names: Mapping[str, str]) -> _Shape | None:
    """Return the shape by signature, without the name; None if the signature lacks the name."""
    tokens = _TOKENS.findall(symbol.signature)
    if symbol.name not in tokens:
        return None
    tokens[tokens.index(symbol.name)] = ""
    parent = symbol.parent or ""
    return _Shape(symbol.kind, present_names.get(parent, parent), "", "".join(tokens))
