"""Status, lists and counts as text for people."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from cocosearch_ipc.render import output

# Fields that people see; `--json` prints all fields.
_OF_STORE = ("kind", "state", "since", "server", "pgvector", "reason", "hint")
_OF_EMBEDDER = ("provider", "model", "dimension", "state", "since", "reason", "hint")
BAR = 24  # characters
FAILURES_SHOWN = 5
EXCLUDED_SHOWN = 5
_STATES = {
    "live": output.GREEN,
    "failed": output.RED,
    "root_missing": output.RED,
    "lost": output.RED,
    "degraded": output.YELLOW,
}


def size(count: float) -> str:
    """Format bytes: 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Format seconds: 1m 05s."""
    total = int(seconds)
    if total < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{total} s"
    minutes, rest = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes:02d}m" if hours else f"{minutes}m {rest:02d}s"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows with aligned columns; cells that look like numbers are right-aligned."""
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            c.rjust(w) if _is_number(c) else c.ljust(w) for c, w in zip(row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _is_number(cell: str) -> bool:
    return cell.removeprefix("-").replace(",", "").replace(".", "").isdigit()


def indexes(entries: Sequence[dict[str, Any]], style: output.Style) -> Iterator[str]:
    """Yield a table of indexes, and their problems below it."""
    if not entries:
        yield "no index yet: `cocosearchctl up PATH` creates one"
        return
    rows = [("name", "state", "files", "skipped", "chunks", "pending", "root")]
    rows += [
        (
            *(_line(i["name"]), i["state"], output.format_number(i["files"])),
            *(
                output.format_number(-1 if i["files"] < 0 else sum(i.get("skipped", {}).values())),
                output.format_number(i["chunks"]),
                output.format_number(i["pending"]),
            ),
            _line(i["root"]),
        )
        for i in entries
    ]
    head, *body = table(rows)
    yield style.paint(head, output.BOLD)
    width = max(len(_line(index["name"])) for index in entries)
    for index, row in zip(entries, body, strict=True):
        state = style.paint(index["state"], _STATES.get(index["state"], output.CYAN))
        yield row[:width] + row[width:].replace(index["state"], state, 1)
    for index in entries:
        yield from _owner(index)
        yield from _trouble(index, style)


def _owner(index: dict[str, Any]) -> Iterator[str]:
    """Yield the owner of a followed index."""
    if index.get("schema") and index.get("watcher"):
        yield f"  {_line(index['name'])}: {_line(index['watcher'])}"


def _trouble(index: dict[str, Any], style: output.Style) -> Iterator[str]:
    for note in index.get("notes") or ():
        yield style.paint(f"  {_line(index['name'])}: {_line(note)}", output.YELLOW)
    if index.get("reason"):
        yield style.paint(f"  {_line(index['name'])}: {_line(index['reason'])}", output.YELLOW)
    yield from _failed_lines(index, style)
    yield from _precise(index, style)
    yield from _unparsed_lines(index, style)
    yield from _excluded_lines(index, style)


def _failed_lines(index: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the files that could not be indexed, with their errors."""
    troubled = index.get("failed") or ()
    for failed in troubled[:FAILURES_SHOWN]:
        retry_time = (
            "when it changes"
            if failed["retry_in_s"] is None
            else f"in {duration(failed['retry_in_s'])}"
        )
        yield style.paint(
            f"  {_line(failed['path'])}: {_line(failed['error'])} (again {retry_time})", output.RED
        )
    count = index.get("failed_count", len(troubled))
    if count > FAILURES_SHOWN:
        listed = "lists them" if count == len(troubled) else f"lists {len(troubled)}"
        more = f"  … and {count - FAILURES_SHOWN:,} more; `--json` {listed}"
        yield style.paint(more, output.RED)


def _precise(index: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the number of files with uses from a SCIP index."""
    if files := index.get("precise_files"):
        changed = index.get("changed_precise_files", 0)
        since = f", of which {output.format_number(changed)} changed since" if changed else ""
        text = f"  {_line(index['name'])}: a SCIP index has the uses of {output.format_number(files)} files{since}"
        yield style.paint(text, output.DIM)


def _unparsed_lines(index: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the files that no parser may read, each with its fix."""
    files = index.get("unparsed") or ()
    for file in files[:EXCLUDED_SHOWN]:
        yield style.paint(f"  {_line(file['sentence'])}", output.YELLOW)
    if len(files) > EXCLUDED_SHOWN:
        yield style.paint("  … and more; `--json` lists them", output.YELLOW)


def _excluded_lines(index: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the files that are not searched, each with its reason and fix."""
    files = (index.get("excluded") or ())[:EXCLUDED_SHOWN]
    for file in files:
        yield style.paint(f"  {_line(file['sentence'])}", output.DIM)
    rest = sum(index.get("skipped", {}).values()) - len(files)
    if files and rest > 0:
        name = shlex.quote(_line(index["name"]))
        more = f"… and {rest:,} more; `cocosearchctl stats {name} --failures` lists them"
        yield style.paint(f"  {more}", output.DIM)


def memory_parts(rss: dict[str, int]) -> Iterator[str]:
    """Yield the memory of each process; the field `worker` of the reply is the indexer process."""
    for name, count in rss.items():
        if name != "total":
            yield f"{'indexer' if name == 'worker' else name} {size(count)}"


def status(reply: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the daemon's version, memory, dependencies and addresses, then its indexes."""
    rss = reply["rss_bytes"]
    yield f"cocosearchd {reply['version']}, pid {reply['pid']}, up {duration(reply['uptime_s'])}"
    yield f"memory    {size(rss.get('total', 0))} ({', '.join(memory_parts(rss))})"
    yield f"store     {_join_pairs(reply['store'], _OF_STORE)}"
    yield f"embedder  {_join_pairs(reply['embedder'], _OF_EMBEDDER)}"
    yield f"indexer   {_join_pairs(reply['worker'])}"
    yield f"mcp       {reply['mcp'].get('url') or 'off'}"
    for warning in reply.get("warnings") or ():
        yield style.paint(f"warning: {_line(warning)}", output.YELLOW)
    yield ""
    yield from indexes(reply["indexes"], style)


def stats(reply: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the counts of one index, one line per language."""
    yield style.paint(f"{reply['index']}  {_line(reply['root'])}", output.BOLD)
    yield (
        f"{reply['files']:,} files, {reply['chunks']:,} chunks, {reply['symbols']:,} symbols, "
        f"{size(reply['size_bytes'])}, last change {reply['last_change'] or 'never'}"
    )
    yield f"embedder  {_join_pairs(reply['embedder'], _OF_EMBEDDER)}"
    if reply["skipped"]:
        yield f"skipped   {_join_pairs(reply['skipped'])}"
    if not reply["fresh"]:
        yield style.paint(f"not fresh {_line(reply['stale_reason'])}", output.YELLOW)
    for note in reply.get("notes") or ():
        yield style.paint(f"note      {_line(note)}", output.YELLOW)
    yield ""
    yield from _languages(reply, style)
    yield from _failures(reply)


def _languages(reply: dict[str, Any], style: output.Style) -> Iterator[str]:
    """Yield one line per language, the largest first; on a terminal with a bar."""
    languages = sorted(reply["languages"].items(), key=lambda item: -item[1].get("chunks", 0))
    rows: list[tuple[str, ...]] = [
        ("language", "files", "chunks", "parsed", "partly", "failed", "plain")
    ]
    for name, counts in languages:
        health = reply["parse_health"].get(name, {})
        parsed = [f"{health.get(key, 0):,}" for key in ("ok", "partial", "error", "no_grammar")]
        rows.append((name, f"{counts.get('files', 0):,}", f"{counts.get('chunks', 0):,}", *parsed))
    if not (style.links or style.colour):
        yield from table(rows)
        return
    chunks = [counts.get("chunks", 0) for _, counts in languages]
    largest = max(chunks, default=0)
    bars = ["", *(_bar(count, largest) for count in chunks)]
    for line, bar in zip(table(rows), bars, strict=True):
        yield f"{line}  {style.paint(bar, output.CYAN)}".rstrip()


def _failures(reply: dict[str, Any]) -> Iterator[str]:
    rows = [
        tuple(_line(str(value)) for value in failure.values())
        for failure in reply.get("failures") or ()
    ]
    if rows:
        yield ""
        yield from table(rows)
        rest = reply.get("failure_count", 0) - len(rows)
        if rest > 0:
            yield f"… and {rest:,} more"


def _bar(count: int, largest: int) -> str:
    """Draw the share of the largest count, in eighths of a character."""
    eighths = round(BAR * 8 * count / largest) if largest else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _join_pairs(value: dict[str, Any], only: Sequence[str] = ()) -> str:
    value = {key: value[key] for key in only if key in value} if only else value
    pairs = (
        f"{key} {_line(str(item))}" for key, item in value.items() if item not in (None, "", {}, [])
    )
    return ", ".join(pairs) or "-"


def _line(text: str) -> str:
    """Escape `text`, which may contain a file name, for one line."""
    return output.printable(text, keep="")
