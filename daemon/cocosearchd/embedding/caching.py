"""An embedder that caches the vectors of documents. See `vector_cache`."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Vectors
from cocosearchd.embedding.vector_cache import Float16Vector, RecentVectors, VectorCache, text_key
from cocosearchd.runtime.disk_cache import remove_file

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReuseCounters:
    """Counters since the start: texts embedded, texts from the cache, contents parsed."""

    computed: int = 0
    reused: int = 0
    parsed: int = 0


class CachingEmbedder:
    """Implements `Embedder` over another one.

    Vectors of documents are cached as float16, as they are stored: on disk, else the last in memory.
    Queries are not cached.
    """

    def __init__(
        self,
        embedder: Embedder,
        cache: VectorCache | None,
        counters: ReuseCounters,
        recent_texts: int = 0,
    ) -> None:
        self._embedder = embedder
        self._cache = cache
        self._recent = RecentVectors(recent_texts)
        self._counters = counters

    @classmethod
    async def create(
        cls,
        embedder: Embedder,
        folder: Path,
        limit_bytes: int,
        counters: ReuseCounters,
        recent_texts: int = 0,
    ) -> "CachingEmbedder":
        """Use the cache file of this embedder in `folder`.

        A limit of 0 bytes removes the file. Without a file, also if it cannot be opened, the vectors
        of the last `recent_texts` texts are cached in memory.
        """
        cache = None
        path = folder / f"{embedder.fingerprint.digest()[:32]}.sqlite"
        if limit_bytes <= 0:
            await asyncio.to_thread(remove_file, path)
        else:
            try:
                cache = await asyncio.to_thread(VectorCache, path, limit_bytes)
            except (OSError, sqlite3.Error) as error:
                log.warning(
                    "vector_cache_not_opened", extra={"path": str(path), "error": str(error)}
                )
        return cls(embedder, cache, counters, recent_texts)

    @property
    def fingerprint(self) -> EmbedderFingerprint:
        """The fingerprint of the embedder below."""
        return self._embedder.fingerprint

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`. Cached vectors have float16 precision."""
        keys = [text_key(text) for text in texts]
        dimension = self.fingerprint.dimension
        cached = self._recent.vectors(keys)
        if self._cache is not None:
            cached = self._cache.vectors(keys, dimension)
        missing = {key: number for number, key in enumerate(keys) if key not in cached}
        if missing:
            computed = await self._embedder.embed_documents(
                [texts[number] for number in missing.values()]
            )
            float16_vectors = dict(zip(missing, computed.astype(np.float16), strict=True))
            self._put(float16_vectors)
            cached |= float16_vectors
        vectors = np.empty((len(texts), dimension), np.float32)
        for number, key in enumerate(keys):
            vectors[number] = cached[key]
        self._counters.computed += len(missing)
        self._counters.reused += len(texts) - len(missing)
        return vectors

    def add_vectors(
        self, make_texts: Callable[[], Sequence[str]], vectors: NDArray[np.float16]
    ) -> None:
        """Cache vectors that the same model computed elsewhere; they count as computed.

        `make_texts` makes their texts; it is called where there is a cache on disk. Call it on the
        event loop.
        """
        if self._cache is not None:
            self._put(dict(zip(map(text_key, make_texts()), vectors, strict=True)))
        self._counters.computed += len(vectors)

    async def embed_query(self, text: str) -> Vectors:
        """See `Embedder`."""
        return await self._embedder.embed_query(text)

    async def aclose(self) -> None:
        """See `Embedder`; pending vectors are written first."""
        if self._cache is not None:
            await self._cache.aclose()
            self._cache = None
        await self._embedder.aclose()

    def _put(self, vectors: dict[bytes, Float16Vector]) -> None:
        # A zero row may be a text that a server refused only this time.
        lasting = {key: vector for key, vector in vectors.items() if vector.any()}
        if self._cache is None:
            self._recent.put_vectors(lasting)
            return
        self._cache.put_vectors(lasting.items())
        self._cache.flush_soon()
