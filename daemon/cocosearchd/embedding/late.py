"""An embedder that may not be there yet: opened at first use, and again after a pause when it could not be.

The daemon starts, watches and finds words while a model server is down; it becomes whole by itself.
"""

import time
from collections.abc import Awaitable, Callable, Sequence

import anyio

from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Vectors
from cocosearchd.errors import EmbedderUnavailable

# A question that meets a dead server must not wait for its time-out again and again.
RETRY_S = 2.0


class LateEmbedder:
    """Implements `Embedder` over `open_it`. `fingerprint` raises `EmbedderUnavailable` until the first success."""

    def __init__(self, open_it: Callable[[], Awaitable[Embedder]]) -> None:
        self._open_it = open_it
        self._embedder: Embedder | None = None
        self._error = EmbedderUnavailable("the embedder has not been opened yet")
        self._tried_at = -RETRY_S
        self._opening = anyio.Lock()

    @property
    def error(self) -> EmbedderUnavailable | None:
        """Why it is not there; None when it is."""
        return self._error if self._embedder is None else None

    @property
    def fingerprint(self) -> EmbedderFingerprint:
        """Of the opened embedder."""
        if self._embedder is None:
            raise self._error
        return self._embedder.fingerprint

    async def opened(self) -> Embedder:
        """The embedder, opened now if need be. Raises `EmbedderUnavailable`, at once within `RETRY_S` of a failure."""
        async with self._opening:
            if self._embedder is None:
                if time.monotonic() - self._tried_at < RETRY_S:
                    raise self._error
                try:
                    self._embedder = await self._open_it()
                except EmbedderUnavailable as error:
                    self._error, self._tried_at = error, time.monotonic()
                    raise
            return self._embedder

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder`."""
        return await (await self.opened()).embed_documents(texts)

    async def embed_query(self, text: str) -> Vectors:
        """As `Embedder`."""
        return await (await self.opened()).embed_query(text)

    async def aclose(self) -> None:
        """As `Embedder`."""
        if self._embedder is not None:
            await self._embedder.aclose()
