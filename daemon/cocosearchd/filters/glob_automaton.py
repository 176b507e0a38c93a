"""Matches globs by an automaton, in one pass over the characters of the text. Pure.

The bits of one integer represent the active states. So each character costs a few integer
operations. The method is that of Baeza-Yates and Gonnet, A New Approach to Text Searching (1992),
with loops for stars. It is slower than a regular expression, but linear for every glob.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_CACHED = 4096  # characters whose transitions are cached


@dataclass(frozen=True, slots=True)
class Step:
    """One character of a glob, or a star.

    The kind `one` matches one character that `rule` matches, and `several` matches any number of
    them. `anything` matches every text. `directories` matches "" or a text that ends in `/`. All
    kinds except `one` also match "".
    """

    kind: Literal["one", "several", "anything", "directories"]
    rule: str = ""


class GlobAutomaton:
    """The automaton of a glob.

    Threads may share an automaton. At worst its cache then loses entries.
    """

    def __init__(
        self,
        steps: Iterable[Step],
        *,
        flags: int = re.DOTALL,
        continuation: str = "",
        may_end: bool = True,
    ) -> None:
        """Build the automaton from the steps of a glob.

        A text matches if it ends after the steps and `may_end` is true, or if the character
        `continuation` follows the steps.
        """
        self._continuation = continuation
        self._may_end = may_end
        # Each a state, with the characters that lead to the next state
        self._advance = list[tuple[int, re.Pattern[str]]]()
        # Each a state, with the characters that stay in it
        self._loop = list[tuple[int, re.Pattern[str]]]()
        # States from which the next state, or the state after next, is reached without a character.
        self._skip = self._skip_two = 0
        self._transitions: dict[str, tuple[int, int]] = {}
        self._final = 1
        last = Step("one")
        for step in steps:
            if step.kind == "one" or step != last:  # Two equal stars in a row mean the same as one.
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
        """Return True if the glob matches a text."""
        states = self._epsilon_closure(1)
        for character in text:
            if states & self._final and character == self._continuation:
                return True
            advance, loop = self._transition(character)
            states = self._epsilon_closure((states & advance) << 1 | states & loop)
            if not states:
                return False
        return self._may_end and bool(states & self._final)

    def _epsilon_closure(self, states: int) -> int:
        """Add the states that the given states reach without a character."""
        while (
            more := states | (states & self._skip) << 1 | (states & self._skip_two) << 2
        ) != states:
            states = more
        return states

    def _transition(self, character: str) -> tuple[int, int]:
        cached = self._transitions.get(character)
        if cached is not None:
            return cached
        advance = sum(state for state, rule in self._advance if rule.fullmatch(character))
        loop = sum(state for state, rule in self._loop if rule.fullmatch(character))
        if len(self._transitions) >= _CACHED:
            self._transitions.clear()
        self._transitions[character] = (advance, loop)
        return advance, loop
