"""Caches Bloom filters of the files of one index, and finds the files that can contain literals.

A Bloom filter describes the content of a file at one generation. It is used only while the snapshot
has the file at this generation, so no commit has to invalidate it. A file without a Bloom filter is
always read. Losing Bloom filters costs time, not answers.
"""

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.grep.required_literals import Alternatives
from cocosearchd.search.grep.trigram_bloom import trigram_hashes
from cocosearchd.search.lexical.array_types import Mask
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.segments.live_documents import select_live

# Bloom filters of one index: those of some 60,000 files of ten kilobytes
MAX_BLOOM_BYTES = 64 << 20
MAX_TRIGRAMS = 64  # compared trigrams of one literal: the first ones
_HASHES_PER_TRIGRAM = 2  # of `trigram_hashes`


@dataclass(frozen=True, slots=True)
class FileBloom:
    """The Bloom filter of a file's content at a generation of the file."""

    path: str
    generation: int
    bloom: bytes


@dataclass(frozen=True, slots=True)
class BloomTable:
    """Bloom filters of the F live files of a snapshot, concatenated."""

    bits: NDArray[np.uint8]
    starts: NDArray[np.int64]  # (F,): the first byte of each Bloom filter
    index_masks: NDArray[np.int64]  # (F,): the number of bits minus one
    has_bloom: Mask  # (F,): files with a Bloom filter

    def possible_files(self, alternatives: Alternatives) -> Mask:
        """Mark, (F,), the files that can contain all literals of at least one alternative."""
        possible = np.zeros(len(self.has_bloom), np.bool_)
        for literals in alternatives:
            hashes = np.unique(
                np.concatenate(
                    [np.zeros(0, np.uint32), *(_literal_hashes(literal) for literal in literals)]
                )
            )
            possible |= self._files_with(hashes.astype(np.int64))
        return possible | ~self.has_bloom

    def _files_with(self, hashes: NDArray[np.int64]) -> Mask:
        files = np.flatnonzero(self.has_bloom)
        for trigram in hashes:
            numbers = trigram & self.index_masks[files]
            octets = self.bits[self.starts[files] + (numbers >> 3)]
            files = files[(octets >> (numbers & 7).astype(np.uint8)) & 1 == 1]
        mask = np.zeros(len(self.has_bloom), np.bool_)
        mask[files] = True
        return mask


class BloomCache:
    """Bloom filters of one lexical index. For one event loop; `table` may run in a thread."""

    def __init__(self) -> None:
        self._blooms: dict[str, FileBloom] = {}
        self._bytes = 0
        self._version = 0
        # by a weak reference: a replaced snapshot has to free its segments before the next grep
        self._table: tuple[weakref.ref[IndexSnapshot], int, BloomTable] | None = None

    @property
    def full(self) -> bool:
        """True if no more Bloom filters are accepted."""
        return self._bytes >= MAX_BLOOM_BYTES

    def add(self, blooms: Iterable[FileBloom]) -> None:
        """Add Bloom filters; they replace those of earlier generations."""
        for bloom in blooms:
            previous = self._blooms.get(bloom.path)
            self._bytes -= len(previous.bloom) if previous else 0
            self._bytes += len(bloom.bloom)
            self._blooms[bloom.path] = bloom
            self._version += 1

    def table(self, snapshot: IndexSnapshot) -> BloomTable:
        """Return the Bloom filters of the live files of a snapshot.

        The table is cached until the snapshot or the Bloom filters change.
        """
        version = self._version
        cached = self._table
        if cached is not None and cached[0]() is snapshot and cached[1] == version:
            return cached[2]
        live = snapshot.live_documents
        generations = select_live(snapshot.views, [view.generations for view in snapshot.views])
        table = _make_table(self._blooms, live.paths, generations.tolist())
        self._table = (weakref.ref(snapshot), version, table)
        return table

    def retain(self, paths: Sequence[str]) -> None:
        """Drop the Bloom filters of files outside of `paths`, if they are too many."""
        if len(self._blooms) > 2 * len(paths) + 1000:
            live = frozenset(paths)
            self._blooms = {path: value for path, value in self._blooms.items() if path in live}
            self._bytes = sum(len(value.bloom) for value in self._blooms.values())
            self._version += 1


def _make_table(
    blooms: dict[str, FileBloom], paths: Sequence[str], generations: Sequence[int]
) -> BloomTable:
    pieces = list[bytes]()
    for path, generation in zip(paths, generations, strict=True):
        entry = blooms.get(path)
        pieces.append(entry.bloom if entry is not None and entry.generation == generation else b"")
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    return BloomTable(
        bits=np.frombuffer(b"".join(pieces), np.uint8),
        starts=np.cumsum(sizes) - sizes,
        index_masks=sizes * 8 - 1,
        has_bloom=sizes > 0,
    )


def _literal_hashes(literal: str) -> NDArray[np.uint32]:
    """Hash the first trigrams of a literal.

    The whole literal is hashed before: a cut could leave half of a character that has another form
    in the Bloom filters.
    """
    hashes = trigram_hashes(literal.encode("utf-8", "surrogateescape"))
    return hashes.reshape(_HASHES_PER_TRIGRAM, -1)[:, :MAX_TRIGRAMS].ravel()
