"""How an answer came about, as text: stages and their times, tables of what has the same fields,
else an outline.

Knows no field by name but the times: what a trace holds is the daemon's to decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cocosearch_ipc.render import output, tables

BAR = 24  # columns of the longest stage
WIDE = 120  # what does not fit into a line of this is written out below


def explanation(reply: Mapping[str, Any], style: output.Style) -> Iterator[str]:
    """Lines about a search reply that carries `explain`; none for one that does not."""
    if not reply.get("explain"):
        return
    yield ""
    yield style.paint("how it came about", output.BOLD)
    yield from _stages(reply["timings_ms"], style)
    yield from outline(reply["explain"], 1, style)


def outline(value: object, depth: int, style: output.Style) -> Iterator[str]:
    """Nested values as indented lines: a text, and what fits into a line, is one; a list of like
    objects a table.
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
    """A row an object; objects inside become a table of their own, a column a row, so that hits can
    be compared.
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
        keys = list(dict.fromkeys(key for one in inner for key in one))
        yield ""
        yield from tables.table(
            [
                [name, *(f"#{number}" for number in range(1, len(rows) + 1))],
                *([key, *(_cell(one.get(key)) for one in inner)] for key in keys),
            ]
        )


def _cell(value: object) -> str:
    return output.printable(_flat(value) or "", keep="")


def _flat(value: object) -> str | None:
    """Scalars, and collections of scalars, on one line; None for anything deeper."""
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
