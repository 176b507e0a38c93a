"""Matching lines of a content as values, and how many of them to return. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Lines that are returned of one content: at most `max_lines`, with `context` lines around.

    `first_only` stops at the first match, which counts as one.
    """

    max_lines: int
    context: int = 0
    first_only: bool = False


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A line that matches, from 1; `column` counts its characters from 1.

    Lines around it are those that neither match nor stand beside an earlier match.
    """

    number: int
    column: int
    text: str
    lines_before: tuple[str, ...] = ()
    lines_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineMatches:
    """The number of matching lines, and the first ones of them."""

    count: int
    lines: tuple[MatchingLine, ...]
