"""Packed definitions of a file: kinds, names, signatures and ranges. Pure.

They are stored with the file, so that symbols are listed with their lines without parsing again.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import accumulate, takewhile
from operator import attrgetter
from typing import Any

from cocosearchd.model import Symbol

# Characters of an unpacked table: 20,000 symbols of 200 characters. A file with more is generated;
# its last symbols are not listed.
MAX_TABLE = 4_000_000

_VALUES = attrgetter(*(field.name for field in fields(Symbol)))
_TYPES: tuple[type | tuple[type, ...], ...] = (
    str,
    str,
    str,
    str,
    (str, type(None)),
    int,
    int,
    int,
    int,
)


def pack(symbols: Iterable[Symbol]) -> bytes:
    """Pack the symbols of a file, in their order; none are no bytes."""
    text = "\n".join(_first_rows(symbols))
    return zlib.compress(text.encode("ascii"), level=1) if text else b""


def _first_rows(symbols: Iterable[Symbol]) -> Iterator[str]:
    rows = [json.dumps(_VALUES(symbol), separators=(",", ":")) for symbol in symbols]
    sizes = accumulate(len(row) + 1 for row in rows)
    fitting = takewhile(lambda pair: pair[1] < MAX_TABLE, zip(rows, sizes, strict=True))
    return (row for row, _ in fitting)


def unpack(packed: bytes) -> tuple[Symbol, ...] | None:
    """Unpack symbols; None for bytes that `pack` did not make."""
    if not packed:
        return ()
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(packed, MAX_TABLE)
        # Row by row: to read a large table at once would hold the interpreter's lock for 30 ms.
        rows = text.decode("ascii").split("\n")
        return tuple(map(_read_symbol, rows)) if unpacker.eof else None
    except (zlib.error, ValueError, TypeError, RecursionError):
        return None


def _read_symbol(packed_row: str) -> Symbol:
    row: Sequence[Any] = json.loads(packed_row)
    if not all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
        raise ValueError("a value of a symbol has another type")
    return Symbol(*row)
