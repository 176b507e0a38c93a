"""Values that a worker has packed with `marshal`, read without trust in it.

`marshal` makes room for as many entries as a list or tuple says it has before it reads the first:
for five bytes that is up to 16 GiB. So what is read is walked first: nothing may say that it has
more entries than there are bytes left.
"""

import marshal
import struct
from typing import Any

from cocosearchd.sandbox.frames import InvalidFrame

_COUNT = struct.Struct("<i")
_KIND = 0x7F  # the highest bit says that a later entry may refer to this one
# Kinds of entries, by the letters of Python/marshal.c: with a length in four bytes, in one, or
# always of one size.
_TEXTS, _SHORT_TEXTS = frozenset(b"sutaA"), frozenset(b"zZ")
_ROWS, _SHORT_ROW, _INTEGER = frozenset(b"(["), ord(")"), ord("l")
_SIZES = {ord("N"): 0, ord("T"): 0, ord("F"): 0, ord("i"): 4, ord("r"): 4, ord("g"): 8}


def read_values(packed: bytes) -> Any:
    """Return the value: None, numbers, texts, bytes, and lists and tuples of these. Raises
    `InvalidFrame` for anything else.

    It takes at most 32 times the memory of what is packed.
    """
    try:
        _walk(packed)
        return marshal.loads(packed)  # noqa: S302 - walked
    except (EOFError, IndexError, ValueError, TypeError, struct.error) as error:
        raise InvalidFrame(f"no values: {error}") from error


def _walk(packed: bytes) -> None:
    # entries are in the order in which they are read: one number says how many
    at, missing, end = 0, 1, len(packed)
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
            more, at = _long(kind, packed, at)
            missing += more
        if missing > end - at:
            raise InvalidFrame("values that have more entries than bytes")
    if at != end:
        raise InvalidFrame("values with something behind them")


def _long(kind: int, packed: bytes, at: int) -> tuple[int, int]:
    """The entries that an entry with a length in four bytes has, and where the next one begins."""
    (count,) = _COUNT.unpack_from(packed, at)
    if kind == _INTEGER:
        return 0, at + 4 + 2 * abs(count)
    if count < 0:
        raise InvalidFrame("values with a length below zero")
    if kind in _TEXTS:
        return 0, at + 4 + count
    if kind in _ROWS:
        return count, at + 4
    raise InvalidFrame(f"values of an unknown kind: {kind}")
