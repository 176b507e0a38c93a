"""Replies as compact text for assistants, with the next call where something is left out. Pure.

Authors of files may write text that addresses assistants. So a notice precedes content and names,
they are in code blocks that they cannot close, and their hidden characters are escaped.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from cocosearch_ipc.graph_protocol import GraphReply
from cocosearch_ipc.protocol import (
    ClearReply,
    IndexCodebaseReply,
    IndexesReply,
    IndexProgress,
    IndexStatus,
    Place,
    SearchReply,
    SearchResult,
    StatsReply,
    SyncReply,
)
from cocosearch_ipc.render.answers import (
    SIMILAR_PATHS,
    WEAK_NOTICE,
    format_frames,
    join_indexes,
)
from cocosearch_ipc.render.line_range import format_location
from cocosearch_ipc.render.visible import (
    CONTENT_NOTICE,
    INDEXES_NOTICE,
    NAMES_NOTICE,
    fenced,
    visible,
    visible_name,
)
from cocosearch_ipc.workspace_protocol import (
    GetFileReply,
    GrepFile,
    GrepLine,
    GrepReply,
    ListFilesReply,
)

LINE = 120  # maximum characters of a failure: there may be a hundred failures
FAILURES = 25  # maximum number of listed failures
PENDING = 5  # maximum number of pending paths: an assistant can read these files itself
CHARS_PER_TOKEN = 2  # at least, in an explanation: it consists mostly of numbers


def tool_call(tool: str, **arguments: object) -> str:
    """Format a call of a tool; arguments that are None are left out."""
    values = [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
        if value is not None
    ]
    return f"{tool}({', '.join(values)})"


def search(reply: SearchReply, budget_tokens: int | None = None) -> str:
    """Format each result as `path:start-end` with symbol and code; freshness comes last."""
    if reply.listing:
        return _symbols(reply)
    hits = [_hit(result, has_index_names=reply.index is None) for result in reply.results]
    return "\n\n".join(
        [
            *([f"{WEAK_NOTICE.capitalize()}."] if reply.weak else []),
            *([CONTENT_NOTICE, *hits] if hits else ["Nothing found."]),
            *note_lines(reply.notes),
            *_more_results(reply, budget_tokens),
            freshness(reply),
        ]
    )


def _more_results(reply: SearchReply, budget_tokens: int | None) -> Iterator[str]:
    """Yield the next calls if results did not fit into the budget."""
    if budget_tokens is None:
        return
    if reply.omitted:
        again = f"the same call with budget_tokens={2 * budget_tokens}"
        yield f"{reply.omitted} more results did not fit: {again}."
    last = reply.results[-1] if reply.results else None
    if last is not None and last.content.endswith("..."):  # only the last result is cut
        call = tool_call(
            "get_file",
            filename=visible_name(last.path),
            start_line=last.start_line,
            end_line=last.end_line,
            index_name=last.index if reply.index is None else None,
        )
        yield f"All of the last result: {call}"


def _symbols(reply: SearchReply) -> str:
    """Format a list of symbols in one block, one line each: location, name and signature."""
    rows = [_symbol(result, has_index_names=reply.index is None) for result in reply.results]
    block = [CONTENT_NOTICE, fenced("\n".join(rows))] if rows else ["Nothing found."]
    more = [f"More: the same call with cursor={json_text(reply.cursor)}"] if reply.cursor else []
    return "\n".join([*block, *more, *note_lines(reply.notes), freshness(reply)])


def _symbol(result: SearchResult, *, has_index_names: bool) -> str:
    index = f"{result.index}: " if has_index_names else ""
    lines = f"{result.start_line}-{result.end_line}"
    name = result.symbol_name or ""
    signature = result.symbol_signature or result.symbol_type or ""
    names = (signature,) if result.symbol_signature and name in signature else (name, signature)
    location = f"{index}{visible_name(result.path)}:{lines}"
    stale = ["STALE: the file has changed since"] if result.stale else []
    return "  ".join([location, *(visible_name(name) for name in names if name), *stale])


def related(reply: SearchReply, filename: str, budget_tokens: int | None = None) -> str:
    """Format related code, and what is left out of it."""
    similarity = (
        f", more of these files, and code less similar than {reply.results[-1].score:.2f}"
        if reply.results
        else ""
    )
    return f"{search(reply, budget_tokens)}\nLeft out: {visible_name(filename)}{similarity}."


def explained(reply: SearchReply, budget_tokens: int) -> str:
    """Format the results without code, then a line for each stage and each ranked result."""
    has_index_names = reply.index is None
    heads = [
        f"{number}. {_heading(result, has_index_names=has_index_names)}"
        for number, result in enumerate(reply.results, 1)
    ]
    results = "\n".join([NAMES_NOTICE, *heads] if heads else ["Nothing found."])
    lines = list(_explanation(reply))
    shown_lines = _first_lines(lines, CHARS_PER_TOKEN * budget_tokens - len(results))
    block = "\n".join(shown_lines)
    rest = len(lines) - len(shown_lines)
    more = [f"{rest} more lines: a smaller limit explains fewer results in full."] if rest else []
    return "\n\n".join(
        [
            results,
            f"Explanation:\n{fenced(visible(block))}",
            *more,
            *note_lines(reply.notes),
            freshness(reply),
        ]
    )


def _first_lines(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines that fit into `room` characters; a too long first line is cut."""
    fitting = list[str]()
    for line in lines:
        if fitting and len(line) >= room:
            break
        fitting.append(line[: max(room, LINE)])
        room -= len(line) + 1
    return fitting


