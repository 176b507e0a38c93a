"""The embedder that works everywhere at once: no download, no service, NumPy only.

See `data/MODEL_CARD.md`.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.providers.static_model import Encoder, load

DATA = Path(__file__).resolve().parent / "data"
NAME = "static_v2"


class BuiltinEmbedder:
    """The shipped model. Made by `open_builtin`; for one thread, like `Encoder`."""

    def __init__(self) -> None:
        model = load(DATA, NAME)
        self.fingerprint = EmbedderFingerprint(
            "builtin", model.version, model.sha256[:16], model.dimension
        )
        self._encoder = Encoder(model)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `base.Embedder`.

        Blocks for about 0.1 ms of CPU per kilobyte: less than a thread costs.
        """
        return self.documents(texts)

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Embed as `embed_documents`, without an event loop."""
        return self._encoder.documents(texts)

    async def embed_query(self, text: str) -> Vectors:
        """See `base.Embedder`.

        All words of a query have equal weights; in a document, words of the header weigh more.
        """
        row: Vectors = self._encoder.queries([text])[0]
        return row

    async def aclose(self) -> None:
        """Do nothing: the mapped file is closed with the object."""


def version() -> str:
    """Return the name of the shipped model, as in fingerprints."""
    return str(json.loads((DATA / f"{NAME}.json").read_text("utf-8"))["version"])


async def open_builtin(settings: EmbedderSettings, api_key: str) -> BuiltinEmbedder:
    """Open the shipped model. It takes no settings and no key; the parameters are the same for all.

    Raises `EmbedderUnavailable` when the installation is damaged.
    """
    del settings, api_key
    return BuiltinEmbedder()
