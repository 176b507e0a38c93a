"""The protocol of embedders, which turn text into vectors."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import EmbedderPairs

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbedderFingerprint:
    """Everything that changes a vector. The way to the model (URL, key) is not part of it."""

    provider: str
    model: str
    revision: str  # digest of the weights, or the provider's substitute for it
    dimension: int
    document_prefix: str = ""
    query_prefix: str = ""
    max_tokens: int = 0  # 0: no limit
    truncation: str = "end"
    normalised: bool = True
    metric: str = "cosine"
    dtype: str = "float16"  # as stored

    def pairs(self) -> EmbedderPairs:
        """Return sorted name-value pairs, all text, for `model.IndexIdentity.embedder`."""
        return tuple(sorted((name, str(value)) for name, value in asdict(self).items()))

    def digest(self) -> str:
        """Return SHA-256 of the canonical JSON of `pairs`, in hexadecimal."""
        return pairs_digest(self.pairs())

    def __str__(self) -> str:
        return f"{self.provider}/{self.model} ({self.dimension}-d, fp {self.digest()[:8]})"


def pairs_digest(pairs: EmbedderPairs) -> str:
    """Compute the digest of a fingerprint with these pairs."""
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


@runtime_checkable
class Pingable(Protocol):
    """An embedder behind a server that can be asked whether it answers."""

    async def ping(self, *, prove: bool) -> bool:
        """Send a request that costs nothing; return True if it proves that texts are embedded.

        `prove`: embed a word, unless that costs money. Raises `errors.EmbedderUnavailable`.
        """


class Embedder(Protocol):
    """Turns texts into L2-normalised float32 vectors. Unknown text gives the zero vector.

    Methods raise `errors.EmbedderUnavailable` when the model cannot be reached; the caller waits
    and tries again.
    """

    @property
    def fingerprint(self) -> EmbedderFingerprint:
        """The fingerprint, known after `open_embedder`; constant for the life of the object."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: shape ``(len(texts), dimension)``, in the order of the texts."""

    async def embed_query(self, text: str) -> Vectors:
        """Embed a query: shape ``(dimension,)``."""

    async def aclose(self) -> None:
        """Release connections. Idempotent."""
