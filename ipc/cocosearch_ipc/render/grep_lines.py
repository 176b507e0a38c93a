"""Matches of `grep` as text: grouped by file for people, `path:line:column:text` for programs."""

from __future__ import annotations

import os

from cocosearch_ipc.render import output
from cocosearch_ipc.render.line_range import on_disk

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

TAB = "\t"


def grouped(reply: dict[str, Any], style: output.Style, mode: str) -> Iterator[str]:
    """Yield the counts, then each file with its lines, for people."""
    yield style.paint(_summary(reply, mode), output.BOLD)
    has_index_names = len(reply["indexes"]) > 1
    for file in reply["files"]:
        if mode == "lines":
            yield ""
        yield _file_heading(file, style, mode, has_index_names=has_index_names)
        previous = None
        for line in file["lines"]:
            first = line["line"] - len(line["lines_before"])
            if previous is not None and first > previous + 1 and _has_context(file):
                yield style.paint("    ⋮", output.DIM)
            yield from _rows(line, style)
            previous = line["line"] + len(line["lines_after"])
    yield from warnings(reply)


def plain(reply: dict[str, Any], mode: str, roots: Mapping[str, str], cwd: str) -> Iterator[str]:
    """Yield one line for each match, count or file, with paths relative to `cwd`, for programs."""
    for file in reply["files"]:
        path = file["path"]
        if root := roots.get(file["index"]):
            path = os.path.relpath(os.path.join(root, on_disk(path)), cwd)
        path = output.printable(path, keep="")
        if mode == "files":
            yield path
        elif mode == "counts":
            yield f"{path}:{file['count']}"
        for line in file["lines"]:
            yield from _plain_rows(path, line)


def warnings(reply: dict[str, Any]) -> Iterator[str]:
    """Yield a line for everything that an answer lacks: matches, searched files, freshness."""
    if reply["cursor"]:
        yield "there are more: raise --limit, or narrow the search by a path or --lang"
    for sentence in reply["notes"]:
        yield f"note: {output.printable(sentence, keep='')}"
    if not reply["fresh"]:
        yield f"not fresh: {output.describe_staleness(reply['stale_reason'], reply['pending'])}"


def _summary(reply: dict[str, Any], mode: str) -> str:
    lines = reply["total_lines"]
    files = reply["total_files"]
    of_indexes = f"{output.format_quantity(reply['searched_files'], 'file')} of {', '.join(reply['indexes'])}"
    if not files:
        return f"no match in {of_indexes}"
    if mode == "files":
        return f"{output.format_quantity(files, 'file')} of {of_indexes}"
    return f"{output.format_quantity(lines, 'line')} in {output.format_quantity(files, 'file')} of {of_indexes}"


def _file_heading(
    file: dict[str, Any], style: output.Style, mode: str, *, has_index_names: bool
) -> str:
    path = style.paint(output.printable(file["path"], keep=""), output.BOLD, output.BLUE)
    index = f"  [{file['index']}]" if has_index_names else ""
    count = "" if mode == "files" else style.paint(f"  {file['count']}", output.GREEN)
    state = "  (unsaved)" if file["overlay"] else "  (changed just now)" if file["changed"] else ""
    return f"{path}{count}{index}{style.paint(state, output.YELLOW)}"


def _has_context(file: dict[str, Any]) -> bool:
    return any(line["lines_before"] or line["lines_after"] for line in file["lines"])


def _rows(line: dict[str, Any], style: output.Style) -> Iterator[str]:
    number = line["line"]
    for offset, text in enumerate(line["lines_before"], number - len(line["lines_before"])):
        yield _context_row(offset, text, style)
    symbol = (
        style.paint(f"  {output.printable(line['symbol_name'], keep='')}", output.MAGENTA)
        if line["symbol_name"]
        else ""
    )
    position = style.paint(f"{number:>5}:{line['column']}", output.GREEN)
    yield f"{position}  {output.printable(line['text'], keep=TAB)}{symbol}"
    for offset, text in enumerate(line["lines_after"], number + 1):
        yield _context_row(offset, text, style)


def _context_row(number: int, text: str, style: output.Style) -> str:
    return style.paint(f"{number:>5}   {output.printable(text, keep=TAB)}", output.DIM)


def _plain_rows(path: str, line: dict[str, Any]) -> Iterator[str]:
    """Yield a match with the lines around it. These have a `-` after their number, as in grep(1)."""
    number = line["line"]
    for offset, text in enumerate(line["lines_before"], number - len(line["lines_before"])):
        yield f"{path}-{offset}-{output.printable(text, keep=TAB)}"
    yield f"{path}:{number}:{line['column']}:{output.printable(line['text'], keep=TAB)}"
    for offset, text in enumerate(line["lines_after"], number + 1):
        yield f"{path}-{offset}-{output.printable(text, keep=TAB)}"
