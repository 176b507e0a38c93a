"""Vectors from a local directory with `model.onnx` and `tokenizer.json`. An optional extra."""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
import tokenizers

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.providers.local_model import LocalEmbedder
from cocosearchd.errors import BadSettings
from cocosearchd.runtime.files.home_paths import expand_home

DEFAULT_MAX_TOKENS = 256  # the length that small sentence encoders are trained with


async def open_onnx(settings: EmbedderSettings, api_key: str) -> LocalEmbedder:
    """Load `settings.model`, a directory; its digest is the revision. Raises `BadSettings`."""
    del api_key
    return await asyncio.to_thread(_load, settings)


def _load(settings: EmbedderSettings) -> LocalEmbedder:
    home = expand_home(settings.model)
    files = [home / "model.onnx", home / "tokenizer.json"]
    for path in files:
        if not path.is_file():
            raise BadSettings(
                f"{path} is not there",
                "embedder.model names a directory with model.onnx and tokenizer.json",
            )
    digest = hashlib.sha256(
        b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)
    ).hexdigest()
    max_tokens = settings.max_tokens or DEFAULT_MAX_TOKENS
    tokenizer = tokenizers.Tokenizer.from_file(str(files[1]))
    tokenizer.enable_truncation(max_tokens)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(files[0]), providers=["CPUExecutionProvider"])
    dimension = encode(session, tokenizer, ["probe"]).shape[1]
    fingerprint = EmbedderFingerprint(
        provider="onnx",
        model=home.name,
        revision=digest,
        dimension=dimension,
        document_prefix=settings.document_prefix or "",
        query_prefix=settings.query_prefix or "",
        max_tokens=max_tokens,
    )
    return LocalEmbedder(partial(encode, session, tokenizer), fingerprint, settings.batch_size)


def encode(session: Any, tokenizer: Any, texts: Sequence[str]) -> Vectors:
    """Encode texts: shape ``(n, d)``.

    The result is the model's sentence vectors, or the mean of its token vectors if it gives those.
    """
    encodings = tokenizer.encode_batch(list(texts))
    mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
    inputs = {
        "input_ids": np.array([encoding.ids for encoding in encodings], dtype=np.int64),
        "attention_mask": mask,
        "token_type_ids": np.array([encoding.type_ids for encoding in encodings], dtype=np.int64),
    }
    names = [parameter.name for parameter in session.get_inputs()]
    output = session.run(None, {name: inputs[name] for name in names})[0]
    if output.ndim == 2:
        return np.asarray(output, dtype=np.float32)
    weights = mask[:, :, None].astype(np.float32)
    means: Vectors = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
    return means
