"""Reads values that a worker packed with `marshal`, without trust in the worker.

`marshal` allocates room for the announced entries of a list or tuple before it reads the first
entry: five bytes can allocate up to 16 GiB. This module therefore walks the bytes first. No list may
announce more entries than there are bytes left.
"""

import marshal
import struct
from typing import Any

from cocosearchd.sandbox.frames import InvalidFrame

_COUNT = struct.Struct("<i")
_KIND = 0x7F  # the highest bit marks an entry that a later entry may refer to
# Kinds of entries, by the letters of Python/marshal.c: those with a length in four bytes, those
# with a length in one byte, and those of a fixed size.
_TEXTS = frozenset(b"sutaA")
_SHORT_TEXTS = frozenset(b"zZ")
_ROWS = frozenset(b"([")
_SHORT_ROW = ord(")")
_INTEGER = ord("l")
_SIZES = {ord("N"): 0, ord("T"): 0, ord("F"): 0, ord("i"): 4, ord("r"): 4, ord("g"): 8}


def read_values(packed: bytes) -> Any:
    """Return the value: None, numbers, texts, bytes, and lists and tuples of these.

    It takes at most 32 times the memory of `packed`. Raises `InvalidFrame` for anything else.
    """
    try:
        _walk(packed)
        return marshal.loads(packed)  # noqa: S302 - walked
    except (EOFError, IndexError, ValueError, TypeError, struct.error) as error:
        raise InvalidFrame(f"no values: {error}") from error


def _walk(packed: bytes) -> None:
    # Entries are stored in reading order, so one counter of missing entries is enough.
    at = 0
    missing = 1
    end = len(packed)
    while missing:
        missing -= 1
        kind = packed[at] & _KIND
        at += 1
        if (size := _SIZES.get(kind)) is not None:
            at += size
        elif kind in _SHORT_TEXTS:
            at += 1 + packed[at]
        elif kind == _SHORT_ROW:
            missing += packed[at]
            at += 1
        else:
            entries, at = _read_long(kind, packed, at)
            missing += entries
        if missing > end - at:
            raise InvalidFrame("values that have more entries than bytes")
    if at != end:
        raise InvalidFrame("values with trailing bytes")


def _read_long(kind: int, packed: bytes, at: int) -> tuple[int, int]:
    """Return the entry count of an entry with a four-byte length, and the next entry's offset."""
    (count,) = _COUNT.unpack_from(packed, at)
    if kind == _INTEGER:
        return 0, at + 4 + 2 * abs(count)
    if count < 0:
        raise InvalidFrame("values with a negative length")
    if kind in _TEXTS:
        return 0, at + 4 + count
    if kind in _ROWS:
        return count, at + 4
    raise InvalidFrame(f"values of an unknown kind: {kind}")
