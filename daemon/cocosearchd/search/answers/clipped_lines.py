"""Cuts lines of code to a width, and marks the omitted text. Pure."""

from collections.abc import Sequence

ELLIPSIS = "..."
GAP = "…"  # replaces the omitted lines between the signature and the match


def clip_lines(text: str, width: int) -> str:
    """Cut every line of a text to `width` characters."""
    return text if len(text) <= width else join_clipped(text.split("\n"), width)


def join_clipped(lines: Sequence[str], width: int) -> str:
    """Join lines, each cut to `width` characters."""
    if max(map(len, lines), default=0) > width:
        lines = [clip_line(line, width) for line in lines]
    return "\n".join(lines)


def clip_line(line: str, width: int) -> str:
    """Cut a line to `width` characters (not bytes). Three dots replace the end that is cut off."""
    return line if len(line) <= width else line[: max(0, width - len(ELLIPSIS))] + ELLIPSIS
