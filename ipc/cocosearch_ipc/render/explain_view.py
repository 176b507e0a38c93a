"""The explanation of an answer as text: stages with times, tables of objects, outlines.

The module knows only the field of times: the daemon decides what a trace contains.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    A short value takes one line; a list of objects becomes a table.
    """
    pad = "  " * depth
    for name, inner in _pairs(value):
        label = style.paint(output.printable(f"{name}:", keep=""), output.CYAN)
        flat = _format_flat(inner)
        if flat is not None and (len(flat) <= WIDE or not isinstance(inner, dict | list)):
            yield f"{pad}{label} {output.printable(flat, keep='')}"
            continue
        yield f"{pad}{label}"
        if isinstance(inner, list) and inner and all(isinstance(row, dict) for row in inner):
            for line in _table(inner):
                yield f"{pad}  {line}".rstrip()
        else:
            yield from outline(inner, depth + 1, style)


def _pairs(value: object) -> Iterable[tuple[object, Any]]:
    """Return the items of a dictionary, or the elements of a list with their numbers."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value, 1) if isinstance(value, list) else ()


def _stages(timings_ms: Mapping[str, float], style: output.Style) -> Iterator[str]:
    total = timings_ms.get("total") or sum(timings_ms.values()) or 1.0
    width = max(map(len, timings_ms), default=0)
    for name, took in timings_ms.items():
        bar = "" if name == "total" else "█" * round(BAR * took / total)
        yield f"  {name:<{width}}  {took:>8.2f} ms  {style.paint(bar, output.GREEN)}".rstrip()


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one row per object; nested objects become tables with one column per row.

    The reader can then compare results side by side.
    """
    names = _field_names(rows)
    nested = [name for name in names if any(isinstance(row.get(name), dict) for row in rows)]
    yield from _plain_table([name for name in names if name not in nested], rows)
    for name in nested:
        yield ""
        yield from _nested_table(name, [row.get(name) or {} for row in rows])


def _plain_table(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cells = [
        [str(number), *(_cell(row.get(name)) for name in names)]
        for number, row in enumerate(rows, 1)
    ]
    return tables.table([["#", *names], *cells])


def _nested_table(name: str, objects: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line per field, with one column per object."""
    head = [name, *(f"#{number}" for number in range(1, len(objects) + 1))]
    fields = [
        [field, *(_cell(item.get(field)) for item in objects)] for field in _field_names(objects)
    ]
    return tables.table([head, *fields])


def _field_names(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for item in objects for name in item))


def _cell(value: object) -> str:
    return output.printable(_format_flat(value) or "", keep="")


def _format_flat(value: object) -> str | None:
    """Format scalars and collections of scalars on one line; None for deeper values."""
    if isinstance(value, dict):
        return _join_labelled(value.values(), [f"{name} " for name in value])
    if isinstance(value, list):
        return _join_labelled(value, [""] * len(value))
    return _scalar(value)


def _join_labelled(values: Iterable[object], labels: Iterable[str]) -> str | None:
    """Join labelled scalars; None if a value is a collection that is not empty."""
    parts = []
    for value, label in zip(values, labels, strict=True):
        if isinstance(value, dict | list) and value:
            return None
        parts.append(f"{label}{_scalar(value)}")
    return ", ".join(parts) or "-"


def _scalar(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value in (None, "", [], {}) else str(value)
