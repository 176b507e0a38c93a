"""Signatures of the files of one lexical index, and which files can contain literals

A signature is of the content that a file had at a generation. It is used only while the snapshot
has the file at this generation, so no commit has to invalidate it. Files without a signature can
contain anything. Losing signatures costs time, not answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.grep.required_literals import Alternatives
from cocosearchd.search.grep.trigram_signature import trigram_hashes
from cocosearchd.search.lexical.array_types import Mask
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.segments.live_documents import select_live

MAX_BYTES = 64 << 20  # of the signatures of one index: some 60,000 files of ten kilobytes
MAX_TRIGRAMS = 64  # of one literal that are compared: the first ones


@dataclass(frozen=True, slots=True)
class FileSignature:
    """The signature of a file's content at a generation of the file."""

    path: str
    generation: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class SignatureTable:
    """Signatures of the F live files of a snapshot, concatenated."""

    bits: NDArray[np.uint8]
    starts: NDArray[np.int64]  # (F,): the first byte of each signature
    index_masks: NDArray[np.int64]  # (F,): the number of bits less one
    signed: Mask  # (F,): files with a signature

    def possible_files(self, alternatives: Alternatives) -> Mask:
        """Mark the files that can contain all literals of an alternative, (F,)."""
        possible = np.zeros(len(self.signed), np.bool_)
        for literals in alternatives:
            hashes = np.unique(
                np.concatenate(
                    [np.zeros(0, np.uint32), *(_literal_hashes(literal) for literal in literals)]
                )
            )
            possible |= self._files_with(hashes.astype(np.int64))
        return possible | ~self.signed

    def _files_with(self, hashes: NDArray[np.int64]) -> Mask:
        files = np.flatnonzero(self.signed)
        for trigram in hashes:
            numbers = trigram & self.index_masks[files]
            octets = self.bits[self.starts[files] + (numbers >> 3)]
            files = files[(octets >> (numbers & 7).astype(np.uint8)) & 1 == 1]
        mask = np.zeros(len(self.signed), np.bool_)
        mask[files] = True
        return mask


class SignatureCache:
    """Signatures of one lexical index. For one event loop; `table` may run in a thread."""

    def __init__(self) -> None:
        self._signatures: dict[str, FileSignature] = {}
        self._bytes = 0
        self._version = 0
        self._table: tuple[IndexSnapshot, int, SignatureTable] | None = None

    @property
    def full(self) -> bool:
        """True if no more signatures are accepted."""
        return self._bytes >= MAX_BYTES

    def add(self, signatures: Iterable[FileSignature]) -> None:
        """Add signatures, in place of those of earlier generations."""
        for signature in signatures:
            previous = self._signatures.get(signature.path)
            self._bytes -= len(previous.signature) if previous else 0
            self._bytes += len(signature.signature)
            self._signatures[signature.path] = signature
            self._version += 1

    def table(self, snapshot: IndexSnapshot) -> SignatureTable:
        """Return the signatures of the live files of a snapshot; it is kept until either changes."""
        version = self._version
        cached = self._table
        if cached is not None and cached[0] is snapshot and cached[1] == version:
            return cached[2]
        live = snapshot.live_documents
        generations = select_live(snapshot.views, [view.generations for view in snapshot.views])
        table = _make_table(self._signatures, live.paths, generations.tolist())
        self._table = (snapshot, version, table)
        return table

    def retain(self, paths: Sequence[str]) -> None:
        """Drop the signatures of files that are not among `paths`, if they are too many."""
        if len(self._signatures) > 2 * len(paths) + 1000:
            live = frozenset(paths)
            self._signatures = {
                path: value for path, value in self._signatures.items() if path in live
            }
            self._bytes = sum(len(value.signature) for value in self._signatures.values())
            self._version += 1


def _make_table(
    signatures: dict[str, FileSignature], paths: Sequence[str], generations: Sequence[int]
) -> SignatureTable:
    pieces = list[bytes]()
    for path, generation in zip(paths, generations, strict=True):
        entry = signatures.get(path)
        pieces.append(
            entry.signature if entry is not None and entry.generation == generation else b""
        )
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    return SignatureTable(
        bits=np.frombuffer(b"".join(pieces), np.uint8),
        starts=np.cumsum(sizes) - sizes,
        index_masks=sizes * 8 - 1,
        signed=sizes > 0,
    )


def _literal_hashes(literal: str) -> NDArray[np.uint32]:
    return trigram_hashes(literal.encode("utf-8", "surrogateescape")[: MAX_TRIGRAMS + 2])
