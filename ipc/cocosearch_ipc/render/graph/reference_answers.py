"""Answers about the code graph as text: counts first, then files or a tree, then what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from cocosearch_ipc.render import output
from cocosearch_ipc.render.line_range import on_disk

TAB = "\t"
MAX_INDENT = 20  # levels of a tree that are drawn


def definition(reply: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield each name with its definitions."""
    for name in reply["names"]:
        if name["line"]:
            yield _used_name(reply["path"], name, style)
        if not name["definitions"]:
            yield "  no definition in the index: it is of another project, or not recognised"
        for symbol in name["definitions"]:
            yield from _definition_rows(symbol, style, "  " if name["line"] else "")
    yield from warnings(reply)


def references(reply: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the counts, then each file with its uses, for people."""
    yield style.paint(reference_summary(reply), output.BOLD)
    for file in reply["files"]:
        yield ""
        yield _file_heading(file, style)
        for use in file["references"]:
            yield _reference_row(use, style)
    yield from warnings(reply)


def plain_references(reply: dict[str, Any], roots: Mapping[str, str], cwd: str) -> Iterator[str]:
    """Yield `path:line:column:text` for each use, with paths relative to `cwd`, for programs."""
    for file in reply["files"]:
        path = file["path"]
        if root := roots.get(reply["index"]):
            path = os.path.relpath(os.path.join(root, on_disk(path)), cwd)
        path = output.printable(path, keep="")
        for use in file["references"]:
            text = output.printable(use["text"], keep=TAB)
            yield f"{path}:{use['line']}:{use['column']}:{text}"


def callers(reply: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the number of callers, then their tree with the first call of each."""
    return _calls(reply, style, "callers")


def callees(reply: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the number of definitions that are called, then their tree."""
    return _calls(reply, style, "callees")


def _calls(reply: dict[str, Any], style: output.Style, method: str) -> Iterator[str]:
    yield style.paint(_call_summary(reply, method), output.BOLD)
    for position in _tree_order(reply["calls"]):
        yield _call_row(reply["calls"][position], style, method)
    if reply["external"]:
        names = ", ".join(output.printable(name, keep="") for name in reply["external"])
        yield style.paint(f"outside of the index: {names}", output.DIM)
    yield from warnings(reply)


def reference_summary(reply: dict[str, Any]) -> str:
    """Return the number of uses in a sentence."""
    if not reply["total"]:
        return f"no use of {_target(reply)} in {reply['index']}"
    counts = ", ".join(f"{number:,} {name}" for name, number in reply["counts"].items())
    files = output.format_quantity(reply["total_files"], "file")
    uses = output.format_quantity(reply["total"], "use")
    more = f" or more, {_describe_unread(reply)}" if reply.get("unread_files") else ""
    return f"{uses} of {_target(reply)} in {files}{more}: {counts}"


def _describe_unread(reply: dict[str, Any]) -> str:
    """Return the statement that some files were not read and not counted."""
    files = output.format_quantity(reply["unread_files"], "file")
    return f"as {files} with the name were not read"


def warnings(reply: dict[str, Any]) -> Iterator[str]:
    """Yield a line for everything that an answer lacks: further pages, files, freshness."""
    if reply["cursor"]:
        cursor = output.printable(reply["cursor"], keep="")
        yield f"there are more: raise --limit, narrow by --path, or continue with --cursor '{cursor}'"
    for sentence in reply["notes"]:
        yield f"note: {output.printable(sentence, keep='')}"
    if not reply["fresh"]:
        yield f"not fresh: {output.describe_staleness(reply['stale_reason'], reply['pending'])}"


def symbol_place(symbol: dict[str, Any]) -> str:
    """Return path and line of a definition."""
    path = output.printable(symbol["path"], keep="")
    return f"{path}:{symbol['start_line']}" if symbol["start_line"] else path


def doubt(entry: dict[str, Any], style: output.Style) -> str:
    """Return why an entry is not certain; "" if it is."""
    if entry["confidence"] == "certain":
        return ""
    return style.paint(f"  {entry['confidence']}: {entry['explanation']}", output.YELLOW)


def _used_name(path: str, name: dict[str, Any], style: output.Style) -> str:
    column = f":{name['column']}" if name["column"] else ""
    location = f"{output.printable(path, keep='')}:{name['line']}{column}"
    text = style.paint(output.printable(name["name"], keep=""), output.BOLD)
    return f"{text}  {style.paint(location, output.GREEN)}{doubt(name, style)}"


def _definition_rows(symbol: dict[str, Any], style: output.Style, indent: str) -> Iterator[str]:
    name = style.paint(output.printable(symbol["name"], keep=""), output.MAGENTA)
    last = f"-{symbol['end_line']}" if symbol["end_line"] > symbol["start_line"] else ""
    location = style.paint(f"{symbol_place(symbol)}{last}", output.BOLD, output.BLUE)
    yield f"{indent}{location}  {symbol['kind']} {name}"
    if symbol["signature"]:
        yield f"{indent}    {output.printable(symbol['signature'], keep='')}"


def _target(reply: dict[str, Any]) -> str:
    symbols = reply["definitions"]
    if not symbols:
        return "the target"
    first = symbols[0]
    more = (
        f" and {output.format_quantity(len(symbols) - 1, 'overload')}" if len(symbols) > 1 else ""
    )
    if first["kind"] == "file":
        return symbol_place(first)
    return f"{output.printable(first['name'], keep='')} ({symbol_place(first)}{more})"


def _file_heading(file: dict[str, Any], style: output.Style) -> str:
    path = style.paint(output.printable(file["path"], keep=""), output.BOLD, output.BLUE)
    number = style.paint(f"  {file['count']}", output.GREEN)
    state = "  (unsaved)" if file["overlay"] else "  (changed just now)" if file["changed"] else ""
    return f"{path}{number}{style.paint(state, output.YELLOW)}"


def _reference_row(use: dict[str, Any], style: output.Style) -> str:
    position = style.paint(f"{use['line']:>5}:{use['column']}", output.GREEN)
    kind = "" if use["kind"] == "call" else style.paint(f"  {use['kind']}", output.DIM)
    symbol = (
        style.paint(f"  {output.printable(use['symbol_name'], keep='')}", output.MAGENTA)
        if use["symbol_name"]
        else ""
    )
    text = output.printable(use["text"], keep=TAB)
    return f"{position}  {text}{symbol}{kind}{doubt(use, style)}"


def _call_summary(reply: dict[str, Any], method: str) -> str:
    if not reply["calls"]:
        verb = "nothing calls" if method == "callers" else "nothing in the index is called by"
        return f"{verb} {_target(reply)}"
    noun = method if reply["total"] != 1 else method.removesuffix("s")
    more = " or more" if reply["cursor"] else ""  # entries behind the page are not counted
    return f"{reply['total']:,}{more} {noun} of {_target(reply)}"


def _tree_order(entries: list[dict[str, Any]]) -> list[int]:
    """Return the order in which each entry comes after its parent.

    `parent` is a position in all pages. Parents of earlier pages are not in `entries`; their children
    come first.
    """
    children = dict[int, list[int]]()
    first = int(entries[0]["position"]) if entries else 0
    for position, entry in enumerate(entries):
        parent = entry["parent"] - first
        children.setdefault(parent if parent >= 0 else -1, []).append(position)
    order = list[int]()
    waiting = children.get(-1, [])[::-1]
    while waiting:
        position = waiting.pop()
        order.append(position)
        waiting += children.get(position, [])[::-1]
    return order


def _call_row(entry: dict[str, Any], style: output.Style, method: str) -> str:
    indent = "  " * min(entry["depth"] - 1, MAX_INDENT)
    name = style.paint(output.printable(entry["symbol"]["name"], keep=""), output.MAGENTA)
    site = _caller_site(entry, style) if method == "callers" else _callee_place(entry, style)
    repetition = style.paint(describe_repetition(entry), output.DIM)
    return f"{indent}{name}  {site}{repetition}{doubt(entry, style)}"


def describe_repetition(entry: dict[str, Any]) -> str:
    """Return why an entry of a tree has no children of its own; "" if it has."""
    if entry["is_cycle"]:
        return "  (recursion)"
    return "  (listed above)" if entry["repeats"] >= 0 else ""


def _caller_site(entry: dict[str, Any], style: output.Style) -> str:
    """Return the first call site, and how many more there are."""
    site = entry["sites"][0]
    path = output.printable(site["path"], keep="")
    text = output.printable(site["text"], keep=TAB)
    location = style.paint(f"{path}:{site['line']}:{site['column']}", output.BLUE)
    more = f"  (and {entry['site_count'] - 1} more)" if entry["site_count"] > 1 else ""
    return f"{location}  {text}{style.paint(more, output.DIM)}"


def _callee_place(entry: dict[str, Any], style: output.Style) -> str:
    """Return the place of the called definition, and the lines of the calls."""
    lines = ", ".join(str(site["line"]) for site in entry["sites"])
    more = ", …" if entry["site_count"] > len(entry["sites"]) else ""
    location = style.paint(symbol_place(entry["symbol"]), output.BLUE)
    return f"{location}{style.paint(f'  called at line {lines}{more}', output.DIM)}"
