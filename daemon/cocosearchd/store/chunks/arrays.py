"""Arrays as PostgreSQL writes and reads them. Pure.

A statement about many files takes a column of theirs as one array, and casts it. The driver asks
each element for its type and looks for what must be escaped by a regular expression: of eleven
columns of 128 files it makes 3 ms, this 0.4.
"""

from collections.abc import Iterable, Sequence

EMPTY_ARRAY = "{}"  # an empty one


def array_literal(values: Iterable[str | bytes | int | None]) -> str:
    """One of texts, bytes, numbers or nulls, in the order given."""
    return "{" + ",".join(map(_element, values)) + "}"


def number_array_literal(numbers: Sequence[int]) -> str:
    """As `array_literal`, of nothing but numbers."""
    return "{" + ",".join(map(str, numbers)) + "}"


def parse_number_array(text: str) -> frozenset[int]:
    """The inverse of `number_array_literal`, without order."""
    return frozenset(map(int, text[1:-1].split(","))) if text != EMPTY_ARRAY else frozenset()


def _element(value: str | bytes | int | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bytes):
        return '"\\\\x' + value.hex() + '"'
    return "NULL" if value is None else str(value)
