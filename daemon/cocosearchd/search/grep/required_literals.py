"""Finds literals that every match of a regular expression contains, to read fewer files. Pure.

The result is an OR of ANDs: a matching text contains all literals of at least one alternative.
Unknown parts of an expression require nothing, so the result is a necessary condition of a match.
The scan is one pass over the expression without recursion.
"""

import re
from dataclasses import dataclass, field
from itertools import product

MIN_LITERAL = 3  # characters: one trigram
MAX_ALTERNATIVES = 64

Alternative = frozenset[str]
Alternatives = tuple[Alternative, ...]

NOTHING: Alternatives = (frozenset(),)  # requires nothing
_REPEAT = re.compile(r"\{(\d+)(?:,\d*)?\}")
_GROUP = re.compile(r"\(\?(?:P?<\w+>|([imsU-]*)([:)]))")
_ESCAPE = re.compile(
    r"\\(?:[pP](?:\{[^}]*\}|.)|x(?:\{[^}]*\}|[0-9A-Fa-f]{2})|[0-7]{1,3}|.)", re.DOTALL
)
_ZERO_WIDTH_ESCAPES = frozenset("bBAz")
_CLASS_ESCAPES = frozenset("dDsSwWafnrvCpPx01234567")


class _UnknownSyntaxError(Exception):
    """The expression has unknown syntax, so that the end of a part cannot be found."""


@dataclass(slots=True)
class _PatternGroup:
    """The scanner's state of an open group: its finished branches, and the branch being read."""

    branches: list[Alternatives] = field(default_factory=list)
    required: Alternatives = NOTHING
    literal: str = ""  # the characters read last, not yet in `required`
    nested: Alternatives | None = None  # the group read last, not yet in `required`
    last: str = ""  # type of the last element: "character", "group", "wildcard" or "repetition"

    def add_character(self, character: str) -> None:
        self._require_nested()
        self.literal += character
        self.last = "character"

    def add_wildcard(self) -> None:
        self._require_nested()
        self.end_literal()
        self.last = "wildcard"

    def add_zero_width(self) -> None:
        self._require_nested()
        self.last = "wildcard"

    def add_group(self, alternatives: Alternatives) -> None:
        self._require_nested()
        self.end_literal()
        self.nested = alternatives
        self.last = "group"

    def repeat(self, minimum: int) -> None:
        """Apply a repetition to the last element. With a minimum of 0, the element is not required."""
        if self.last == "repetition":
            raise _UnknownSyntaxError
        if minimum == 0 and self.last == "character":
            self.literal = self.literal[:-1]
        if minimum == 0 and self.last == "group":
            self.nested = None
        self._require_nested()
        self.end_literal()
        self.last = "repetition"

    def end_branch(self) -> None:
        self._require_nested()
        self.end_literal()
        self.branches.append(self.required)
        self.required = NOTHING
        self.last = ""

    def end_literal(self) -> None:
        if len(self.literal) >= MIN_LITERAL:
            self.required = _require_both(self.required, (frozenset([self.literal]),))
        self.literal = ""

    def alternatives(self) -> Alternatives:
        """Return the alternatives of all branches; call `end_branch` first."""
        merged = tuple(dict.fromkeys(option for branch in self.branches for option in branch))
        return merged if len(merged) <= MAX_ALTERNATIVES and all(merged) else NOTHING

    def _require_nested(self) -> None:
        if self.nested is not None:
            self.required = _require_both(self.required, self.nested)
            self.nested = None


def required_literals(expression: str, *, ignore_case: bool) -> Alternatives:
    """Return the alternatives of an expression that RE2 accepts; `NOTHING` if they are unknown."""
    try:
        return _Scanner(expression, ignore_case=ignore_case or "(?" in expression).scan()
    except (_UnknownSyntaxError, IndexError):
        return NOTHING


