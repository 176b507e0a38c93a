"""Search answers as text: for people, for editors (`grep`) and for language models (`compact`).

Every query loads this module, so it imports almost nothing.
"""

from __future__ import annotations

import os

from cocosearch_ipc.render import highlight, output
from cocosearch_ipc.render.line_range import GAP, format_location, on_disk
from cocosearch_ipc.render.visible import CONTENT_NOTICE, fenced, visible_name

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Lex = Callable[[str, str], list[list[tuple[str, str]]]]

_UNRESERVED = frozenset("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
SNIPPET_LINES = 10
SIMILAR_PATHS = 3
WEAK_NOTICE = "nothing matches well; these are the nearest"
MAX_NAMED_INDEXES = 10  # of one answer


def text(
    reply: dict[str, Any],
    style: output.Style,
    roots: Mapping[str, str],
    *,
    full: bool = False,
    lex: Lex = highlight.lines,
) -> Iterator[str]:
    """Yield each result with a numbered snippet, then warnings, then the index and freshness.

    `lex` splits the code of a snippet into lines of coloured pieces.
    """
    words = highlight.term_pattern(reply["query"])
    has_index_names = reply.get("index") is None
    if reply.get("weak"):
        yield style.paint(f"{WEAK_NOTICE}\n", output.YELLOW)
    for number, hit in enumerate(reply["results"], 1):
        line = line_to_open(hit, reply["query"])
        yield _head(number, hit, line, style, roots, has_index_names)
        if reply.get("listing"):
            yield from _signature(hit)
            continue
        if hit["content"]:  # else a budget had room for its location only
            yield from _snippet(hit, line, words, style, lex, None if full else SNIPPET_LINES)
        yield from _other_places(hit, style)
        yield ""
    if not reply["results"]:
        yield "nothing found"
    for warning in reply.get("notes") or ():
        yield style.paint(f"note: {output.printable(warning, keep='')}", output.YELLOW)
    if cursor := reply.get("cursor"):
        yield f"there are more: --cursor {output.printable(cursor, keep='')}"
    yield _foot(reply, style)


def _signature(hit: Mapping[str, Any]) -> Iterator[str]:
    """Yield the signature of a listed symbol."""
    if hit["symbol_signature"]:
        yield f"    {output.printable(hit['symbol_signature'], keep='')}"


def compact(reply: dict[str, Any]) -> Iterator[str]:
    """Yield results for a language model: location, code with context, and a blank line each.

    A notice in front says that this is file content. Each code block has a fence that its content
    cannot close. Warnings come last.
    """
    has_index_names = reply.get("index") is None
    if reply.get("weak"):
        yield WEAK_NOTICE
    if reply["results"]:
        yield CONTENT_NOTICE
    for hit in reply["results"]:
        index = f"{hit['index']}: " if has_index_names else ""
        if reply.get("listing"):
            yield _compact_symbol(hit, index)
        else:
            yield from _compact_hit(hit, index)
    yield from remarks(reply)


def remarks(reply: dict[str, Any]) -> Iterator[str]:
    """Yield remarks about the results: whether there are more, notes, why they are not fresh."""
    if cursor := reply.get("cursor"):
        yield f"there are more: cursor {output.printable(cursor, keep='')}"
    if not reply["results"]:
        yield "nothing found"
    for note in reply.get("notes") or ():
        yield f"note: {output.printable(note, keep='')}"
    if not reply["fresh"]:
        yield f"not fresh: {output.describe_staleness(reply['stale_reason'], reply['pending'])}"


def _compact_symbol(hit: Mapping[str, Any], index: str) -> str:
    """Return a listed symbol on one line: location, kind, name and signature."""
    location = f"{visible_name(hit['path'])}:{hit['start_line']}-{hit['end_line']}"
    names = (hit["symbol_type"], hit["symbol_name"], hit["symbol_signature"])
    return " ".join([f"{index}{location}", *(visible_name(name) for name in names if name)])


def _compact_hit(hit: dict[str, Any], index: str) -> Iterator[str]:
    path = visible_name(hit["path"])
    location = format_location(
        path, hit["context_before"], hit["start_line"], hit["end_line"], hit["context_after"]
    )
    parts = (hit["context_before"], hit["content"], hit["context_after"])
    code = "\n".join(part.strip("\n") for part in parts if part)
    name = hit["symbol_name"] if code else hit["symbol_signature"] or hit["symbol_name"]
    yield f"{index}{location} {visible_name(name or '')}".rstrip()
    yield from _compact_code(hit, code)
    if also := format_also(hit.get("also") or ()):
        yield output.printable(f"also {also}", keep="")
    if similar := format_similar(hit):
        yield similar
    yield ""


def _compact_code(hit: dict[str, Any], code: str) -> Iterator[str]:
    """Yield the code of a hit, and that of its other places with their headings."""
    language = hit.get("language") or ""
    if code:
        yield fenced(output.printable(code), language)
    for entry in hit.get("also") or ():
        if entry.get("content"):
            yield format_place(visible_name(hit["path"]), entry)
            yield fenced(output.printable(entry["content"]), language)


def format_place(path: str, entry: Mapping[str, Any]) -> str:
    """Return the heading of another place of a file. The code of the place is shown below."""
    name = entry["symbol_name"] or entry["symbol_signature"] or ""
    return f"{path}:{entry['start_line']}-{entry['end_line']} {visible_name(name)}".rstrip()


def format_also(places: Sequence[Mapping[str, Any]]) -> str:
    """Return the lines of a file's other places with their symbols, on one line.

    Places whose code is shown are left out.
    """
    return ", ".join(
        f"{entry['start_line']}-{entry['end_line']} {visible_name(entry['symbol_name'] or '')}".rstrip()
        + format_lines_alike(entry)
        for entry in places
        if not entry.get("content")
    )


def format_lines_alike(entry: Mapping[str, Any]) -> str:
    """Return where nearly equal code of the file begins, in parentheses; "" without any."""
    lines = entry.get("similar_lines")
    return f" (alike: {', '.join(map(str, lines))})" if lines else ""


def grep(reply: dict[str, Any], roots: Mapping[str, str], cwd: str) -> Iterator[str]:
    """Yield `path:line:text` per place, relative to `cwd`, for the quickfix lists of editors.

    The line is the line of the place that matches the query best.
    """
    for hit in reply["results"]:
        path = hit["path"]
        if root := roots.get(hit["index"]):
            path = os.path.relpath(os.path.join(root, on_disk(path)), cwd)
        line = line_to_open(hit, reply.get("query") or "")
        text = hit["content"].split("\n")[line - hit["start_line"]].strip()
        places = [(line, text), *((p["line"], p["text"]) for p in hit.get("also") or ())]
        for number, content in places:
            yield f"{output.printable(path, keep='')}:{number}:{output.printable(content, keep='')}"


def line_to_open(hit: Mapping[str, Any], query: str) -> int:
    """Return the line of a result to open.

    A daemon of an earlier version does not send this line. Then it is the first line with text, but
    if only a later line contains the name in the query, it is that line.
    """
    lines = hit["content"].split("\n")
    if hit["start_line"] <= (hit.get("line") or 0) < hit["start_line"] + len(lines):
        chosen: int = hit["line"]
        return chosen
    names = highlight.name_pattern(query)
    words = highlight.term_pattern(query)
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    matches = [n for n, line in enumerate(lines) if names is not None and names.search(line)]
    is_first = not matches or (words is not None and words.search(lines[first]))
    line: int = hit["start_line"] + (first if is_first else matches[0])
    return line


def _head(
    number: int,
    hit: dict[str, Any],
    line: int,
    style: output.Style,
    roots: Mapping[str, str],
    has_index_names: bool,
) -> str:
    path = output.printable(hit["path"], keep="")
    at = style.paint(path, output.BOLD, output.BLUE) + style.paint(f":{line}", output.GREEN)
    if root := roots.get(hit["index"]):
        at = style.link(at, "file://" + _quote_path(os.path.join(root, on_disk(hit["path"]))))
    symbol = ""
    if hit["symbol_name"]:
        symbol = f"  {hit['symbol_type'] or ''} " + style.paint(
            output.printable(hit["symbol_name"], keep=""), output.MAGENTA
        )
    index = f"  [{hit['index']}]" if has_index_names else ""
    # a list of symbols has no scores
    score = style.paint(_relevance(hit), output.DIM) if hit["score"] else ""
    stale = style.paint("  (its file has changed since)", output.YELLOW) if hit.get("stale") else ""
    return f"{number:>2}. {at}{symbol}  {score}{index}{stale}".rstrip()


def _relevance(hit: Mapping[str, Any]) -> str:
    """Return the relevance as a bar of five cells and a percentage, with the kind of match."""
    relevance = hit.get("relevance")
    if relevance is None:  # a daemon of an earlier version
        return f"{hit['score']:.3f} {hit['match_type']}"
    cells = round(5 * relevance)
    return f"{'■' * cells}{'□' * (5 - cells)} {relevance:.0%} {hit['match_type']}"


def _other_places(hit: Mapping[str, Any], style: output.Style) -> Iterator[str]:
    """Yield a line for each other place of the file that answers."""
    for entry in hit.get("also") or ():
        line = style.paint(f":{entry['line']}", output.GREEN)
        symbol = output.printable(entry["symbol_name"] or "", keep="")
        name = style.paint(symbol, output.MAGENTA) + "  " if symbol else ""
        room = max(20, style.columns - len(symbol) - 20)
        code = output.printable(entry["text"], keep="")[:room]
        yield f"    also {line}  {name}{code}{format_lines_alike(entry)}"
    if similar := format_similar(hit):
        yield style.paint(f"    {similar}", output.DIM)


def format_similar(hit: Mapping[str, Any]) -> str:
    """Return the similar lines and files that this result represents, and what belongs to it.

    These are the lines where nearly equal code of its file begins, the number of similar files with
    their first paths, the counterparts of its file, and the lines that frames name. The text is ""
    if there are none.
    """
    lines = hit.get("similar_lines") or ()
    parts = [f"alike in this file: {', '.join(map(str, lines))}"] if lines else []
    if count := hit.get("similar") or 0:
        paths = [visible_name(path) for path in hit["similar_paths"][:SIMILAR_PATHS]]
        parts.append(f"{count} alike: {', '.join(paths)}{', …' if count > len(paths) else ''}")
    if counterparts := hit.get("counterparts"):
        parts.append(f"belongs with {', '.join(map(visible_name, counterparts))}")
    if frame_lines := hit.get("frame_lines"):
        parts.append(format_frames(frame_lines))
    return "; ".join(parts)


def format_frames(lines: Sequence[int]) -> str:
    """Return the lines of a file that frames of a stack trace name, innermost first."""
    return f"in the stack trace: {', '.join(map(str, lines))}"


def _quote_path(path: str) -> str:
    """Quote `path` for a URI (RFC 3986). Importing urllib.parse would cost the hot path 3 ms."""
    return "".join(chr(b) if chr(b) in _UNRESERVED else f"%{b:02X}" for b in os.fsencode(path))


def _snippet(
    hit: dict[str, Any],
    line: int,
    words: re.Pattern[str] | None,
    style: output.Style,
    lex: Lex,
    max_rows: int | None,
) -> Iterator[str]:
    """Yield at most `max_rows` lines of the result, including the line to open.

    The first line of the enclosing definition comes first.

    If `max_rows` is None, yield the complete result with its context.
    """
    lines_before = _code(hit.get("context_before"), style)
    after = _code(hit.get("context_after"), style)
    content = _code(hit["content"].rstrip("\n"), style) or [""]
    rows = [*lines_before, *content, *after]
    numbers = _numbers(lines_before, len(rows), hit["start_line"])
    width = len(numbers[-1])
    pieces = lex("\n".join(rows), hit.get("language") or "") if style.colour else []
    line_row = min(line - hit["start_line"], len(content) - 1)
    numbers_shown, hidden = _choose_rows(lines_before, content, len(rows), line_row, max_rows)
    previous = -1
    for row in numbers_shown:
        if row > previous + 1:
            skipped = f"… {row - previous - 1} lines" if numbers[0] else GAP
            yield f"    {style.paint(skipped, output.DIM)}"
        number = style.paint(f"{numbers[row]:>{width}}", output.DIM)
        room = style.columns - width - 6
        text = _paint_fitted(rows[row], pieces[row] if pieces else (), room, words, style)
        yield f"    {number}  {text}".rstrip()
        previous = row
    if hidden:
        yield f"    {style.paint(f'… {hidden} more lines', output.DIM)}"


def _paint_fitted(
    line: str,
    pieces: Sequence[tuple[str, str]],
    columns: int,
    words: re.Pattern[str] | None,
    style: output.Style,
) -> str:
    """Return a line of code, painted from its `pieces`, and cut if it is too long."""
    length = len(line) if len(line) <= columns else columns - 1
    text = _paint_pieces(pieces, length, words, style) if style.colour else line[:length]
    return text if length == len(line) else f"{text}…"


def _code(text: str | None, style: output.Style) -> list[str]:
    code = output.printable(text or "")
    return (code.expandtabs(4) if style.links else code).split("\n") if code else []


def _numbers(context_before: Sequence[str], count: int, start_line: int) -> list[str]:
    """Return the number of each of `count` lines; "" for a gap and the lines above it."""
    far = context_before.index(GAP) if GAP in context_before else -1
    first = start_line - len(context_before)
    return [str(first + row) if row > far else "" for row in range(count)]


def _choose_rows(
    context_before: Sequence[str],
    content: Sequence[str],
    count: int,
    line_row: int,
    max_rows: int | None,
) -> tuple[Sequence[int], int]:
    """Return the rows to show, and the number of content lines that follow them."""
    if max_rows is None:
        return range(count), 0
    first, last = _window(len(content), line_row, max_rows)
    rows = range(len(context_before) + first, len(context_before) + last)
    return (rows if not rows or rows[0] == 0 else [0, *rows]), len(content) - last


def _paint_pieces(
    pieces: Sequence[tuple[str, str]],
    count: int,
    words: re.Pattern[str] | None,
    style: output.Style,
) -> str:
    """Paint the first `count` characters; matched words become bold red."""
    painted = ""
    for colour, text in pieces:
        codes = colour.split()
        end = 0
        text, count = text[:count], count - len(text[:count])
        for match in words.finditer(text) if words is not None else ():
            painted += style.paint(text[end : match.start()], *codes) + style.paint(
                match[0], output.BOLD, output.RED
            )
            end = match.end()
        painted += style.paint(text[end:], *codes)
    return painted


def _window(count: int, line_row: int, max_rows: int) -> tuple[int, int]:
    """Return the range of `count` lines to show: the first ones, or a range around `line_row`.

    The range starts later only if `line_row` is not among the first lines.
    """
    if count <= max_rows + 1:
        return 0, count
    first = 0 if line_row < max_rows else min(line_row - 1, count - max_rows)
    return first, first + max_rows


def join_indexes(names: Sequence[str]) -> str:
    """Return the names of up to `MAX_NAMED_INDEXES` indexes, else their number."""
    return ", ".join(names) if len(names) <= MAX_NAMED_INDEXES else f"{len(names)} indexes"


def _foot(reply: dict[str, Any], style: output.Style) -> str:
    count = len(reply["results"])
    names = reply.get("index") or join_indexes(reply.get("indexes") or ())
    total = reply["timings_ms"].get("total")
    took = f" in {total:.1f} ms" if isinstance(total, int | float) else ""
    cached = "" if reply["cache"] == "miss" else f" (cache: {reply['cache']})"
    state = (
        "fresh"
        if reply["fresh"]
        else f"NOT FRESH: {output.describe_staleness(reply['stale_reason'], reply['pending'])}"
    )
    colour = (output.DIM,) if reply["fresh"] else (output.BOLD, output.YELLOW)
    return style.paint(f"{count} of {names}{took}{cached}, {state}", *colour)
