"""Encodes rows of chunks in the binary format of PostgreSQL's COPY (its manual, "COPY"). Pure.

The driver looks up the type of each value, and encodes lists and vectors through objects of their
own. Here the types are known before, which takes a third of the time.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cocosearchd.store.chunks.rows import COPY_TYPES, Row

BLOCK_ROWS = 32  # rows of a block, some 40 kB

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension of the header
_TRAILER = struct.pack(">h", -1)
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_FIELD_COUNT = struct.pack(">h", len(COPY_TYPES))
_INT4 = struct.Struct(">ii")  # length and value
_INT8 = struct.Struct(">iq")
# The header of an array: number of dimensions, a flag for nulls, the oid of the element type; then
# the size and the first index of its only dimension. An empty array has no dimension.
_ARRAY = struct.Struct(">iiIii")
_EMPTY_ARRAY = struct.Struct(">iiI")
_TEXT_OID = 25
_FIRST_INDEX = 1


def encode_copy(rows: Sequence[Row]) -> Iterator[bytes]:
    """Yield the bytes of a COPY of these rows, in blocks."""
    yield _SIGNATURE
    for first in range(0, len(rows), BLOCK_ROWS):
        yield b"".join(map(_encode_row, rows[first : first + BLOCK_ROWS]))
    yield _TRAILER


def _encode_row(row: Row) -> bytes:
    fields = [
        _NULL if value is None else encode(value)
        for encode, value in zip(_ENCODERS, row, strict=True)
    ]
    return _FIELD_COUNT + b"".join(fields)


def _encode_bytes(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _encode_text(value: str) -> bytes:
    return _encode_bytes(value.encode())


def _encode_texts(values: Sequence[str]) -> bytes:
    if not values:
        return _encode_bytes(_EMPTY_ARRAY.pack(0, 0, _TEXT_OID))
    header = _ARRAY.pack(1, 0, _TEXT_OID, len(values), _FIRST_INDEX)
    return _encode_bytes(header + b"".join(map(_encode_text, values)))


def _encode_int4(value: int) -> bytes:
    return _INT4.pack(4, value)


def _encode_int8(value: int) -> bytes:
    return _INT8.pack(8, value)


# By type of a column; a vector is encoded already (`sent_vectors`).
_ENCODER_BY_TYPE: Mapping[str, Callable[[Any], bytes]] = MappingProxyType(
    {
        "text": _encode_text,
        "text[]": _encode_texts,
        "int4": _encode_int4,
        "int8": _encode_int8,
        "bytea": _encode_bytes,
        "halfvec": _encode_bytes,
    }
)
_ENCODERS = tuple(map(_ENCODER_BY_TYPE.__getitem__, COPY_TYPES))
