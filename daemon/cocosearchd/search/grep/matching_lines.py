"""Values for the matching lines of a content, and the limits of their number. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Limits for one content: at most `max_lines` matching lines, with `context` lines around each.

    `first_only` stops at the first match; then the count is one.
    """

    max_lines: int
    context: int = 0
    first_only: bool = False


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A matching line. `number` and `column` (in characters) count from 1.

    `lines_before` and `lines_after` have no matching lines, and no lines that an earlier match
    shows.
    """

    number: int
    column: int
    text: str
    lines_before: tuple[str, ...] = ()
    lines_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineMatches:
    """The number of matching lines, and the first of these lines."""

    count: int
    lines: tuple[MatchingLine, ...]
