"""Finds the scopes of a file and the variables that they declare. Pure.

Positions are bytes. Scopes nest. All work is linear in the number of scopes, variables and uses.
This is an inner loop of the first index: scopes are sorted only once, and most declare nothing.
"""

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from operator import attrgetter

NEVER = sys.maxsize  # a position after the end of every file
_NO_NAMES: frozenset[str] = frozenset()
_START, _VALID_FROM, _END = map(attrgetter, ("start", "valid_from", "end"))


class VariableScope:
    """A scope. Variables are declared between `start` and `end`, and valid from `valid_from` on.

    With `has_members`, its variables are members: they are valid only directly inside of it, not in
    inner scopes.
    """

    __slots__ = ("end", "has_members", "names", "outer_names", "start", "valid_from")

    def __init__(self, start: int, valid_from: int, end: int, *, has_members: bool) -> None:
        self.start = start
        self.valid_from = valid_from
        self.end = end
        self.has_members = has_members
        self.names: Set[str] = _NO_NAMES  # names that occur as variables inside
        self.outer_names: Set[str] = _NO_NAMES  # those of them that an outer scope declares

    def declared(self) -> Set[str]:
        """Return the names that the scope declares itself."""
        return self.names - self.outer_names if self.outer_names else self.names


def sort_scopes(scopes: Iterable[VariableScope]) -> list[VariableScope]:
    """Sort scopes by descending start; of scopes with equal starts, the inner one comes first."""
    ordered = sorted(scopes, key=_END)
    ordered.sort(key=_START, reverse=True)  # a stable sort keeps the order by end
    return ordered


def declare_variables(
    ordered: Sequence[VariableScope],
    variables: Iterable[tuple[int, str]],
    outer_names: Iterable[tuple[int, str]],
) -> None:
    """Add names to their innermost scopes. Names outside of all scopes are ignored.

    `ordered` scopes are in the order of `sort_scopes`.
    """
    for scope, names in _names_by_scope(ordered, variables):
        scope.names = names
    for scope, names in _names_by_scope(ordered, outer_names):
        scope.outer_names = names


def _names_by_scope(
    ordered: Sequence[VariableScope], names: Iterable[tuple[int, str]]
) -> Iterable[tuple[VariableScope, set[str]]]:
    """Return the scopes with names directly inside of them, and these names."""
    by_scope: defaultdict[VariableScope, set[str]] = defaultdict(set)
    waiting = list(ordered)
    open_scopes: list[VariableScope] = []
    next_change = waiting[-1].start if waiting else NEVER  # until there, the scopes stay the same
    for position, name in sorted(names):
        if position >= next_change:
            next_change = _move_to(position, waiting, open_scopes)
        if open_scopes:
            by_scope[open_scopes[-1]].add(name)
    return by_scope.items()


def _move_to(position: int, waiting: list[VariableScope], open_scopes: list[VariableScope]) -> int:
    """Open and close scopes up to a position. Return the position of the next such change."""
    while waiting and waiting[-1].start <= position:
        scope = waiting.pop()
        _drop_ended(open_scopes, scope.start)
        open_scopes.append(scope)
    _drop_ended(open_scopes, position)
    next_start = waiting[-1].start if waiting else NEVER
    return min(next_start, open_scopes[-1].end) if open_scopes else next_start


def _drop_ended(open_scopes: list[VariableScope], position: int) -> None:
    while open_scopes and open_scopes[-1].end <= position:
        open_scopes.pop()


