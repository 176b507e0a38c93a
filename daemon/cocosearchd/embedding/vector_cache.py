"""Caches vectors by their text, in a file for each embedder.

All indexes share it: branches, worktrees and copies of a project have the same texts.
"""

import hashlib
from collections.abc import Iterable, Sequence

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
