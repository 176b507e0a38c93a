r"""Search for comments and other text between two marks, in linear time; pure.

A regular expression such as `/\*.*?\*/` searches for the end again at each begin, which costs
minutes for a MiB of begins without an end. Here the first begin without an end shows that no later
one has an end either.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Two marks and the text between them.

    `begins_line`: the opening mark counts only at the begin of a line.
    """

    opener: str
    closer: str
    begins_line: bool = False

    @property
    def opening(self) -> str:
        """Expression for the opening mark; it begins with the mark, which a search can skip to."""
        mark = re.escape(self.opener)
        return rf"{mark}(?<![^\n]{mark})" if self.begins_line else mark


class TextSpan(NamedTuple):
    """Span of a text in characters, marks included.

    `enclosure` is None for a match of the `beside` expression.
    """

    start: int
    end: int
    enclosure: Enclosure | None


class SpanFinder:
    """Finder of enclosures, and of matches of one more expression, such as line comments.

    At one offset, enclosures come before the expression, and earlier ones before later ones.
    The expression has to be linear, without groups, and never matches an empty text.
    """

    def __init__(self, enclosures: Sequence[Enclosure], beside: str = "") -> None:
        self.enclosures = tuple(enclosures)
        self._patterns = {
            combination: re.compile(
                "|".join(
                    [
                        *(f"({enclosure.opening})" for enclosure in combination),
                        *([beside] if beside else []),
                    ]
                )
            )
            for count in range(len(self.enclosures) + 1)
            for combination in combinations(self.enclosures, count)
            if combination or beside
        }

    def spans(self, text: str) -> list[TextSpan]:
        """Find all spans, in order, without overlaps.

        An opening mark without its closing mark is no span.
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
                span = _closed(text, match, usable[match.lastindex - 1])
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


def _closed(text: str, opening: re.Match[str], enclosure: Enclosure) -> TextSpan | None:
    """Span that begins with an opening mark; None if nothing closes it."""
    closing = text.find(enclosure.closer, opening.end())
    return (
        None
        if closing < 0
        else TextSpan(opening.start(), closing + len(enclosure.closer), enclosure)
    )
