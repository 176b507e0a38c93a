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
from cocosearchd.runtime.files.home_paths import expand_home

DEFAULT_MODEL = "all-MiniLM-L6-v2"


async def open_sentence_transformers(settings: EmbedderSettings, api_key: str) -> LocalEmbedder:
    """Load the model; the library downloads it at first use.

    Raises `EmbedderUnavailable`, `BadSettings`.
    """
    del api_key
    return await asyncio.to_thread(_load, settings)


def _load(settings: EmbedderSettings) -> LocalEmbedder:
    name = settings.model or DEFAULT_MODEL
    model = _open_model(name, settings)
    directory = expand_home(name)
    revision = str(getattr(model.model_card_data, "base_model_revision", None) or "")
    if directory.is_dir():
        name = directory.name
        revision = _digest(directory)
    fingerprint = EmbedderFingerprint(
        provider="sentence-transformers",
        model=name,
        revision=revision,
        dimension=encode(model, ["probe"]).shape[1],
        document_prefix=settings.document_prefix or "",
        query_prefix=settings.query_prefix or "",
        max_tokens=_token_limit(model.max_seq_length),
    )
    return LocalEmbedder(partial(encode, model), fingerprint, settings.batch_size)


def _open_model(name: str, settings: EmbedderSettings) -> Any:
    """Open a model by name or directory. Raises `EmbedderUnavailable`, `BadSettings`."""
    try:
        model = sentence_transformers.SentenceTransformer(
            str(expand_home(name)) if name.startswith("~") else name,
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
    return model


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
