"""Replies as compact text, for assistants whose client shows no structured content. Pure.

Authors of files may write text for assistants. So content and names follow a notice, stand in
blocks that they cannot close, and have their hidden characters escaped.
"""

import json
from collections.abc import Iterable, Iterator

from cocosearch_ipc.protocol import (
    ClearReply,
    IndexCodebaseReply,
    IndexesReply,
    IndexProgress,
    IndexStatus,
    SearchReply,
    SearchResult,
    StatsReply,
    SyncReply,
)
from cocosearch_ipc.render.line_range import format_location
from cocosearch_ipc.render.visible import (
    CONTENT_NOTICE,
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
SIMILAR_PATHS = 3
PENDING = 5  # maximum number of pending paths: an assistant can read these files itself


def search(reply: SearchReply) -> str:
    """Format each result as `path:start-end` with symbol and code; freshness comes last."""
    if reply.listing:
        return _symbols(reply)
    hits = [_hit(result, has_index_names=reply.index is None) for result in reply.results]
    return "\n\n".join(
        [
            *(["Nothing matches well; these are the nearest."] if reply.weak else []),
            *([CONTENT_NOTICE, *hits] if hits else ["Nothing found."]),
            *_notes(reply.notes),
            _freshness(reply),
        ]
    )


def _symbols(reply: SearchReply) -> str:
    """Format a list of symbols in one block, one line each: location, kind and signature."""
    rows = [_symbol(result, has_index_names=reply.index is None) for result in reply.results]
    block = [CONTENT_NOTICE, fenced("\n".join(rows))] if rows else ["Nothing found."]
    more = [f"There are more: cursor={reply.cursor!r}."] if reply.cursor else []
    return "\n".join([*block, *more, *_notes(reply.notes), _freshness(reply)])


def _symbol(result: SearchResult, *, has_index_names: bool) -> str:
    index = f"{result.index}: " if has_index_names else ""
    lines = f"{result.start_line}-{result.end_line}"
    names = (result.symbol_type, result.symbol_name, result.symbol_signature)
    location = f"{index}{visible_name(result.path)}:{lines}"
    stale = ["STALE: the file has changed since"] if result.stale else []
    return "  ".join([location, *(visible_name(name) for name in names if name), *stale])


def explained(reply: SearchReply) -> str:
    """Format the results, then the trace as indented JSON, whose keys are the stages."""
    trace = json.dumps(reply.explain or {}, indent=1, default=str)
    return f"{search(reply)}\n\nExplanation:\n{fenced(visible(trace), 'json')}"


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
        [f"There are more: cursor={reply.cursor!r}, or narrow with path, language or paths."]
        if reply.cursor
        else []
    )
    return "\n".join([head, *block, *more, *_notes(reply.notes), _freshness(reply)])


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
        return f"{missing}\n{_freshness(reply)}"
    has_index_names = len({f.index for f in reply.files}) > 1
    lines = [
        f"{f'{f.index}: ' * has_index_names}{visible_name(f.path)}  {f.language}, {f.chunks} chunks"
        for f in reply.files
    ]
    more = (
        f"There are more: cursor={reply.cursor!r}."
        if reply.cursor
        else f"{len(reply.files)} files."
    )
    return "\n".join([NAMES_NOTICE, *lines, more, _freshness(reply)])


def file(reply: GetFileReply, last: int | None = None) -> str:
    """Format the lines in a block, with their numbers, and the call for the next lines.

    `last` is the last line that the client requested.
    """
    if reply.start_line > reply.total_lines:
        return f"{visible_name(reply.path)} has {reply.total_lines} lines."
    state = "" if reply.fresh else f", as indexed: {_line(reply.stale_reason)}"
    lines = f"{reply.start_line}-{reply.end_line} of {reply.total_lines} lines"
    head = f"{visible_name(reply.path)}:{lines}{state}"
    block = f"{CONTENT_NOTICE}\n{head}\n{fenced(visible(reply.content), reply.language)}"
    remaining = min(last or reply.total_lines, reply.total_lines) - reply.end_line
    return (
        f"{block}\n{remaining} more lines: start_line={reply.end_line + 1}."
        if remaining > 0
        else block
    )


def indexes(reply: IndexesReply) -> str:
    """Format one line per index."""
    if not reply.indexes:
        return "No index yet. Call index_codebase with the absolute path of a project."
    return "\n".join(_index(index) for index in reply.indexes)


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
    return "\n".join([counts, _freshness(reply), *_notes(reply.notes), *_failures(reply)])


def _failures(reply: StatsReply) -> Iterator[str]:
    """Format the listed files, and the number of those that are not listed."""
    for failure in reply.failures:
        yield visible_name("  ".join(str(value) for value in failure.values() if value))[:LINE]
    rest = reply.failure_count - len(reply.failures)
    if reply.failures and rest > 0:
        yield f"... and {rest} more"


def indexed(reply: IndexCodebaseReply) -> str:
    """Format the new index and its progress."""
    verb = "Added" if reply.created else "Already watched:"
    head = f"{verb} index {reply.index} for {visible_name(reply.root)}."
    return "\n".join(
        [
            f"{head} {progress(reply.progress)}",
            *_notes((*reply.notes, *reply.progress.notes)),
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
        f"{', '.join(reply.indexes)} are fresh."
        if len(reply.indexes) > 1
        else f"{reply.index} is fresh."
    )


def _notes(notes: Iterable[str]) -> Iterator[str]:
    """Format each note on one line: it may contain names from a project's settings."""
    return map(_line, notes)


def _line(text: str | None) -> str:
    return visible(text or "", keep="")


def _hit(result: SearchResult, *, has_index_names: bool) -> str:
    index = f"{result.index}: " if has_index_names else ""
    symbol = (
        f"  {result.symbol_type} {visible_name(result.symbol_name)}" if result.symbol_name else ""
    )
    code = "\n".join(
        part.rstrip("\n")
        for part in (result.context_before, result.content, result.context_after)
        if part
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
    block = f"{head}\n{fenced(visible(code), result.language)}"
    return "\n".join(filter(None, (block, _also(result), _similar(result))))


def _also(result: SearchResult) -> str:
    """Format the lines of a file's other places with their symbols, on one line; "" without any."""
    places = ", ".join(
        f"{entry.start_line}-{entry.end_line} {visible_name(entry.symbol_name or '')}".rstrip()
        for entry in result.also
    )
    return f"also {places}" if places else ""


def _similar(result: SearchResult) -> str:
    """Format how many files are alike, and the first of their paths; "" without any."""
    if not result.similar:
        return ""
    paths = ", ".join(map(visible_name, result.similar_paths[:SIMILAR_PATHS]))
    return f"{result.similar} alike: {paths}{', …' * (result.similar > SIMILAR_PATHS)}"


def _freshness(reply: SearchReply | ListFilesReply | StatsReply | GrepReply) -> str:
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
