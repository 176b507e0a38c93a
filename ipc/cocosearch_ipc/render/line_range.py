"""Which lines of a file an answer shows. Pure; for every front end."""

import os
import re

GAP = "…"  # a line of context that stands for those that were left out
_ESCAPE = re.compile(rb"\\(\\|x[0-9a-f]{2})")
_PLACE = re.compile(r"(.+?):(\d{1,15})(?:-(\d{1,15}))?")


def extent(before: str, start_line: int, end_line: int, after: str) -> tuple[int, int]:
    """First and last line (from 1) shown in one piece around a hit; above a gap is the head of its
    definition.
    """
    above = before.split("\n") if before else []
    near = above[::-1].index(GAP) if GAP in above else len(above)
    below = after.rstrip("\n").count("\n") + 1 if after else 0
    return start_line - near, end_line + below


def where(path: str, before: str, start_line: int, end_line: int, after: str) -> str:
    """`path:10-60`, and which of these lines are the hit itself where that is not all of them."""
    first, last = extent(before, start_line, end_line, after)
    hit = "" if (first, last) == (start_line, end_line) else f" (hit: {start_line}-{end_line})"
    return f"{path}:{first}-{last}{hit}"


def place(text: str) -> tuple[str, int | None, int | None]:
    """`path`, `path:3` or `path:3-9` as path, first and last line."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return text, None, None
    return found[1], int(found[2]), int(found[3] or found[2])


def on_disk(path: str) -> str:
    r"""The path of a result as the disk has it: there a byte that is no UTF-8 is `\xff`, a backslash doubled."""
    return os.fsdecode(_unescaped(path))


def in_results(shown: str) -> str:
    r"""The path of a result that was shown by `visible_name`, which writes more bytes as `\xff` than results do."""
    return _unescaped(shown).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _unescaped(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1][1:], 16)]), raw)
