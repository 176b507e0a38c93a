"""Search answers as text: for people, for editors (`grep`). Loaded by every query, so it imports
next to nothing.
"""

from __future__ import annotations

import os

from cocosearch_ipc.render import highlight, output
from cocosearch_ipc.render.line_range import GAP, on_disk, where
from cocosearch_ipc.render.visible import CONTENT_NOTICE, fenced, visible_name

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Lex = Callable[[str, str], list[list[tuple[str, str]]]]

_UNRESERVED = frozenset("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
SNIPPET_LINES = 10
PENDING = 3


def text(
    reply: dict[str, Any],
    style: output.Style,
    roots: Mapping[str, str],
    *,
    full: bool = False,
    lex: Lex = highlight.lines,
) -> Iterator[str]:
    """Lines: each hit with a numbered snippet, then what a person should know, then where the
    answer is from.

    `lex` gives a snippet's code and language as lines of coloured pieces.
    """
    words = highlight.wanted(reply["query"])
    several = reply.get("index") is None
    for number, hit in enumerate(reply["results"], 1):
        yield _head(number, hit, style, roots, several)
        yield from _snippet(hit, words, style, lex, None if full else SNIPPET_LINES)
        yield ""
    if not reply["results"]:
        yield "nothing found"
    for remark in reply.get("notes") or ():
        yield style.paint(f"note: {output.printable(remark, keep='')}", output.YELLOW)
    yield _foot(reply, style)


def compact(reply: dict[str, Any]) -> Iterator[str]:
    """For a language model: a line that says where, the code with its context, a blank line; then
    what to know.

    In front stands that it is content of files, and each code is a block that nothing inside
    closes.
    """
    several = reply.get("index") is None
    if reply["results"]:
        yield CONTENT_NOTICE
    for hit in reply["results"]:
        index = f"{hit['index']}: " if several else ""
        path = visible_name(hit["path"])
        place = where(
            path, hit["context_before"], hit["start_line"], hit["end_line"], hit["context_after"]
        )
        yield f"{index}{place} {visible_name(hit['symbol_name'] or '')}".rstrip()
        parts = (hit["context_before"], hit["content"], hit["context_after"])
        yield fenced(
            output.printable("\n".join(part.strip("\n") for part in parts if part)),
            hit.get("language") or "",
        )
        yield ""
    if not reply["results"]:
        yield "nothing found"
    yield from (f"note: {output.printable(remark, keep='')}" for remark in reply.get("notes") or ())
    if not reply["fresh"]:
        yield f"not fresh: {lacking(reply['stale_reason'], reply.get('pending') or ())}"


def lacking(reason: str | None, pending: Sequence[str]) -> str:
    """Why an answer may lag behind, and the first of the paths that it may lack."""
    shown = ", ".join(output.printable(path, keep="") for path in pending[:PENDING])
    more = ", …" if len(pending) > PENDING else ""
    return output.printable(reason or "changes are pending", keep="") + (
        f" ({shown}{more})" if shown else ""
    )


def grep(reply: dict[str, Any], roots: Mapping[str, str], cwd: str) -> Iterator[str]:
    """`path:line:text`, a line a hit, paths as seen from `cwd`: what editors' quickfix lists
    read.
    """
    for hit in reply["results"]:
        path = hit["path"]
        if root := roots.get(hit["index"]):
            path = os.path.relpath(os.path.join(root, path), cwd)
        line = place(hit, reply.get("query") or "")
        text = hit["content"].split("\n")[line - hit["start_line"]].strip()
        yield f"{output.printable(path, keep='')}:{line}:{output.printable(text, keep='')}"


def place(hit: Mapping[str, Any], asked: str) -> int:
    """The line of a hit to go to: the first one, unless only a later one has the name that was
    asked for.
    """
    lines = hit["content"].split("\n")
    names = highlight.named(asked)
    words = highlight.wanted(asked)
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    named = [n for n, line in enumerate(lines) if names is not None and names.search(line)]
    at_first = not named or (words is not None and words.search(lines[first]))
    line: int = hit["start_line"] + (first if at_first else named[0])
    return line


def _head(
    number: int, hit: dict[str, Any], style: output.Style, roots: Mapping[str, str], several: bool
) -> str:
    path = output.printable(hit["path"], keep="")
    at = style.paint(path, output.BOLD, output.BLUE) + style.paint(
        f":{hit['start_line']}", output.GREEN
    )
    if root := roots.get(hit["index"]):
        at = style.link(at, "file://" + _quoted(os.path.join(root, on_disk(hit["path"]))))
    symbol = ""
    if hit["symbol_name"]:
        symbol = f"  {hit['symbol_type'] or ''} " + style.paint(
            output.printable(hit["symbol_name"], keep=""), output.MAGENTA
        )
    index = f"  [{hit['index']}]" if several else ""
    score = (
        style.paint(f"{hit['score']:.3f} {hit['match_type']}", output.DIM) if hit["score"] else ""
    )  # of a list: none
    stale = style.paint("  (its file has changed since)", output.YELLOW) if hit.get("stale") else ""
    return f"{number:>2}. {at}{symbol}  {score}{index}{stale}".rstrip()


def _quoted(path: str) -> str:
    """`path` as RFC 3986 wants it in a URI; urllib.parse costs the hot path 3 ms."""
    return "".join(chr(b) if chr(b) in _UNRESERVED else f"%{b:02X}" for b in os.fsencode(path))


def _snippet(
    hit: dict[str, Any],
    words: re.Pattern[str] | None,
    style: output.Style,
    lex: Lex,
    most: int | None,
) -> Iterator[str]:
    """At most `most` lines of the hit, below the first line of its definition; with None all of it
    and its context.
    """
    before = _code(hit.get("context_before"), style)
    after = _code(hit.get("context_after"), style)
    content = _code(hit["content"].rstrip("\n"), style) or [""]
    rows = [*before, *content, *after]
    numbers = _numbers(before, len(rows), hit["start_line"])
    width = len(numbers[-1])
    pieces = lex("\n".join(rows), hit.get("language") or "") if style.colour else []
    shown, left = _chosen(before, content, len(rows), words, most)
    previous = -1
    for row in shown:
        if row > previous + 1:
            skipped = f"… {row - previous - 1} lines" if numbers[0] else GAP
            yield f"    {style.paint(skipped, output.DIM)}"
        line = rows[row]
        room = style.columns - width - 6
        keep = len(line) if len(line) <= room else room - 1
        text = _painted(pieces[row], keep, words, style) if style.colour else line[:keep]
        number = style.paint(f"{numbers[row]:>{width}}", output.DIM)
        yield f"    {number}  {text}{'' if keep == len(line) else '…'}".rstrip()
        previous = row
    if left:
        yield f"    {style.paint(f'… {left} more lines', output.DIM)}"


def _code(text: str | None, style: output.Style) -> list[str]:
    code = output.printable(text or "")
    return (code.expandtabs(4) if style.links else code).split("\n") if code else []


def _numbers(before: Sequence[str], count: int, start_line: int) -> list[str]:
    """The number of each of `count` lines, `before` first; none for a gap and what is above it."""
    far = before.index(GAP) if GAP in before else -1
    first = start_line - len(before)
    return [str(first + row) if row > far else "" for row in range(count)]


def _chosen(
    before: Sequence[str],
    content: Sequence[str],
    count: int,
    words: re.Pattern[str] | None,
    most: int | None,
) -> tuple[Sequence[int], int]:
    """Which rows to show, and how many of the content come after them."""
    if most is None:
        return range(count), 0
    first, last = _window(content, words, most)
    rows = range(len(before) + first, len(before) + last)
    return (rows if not rows or rows[0] == 0 else [0, *rows]), len(content) - last


def _painted(
    pieces: Sequence[tuple[str, str]],
    count: int,
    words: re.Pattern[str] | None,
    style: output.Style,
) -> str:
    """The first `count` characters in their colours, what was asked for in bold red."""
    shown = ""
    for colour, text in pieces:
        codes = colour.split()
        place = 0
        text, count = text[:count], count - len(text[:count])
        for found in words.finditer(text) if words is not None else ():
            shown += style.paint(text[place : found.start()], *codes) + style.paint(
                found[0], output.BOLD, output.RED
            )
            place = found.end()
        shown += style.paint(text[place:], *codes)
    return shown


def _window(
    lines: Sequence[str], words: re.Pattern[str] | None, most: int | None
) -> tuple[int, int]:
    """Which lines to show: the first ones, unless words that were asked for are only in later
    ones.
    """
    if most is None or len(lines) <= most + 1:
        return 0, len(lines)
    asked = next((n for n, line in enumerate(lines) if words is not None and words.search(line)), 0)
    first = 0 if asked < most else min(asked - 1, len(lines) - most)
    return first, first + most


def _foot(reply: dict[str, Any], style: output.Style) -> str:
    count = len(reply["results"])
    where = reply.get("index") or ", ".join(reply.get("indexes") or ())
    total = reply["timings_ms"].get("total")
    took = f" in {total:.1f} ms" if isinstance(total, int | float) else ""
    cached = "" if reply["cache"] == "miss" else f" (cache: {reply['cache']})"
    state = (
        "fresh"
        if reply["fresh"]
        else f"NOT FRESH: {lacking(reply['stale_reason'], reply.get('pending') or ())}"
    )
    colour = (output.DIM,) if reply["fresh"] else (output.BOLD, output.YELLOW)
    return style.paint(f"{count} of {where}{took}{cached}, {state}", *colour)
