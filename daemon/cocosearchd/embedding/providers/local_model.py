"""Vectors from a model in this process, with any library."""

import asyncio
from collections.abc import Callable, Sequence

from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.batching import embed_by_length


class LocalEmbedder:
    """A loaded model. Blocking work runs in threads."""

    def __init__(
        self,
        encode: Callable[[list[str]], Vectors],
        fingerprint: EmbedderFingerprint,
        batch_size: int,
    ) -> None:
        """`encode` turns up to `batch_size` texts into rows of ``(n, fingerprint.dimension)``."""
        self.fingerprint = fingerprint
        self._encode = encode
        self._batch_size = batch_size

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `base.Embedder`."""
        return await self._embed(texts, self.fingerprint.document_prefix)

    async def embed_query(self, text: str) -> Vectors:
        """See `base.Embedder`."""
        row: Vectors = (await self._embed([text], self.fingerprint.query_prefix))[0]
        return row

    async def aclose(self) -> None:
        """Do nothing: the memory is freed with the object."""

    async def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        async def embed(batch: Sequence[str]) -> Vectors:
            return await asyncio.to_thread(self._encode, [prefix + text for text in batch])

        return await embed_by_length(texts, self.fingerprint.dimension, self._batch_size, embed)
