"""Markdown: sections by their headings."""

import re
from collections.abc import Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_LINE = re.compile(rb"^(?: {0,3}(#{1,6})[ \t]+([^\n]*)| {0,3}(```+|~~~+))", re.MULTILINE)


class Markdown:
    """Sections at `Install > From source`, each up to the next heading of its level."""

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return nested sections. Headings in fenced code blocks are ignored."""
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
    next_headings: list[tuple[int, int]] = []  # (level, start) of later headings, nearest last
    for level, _, start in reversed(headings):
        while next_headings and next_headings[-1][0] > level:
            next_headings.pop()
        ends.append(next_headings[-1][1] if next_headings else size)
        next_headings.append((level, start))
    open_headings: list[tuple[int, str]] = []
    blocks = []
    for (level, title, start), end in zip(headings, reversed(ends), strict=True):
        while open_headings and open_headings[-1][0] >= level:
            open_headings.pop()
        open_headings.append((level, title))
        blocks.append(Block("section", " > ".join(name for _, name in open_headings), start, end))
    return blocks
