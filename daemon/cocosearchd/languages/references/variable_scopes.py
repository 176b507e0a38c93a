"""Scopes of a file and the variables that are declared in them. Pure.

Positions are bytes. Scopes nest; all work is linear in the number of scopes, variables and uses.
"""

import sys
from bisect import bisect_left
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
        self.outer_names: set[str] = set()

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
            scope = open_scopes[-1]
            (scope.outer_names if is_outer else scope.names).add(name)


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
        self._declaring: dict[str, list[VariableScope]] = {}

    def find_inner(self, position: int, name: str, outer_start: int) -> VariableScope | None:
        """Return the innermost scope around a position that declares a name.

        None as well if it begins like the outermost of those from `outer_start` on: a constructor
        has two scopes that begin with its parameters.
        """
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

    def _close(self, position: int) -> None:
        while self._open and self._open[-1].end <= position:
            scope = self._open.pop()
            for name in scope.declared():
                self._declaring[name].pop()


class ValidVariables:
    """The variables that are valid at a position, which only moves forward.

    `names` are valid in all scopes inside of their own, `members` directly in the innermost scope.
    They stay the same until the position `next_change`.
    """

    def __init__(self, scopes: Iterable[VariableScope]) -> None:
        self.names: dict[str, int] = {}  # to the number of open scopes where it is valid
        self.members: set[str] = set()
        self.next_change = 0
        self._waiting = sorted(scopes, key=lambda scope: (-scope.valid_from, scope.end))
        self._open: list[VariableScope] = []

    def move_to(self, position: int) -> None:
        """Open and close scopes up to a position."""
        while self._waiting and self._waiting[-1].valid_from <= position:
            scope = self._waiting.pop()
            self._close(scope.valid_from)
            self._open.append(scope)
            if not scope.has_members:
                for name in scope.declared():
                    self.names[name] = self.names.get(name, 0) + 1
        self._close(position)
        innermost = self._open[-1] if self._open else None
        self.members = innermost.names if innermost and innermost.has_members else set()
        self.next_change = min(
            self._waiting[-1].valid_from if self._waiting else NEVER,
            innermost.end if innermost else NEVER,
        )

    def _close(self, position: int) -> None:
        while self._open and self._open[-1].end <= position:
            scope = self._open.pop()
            if not scope.has_members:
                for name in scope.declared():
                    self.names[name] -= 1
                    if not self.names[name]:
                        del self.names[name]
