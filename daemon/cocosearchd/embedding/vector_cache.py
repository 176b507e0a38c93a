"""Vectors by the text they were made of, in one file for each embedder: what was computed once is
not again.

Shared by all indexes: branches, worktrees and copies of a project hold the same texts.
"""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cocosearchd.runtime.disk_cache import DiskCache

Half = NDArray[np.float16]


def text_key(text: str) -> bytes:
    """Of a text as it is embedded."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class VectorCache(DiskCache):
    """Vectors of one embedder, as halves of shape (dimension,)."""

    def vectors(self, keys: Sequence[bytes], dimension: int) -> dict[bytes, Half]:
        """The known ones."""
        size = dimension * 2
        return {
            key: np.frombuffer(raw, np.float16)
            for key, raw in self.get(keys).items()
            if len(raw) == size
        }

    def put_vectors(self, vectors: Iterable[tuple[bytes, Half]]) -> None:
        """Keep vectors."""
        self.put((key, vector.astype(np.float16).tobytes()) for key, vector in vectors)
