"""Settings with where they come from, and what was found about them, as text for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cocosearch_ipc.render import output, tables

_STATES = {"ok": output.GREEN, "warn": output.YELLOW, "fail": output.RED}


def values(reply: Mapping[str, Any], style: output.Style) -> Iterator[str]:
    """A line a setting: its key, its value, and the layer with the place; those that are defaults
    stand back.
    """
    if reply.get("index"):
        yield style.paint(f"of index {reply['index']}", output.BOLD)
    rows = [(one["key"], shown(one["value"]), _origin(one)) for one in reply["values"]]
    for one, line in zip(reply["values"], tables.table(rows), strict=True):
        yield style.paint(line, output.DIM) if one["layer"] == "default" else line
    for note in reply.get("notes") or ():
        yield style.paint(f"note: {output.printable(note, keep='')}", output.YELLOW)


def findings(found: Sequence[Mapping[str, str]], style: output.Style) -> Iterator[str]:
    """A line a finding, and below it what mends it."""
    for one in found:
        state = style.paint(f"{one['state']:<4}", _STATES[one["state"]])
        yield f"{state}  {one['what']}: {output.printable(one['message'], keep='')}"
        if one["fix"]:
            yield f"      {output.printable(one['fix'], keep='')}"


def shown(value: Any) -> str:
    """A value as one would write it."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return output.printable(
        ", ".join(map(str, value)) if isinstance(value, list) else str(value), keep=""
    )


def _origin(one: Mapping[str, str]) -> str:
    return f"{one['layer']}  {output.printable(one['place'], keep='')}".rstrip()