class _Scanner:
    """A scanner of one expression, in one pass.

    If case is ignored, a letter outside ASCII counts as a wildcard, because it may have several
    forms.
    """

    def __init__(self, expression: str, *, ignore_case: bool) -> None:
        self._expression = expression
        self._ignore_case = ignore_case
        self._position = 0
        self._groups = [_PatternGroup()]

    def scan(self) -> Alternatives:
        while self._position < len(self._expression):
            character = self._expression[self._position]
            step = _STEPS.get(character)
            if step is None:
                self._read_character(character)
            else:
                step(self)
        if len(self._groups) != 1:
            raise _UnknownSyntaxError
        self._groups[0].end_branch()
        return self._groups[0].alternatives()

    @property
    def _group(self) -> _PatternGroup:
        return self._groups[-1]

    def _read_character(self, character: str) -> None:
        if self._ignore_case and not character.isascii():
            self._group.add_wildcard()
        else:
            self._group.add_character(character)
        self._position += 1

    def _read_escape(self) -> None:
        match = _ESCAPE.match(self._expression, self._position)
        if match is None:
            raise _UnknownSyntaxError
        kind = match[0][1]
        if kind in _ZERO_WIDTH_ESCAPES:
            self._group.add_zero_width()
        elif kind in _CLASS_ESCAPES:
            self._group.add_wildcard()
        elif kind == "t":
            self._group.add_character("\t")
        elif kind.isascii() and not kind.isalnum():
            self._group.add_character(kind)
        else:
            raise _UnknownSyntaxError
        self._position = match.end()

    def _read_class(self) -> None:
        """Skip a character class. A `]` at its start is a member; `[:name:]` is a named class."""
        text = self._expression
        position = self._position + 1
        position += text.startswith("^", position)
        position += text.startswith("]", position)
        while text[position] != "]":
            named_end = text.find(":]", position + 2) if text.startswith("[:", position) else -1
            if named_end >= 0:
                position = named_end + 2
            else:
                position += 2 if text[position] == "\\" else 1
        self._group.add_wildcard()
        self._position = position + 1

    def _read_opening(self) -> None:
        match = _GROUP.match(self._expression, self._position)
        if match is None and self._expression.startswith("(?", self._position):
            raise _UnknownSyntaxError
        if match is not None and match[2] == ")":
            self._group.add_zero_width()
        else:
            self._groups.append(_PatternGroup())
        self._position = self._position + 1 if match is None else match.end()

    def _read_closing(self) -> None:
        if len(self._groups) == 1:
            raise _UnknownSyntaxError
        group = self._groups.pop()
        group.end_branch()
        self._group.add_group(group.alternatives())
        self._position += 1

    def _read_bar(self) -> None:
        self._group.end_branch()
        self._position += 1

    def _read_wildcard(self) -> None:
        self._group.add_wildcard()
        self._position += 1

    def _read_anchor(self) -> None:
        self._group.add_zero_width()
        self._position += 1

    def _read_repetition(self) -> None:
        minimum = 1 if self._expression[self._position] == "+" else 0
        self._repeat(minimum, self._position + 1)

    def _read_brace(self) -> None:
        match = _REPEAT.match(self._expression, self._position)
        if match is None:
            self._read_character("{")
        else:
            self._repeat(int(match[1]), match.end())

    def _repeat(self, minimum: int, end: int) -> None:
        self._group.repeat(minimum)
        is_lazy = self._expression.startswith("?", end)
        self._position = end + 1 if is_lazy else end


_STEPS = {
    "\\": _Scanner._read_escape,
    "[": _Scanner._read_class,
    "(": _Scanner._read_opening,
    ")": _Scanner._read_closing,
    "|": _Scanner._read_bar,
    ".": _Scanner._read_wildcard,
    "^": _Scanner._read_anchor,
    "$": _Scanner._read_anchor,
    "*": _Scanner._read_repetition,
    "+": _Scanner._read_repetition,
    "?": _Scanner._read_repetition,
    "{": _Scanner._read_brace,
}


def _require_both(first: Alternatives, second: Alternatives) -> Alternatives:
    """Return the alternatives for a text that meets both conditions.

    If these would be too many, return only `first`, which is still a necessary condition.
    """
    if len(first) * len(second) > MAX_ALTERNATIVES:
        return first
    return tuple(dict.fromkeys(a | b for a, b in product(first, second)))