def _explanation(reply: SearchReply) -> Iterator[str]:
    """Yield lines `stage: values`; the reason for a missing path comes first."""
    by_index = {"": reply.explain or {}} if reply.index is not None else reply.explain or {}
    for index, stages in by_index.items():
        prefix = f"{index} " if index else ""
        for stage, details in sorted(stages.items(), key=lambda entry: entry[0] != "why_not"):
            yield from _stage(f"{prefix}{stage}", _round_numbers(details))


def _stage(name: str, details: Any) -> Iterator[str]:
    """Yield the scalar values of a stage on one line, and each object of a list on its own line."""
    if not isinstance(details, dict):
        yield f"{name}: {json_text(details)}"
        return
    tables = {
        key: rows
        for key, rows in details.items()
        if isinstance(rows, list) and rows and isinstance(rows[0], dict)
    }
    yield f"{name}: {json_text({key: details[key] for key in details.keys() - tables.keys()})}"
    for key, rows in sorted(tables.items(), key=lambda entry: entry[0] != "results"):
        for number, row in enumerate(rows, 1):
            yield f"{name} {key} {number}: {json_text(row)}"


def _round_numbers(value: Any) -> Any:
    """Round numbers to four significant digits, and leave out values that are 0 or empty."""
    return json.loads(
        json.dumps(value, default=str),
        parse_float=lambda number: float(f"{float(number):.4g}"),
        object_pairs_hook=lambda pairs: {name: inner for name, inner in pairs if inner},
    )


