"""Line ranges of answers and their notation `path:10-60`. Pure; for every front end."""

import os
import re

GAP = "…"  # a line of context that stands for omitted lines
_ESCAPE = re.compile(rb"\\(\\|x[0-9a-f]{2})")
_PLACE = re.compile(r"(.+?):(\d{1,15})(?:-(\d{1,15}))?")


def extent(
    context_before: str, start_line: int, end_line: int, context_after: str
) -> tuple[int, int]:
    """Return the first and last line (1-based) that are shown around a result without a gap.

    Lines above a gap do not count: they are the head of the definition.
    """
    above = context_before.split("\n") if context_before else []
    shown_above = above[::-1].index(GAP) if GAP in above else len(above)
    below = context_after.rstrip("\n").count("\n") + 1 if context_after else 0
    return start_line - shown_above, end_line + below


def format_location(
    path: str, context_before: str, start_line: int, end_line: int, context_after: str
) -> str:
    """Return `path:10-60`, and the lines of the result itself if they differ."""
    first, last = extent(context_before, start_line, end_line, context_after)
    hit = "" if (first, last) == (start_line, end_line) else f" (hit: {start_line}-{end_line})"
    return f"{path}:{first}-{last}{hit}"


def parse_location(text: str) -> tuple[str, int | None, int | None]:
    """Parse `path`, `path:3` or `path:3-9` into path, first and last line."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return text, None, None
    return match[1], int(match[2]), int(match[3] or match[2])


def on_disk(path: str) -> str:
    r"""Return a result's path as on disk, where `\xff` is a byte and `\\` is one backslash."""
    return os.fsdecode(_unescape(path))


def in_results(path: str) -> str:
    """Convert a path from `visible_name` to the notation of results, which escapes fewer bytes."""
    return _unescape(path).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _unescape(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1][1:], 16)]), raw)
