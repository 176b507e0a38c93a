"""Packed definitions of a file: kinds, names, signatures and ranges. Pure.

They are stored with the file, so that symbols are listed with their lines without parsing again.
"""

import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import accumulate, product, takewhile
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from cocosearchd.model import Symbol

# Characters of an unpacked table: 20,000 symbols of 200 characters. A file with more is generated;
# its last symbols are not listed.
MAX_TABLE = 4_000_000
# Rows before a line that are searched for definitions around it: half a millisecond.
MAX_SKIPPED = 1_000

# One encoder: `json.dumps` makes one for each call with other separators.
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_VALUES = attrgetter(*(field.name for field in fields(Symbol)))
_HINTS = get_type_hints(Symbol).values()
# The types of the values of a row, with None for those that may be None.
_ROW_TYPES = frozenset(product(*(get_args(hint) or (hint,) for hint in _HINTS)))
# Rows that are read at once: to read a large table at once would hold the interpreter's lock for
# 30 ms, and row by row it takes three times as long.
_BATCH_ROWS = 100


def pack(symbols: Iterable[Symbol]) -> bytes:
    """Pack the symbols of a file, in their order; none are no bytes."""
    text = "\n".join(_first_rows(symbols))
    return zlib.compress(text.encode("ascii"), level=1) if text else b""


def _first_rows(symbols: Iterable[Symbol]) -> Iterator[str]:
    rows = [_ENCODE(_VALUES(symbol)) for symbol in symbols]
    sizes = accumulate(len(row) + 1 for row in rows)
    fitting = takewhile(lambda pair: pair[1] < MAX_TABLE, zip(rows, sizes, strict=True))
    return (row for row, _ in fitting)


def unpack(packed: bytes) -> tuple[Symbol, ...] | None:
    """Unpack symbols; None for bytes that `pack` did not make."""
    try:
        return tuple(_read_symbols(_rows(packed)))
    except (zlib.error, ValueError, TypeError, RecursionError):
        return None


class PackedSymbols:
    """The symbols of a file, unpacked as far as somebody asks for them."""

    def __init__(self, packed: bytes) -> None:
        """`packed` is what `pack` made; of other bytes there are no symbols."""
        self._packed = packed

    def around(self, line: int) -> tuple[Symbol, ...]:
        """Return the definitions around a line, from 1: the innermost first.

        The last of those that begin on one line comes first. Left out are those that more than
        `MAX_SKIPPED` others separate from the line.
        """
        try:
            after = bisect_right(self._rows, line, key=_first_line)
            nearest = self._rows[max(0, after - MAX_SKIPPED) : after]
            return tuple(
                _read_symbols([row for row in reversed(nearest) if _last_line(row) >= line])
            )
        except (zlib.error, ValueError, TypeError, IndexError, RecursionError):
            return ()

    @cached_property
    def _rows(self) -> list[str]:
        return _rows(self._packed)


NO_SYMBOLS = PackedSymbols(b"")


def _rows(packed: bytes) -> list[str]:
    """Return the packed rows, by first line. Raises `zlib.error`, `ValueError`."""
    if not packed:
        return []
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, MAX_TABLE)
    if not unpacker.eof:
        raise ValueError("a table of symbols is cut, or larger than any that is packed")
    return text.decode("ascii").split("\n")


def _first_line(row: str) -> int:
    return int(row.rsplit(",", 2)[1])


def _last_line(row: str) -> int:
    return int(row.rsplit(",", 1)[1].removesuffix("]"))


def _read_symbols(packed_rows: Sequence[str]) -> Iterator[Symbol]:
    for first in range(0, len(packed_rows), _BATCH_ROWS):
        batch = packed_rows[first : first + _BATCH_ROWS]
        rows: list[list[Any]] = json.loads(f"[{','.join(batch)}]")
        if len(rows) != len(batch):
            raise ValueError("a row of symbols is no list")
        for row in rows:
            if tuple(map(type, row)) not in _ROW_TYPES:
                raise ValueError("a value of a symbol has another type")
            yield Symbol(*row)
