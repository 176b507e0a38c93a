"""Matches a glob with all of its ways at once, one character of the text after the other. Pure.

The states are the bits of a number, so that a character costs a few operations on it: Baeza-Yates
and Gonnet, A New Approach to Text Searching (1992), with loops for stars. Slower than a regular
expression, and linear for every glob.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_CACHED = 4096  # characters whose transitions are remembered


@dataclass(frozen=True, slots=True)
class Step:
    """What a glob takes next: `one` character or `several` that match `rule`, `anything`, or whole
    `directories`.

    All but `one` may take nothing; what `directories` take ends in `/`.
    """

    kind: Literal["one", "several", "anything", "directories"]
    rule: str = ""


class GlobAutomaton:
    """The steps of a glob; not to be used by several threads at once, but for what they lose of its
    cache.
    """

    def __init__(
        self, steps: Iterable[Step], *, flags: int = re.DOTALL, goes_on: str = "", ends: bool = True
    ) -> None:
        """A text matches if it `ends` behind the steps, or goes on there with the character
        `goes_on`.
        """
        self._goes_on, self._ends = goes_on, ends
        self._advance = list[tuple[int, re.Pattern[str]]]()  # state -> what leads to the next one
        self._loop = list[tuple[int, re.Pattern[str]]]()  # state -> what stays in it
        # states from which the next one, or the one after it, is reached by nothing
        self._skip = self._skip_two = 0
        self._transitions: dict[str, tuple[int, int]] = {}
        self._final, last = 1, Step("one")
        for step in steps:
            if step.kind == "one" or step != last:  # two stars in a row are one
                self._add(step, flags)
            last = step

    def _add(self, step: Step, flags: int) -> None:
        state = self._final
        rule = re.compile(step.rule if step.kind in ("one", "several") else ".", flags | re.DOTALL)
        if step.kind == "one":
            self._advance.append((state, rule))
        elif step.kind == "directories":
            self._skip |= state
            self._skip_two |= state
            state <<= 1
            self._loop.append((state, rule))
            self._advance.append((state, re.compile("/")))
        else:
            self._skip |= state
            self._loop.append((state, rule))
        self._final = state << 1

    def matches(self, text: str) -> bool:
        """Whether the glob matches a text."""
        states = self._closed(1)
        for character in text:
            if states & self._final and character == self._goes_on:
                return True
            advance, loop = self._transition(character)
            states = self._closed((states & advance) << 1 | states & loop)
            if not states:
                return False
        return self._ends and bool(states & self._final)

    def _closed(self, states: int) -> int:
        """The states, and those that are reached from them by nothing."""
        while (
            more := states | (states & self._skip) << 1 | (states & self._skip_two) << 2
        ) != states:
            states = more
        return states

    def _transition(self, character: str) -> tuple[int, int]:
        found = self._transitions.get(character)
        if found is None:
            advance = sum(state for state, rule in self._advance if rule.fullmatch(character))
            loop = sum(state for state, rule in self._loop if rule.fullmatch(character))
            if len(self._transitions) >= _CACHED:
                self._transitions.clear()
            found = self._transitions[character] = advance, loop
        return found