class DeclaringScopes:
    """The scopes that declare variables, for look-ups at ascending positions."""

    def __init__(self, ordered: Sequence[VariableScope]) -> None:
        """`ordered` scopes are in the order of `sort_scopes`."""
        self._waiting = list(ordered)
        self._open: list[VariableScope] = []
        self._next_change = 0  # until this position, the open scopes stay the same
        self._declaring: dict[str, list[VariableScope]] = {}
        self.names: set[str] = set().union(*(scope.names for scope in ordered if scope.names))

    def find_inner(self, position: int, name: str, outer_start: int) -> VariableScope | None:
        """Return the innermost scope around a position that declares a name; None without one.

        The result is also None if that scope begins at the same byte as the outermost scope from
        `outer_start` on. This is because a constructor has two scopes that begin with its
        parameters.
        """
        if position >= self._next_change:
            self._move_to(position)
        scopes = self._declaring.get(name)
        if not scopes or scopes[-1].start < outer_start:
            return None
        outermost = bisect_left(self._open, outer_start, key=_START)
        return None if scopes[-1].start == self._open[outermost].start else scopes[-1]

    def _move_to(self, position: int) -> None:
        waiting, declaring = self._waiting, self._declaring
        while waiting and waiting[-1].start <= position:
            scope = waiting.pop()
            self._close(scope.start)
            self._open.append(scope)
            if scope.names:
                for name in scope.declared():
                    declaring.setdefault(name, []).append(scope)
        self._close(position)
        self._next_change = min(
            waiting[-1].start if waiting else NEVER,
            self._open[-1].end if self._open else NEVER,
        )

    def _close(self, position: int) -> None:
        while self._open and self._open[-1].end <= position:
            scope = self._open.pop()
            if scope.names:
                for name in scope.declared():
                    self._declaring[name].pop()


class ValidVariables:
    """Tells whether a name is a valid variable at a position.

    Variables are indexed by name, because most names are no variables anywhere. Variables of a
    scope are valid in all its inner scopes; members are valid only directly in their scope.
    """

    def __init__(self, scopes: Iterable[VariableScope]) -> None:
        self._scopes = list(scopes)
        self._members: dict[str, set[VariableScope]] = {}
        ranges: dict[str, list[tuple[int, int]]] = {}
        for scope in self._scopes:
            if not scope.names:
                continue
            if scope.has_members:
                for name in scope.names:
                    self._members.setdefault(name, set()).add(scope)
                continue
            scope_range = scope.valid_from, scope.end
            for name in scope.declared():
                if name in ranges:
                    ranges[name].append(scope_range)
                else:
                    ranges[name] = [scope_range]
        self._bounds = {name: _join_ranges(items) for name, items in ranges.items()}
        self._innermost = _InnermostScopes(self._scopes if self._members else ())

    def find_valid(self, names: Iterable[str], ends: Iterable[int]) -> list[bool]:
        """Return for each name whether it is a variable or a member where it ends."""
        bounds = self._bounds
        if not self._members:
            return [
                name in bounds and bisect_right(bounds[name], end - 1) % 2 == 1
                for name, end in zip(names, ends, strict=True)
            ]
        variables, is_valid = {*bounds, *self._members}, self._is_valid
        return [
            name in variables and is_valid(name, end - 1)
            for name, end in zip(names, ends, strict=True)
        ]

    def _is_valid(self, name: str, position: int) -> bool:
        if bisect_right(self._bounds.get(name, ()), position) % 2:
            return True
        members = self._members.get(name)
        return members is not None and self._innermost.find(position) in members


def _join_ranges(ranges: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Return the starts and ends of ranges, alternating and ascending.

    Touching and nested ranges are merged.
    """
    if len(ranges) == 1:
        start, end = ranges[0]
        return ranges[0] if end > start else ()
    bounds: list[int] = []
    for start, end in sorted(ranges):
        if bounds and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        elif end > start:
            bounds += (start, end)
    return bounds


class _InnermostScopes:
    """The innermost scope of each part of a text."""

    def __init__(self, scopes: Iterable[VariableScope]) -> None:
        self._starts = [0]
        self._scopes: list[VariableScope | None] = [None]
        open_scopes: list[VariableScope] = []
        # of scopes with equal ranges, the first is the innermost
        latest_first = sorted(scopes, key=_END)
        latest_first.sort(key=_VALID_FROM, reverse=True)
        for scope in reversed(latest_first):
            self._close(open_scopes, scope.valid_from)
            open_scopes.append(scope)
            self._add(scope.valid_from, scope)
        self._close(open_scopes, NEVER)

    def _close(self, open_scopes: list[VariableScope], position: int) -> None:
        while open_scopes and open_scopes[-1].end <= position:
            end = open_scopes.pop().end
            self._add(end, open_scopes[-1] if open_scopes else None)

    def _add(self, start: int, scope: VariableScope | None) -> None:
        self._starts.append(start)
        self._scopes.append(scope)

    def find(self, position: int) -> VariableScope | None:
        """Return the innermost scope at a position."""
        return self._scopes[bisect_right(self._starts, position) - 1]
