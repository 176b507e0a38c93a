"""Impact, changes, dependencies, outlines and maps as text, for people and for assistants.

Replies are JSON values. The authors of files chose the names in them, so hidden characters in names
are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from cocosearch_ipc.render import output

Reply = Mapping[str, Any]

MAX_LISTED = 40  # packages, cycles, files with tests


def impact(reply: Reply, style: output.Style) -> Iterator[str]:
    """Yield what a change affects, by distance, and the files with tests to run."""
    subjects = ", ".join(_symbol_name(symbol) for symbol in reply["definitions"]) or "it"
    yield style.paint(f"{subjects}: {_affected_summary(reply)}", output.BOLD)
    yield from _affected_lines(reply, style)
    yield from warnings(reply)


def changes(reply: Reply, style: output.Style) -> Iterator[str]:
    """Yield changed files with their definitions, then what they affect."""
    commits = f"{reply['base'][:10]} to {(reply['head'] or '')[:10] or 'the files now'}"
    count = output.format_quantity(reply["total_changed"], "changed file")
    yield style.paint(f"{commits}: {count}; {_affected_summary(reply)}", output.BOLD)
    for file in reply["changed"]:
        yield from _changed_file(file, style)
    yield from _affected_lines(reply, style)
    yield from warnings(reply)


def dependencies(reply: Reply, style: output.Style) -> Iterator[str]:
    """Yield what a file or a directory imports, what imports it, packages and cycles."""
    name = _escape(reply["target"]) or "the index"
    yield style.paint(_count_dependencies(reply, name), output.BOLD)
    edges = _edge_labels(reply)
    if reply["modules"]:
        yield from _modules(reply, style)
    for direction in ("imports", "importers"):
        nodes = reply[direction]
        if nodes:
            yield ""
            yield style.paint(
                {"imports": "imports", "importers": "imported by"}[direction], output.BOLD
            )
        for node in nodes:
            label = edges.get((direction, node["path"]), "")
            indent = "  " * node["depth"]
            yield f"{indent}{_path(node['path'], style)}{style.paint(label, output.DIM)}"
    yield from _packages(reply, style)
    yield from _cycles(reply, style)
    yield from warnings(reply)


def _count_dependencies(reply: Reply, name: str) -> str:
    """Return the numbers of the directions that were asked for."""
    imports = f"{name} imports {reply['total_imports']:,}"
    importers = f"{reply['total_importers']:,} import"
    # a daemon of an earlier version does not repeat the direction
    direction = reply.get("direction", "both")
    counts = {"imports": imports, "importers": f"{importers} {name}"}
    return counts.get(direction, f"{imports}, and {importers} it")


def outline(reply: Reply, style: output.Style) -> Iterator[str]:
    """Yield files with their definitions, nested."""
    for number, file in enumerate(reply["files"]):
        if number and file["symbols"]:
            yield ""
        yield _path(file["path"], style)
        for symbol in file["symbols"]:
            yield _nested_row(symbol, style)
        if file["omitted"]:
            yield style.paint(
                f"       and {output.format_quantity(file['omitted'], 'definition')} more",
                output.DIM,
            )
    if reply["omitted_files"]:
        more = output.format_quantity(reply["omitted_files"], "more file")
        yield f"{more}: a larger budget or a directory shows them"
    elif not any(file["symbols"] or file["omitted"] for file in reply["files"]):
        yield "no definitions are known there"
    yield from warnings(reply)


def repository_map(reply: Reply, style: output.Style) -> Iterator[str]:
    """Yield files with their central definitions, the most central file first."""
    for file in reply["files"]:
        yield _path(file["path"], style)
        for symbol in file["symbols"]:
            yield _nested_row({**symbol, "depth": 0}, style)
    if not reply["files"]:
        yield "no file of this index uses a definition of another one"
    yield from warnings(reply)


def warnings(reply: Reply) -> Iterator[str]:
    """Yield a line for everything that an answer lacks: further entries, notes, freshness."""
    if reply["cursor"]:
        yield "there are more: a higher limit or the cursor shows them"
    for sentence in reply["notes"]:
        yield f"note: {_escape(sentence)}"
    if not reply["fresh"]:
        yield f"not fresh: {output.describe_staleness(reply['stale_reason'], reply['pending'])}"


def _affected_summary(reply: Reply) -> str:
    if not reply["total"]:
        return "affects nothing else" if reply["complete"] else "nothing affected was found in time"
    at_least = "" if reply["complete"] else "at least "
    definitions = output.format_quantity(reply["total"], "definition")
    extent = f"{definitions} in {output.format_quantity(reply['total_files'], 'file')}"
    tests = f", tests in {output.format_quantity(reply['total_test_files'], 'file')}"
    return f"affects {at_least}{extent}{tests if reply['total_test_files'] else ''}"


def _verb(entry: Mapping[str, Any]) -> str:
    if entry["reason"] == "overrides":
        return "overrides"
    return "still uses" if entry["broken"] else "uses"


def _affected_lines(reply: Reply, style: output.Style) -> Iterator[str]:
    for distance, entries in groupby(reply["affected"], key=lambda entry: entry["distance"]):
        total = reply["distances"].get(str(distance), 0)
        yield ""
        yield style.paint(
            f"distance {distance}: {output.format_quantity(total, 'definition')}", output.BOLD
        )
        for entry in entries:
            doubt = f"  {entry['confidence']}: {_escape(entry['explanation'])}"
            via = style.paint(
                f"  {_verb(entry)} {_escape(entry['via'])} at {entry['line']}", output.DIM
            )
            yield (
                f"  {_symbol_row(entry['symbol'], style)}{via}"
                + ("" if entry["confidence"] == "certain" else style.paint(doubt, output.YELLOW))
            )
    if reply["test_files"]:
        yield ""
        yield style.paint("tests to run", output.BOLD)
        for path in reply["test_files"][:MAX_LISTED]:
            yield f"  {_path(path, style)}"
        hidden = reply["total_test_files"] - min(MAX_LISTED, len(reply["test_files"]))
        if hidden > 0:
            yield f"  and {output.format_quantity(hidden, 'more file')}"


def _changed_file(file: Reply, style: output.Style) -> Iterator[str]:
    """Yield a changed file with its changed definitions, changed signatures, and removed ones."""
    yield f"{_path(file['path'], style)}  {style.paint(file['kind'], output.YELLOW)}"
    for symbol in file["symbols"]:
        yield f"  {_symbol_row(symbol, style)}"
    yield from _more(file["symbol_count"] - len(file["symbols"]), "definition", style)
    for change in file["signatures"]:
        name = f"{change['symbol']['name']}:{change['symbol']['start_line']}"
        earlier, present = _escape(change["earlier"]), _escape(change["symbol"]["signature"])
        yield f"  {_escape(name)}  {style.paint(f'was {earlier}', output.DIM)}  is {present}"
    yield from _more(file["signature_count"] - len(file["signatures"]), "new signature", style)
    for entry in file["removed"]:
        yield f"  {_removed_row(entry, style)}"
    yield from _more(file["removed_count"] - len(file["removed"]), "removed definition", style)


def _removed_row(entry: Reply, style: output.Style) -> str:
    """Return a removed definition, where it is now, and how many locations still use it."""
    symbol, moved = entry["symbol"], entry["moved_to"]
    renamed = moved is not None and moved["path"] == symbol["path"]
    gone = style.paint("renamed" if renamed else "moved" if moved else "removed", output.YELLOW)
    target = f"  to {_escape(moved['name'])}" if renamed else ""
    if moved and not renamed:
        target = f"  to {_path('{path}:{start_line}'.format_map(moved), style)}"
    uses = f"  {output.format_quantity(entry['uses'], 'use')} left" if entry["uses"] else ""
    return f"{gone}  {_escape(symbol['kind'])} {_escape(symbol['name'])}{target}{uses}"


def _more(hidden: int, noun: str, style: output.Style) -> Iterator[str]:
    """Yield a row about entries that are not listed."""
    if hidden > 0:
        yield style.paint(f"  and {output.format_quantity(hidden, f'more {noun}')}", output.DIM)


def _modules(reply: Reply, style: output.Style) -> Iterator[str]:
    """Yield the modules of a directory, each with what it imports."""
    targets = dict[str, list[str]]()
    for edge in reply["edges"]:
        targets.setdefault(edge["source"], []).append(
            f"{_escape(edge['target'])} ({edge['count']:,})"
        )
    for node in reply["modules"]:
        files = style.paint(f"  {output.format_quantity(node['files'], 'file')}", output.DIM)
        yield f"{_path(node['path'], style)}{files}"
        if node["path"] in targets:
            yield f"  imports {', '.join(targets[node['path']])}"


def _edge_labels(reply: Reply) -> Mapping[tuple[str, str], str]:
    """Return the import that leads to each file: by direction and path."""
    labels = dict[tuple[str, str], str]()
    for edge in reply["edges"]:
        source, target = _escape(edge["source"]), _escape(edge["target"])
        line = f":{edge['line']}" if edge["line"] else ""
        labels.setdefault(("imports", edge["target"]), f"  {source}{line}")
        labels.setdefault(("importers", edge["source"]), f"{line}  imports {target}")
    return labels


def _packages(reply: Reply, style: output.Style) -> Iterator[str]:
    if not reply["packages"]:
        return
    listed = [
        _escape(package["name"]) + (f" ({package['files']:,})" if package["files"] > 1 else "")
        for package in reply["packages"][:MAX_LISTED]
    ]
    more = len(reply["packages"]) - len(listed)
    yield ""
    yield f"{style.paint('packages', output.BOLD)}: {', '.join(listed)}" + (
        f" and {more:,} more" if more else ""
    )


def _cycles(reply: Reply, style: output.Style) -> Iterator[str]:
    for cycle in reply["cycles"][:MAX_LISTED]:
        members = " · ".join(map(_escape, cycle[:MAX_LISTED]))
        more = len(cycle) - MAX_LISTED
        text = f"{members} and {more:,} more" if more > 0 else members
        yield f"{style.paint('cycle', output.BOLD, output.YELLOW)}: {text}"


def _symbol_row(symbol: Reply, style: output.Style) -> str:
    if symbol["kind"] == "file":
        return f"{_path(symbol['path'], style)}  outside of definitions"
    path = _path(f"{symbol['path']}:{symbol['start_line']}", style)
    return (
        f"{path}  {_escape(symbol['kind'])} {style.paint(_escape(symbol['name']), output.MAGENTA)}"
    )


def _symbol_name(symbol: Reply) -> str:
    location = "" if symbol["kind"] == "file" else f" ({symbol['path']}:{symbol['start_line']})"
    return _escape(f"{symbol['name']}{location}")


def _nested_row(symbol: Reply, style: output.Style) -> str:
    line = style.paint(f"{symbol['start_line']:>5}", output.GREEN)
    text = symbol["signature"] or f"{symbol['kind']} {symbol['name']}"
    return f"{line}  {'  ' * symbol['depth']}{_escape(text)}"


def _path(path: str, style: output.Style) -> str:
    return style.paint(_escape(path), output.BLUE)


def _escape(text: str) -> str:
    return output.printable(text, keep="")
