r"""Finds comments and other text between two marks, in time linear in the length of the text. Pure.

A regular expression such as `/\*.*?\*/` looks for the end again at each begin, which costs minutes for a MiB of
begins without an end. Here the first begin without an end tells that no later one has an end either.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Two marks and the text between them. `begins_line`: the opening mark counts only at the begin
    of a line.
    """

    opener: str
    closer: str
    begins_line: bool = False

    @property
    def opening(self) -> str:
        """Return an expression for the opening mark; it begins with the mark, which a search can
        skip to.
        """
        mark = re.escape(self.opener)
        return rf"{mark}(?<![^\n]{mark})" if self.begins_line else mark


class TextSpan(NamedTuple):
    """A place of a text in characters, marks included; `enclosure` is None for what the other
    expression matched.
    """

    start: int
    end: int
    enclosure: Enclosure | None


class SpanFinder:
    """Finds enclosures, and beside them the matches of one more expression, such as comments up to
    the end of a line.

    At one place, enclosures come before the expression, and earlier ones before later ones. The
    expression has to be linear, without groups, and never matches an empty text.
    """

    def __init__(self, enclosures: Sequence[Enclosure], beside: str = "") -> None:
        self.enclosures = tuple(enclosures)
        self._patterns = {
            chosen: re.compile(
                "|".join([*(f"({each.opening})" for each in chosen), *([beside] if beside else [])])
            )
            for count in range(len(self.enclosures) + 1)
            for chosen in combinations(self.enclosures, count)
            if chosen or beside
        }

    def spans(self, text: str) -> list[TextSpan]:
        """All spans, in order; none overlaps another. An opening mark without its closing mark is
        no span.
        """
        usable = tuple(
            each for each in self.enclosures if each.opener in text and each.closer in text
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
                    each for number, each in enumerate(usable, 1) if number != match.lastindex
                )
                position = match.start()
            else:
                spans.append(span)
                position = span.end
        return spans


def _closed(text: str, opening: re.Match[str], enclosure: Enclosure) -> TextSpan | None:
    """The span that begins with an opening mark; None if nothing closes it."""
    closing = text.find(enclosure.closer, opening.end())
    return (
        None
        if closing < 0
        else TextSpan(opening.start(), closing + len(enclosure.closer), enclosure)
    )
