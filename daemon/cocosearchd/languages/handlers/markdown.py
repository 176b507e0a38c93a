"""Markdown: sections by their headings."""

import re
from collections.abc import Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_LINE = re.compile(rb"^(?: {0,3}(#{1,6})[ \t]+([^\n]*)| {0,3}(```+|~~~+))", re.MULTILINE)


class Markdown:
    """A heading is the block `section` at `Install > From source`, up to the next heading of its
    level.
    """

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Nested sections; headings inside of code fences do not count."""
        headings: list[tuple[int, str, int]] = []  # level, title, start
        fence = b""
        for match in _LINE.finditer(data):
            mark = match[3]
            if mark:
                fence = b"" if fence and mark.startswith(fence) else fence or mark
            elif not fence:
                headings.append(
                    (
                        len(match[1]),
                        match[2].strip(b"# \t\r").decode("utf-8", "replace"),
                        match.start(),
                    )
                )
        return tuple(_sections(headings, len(data)))


def _sections(headings: list[tuple[int, str, int]], size: int) -> list[Block]:
    ends: list[int] = []
    following: list[tuple[int, int]] = []  # (level, start) of the headings after, nearest last
    for level, _, start in reversed(headings):
        while following and following[-1][0] > level:
            following.pop()
        ends.append(following[-1][1] if following else size)
        following.append((level, start))
    around: list[tuple[int, str]] = []
    found = []
    for (level, title, start), end in zip(headings, reversed(ends), strict=True):
        while around and around[-1][0] >= level:
            around.pop()
        around.append((level, title))
        found.append(Block("section", " > ".join(name for _, name in around), start, end))
    return found
