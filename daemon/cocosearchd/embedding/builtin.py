"""The embedder that works everywhere at once: no download, no service, NumPy only.

Temporarily it hashes words and their trigrams; the trained model takes its place behind the same class.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.tokens import words
from cocosearchd.settings import EmbedderSettings

DIMENSION = 256


class BuiltinEmbedder:
    """Hashed words. All methods are synchronous underneath and never fail."""

    def __init__(self) -> None:
        self.fingerprint = EmbedderFingerprint("builtin", "hashed", "0", DIMENSION)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `base.Embedder`."""
        return encode(texts)

    async def embed_query(self, text: str) -> Vectors:
        """See `base.Embedder`."""
        row: Vectors = encode([text])[0]
        return row

    async def aclose(self) -> None:
        """Nothing is held."""


async def open_builtin(settings: EmbedderSettings, api_key: str) -> BuiltinEmbedder:
    """The model takes no settings and no key; the parameters are those of every provider."""
    del settings, api_key
    return BuiltinEmbedder()


def encode(texts: Sequence[str]) -> Vectors:
    """Shape ``(len(texts), 256)``, L2-normalised rows; a text without words gives a zero row."""
    vectors = np.zeros((len(texts), DIMENSION), dtype=np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in words(text):
            for part in (word, *(word[i : i + 3] for i in range(len(word) - 2))):
                code = crc32(part.encode())
                row[code % DIMENSION] += 1.0 if code & 0x10000 else -1.0
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    normalised: Vectors = vectors / np.maximum(lengths, 1e-12)
    return normalised
