"""An embedder whose fingerprint is known before it is reached, from what an index was made by.

A file whose content is stored needs no vector, nor does one that is deleted: an index is kept while
its model server is away, and only texts that are new wait for it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Vectors
from cocosearchd.errors import EmbedderUnavailable

Pairs = tuple[tuple[str, str], ...]
_WHOLE_NUMBERS, _TRUTHS = ("dimension", "max_tokens"), {"True": True, "False": False}


class OfflineEmbedder:
    """Implements `Embedder` over what `open_embedder` gives each time, which must have the promised
    fingerprint.
    """

    def __init__(
        self, fingerprint: EmbedderFingerprint, open_embedder: Callable[[], Awaitable[Embedder]]
    ) -> None:
        self.fingerprint = fingerprint
        self._open_embedder = open_embedder

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder`."""
        return await (await self._opened()).embed_documents(texts)

    async def embed_query(self, text: str) -> Vectors:
        """As `Embedder`."""
        return await (await self._opened()).embed_query(text)

    async def aclose(self) -> None:
        """As `Embedder`: who opens it closes it."""

    async def _opened(self) -> Embedder:
        embedder = await self._open_embedder()
        if embedder.fingerprint != self.fingerprint:
            raise EmbedderUnavailable(
                f"{embedder.fingerprint} is not what the index was made by, {self.fingerprint}",
                "cocosearchctl reindex NAME",
            )
        return embedder


def fingerprint_from_pairs(pairs: Pairs) -> EmbedderFingerprint | None:
    """The fingerprint that has these pairs; None of a version that wrote others."""
    values: dict[str, Any] = dict(pairs)
    try:
        values |= {name: int(values[name]) for name in _WHOLE_NUMBERS}
        values["normalised"] = _TRUTHS[values["normalised"]]
        fingerprint = EmbedderFingerprint(**values)
    except (KeyError, ValueError, TypeError):
        return None
    return fingerprint if fingerprint.pairs() == pairs else None
