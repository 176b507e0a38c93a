"""Caches vectors by their text: in a file for each embedder, or the last vectors in memory.

All indexes share the file: branches, worktrees and copies of a project have the same texts.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from cocosearchd.runtime.disk_cache import DiskCache

Float16Vector = NDArray[np.float16]


def text_key(text: str) -> bytes:
    """Hash a text as it is embedded."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class VectorCache(DiskCache):
    """A disk cache for the vectors of one embedder, float16 of shape (dimension,)."""

    def vectors(self, keys: Sequence[bytes], dimension: int) -> dict[bytes, Float16Vector]:
        """Look up vectors; keys that are not cached are left out."""
        size = dimension * 2
        return {
            key: np.frombuffer(raw, np.float16)
            for key, raw in self.get(keys).items()
            if len(raw) == size
        }

    def put_vectors(self, vectors: Iterable[tuple[bytes, Float16Vector]]) -> None:
        """Cache vectors by key."""
        self.put((key, vector.astype(np.float16).tobytes()) for key, vector in vectors)


class RecentVectors:
    """The vectors of the last texts, for the unchanged chunks of a file that is saved repeatedly."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._vectors: dict[bytes, Float16Vector] = {}

    def vectors(self, keys: Sequence[bytes]) -> dict[bytes, Float16Vector]:
        """Look up vectors; keys that are not cached are left out."""
        cached = {
            key: vector for key in keys if (vector := self._vectors.pop(key, None)) is not None
        }
        self._vectors |= cached
        return cached

    def put_vectors(self, vectors: Mapping[bytes, Float16Vector]) -> None:
        """Cache vectors by key; they replace the least recently used vectors."""
        self._vectors |= vectors
        excess = max(0, len(self._vectors) - self._limit)
        for key in list(islice(self._vectors, excess)):
            del self._vectors[key]