def json_text(value: Any) -> str:
    """Format a value as JSON on one line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def matches(reply: GrepReply, mode: str = "lines") -> str:
    """Format the counts, then the lines of each file as `line:column: text`, in one block."""
    if not reply.total_files:
        head = f"No match in {reply.searched_files} files."
    elif mode == "files":
        head = f"{reply.total_files} of {reply.searched_files} files match."
    else:
        head = f"{reply.total_lines} lines in {reply.total_files} of {reply.searched_files} files."
    has_index_names = len(reply.indexes) > 1
    rows = [
        row
        for file in reply.files
        for row in _matching_file(file, mode, has_index_names=has_index_names)
    ]
    block = [CONTENT_NOTICE, fenced(visible("\n".join(rows)))] if rows else []
    more = (
        [f"More: the same call with cursor={json_text(reply.cursor)}; path and language narrow it."]
        if reply.cursor
        else []
    )
    return "\n".join([head, *block, *more, *note_lines(reply.notes), freshness(reply)])


def _matching_file(file: GrepFile, mode: str, *, has_index_names: bool) -> Iterator[str]:
    index = f"{file.index}: " if has_index_names else ""
    count = "" if mode == "files" else f" ({file.count})"
    changed = "  changed just now" if file.changed else ""
    yield f"{index}{visible_name(file.path)}{count}{changed}"
    for line in file.lines:
        yield from _matching_line(line)


def _matching_line(line: GrepLine) -> Iterator[str]:
    for number, text in enumerate(line.lines_before, line.line - len(line.lines_before)):
        yield f"{number}  {text}"
    symbol = f"  [{visible_name(line.symbol_name)}]" if line.symbol_name else ""
    yield f"{line.line}:{line.column}: {line.text}{symbol}"
    for number, text in enumerate(line.lines_after, line.line + 1):
        yield f"{number}  {text}"


def files(reply: ListFilesReply) -> str:
    """Format one path per line with its language, and its index if there are several."""
    if not reply.files:
        missing = (
            "No such file is indexed: "
            "path_prefix and pattern are relative to the root of the index."
        )
        return f"{missing}\n{freshness(reply)}"
    has_index_names = len({f.index for f in reply.files}) > 1
    lines = [
        f"{f'{f.index}: ' * has_index_names}{visible_name(f.path)}  {f.language}"
        for f in reply.files
    ]
    more = (
        f"{len(reply.files)} of {reply.total} files. "
        f"More: the same call with cursor={json_text(reply.cursor)}"
        if reply.cursor
        else f"{len(reply.files)} files."
    )
    return "\n".join([NAMES_NOTICE, *lines, more, freshness(reply)])


def file(reply: GetFileReply, last: int | None = None, *, has_index_name: bool = False) -> str:
    """Format the lines in a block, with their numbers, and the call for the next lines.

    `last` is the last line that the client requested. `has_index_name` means that the client named
    the index or a topic.
    """
    state = "" if reply.fresh else f", as indexed: {_line(reply.stale_reason)}"
    if reply.start_line > reply.total_lines:
        return f"{visible_name(reply.path)} has {reply.total_lines} lines{state}."
    lines = f"{reply.start_line}-{reply.end_line} of {reply.total_lines} lines"
    head = f"{visible_name(reply.path)}:{lines}{state}"
    block = f"{CONTENT_NOTICE}\n{head}\n{fenced(visible(reply.content), reply.language)}"
    remaining = min(last or reply.total_lines, reply.total_lines) - reply.end_line
    if remaining <= 0:
        return block
    next_call = tool_call(
        "get_file",
        filename=visible_name(reply.path),
        start_line=reply.end_line + 1,
        end_line=last,
        index_name=reply.index if has_index_name else None,
    )
    return f"{block}\n{remaining} more lines: {next_call}"


def indexes(reply: IndexesReply) -> str:
    """Format one line per index."""
    if not reply.indexes:
        return "No index yet. Call index_codebase with the absolute path of a project."
    return "\n".join([INDEXES_NOTICE, *map(_index, reply.indexes)])


def stats(reply: StatsReply) -> str:
    """Format counts, languages, parse errors, notes and the listed files."""
    by_chunks = sorted(reply.languages.items(), key=lambda item: -item[1].get("chunks", 0))
    languages = ", ".join(f"{name} {counts.get('files', 0)}" for name, counts in by_chunks[:12])
    broken = sum(
        health.get("error", 0) + health.get("partial", 0) for health in reply.parse_health.values()
    )
    skipped = ", ".join(f"{reason} {count}" for reason, count in reply.skipped.items())
    counts = (
        f"{reply.index} ({visible_name(reply.root)}): {reply.files} files, {reply.chunks} chunks, "
        f"{reply.symbols} symbols, {reply.size_bytes / 1e6:.1f} MB. Files by language: "
        f"{languages or 'none'}. "
        f"Not fully parsed: {broken}. Skipped: {skipped or 'none'}. Last change: "
        f"{reply.last_change or 'never'}."
    )
    return "\n".join([counts, freshness(reply), *note_lines(reply.notes), *_failures(reply)])


def _failures(reply: StatsReply) -> Iterator[str]:
    """Format the listed files, and the number of the files that are not listed."""
    for failure in reply.failures[:FAILURES]:
        yield visible_name("  ".join(str(value) for value in failure.values() if value))[:LINE]
    rest = reply.failure_count - len(reply.failures[:FAILURES])
    if reply.failures and rest > 0:
        yield f"... and {rest} more"


def indexed(reply: IndexCodebaseReply) -> str:
    """Format the new index and its progress."""
    verb = "Added" if reply.created else "Already watched:"
    head = f"{verb} index {reply.index} for {visible_name(reply.root)}."
    return "\n".join(
        [
            f"{head} {progress(reply.progress)}",
            *note_lines((*reply.notes, *reply.progress.notes)),
        ]
    )


def progress(value: IndexProgress) -> str:
    """Format the progress of an index."""
    total = "?" if value.total is None else str(value.total)
    skipped = f", {value.skipped} of them skipped" if value.skipped else ""
    failed = f", {value.failed} failed" if value.failed else ""
    reason = f" ({_line(value.reason)})" if value.reason else ""
    counts = f"{value.done} of {total} files{skipped}, {value.chunks} chunks"
    return f"{value.state}: {counts}{failed}{reason}"


def cleared(reply: ClearReply) -> str:
    """Format the deletion of an index."""
    counts = f"{reply.files} files, {reply.chunks} chunks"
    return f"Index {reply.index} is deleted ({counts}). The files on disk are untouched."


def synced(reply: SyncReply) -> str:
    """Format the freshness of indexes."""
    if not reply.fresh:
        return f"{reply.index} is not fresh yet: {_line(reply.reason)}."
    return (
        f"{join_indexes(reply.indexes)} are fresh."
        if len(reply.indexes) > 1
        else f"{reply.index} is fresh."
    )


def note_lines(notes: Iterable[str]) -> Iterator[str]:
    """Format each note on one line: it may contain names from a project's settings."""
    return map(_line, notes)


