"""Packs hashes of the names that a file defines and uses, to find the files of a name. Pure.

The hashes are stored with the file, so that the names of a whole index are read without its facts.
Two names may have the same hash: where that matters, readers compare the names themselves.
"""

import struct
import zlib
from collections.abc import Iterable

HASH_BYTES = 4
# Limit of names of each kind: a file with 100,000 names costs as much as 500 usual files.
MAX_NAMES = 1 << 16

_COUNT = struct.Struct("<I")


def hash_name(name: str) -> int:
    """Return the 32-bit hash of a name: the CRC-32 of its UTF-8 bytes."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass"))


def pack(defined: Iterable[str], used: Iterable[bytes]) -> bytes:
    """Pack hashes: the count of defined names, their hashes, then those of used names (UTF-8).

    All are little-endian 32-bit numbers. Both lists ascend, without repetition.
    """
    defined_hashes = sorted(set(map(hash_name, defined)))[:MAX_NAMES]
    used_hashes = sorted(set(map(zlib.crc32, used)))[:MAX_NAMES]
    numbers = (*defined_hashes, *used_hashes)
    return _COUNT.pack(len(defined_hashes)) + struct.pack(f"<{len(numbers)}I", *numbers)


def split(packed: bytes) -> tuple[bytes, bytes]:
    """Split packed hashes into the hashes of defined names and those of used names.

    Empty input has two empty parts. Raises `ValueError` for bytes that `pack` did not make.
    """
    if not packed:
        return b"", b""
    if len(packed) % HASH_BYTES:
        raise ValueError("hashes of names have another size")
    end = HASH_BYTES * (1 + _COUNT.unpack_from(packed)[0])
    if end > len(packed):
        raise ValueError("hashes of names end early")
    return packed[HASH_BYTES:end], packed[end:]
