"""An embedder that looks up what it has embedded before. See `vectors`."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Vectors
from cocosearchd.embedding.vector_cache import VectorCache, text_key

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReuseCounters:
    """Since the start: texts embedded by the model and found among those of before; contents that
    were parsed.
    """

    computed: int = 0
    reused: int = 0
    parsed: int = 0


class CachingEmbedder:
    """Implements `Embedder` over another one. Documents are remembered as they are stored, as
    halves; questions not.
    """

    def __init__(
        self, embedder: Embedder, store: VectorCache | None, counters: ReuseCounters
    ) -> None:
        self._embedder, self._store, self._counters = embedder, store, counters

    @classmethod
    async def create(
        cls, embedder: Embedder, folder: Path, limit_bytes: int, counters: ReuseCounters
    ) -> "CachingEmbedder":
        """With a file of this embedder's own in `folder`; without one where there cannot be one, or
        for 0 bytes.
        """
        store = None
        if limit_bytes > 0:
            path = folder / f"{embedder.fingerprint.digest()[:32]}.sqlite"
            try:
                store = await asyncio.to_thread(VectorCache, path, limit_bytes)
            except (OSError, sqlite3.Error) as error:
                log.warning("vectors_not_kept", extra={"path": str(path), "error": str(error)})
        return cls(embedder, store, counters)

    @property
    def fingerprint(self) -> EmbedderFingerprint:
        """Of the embedder."""
        return self._embedder.fingerprint

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder`. What is remembered has the precision of halves."""
        keys = [text_key(text) for text in texts]
        known = self._store.vectors(keys, self.fingerprint.dimension) if self._store else {}
        vectors = np.empty((len(texts), self.fingerprint.dimension), np.float32)
        missing = {key: number for number, key in enumerate(keys) if key not in known}
        if missing:
            made = await self._embedder.embed_documents(
                [texts[number] for number in missing.values()]
            )
            halves = dict(zip(missing, made.astype(np.float16), strict=True))
            self._remember(halves)
            known |= halves
        for number, key in enumerate(keys):
            vectors[number] = known[key]
        self._counters.computed += len(missing)
        self._counters.reused += len(texts) - len(missing)
        return vectors

    def add_vectors(self, texts: Sequence[str], halves: NDArray[np.float16]) -> None:
        """What the same model has made of texts elsewhere; counts as computed. For the event
        loop.
        """
        self._remember(dict(zip(map(text_key, texts), halves, strict=True)))
        self._counters.computed += len(texts)

    async def embed_query(self, text: str) -> Vectors:
        """As `Embedder`."""
        return await self._embedder.embed_query(text)

    async def aclose(self) -> None:
        """As `Embedder`; what was computed is written."""
        if self._store is not None:
            await self._store.aclose()
            self._store = None
        await self._embedder.aclose()

    def _remember(self, halves: dict[bytes, np.ndarray[tuple[int], np.dtype[np.float16]]]) -> None:
        if self._store is None:
            return
        # A zero row may be a text that a server refused today.
        self._store.put_vectors((key, half) for key, half in halves.items() if half.any())
        self._store.flush_soon()
