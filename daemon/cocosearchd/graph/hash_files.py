"""Compact arrays that map hashes of names to files: building, searching, merging. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HASH_TYPE = np.dtype("<u4")
# Limit of files per table: file numbers fit into 16 bits, so that a use takes two bytes.
MAX_TABLE_FILES = 1 << 16

_FILE_BITS = np.uint64(16)
_FILE_MASK = np.uint64(MAX_TABLE_FILES - 1)

Numbers = NDArray[np.uint16]
# A hash in the high bits, a file number in the low 16 bits.
Pairs = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class HashFiles:
    """A map from hashes to files.

    The files of `hashes[i]` are `files[starts[i]:starts[i + 1]]`, ascending.
    """

    hashes: NDArray[np.uint32]  # (H,), ascending
    starts: NDArray[np.uint32]  # (H + 1,)
    files: Numbers

    def find(self, hashed: int) -> Numbers:
        """Return the file numbers of a hash."""
        position = int(self.hashes.searchsorted(np.uint32(hashed)))
        if position == len(self.hashes) or self.hashes[position] != hashed:
            return self.files[:0]
        return self.files[self.starts[position] : self.starts[position + 1]]

    def hashes_of(self, file: int) -> NDArray[np.uint32]:
        """Return the hashes of a file, ascending."""
        positions = np.flatnonzero(self.files == file)
        return self.hashes[np.searchsorted(self.starts, positions, side="right") - 1]

    def pairs(self) -> Pairs:
        """Return all pairs of hash and file, ascending."""
        repeated = np.repeat(self.hashes, np.diff(self.starts)).astype(np.uint64)
        return (repeated << _FILE_BITS) | self.files

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.hashes.nbytes + self.starts.nbytes + self.files.nbytes


def build_hash_files(packed: Sequence[bytes]) -> HashFiles:
    """Build a table from the packed hashes (`HASH_TYPE`) of each file, in order."""
    hashes = np.frombuffer(b"".join(packed), HASH_TYPE).astype(np.uint64)
    counts = [len(part) // HASH_TYPE.itemsize for part in packed]
    files = np.repeat(np.arange(len(packed), dtype=np.uint64), counts)
    return _from_pairs((hashes << _FILE_BITS) | files)


def merge_hash_files(tables: Iterable[tuple[HashFiles, NDArray[np.int64]]]) -> HashFiles:
    """Merge tables. Each comes with the new numbers of its files; files with -1 are left out."""
    parts = [np.zeros(0, np.uint64)]
    for table, new_numbers in tables:
        pairs = table.pairs()
        numbers = new_numbers[(pairs & _FILE_MASK).astype(np.int64)]
        hashes = pairs & ~_FILE_MASK
        parts.append(hashes[numbers >= 0] | numbers[numbers >= 0].astype(np.uint64))
    return _from_pairs(np.concatenate(parts))


def first_positions(ascending: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the position of the first number of each run of equal numbers."""
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _from_pairs(pairs: Pairs) -> HashFiles:
    pairs.sort()
    hashes = (pairs >> _FILE_BITS).astype(np.uint32)
    firsts = first_positions(hashes)
    return HashFiles(
        hashes=hashes[firsts],
        starts=np.append(firsts, len(hashes)).astype(np.uint32),
        files=(pairs & _FILE_MASK).astype(np.uint16),
    )
