"""Scopes of a file and the variables that are declared in them. Pure.

Positions are bytes. Scopes nest; all work is linear in the number of scopes, variables and uses.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

NEVER = sys.maxsize  # a position after the end of every file


class VariableScope:
    """A scope: its variables are declared from `start`, and valid from `valid_from`, until `end`.

    The variables of `has_members` are valid directly inside, and not in scopes inside of it.
    """

    __slots__ = ("end", "has_members", "names", "outer_names", "start", "valid_from")

    def __init__(self, start: int, valid_from: int, end: int, *, has_members: bool) -> None:
        self.start = start
        self.valid_from = valid_from
        self.end = end
        self.has_members = has_members
        self.names: set[str] = set()
        self.outer_names: set[str] | None = None  # most scopes have none

    def add(self, name: str, *, is_outer: bool) -> None:
        """Add a name that is declared here, or further out."""
        if not is_outer:
            self.names.add(name)
        elif self.outer_names is None:
            self.outer_names = {name}
        else:
            self.outer_names.add(name)

    def declared(self) -> set[str]:
        """Return the names that the scope declares itself."""
        return self.names - self.outer_names if self.outer_names else self.names


def declare_variables(
    scopes: Iterable[VariableScope],
    variables: Iterable[tuple[int, str]],
    outer_names: Iterable[tuple[int, str]],
) -> None:
    """Add names to the innermost scopes around them. Names outside of all scopes are left out."""
    names = [(position, False, name) for position, name in variables]
    names += [(position, True, name) for position, name in outer_names]
    waiting = sorted(scopes, key=lambda scope: (-scope.start, scope.end))
    open_scopes: list[VariableScope] = []
    for position, is_outer, name in sorted(names):
        while waiting and waiting[-1].start <= position:
            open_scopes.append(waiting.pop())
            _drop_ended(open_scopes, open_scopes[-1])
        while open_scopes and open_scopes[-1].end <= position:
            open_scopes.pop()
        if open_scopes:
            open_scopes[-1].add(name, is_outer=is_outer)


def _drop_ended(open_scopes: list[VariableScope], newest: VariableScope) -> None:
    """Drop the scopes that end before the newest one begins, which is the last."""
    open_scopes.pop()
    while open_scopes and open_scopes[-1].end <= newest.start:
        open_scopes.pop()
    open_scopes.append(newest)


class DeclaringScopes:
    """The scopes that declare variables, for positions that only move forward."""

    def __init__(self, scopes: Iterable[VariableScope]) -> None:
        self._waiting = sorted(scopes, key=lambda scope: (-scope.start, scope.end))
        self._open: list[VariableScope] = []
        self._next_change = 0  # the open scopes stay the same until there
        self._declaring: dict[str, list[VariableScope]] = {}
        self._names = {name for scope in self._waiting for name in scope.names}

    def find_inner(self, position: int, name: str, outer_start: int) -> VariableScope | None:
        """Return the innermost scope around a position that declares a name.

        None as well if it begins like the outermost of those from `outer_start` on: a constructor
        has two scopes that begin with its parameters.
        """
        if name not in self._names:  # declared nowhere
            return None
        if position >= self._next_change:
            self._move_to(position)
        scopes = self._declaring.get(name)
        if not scopes or scopes[-1].start < outer_start:
            return None
        outermost = bisect_left(self._open, outer_start, key=lambda scope: scope.start)
        return None if scopes[-1].start == self._open[outermost].start else scopes[-1]

    def _move_to(self, position: int) -> None:
        while self._waiting and self._waiting[-1].start <= position:
            scope = self._waiting.pop()
            self._close(scope.start)
            self._open.append(scope)
            for name in scope.declared():
                self._declaring.setdefault(name, []).append(scope)
        self._close(position)
        self._next_change = min(
            self._waiting[-1].start if self._waiting else NEVER,
            self._open[-1].end if self._open else NEVER,
        )

    def _close(self, position: int) -> None:
        while self._open and self._open[-1].end <= position:
            scope = self._open.pop()
            for name in scope.declared():
                self._declaring[name].pop()


class ValidVariables:
    """The variables that are valid at a position, by name: most names are no variable anywhere.

    Variables of a scope are valid in all scopes inside of it, members directly in it alone.
    """

    def __init__(self, scopes: Iterable[VariableScope]) -> None:
        self._scopes = list(scopes)
        self._members: dict[str, set[VariableScope]] = {}
        ranges: dict[str, list[tuple[int, int]]] = {}
        for scope in self._scopes:
            if scope.has_members:
                for name in scope.names:
                    self._members.setdefault(name, set()).add(scope)
            elif scope.names:
                for name in scope.declared():
                    ranges.setdefault(name, []).append((scope.valid_from, scope.end))
        self._bounds = {name: _join_ranges(ranges[name]) for name in ranges}
        self.names = {*self._bounds, *self._members}
        self._innermost = _InnermostScopes(self._scopes if self._members else ())

    def are_valid(self, name: str, position: int) -> bool:
        """Return True if a variable or a member with one of `names` is valid at a position."""
        if bisect_right(self._bounds.get(name, ()), position) % 2:
            return True
        members = self._members.get(name)
        return members is not None and self._innermost.find(position) in members


def _join_ranges(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return starts and ends of ranges in turn, ascending; ranges that nest or touch are one."""
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
        # of scopes with one range, the first is the innermost
        latest_first = sorted(scopes, key=lambda scope: (-scope.valid_from, scope.end))
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
