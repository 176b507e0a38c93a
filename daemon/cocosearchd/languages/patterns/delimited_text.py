r"""Searches comments and other text between two marks, in linear time. Pure.

A regular expression such as `/\*.*?\*/` searches for the end again at each start. For one MiB of
starts without an end, that takes minutes. Here, the first start without an end shows that no later
start has an end either.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Two marks that enclose a text.

    With `begins_line`, the opening mark counts only at the start of a line.
    """

    opener: str
    closer: str
    begins_line: bool = False

    @property
    def opening(self) -> str:
        """The expression for the opening mark.

        It begins with the mark, so that a search can skip to it.
        """
        mark = re.escape(self.opener)
        return rf"{mark}(?<![^\n]{mark})" if self.begins_line else mark


class TextSpan(NamedTuple):
    """A span of a text in characters, including the marks.

    `enclosure` is None for a match of the expression `extra`.
    """

    start: int
    end: int
    enclosure: Enclosure | None


class SpanFinder:
    """A finder of enclosures and of one additional expression, such as line comments.

    At one offset, enclosures have priority over the additional expression `extra`, and earlier enclosures
    over later ones. The expression must be linear, without groups, and must not match an empty
    text.
    """

    def __init__(self, enclosures: Sequence[Enclosure], extra: str = "") -> None:
        self.enclosures = tuple(enclosures)
        self._patterns = {
            combination: re.compile(
                "|".join(
                    [
                        *(f"({enclosure.opening})" for enclosure in combination),
                        *([extra] if extra else []),
                    ]
                )
            )
            for count in range(len(self.enclosures) + 1)
            for combination in combinations(self.enclosures, count)
            if combination or extra
        }

    def spans(self, text: str) -> list[TextSpan]:
        """Find all spans, in order, without overlaps.

        An opening mark without a closing mark is no span.
        """
        usable = tuple(
            enclosure
            for enclosure in self.enclosures
            if enclosure.opener in text and enclosure.closer in text
        )
        spans = list[TextSpan]()
        position = 0
        while (pattern := self._patterns.get(usable)) and (match := pattern.search(text, position)):
            if match.lastindex is None:
                span: TextSpan | None = TextSpan(match.start(), match.end(), None)
            else:
                span = _find_enclosure(text, match, usable[match.lastindex - 1])
            if span is None:
                usable = tuple(
                    enclosure
                    for number, enclosure in enumerate(usable, 1)
                    if number != match.lastindex
                )
                position = match.start()
            else:
                spans.append(span)
                position = span.end
        return spans


def _find_enclosure(text: str, opening: re.Match[str], enclosure: Enclosure) -> TextSpan | None:
    """Return the span of an enclosure from its opening mark on; None if nothing closes it."""
    closing = text.find(enclosure.closer, opening.end())
    return (
        None
        if closing < 0
        else TextSpan(opening.start(), closing + len(enclosure.closer), enclosure)
    )
