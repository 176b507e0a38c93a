"""Writes and reads arrays in PostgreSQL's text format. Pure.

A statement about many files takes each of their columns as one array, and casts it. The driver
would ask each element for its type and search it for characters to escape with a regular
expression: 3 ms for eleven columns of 128 files, against 0.4 ms here.
"""

from collections.abc import Iterable, Sequence

EMPTY_ARRAY = "{}"


def array_literal(values: Iterable[str | bytes | int | None]) -> str:
    """Write texts, bytes, numbers or nulls as an array, in their order."""
    return "{" + ",".join(map(_element, values)) + "}"


def number_array_literal(numbers: Sequence[int]) -> str:
    """Write an array of numbers only, faster than `array_literal`."""
    return "{" + ",".join(map(str, numbers)) + "}"


def parse_number_array(text: str) -> frozenset[int]:
    """Invert `number_array_literal`, without the order."""
    return frozenset(map(int, text[1:-1].split(","))) if text != EMPTY_ARRAY else frozenset()


def _element(value: str | bytes | int | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bytes):
        return '"\\\\x' + value.hex() + '"'
    return "NULL" if value is None else str(value)
