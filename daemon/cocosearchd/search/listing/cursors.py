"""Reads and checks cursors of pages: JSON lists that a client returns, and may forge. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cocosearchd.errors import InvalidInput

# Characters of a cursor. A path has at most 4,096 bytes, and JSON writes a byte that is not UTF-8
# as six characters.
MAX_CURSOR = 32_768
MAX_NUMBER = 2**31 - 1  # lines, bytes and columns are smaller
MAX_GENERATION = 2**63 - 1  # of a `bigint`: each loss of commits adds 2^32
_SHIFTED = (
    "files have changed since the earlier page: entries may be missing or repeated; ask again without"
    " the cursor"
)
_QUOTED = 60  # characters of a cursor that an error quotes


def read_cursor(cursor: str, kinds: Sequence[tuple[type, ...]]) -> list[Any]:
    """Read the values of a cursor. Raises `InvalidInput`.

    `kinds` has for each value its allowed types.
    """
    values = _parse(cursor, len(kinds))
    if not all(map(_is_valid, values, kinds)):
        raise invalid_cursor(cursor)
    return values


def read_page_cursor(cursor: str, kinds: Sequence[tuple[type, ...]]) -> tuple[list[Any], int]:
    """Read the values of a cursor, and the generation behind them. Raises `InvalidInput`."""
    *values, generation = _parse(cursor, len(kinds) + 1)
    is_generation = type(generation) is int and 0 <= generation <= MAX_GENERATION
    if not is_generation or not all(map(_is_valid, values, kinds)):
        raise invalid_cursor(cursor)
    return values, generation


@dataclass(frozen=True, slots=True)
class PageStart:
    """The beginning of a page: the number of entries before it, and the generation they had.

    `generation` is None for the first page, and in cursors of earlier versions.
    """

    offset: int = 0
    generation: int | None = None

    def shift_notes(self, generation: int) -> tuple[str, ...]:
        """Return a note if entries may have moved between pages: a list is made anew for each."""
        return shift_notes(self.generation, generation)


def shift_notes(earlier: int | None, generation: int) -> tuple[str, ...]:
    """Return a note if the generation is not the one of the earlier page; None is any generation."""
    return () if earlier in (None, generation) else (_SHIFTED,)


def read_page_start(cursor: str | None, maximum: int) -> PageStart:
    """Read a cursor of `write_page_start`, or a plain number. Raises `InvalidInput`."""
    if not cursor:
        return PageStart()
    if cursor.startswith("["):
        (offset,), generation = read_page_cursor(cursor, ((int,),))
        start = PageStart(offset, generation)
    elif cursor.isascii() and cursor.isdecimal() and len(cursor) <= len(str(maximum)):
        start = PageStart(int(cursor))
    else:
        raise invalid_cursor(cursor)
    if start.offset > maximum:
        raise invalid_cursor(cursor)
    return start


def write_page_start(offset: int, generation: int) -> str:
    """Return the cursor of the page after `offset` entries."""
    return json.dumps([offset, generation])


def invalid_cursor(cursor: str) -> InvalidInput:
    """Make the error for a text that is not a valid cursor."""
    return InvalidInput(
        f"{cursor[:_QUOTED]!r} is not a cursor", "use the cursor of the previous reply, unchanged"
    )


def _parse(cursor: str, count: int) -> list[Any]:
    """Return the values of a cursor, which has `count` values. Raises `InvalidInput`."""
    try:
        values = json.loads(cursor) if len(cursor) <= MAX_CURSOR else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != count:
        raise invalid_cursor(cursor)
    return values


def _is_valid(value: object, types: tuple[type, ...]) -> bool:
    """Return True if a value has one of the types, and paths, PostgreSQL and UTF-8 can hold it."""
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
