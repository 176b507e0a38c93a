"""Settings with their sources, and findings about them, as text for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cocosearch_ipc.render import output, tables

_STATES = {"ok": output.GREEN, "warn": output.YELLOW, "fail": output.RED}


def values(reply: Mapping[str, Any], style: output.Style) -> Iterator[str]:
    """Yield one line per setting: key, value, layer and source. Default values are dim."""
    if reply.get("index"):
        yield style.paint(f"settings of index {reply['index']}", output.BOLD)
    rows = [
        (entry["key"], format_value(entry["value"]), _origin(entry)) for entry in reply["values"]
    ]
    for entry, line in zip(reply["values"], tables.table(rows), strict=True):
        yield style.paint(line, output.DIM) if entry["layer"] == "default" else line
    for note in reply.get("notes") or ():
        yield style.paint(f"note: {output.printable(note, keep='')}", output.YELLOW)


def findings(entries: Sequence[Mapping[str, str]], style: output.Style) -> Iterator[str]:
    """Yield one line per finding, and its fix on the line below."""
    for finding in entries:
        state = style.paint(f"{finding['state']:<4}", _STATES[finding["state"]])
        yield f"{state}  {finding['what']}: {output.printable(finding['message'], keep='')}"
        if finding["fix"]:
            yield f"      {output.printable(finding['fix'], keep='')}"


def format_value(value: Any) -> str:
    """Return a value in the notation of the settings file."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return output.printable(
        ", ".join(map(str, value)) if isinstance(value, list) else str(value), keep=""
    )


def _origin(entry: Mapping[str, str]) -> str:
    return f"{entry['layer']}  {output.printable(entry['place'], keep='')}".rstrip()
