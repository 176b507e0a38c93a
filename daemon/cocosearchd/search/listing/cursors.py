"""Cursors of pages: JSON lists, which a client sends back unchanged, or forges. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from cocosearchd.errors import InvalidInput

# Characters: JSON writes each byte of a path that is no UTF-8 as six, and a path has 4,096 bytes.
MAX_CURSOR = 32_768
MAX_NUMBER = 2**31 - 1  # lines, bytes and columns are smaller
_QUOTED = 60  # characters of a cursor that an error quotes


def read_cursor(cursor: str, kinds: Sequence[tuple[type, ...]]) -> list[Any]:
    """Read the values of a cursor, each of one of its kinds. Raises `InvalidInput`."""
    try:
        values = json.loads(cursor) if len(cursor) <= MAX_CURSOR else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != len(kinds):
        raise invalid_cursor(cursor)
    if not all(_is_valid(value, types) for value, types in zip(values, kinds, strict=True)):
        raise invalid_cursor(cursor)
    return values


def read_offset(cursor: str | None, maximum: int) -> int:
    """Read a cursor that is the number of entries before a page. Raises `InvalidInput`."""
    if not cursor:
        return 0
    is_number = cursor.isascii() and cursor.isdecimal() and len(cursor) <= len(str(maximum))
    if not is_number or int(cursor) > maximum:
        raise invalid_cursor(cursor)
    return int(cursor)


def invalid_cursor(cursor: str) -> InvalidInput:
    """Make the error for a text that is no cursor of ours."""
    return InvalidInput(
        f"{cursor[:_QUOTED]!r} is not a cursor", "use the cursor of the previous reply, unchanged"
    )


def _is_valid(value: object, types: tuple[type, ...]) -> bool:
    """Return True for a value of one of the types that paths, PostgreSQL and UTF-8 can hold."""
    if type(value) not in types:
        return False
    if isinstance(value, int):
        return 0 <= value <= MAX_NUMBER
    return not isinstance(value, str) or _is_storable(value)


def _is_storable(text: str) -> bool:
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
