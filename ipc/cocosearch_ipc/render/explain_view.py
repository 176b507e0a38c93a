"""The explanation of an answer as text: stages with times, tables of like objects, outlines.

The module knows only the field of times: the daemon decides what a trace contains.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cocosearch_ipc.render import output, tables

BAR = 24  # columns of the longest stage
WIDE = 120  # longer values get lines of their own


def explanation(reply: Mapping[str, Any], style: output.Style) -> Iterator[str]:
    """Yield the lines of a search reply's explanation; none if it has no `explain`."""
    if not reply.get("explain"):
        return
    yield ""
    yield style.paint("explanation", output.BOLD)
    yield from _stages(reply["timings_ms"], style)
    yield from outline(reply["explain"], 1, style)


def outline(value: object, depth: int, style: output.Style) -> Iterator[str]:
    """Yield nested values as indented lines.

    Short values take one line each; a list of like objects becomes a table.
    """
    pad = "  " * depth
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value, 1)
        if isinstance(value, list)
        else ()
    )
    for name, inner in pairs:
        label = style.paint(output.printable(f"{name}:", keep=""), output.CYAN)
        flat = _flat(inner)
        if flat is not None and (len(flat) <= WIDE or not isinstance(inner, dict | list)):
            yield f"{pad}{label} {output.printable(flat, keep='')}"
        elif isinstance(inner, list) and inner and all(isinstance(row, dict) for row in inner):
            yield f"{pad}{label}"
            for line in _table(inner):
                yield f"{pad}  {line}".rstrip()
        else:
            yield f"{pad}{label}"
            yield from outline(inner, depth + 1, style)


def _stages(timings_ms: Mapping[str, float], style: output.Style) -> Iterator[str]:
    total = timings_ms.get("total") or sum(timings_ms.values()) or 1.0
    width = max(map(len, timings_ms), default=0)
    for name, took in timings_ms.items():
        bar = "" if name == "total" else "█" * round(BAR * took / total)
        yield f"  {name:<{width}}  {took:>8.2f} ms  {style.paint(bar, output.GREEN)}".rstrip()


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one row per object; nested objects become tables with one column per row.

    So results can be compared side by side.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    nested = [name for name in names if any(isinstance(row.get(name), dict) for row in rows)]
    plain = [name for name in names if name not in nested]
    cells = [
        [str(number), *(_cell(row.get(name)) for name in plain)]
        for number, row in enumerate(rows, 1)
    ]
    yield from tables.table([["#", *plain], *cells])
    for name in nested:
        inner = [row.get(name) or {} for row in rows]
        keys = list(dict.fromkeys(key for item in inner for key in item))
        yield ""
        yield from tables.table(
            [
                [name, *(f"#{number}" for number in range(1, len(rows) + 1))],
                *([key, *(_cell(item.get(key)) for item in inner)] for key in keys),
            ]
        )


def _cell(value: object) -> str:
    return output.printable(_flat(value) or "", keep="")


def _flat(value: object) -> str | None:
    """Format scalars and collections of scalars on one line; None for deeper values."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, dict | list):
        return "-" if value in (None, "") else str(value)
    inner = value.values() if isinstance(value, dict) else value
    if any(isinstance(item, dict | list) and item for item in inner):
        return None
    if isinstance(value, dict):
        return ", ".join(f"{name} {_flat(item)}" for name, item in value.items()) or "-"
    return ", ".join(str(_flat(item)) for item in value) or "-"