def _line(text: str | None) -> str:
    return visible(text or "", keep="")


def _hit(result: SearchResult, *, has_index_names: bool) -> str:
    code = "\n".join(
        part.rstrip("\n")
        for part in (result.context_before, result.content, result.context_after)
        if part
    )
    heading = _heading(result, has_index_names=has_index_names)
    block = fenced(visible(code), result.language) if code else ""
    places = (
        f"{_place_heading(result, entry)}\n{fenced(visible(entry.content), result.language)}"
        for entry in result.also
        if entry.content
    )
    return "\n".join(
        filter(None, (heading, block, *places, _other_places(result), _similar(result)))
    )


def _place_heading(result: SearchResult, entry: Place) -> str:
    name = visible_name(entry.symbol_name or entry.symbol_signature or "")
    return f"{visible_name(result.path)}:{entry.start_line}-{entry.end_line}  {name}".rstrip()


def _heading(result: SearchResult, *, has_index_names: bool) -> str:
    index = f"{result.index}: " if has_index_names else ""
    symbol = (
        f"  {result.symbol_type} {visible_name(result.symbol_name)}" if result.symbol_name else ""
    )
    location = format_location(
        visible_name(result.path),
        result.context_before,
        result.start_line,
        result.end_line,
        result.context_after,
    )
    head = f"{index}{location}{symbol}" + (f"  [{result.relevance:.0%}]" if result.score else "")
    if result.stale:
        head += "  STALE: the file has changed since; read it before you rely on this"
    return head


def _other_places(result: SearchResult) -> str:
    """Format the lines of a file's other places without code, with their symbols, on one line."""
    places = ", ".join(
        f"{entry.start_line}-{entry.end_line} {visible_name(entry.symbol_name or '')}".rstrip()
        + (f" (alike: {', '.join(map(str, entry.similar_lines))})" if entry.similar_lines else "")
        for entry in result.also
        if not entry.content
    )
    return f"also {places}" if places else ""


def _similar(result: SearchResult) -> str:
    """Format the similar lines and files that a result represents, and what belongs to it."""
    lines = ", ".join(map(str, result.similar_lines))
    parts = [f"alike in this file: {lines}"] if lines else []
    if result.similar:
        paths = ", ".join(map(visible_name, result.similar_paths[:SIMILAR_PATHS]))
        parts.append(f"{result.similar} alike: {paths}{', …' * (result.similar > SIMILAR_PATHS)}")
    if result.counterparts:
        parts.append(f"belongs with {', '.join(map(visible_name, result.counterparts))}")
    if result.frame_lines:
        parts.append(format_frames(result.frame_lines))
    return "; ".join(parts)


def freshness(reply: SearchReply | ListFilesReply | StatsReply | GrepReply | GraphReply) -> str:
    """Format whether an answer is fresh, with its clock and the first pending paths."""
    at = f" as of {reply.as_of.epoch[:8]}/{reply.as_of.seq}" if reply.as_of else ""
    pending = (
        f" Pending: {visible_name(', '.join(reply.pending[:PENDING]))}." if reply.pending else ""
    )
    return f"Fresh{at}." if reply.fresh else f"NOT fresh{at}: {_line(reply.stale_reason)}.{pending}"


def _index(index: IndexStatus) -> str:
    pending = f", {index.pending} pending" if index.pending else ""
    reason = f" ({_line(index.reason)})" if index.reason else ""
    skipped = f", {sum(index.skipped.values())} skipped" if index.skipped else ""
    counts = f"{index.files} files{skipped}, {index.chunks} chunks{pending}"
    topics = f"  topics: {_line(', '.join(index.topics))}" if index.topics else ""
    return f"{index.name}  {visible_name(index.root)}  {index.state}{reason}  {counts}{topics}"
