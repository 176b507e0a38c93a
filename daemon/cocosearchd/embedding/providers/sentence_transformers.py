"""Vectors from a sentence-transformers model, by name or directory.

An optional extra, with torch.
"""

import asyncio
import hashlib
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.providers.local_model import LocalEmbedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable

DEFAULT_MODEL = "all-MiniLM-L6-v2"


async def open_sentence_transformers(settings: EmbedderSettings, api_key: str) -> LocalEmbedder:
    """Load the model; the library downloads it at first use.

    Raises `EmbedderUnavailable`, `BadSettings`.
    """
    del api_key
    return await asyncio.to_thread(_load, settings)


def _load(settings: EmbedderSettings) -> LocalEmbedder:
    name = settings.model or DEFAULT_MODEL
    try:
        model = sentence_transformers.SentenceTransformer(
            str(Path(name).expanduser()) if name.startswith("~") else name,
            truncate_dim=settings.dimension or None,
            device="cpu",
            trust_remote_code=False,
        )
    except OSError as error:  # neither on disk nor downloadable
        raise EmbedderUnavailable(
            f"cannot load {name}: {error}", "check the name and the network"
        ) from error
    except ValueError as error:
        raise BadSettings(
            f"{name} is no sentence-transformers model: {error}", "check embedder.model"
        ) from error
    if settings.max_tokens:
        model.max_seq_length = settings.max_tokens
    home = Path(name).expanduser()
    fingerprint = EmbedderFingerprint(
        "sentence-transformers",
        home.name if home.is_dir() else name,
        _digest(home)
        if home.is_dir()
        else str(getattr(model.model_card_data, "base_model_revision", None) or ""),
        encode(model, ["probe"]).shape[1],
        settings.document_prefix or "",
        settings.query_prefix or "",
        _token_limit(model.max_seq_length),
    )
    return LocalEmbedder(partial(encode, model), fingerprint, settings.batch_size)


def encode(model: Any, texts: Sequence[str]) -> Vectors:
    """Encode texts: shape ``(n, d)``."""
    rows = model.encode(list(texts), batch_size=len(texts), show_progress_bar=False)
    return np.asarray(rows, dtype=np.float32)


def _token_limit(tokens: float | None) -> int:
    """Return the limit of tokens; 0: none. Tables of word vectors have infinity."""
    return int(tokens) if tokens and math.isfinite(tokens) else 0


def _digest(home: Path) -> str:
    """Digest every file of a local model: other weights under the same name are another model."""
    digest = hashlib.sha256()
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(home)}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
