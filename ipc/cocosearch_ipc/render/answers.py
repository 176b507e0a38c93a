"""Search answers as text: for people, for editors (`grep`). Loaded by every query, so it imports next to nothing."""

from __future__ import annotations

import os
import re

from cocosearch_ipc.render import out

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

_UNRESERVED = frozenset("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
SNIPPET_LINES, SNIPPET_COLUMNS = 10, 160


def text(reply: dict[str, Any], style: out.Style, roots: Mapping[str, str], *, full: bool = False) -> Iterator[str]:
    """Lines: each hit with a numbered snippet, then what a person should know, then where the answer is from."""
    words = _words(reply["query"])
    several = reply.get("index") is None
    for number, hit in enumerate(reply["results"], 1):
        yield _head(number, hit, style, roots, several)
        yield from _snippet(hit, words, style, None if full else SNIPPET_LINES)
        yield ""
    if not reply["results"]:
        yield "nothing found"
    for remark in reply.get("notes") or ():
        yield style.paint(f"note: {out.printable(remark)}", out.YELLOW)
    yield _foot(reply, style)
    if reply.get("explain"):
        yield ""
        yield style.paint("how it came about", out.BOLD)
        yield from outline({"timings_ms": reply["timings_ms"]} | reply["explain"], 1)


def grep(reply: dict[str, Any], roots: Mapping[str, str], cwd: str) -> Iterator[str]:
    """`path:line:text`, a line a hit, paths as seen from `cwd`: what editors' quickfix lists read."""
    for hit in reply["results"]:
        path = hit["path"]
        if root := roots.get(hit["index"]):
            path = os.path.relpath(os.path.join(root, path), cwd)
        first = hit["content"].lstrip("\n").split("\n", 1)[0].strip()
        yield f"{out.printable(path)}:{hit['start_line']}:{out.printable(first, keep='')}"


def outline(value: object, depth: int) -> Iterator[str]:
    """Nested values as indented lines: what fits into a line is one."""
    pad = "  " * depth
    pairs = value.items() if isinstance(value, dict) else enumerate(value, 1) if isinstance(value, list) else ()
    for name, inner in pairs:
        flat = _flat(inner)
        if flat is not None and len(flat) <= SNIPPET_COLUMNS:
            yield out.printable(f"{pad}{name}: {flat}", keep="")
        else:
            yield f"{pad}{name}:"
            yield from outline(inner, depth + 1)


def _flat(value: object) -> str | None:
    """Scalars, and collections of scalars, on one line; None for anything deeper."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, dict | list):
        return "-" if value is None else str(value)
    inner = value.values() if isinstance(value, dict) else value
    if any(isinstance(item, dict | list) and item for item in inner):
        return None
    if isinstance(value, dict):
        return ", ".join(f"{name} {_flat(item)}" for name, item in value.items()) or "-"
    return ", ".join(str(_flat(item)) for item in value) or "-"


def _head(number: int, hit: dict[str, Any], style: out.Style, roots: Mapping[str, str], several: bool) -> str:
    path = out.printable(hit["path"], keep="")
    where = style.paint(path, out.BOLD, out.BLUE) + style.paint(f":{hit['start_line']}", out.GREEN)
    if root := roots.get(hit["index"]):
        where = style.link(where, "file://" + _quoted(os.path.join(root, hit["path"])))
    symbol = ""
    if hit["symbol_name"]:
        symbol = f"  {hit['symbol_type'] or ''} " + style.paint(out.printable(hit["symbol_name"], keep=""), out.MAGENTA)
    index = f"  [{hit['index']}]" if several else ""
    score = style.paint(f"{hit['score']:.3f} {hit['match_type']}", out.DIM)
    stale = style.paint("  (its file has changed since)", out.YELLOW) if hit.get("stale") else ""
    return f"{number:>2}. {where}{symbol}  {score}{index}{stale}"


def _quoted(path: str) -> str:
    """`path` as RFC 3986 wants it in a URI; urllib.parse costs the hot path 3 ms."""
    return "".join(chr(b) if chr(b) in _UNRESERVED else f"%{b:02X}" for b in os.fsencode(path))


def _snippet(hit: dict[str, Any], words: re.Pattern[str] | None, style: out.Style, most: int | None) -> Iterator[str]:
    lines = out.printable(hit["content"].rstrip("\n")).split("\n")
    first, last = _window(lines, words, most)
    width = len(str(hit["start_line"] + last))
    if first:
        yield f"    {style.paint(f'… {first} lines before', out.DIM)}"
    for number, code in enumerate(lines[first:last], hit["start_line"] + first):
        cut = code if len(code) <= SNIPPET_COLUMNS else code[: SNIPPET_COLUMNS - 1] + "…"
        if words is not None and style.colour:
            cut = words.sub(lambda found: style.paint(found[0], out.BOLD, out.RED), cut)
        yield f"    {style.paint(f'{number:>{width}}', out.DIM)}  {cut}".rstrip()
    if last < len(lines):
        yield f"    {style.paint(f'… {len(lines) - last} more lines', out.DIM)}"


def _window(lines: Sequence[str], words: re.Pattern[str] | None, most: int | None) -> tuple[int, int]:
    """Which lines to show: the first ones, unless words that were asked for are only in later ones."""
    if most is None or len(lines) <= most + 1:
        return 0, len(lines)
    asked = next((n for n, line in enumerate(lines) if words is not None and words.search(line)), 0)
    first = 0 if asked < most else min(asked - 1, len(lines) - most)
    return first, first + most


def _foot(reply: dict[str, Any], style: out.Style) -> str:
    count = len(reply["results"])
    where = reply.get("index") or ", ".join(reply.get("indexes") or ())
    total = reply["timings_ms"].get("total")
    took = f" in {total:.1f} ms" if isinstance(total, int | float) else ""
    cached = "" if reply["cache"] == "miss" else f" (cache: {reply['cache']})"
    state = "fresh" if reply["fresh"] else f"NOT FRESH: {reply['stale_reason'] or 'changes are pending'}"
    colour = (out.DIM,) if reply["fresh"] else (out.BOLD, out.YELLOW)
    return style.paint(f"{count} of {where}{took}{cached}, {state}", *colour)


def _words(query: str) -> re.Pattern[str] | None:
    words = sorted(set(re.findall(r"\w{3,}", query)), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE) if words else None
