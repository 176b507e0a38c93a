"""Writes and reads arrays in PostgreSQL's text format. Pure.

A statement about many files takes each column of their rows as one array, and casts the array. The
driver would inspect the type of each element and search the element with a regular expression for
characters to escape: 3 ms for eleven columns of 128 files, against 0.4 ms here.
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
    """Return the numbers of a `number_array_literal`, without their order."""
    return frozenset(map(int, text[1:-1].split(","))) if text != EMPTY_ARRAY else frozenset()


def _element(value: str | bytes | int | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bytes):
        return '"\\\\x' + value.hex() + '"'
    return "NULL" if value is None else str(value)
