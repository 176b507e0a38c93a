"""An embedder that knows its fingerprint from the record of an index, before its server answers.

A file with stored content needs no new vector, and neither does a deleted file. An index is therefore
updated while its model server is down: only new texts wait for the server.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Vectors
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.model import EmbedderPairs

_INTEGERS = ("dimension", "max_tokens")
_BOOLEANS = {"True": True, "False": False}


class OfflineEmbedder:
    """Implements `Embedder` over an embedder that is opened for each call.

    The opened embedder must have the promised fingerprint.
    """

    def __init__(
        self, fingerprint: EmbedderFingerprint, open_embedder: Callable[[], Awaitable[Embedder]]
    ) -> None:
        self.fingerprint = fingerprint
        self._open_embedder = open_embedder

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return await (await self._open_checked()).embed_documents(texts)

    async def embed_query(self, text: str) -> Vectors:
        """See `Embedder`."""
        return await (await self._open_checked()).embed_query(text)

    async def aclose(self) -> None:
        """Do nothing: the embedder is closed by its opener."""

    async def _open_checked(self) -> Embedder:
        embedder = await self._open_embedder()
        if embedder.fingerprint != self.fingerprint:
            raise EmbedderUnavailable(
                f"{embedder.fingerprint} is not what the index was made by, {self.fingerprint}",
                "cocosearchctl reindex NAME",
            )
        return embedder


def fingerprint_from_pairs(pairs: EmbedderPairs) -> EmbedderFingerprint | None:
    """Build the fingerprint with these pairs; None for pairs of another version."""
    values: dict[str, Any] = dict(pairs)
    try:
        values |= {name: int(values[name]) for name in _INTEGERS}
        values["normalised"] = _BOOLEANS[values["normalised"]]
        fingerprint = EmbedderFingerprint(**values)
    except (KeyError, ValueError, TypeError):
        return None
    return fingerprint if fingerprint.pairs() == pairs else None
