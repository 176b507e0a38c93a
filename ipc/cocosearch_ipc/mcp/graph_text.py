"""Answers about the code graph as compact text for assistants, with the next call. Pure.

As in `compact_text`, a notice precedes all text of files, and this text is in code blocks that it
cannot close.
"""

from collections.abc import Iterator, Sequence

from cocosearch_ipc.graph_protocol import (
    CallEntry,
    CallsReply,
    DefinitionReply,
    GraphReply,
    GraphSymbol,
    Reference,
    ReferenceFile,
    ReferencesReply,
    ResolvedName,
)
from cocosearch_ipc.mcp.compact_text import freshness, json_text, note_lines
from cocosearch_ipc.render.visible import CONTENT_NOTICE, fenced, visible, visible_name

MAX_INDENT = 20  # levels of a tree that are drawn


def definition(reply: DefinitionReply) -> str:
    """Format each name with the locations and signatures of its definitions."""
    rows = [row for name in reply.names for row in _name_rows(reply.path, name)]
    return _answer("Definitions:", rows, reply)


def references(reply: ReferencesReply) -> str:
    """Format the counts, the definition, then the uses of each file as `line:column: text`."""
    counts = ", ".join(f"{number} {name}" for name, number in reply.counts.items())
    unread = reply.unread_files
    more = f" or more ({unread} later files with the name were not read)" if unread else ""
    head = (
        f"{reply.total} uses in {reply.total_files} files{more}: {counts}."
        if reply.total
        else "No use in the index."
    )
    rows = [*_target_rows(reply.definitions)]
    for file in reply.files:
        rows += _file_rows(file)
    return _answer(head, rows, reply)


def calls(reply: CallsReply, relation: str) -> str:
    """Format the target, then a tree: each level is indented by a space."""
    more = " or more" if reply.cursor else ""
    head = f"{reply.total}{more} {relation}." if reply.total else f"No {relation} in the index."
    rows = [*_target_rows(reply.definitions), *(_call_row(call, relation) for call in reply.calls)]
    if reply.external:
        rows.append(f"outside of the index: {', '.join(map(visible_name, reply.external))}")
    return _answer(head, rows, reply)


def symbol_row(symbol: GraphSymbol) -> str:
    """Format a definition as `path:lines  signature`; a file as its path."""
    if not symbol.start_line:
        return visible_name(symbol.path)
    has_name = symbol.name.rpartition(".")[2] in symbol.signature
    name = "" if has_name and "." not in symbol.name else f"{symbol.kind} {symbol.name}"
    parts = (
        f"{visible_name(symbol.path)}:{symbol.start_line}-{symbol.end_line}",
        visible_name(name),
        visible_name(symbol.signature),
    )
    return "  ".join(filter(None, parts))


def _answer(head: str, rows: Sequence[str], reply: GraphReply) -> str:
    block = [CONTENT_NOTICE, fenced(visible("\n".join(rows)))] if rows else []
    more = (
        [f"More: the same call with cursor={json_text(reply.cursor)}; paths narrow it."]
        if reply.cursor
        else []
    )
    return "\n".join([head, *block, *more, *note_lines(reply.notes), freshness(reply)])


def _target_rows(definitions: Sequence[GraphSymbol]) -> Iterator[str]:
    for symbol in definitions:
        yield f"of {symbol_row(symbol)}"


def _name_rows(path: str, name: ResolvedName) -> Iterator[str]:
    if name.line:
        column = f":{name.column}" if name.column else ""
        yield f"{visible_name(name.name)} at {visible_name(path)}:{name.line}{column}{_doubt(name)}"
    if not name.definitions:
        yield " no definition in the index: it is of another project, or not recognised"
    for symbol in name.definitions:
        yield f"{' ' * bool(name.line)}{symbol_row(symbol)}"


def _file_rows(file: ReferenceFile) -> Iterator[str]:
    changed = "  changed just now" if file.changed else "  unsaved" if file.overlay else ""
    yield f"{visible_name(file.path)} ({file.count}){changed}"
    for use in file.references:
        symbol = f"  [{visible_name(use.symbol_name)}]" if use.symbol_name else ""
        kind = "" if use.kind == "call" else f"  {use.kind}"
        yield f"{use.line}:{use.column}: {use.text}{symbol}{kind}{_doubt(use)}"


def _call_row(call: CallEntry, relation: str) -> str:
    indent = " " * min(call.depth - 1, MAX_INDENT)
    symbol = call.symbol
    site = call.sites[0]
    more = f" (+{call.site_count - 1})" if call.site_count > 1 else ""
    if relation == "callers":
        where = f"{visible_name(site.path)}:{site.line}: {site.text}{more}"
    else:
        where = f"{visible_name(symbol.path)}:{symbol.start_line}  called at line {site.line}{more}"
    again = "  recursion" if call.is_cycle else "  listed above" if call.repeats >= 0 else ""
    return f"{indent}{visible_name(symbol.name)}  {where}{again}{_doubt(call)}"


def _doubt(entry: ResolvedName | Reference | CallEntry) -> str:
    if entry.confidence == "certain":
        return ""
    return f"  {entry.confidence}: {entry.explanation}"
