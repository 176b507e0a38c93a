"""Embeds many texts in batches; a bad text loses only its own vector."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from cocosearchd.embedding.base import Vectors
from cocosearchd.errors import EmbedderUnavailable

log = logging.getLogger(__name__)

# In characters. A refused text below this length is not cut further: its length is not the cause.
SHORTEST_CUT = 400
PROBE = "probe"

# Embeds texts into one row each. Raises `BatchRefused` if the list as a whole is refused,
# `EmbedderUnavailable` if any text would be refused.
EmbedBatch = Callable[[Sequence[str]], Awaitable[Vectors]]


class BatchRefused(Exception):
    """The model refused this list of texts; a part of it may still be accepted."""


async def embed_all(
    texts: Sequence[str], dimension: int, batch_size: int, embed: EmbedBatch
) -> Vectors:
    """Embed texts: shape ``(len(texts), dimension)``, L2-normalised.

    A blank text gets a zero row, and so does a text that is refused alone. Raises
    `EmbedderUnavailable` if not even a harmless text is accepted.
    """
    vectors = np.zeros((len(texts), dimension), dtype=np.float32)
    nonblank = [number for number, text in enumerate(texts) if text.strip()]
    for start in range(0, len(nonblank), max(1, batch_size)):
        numbers = nonblank[start : start + max(1, batch_size)]
        vectors[numbers] = await _embed_or_split(
            [texts[number] for number in numbers], dimension, embed
        )
    return normalise(vectors)


async def embed_by_length(
    texts: Sequence[str], dimension: int, batch_size: int, embed: EmbedBatch
) -> Vectors:
    """Embed texts as `embed_all` does, in batches of similar length.

    In a local model, each text of a batch takes as much time as the longest text of the batch.
    """
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    vectors = np.empty((len(texts), dimension), dtype=np.float32)
    vectors[order] = await embed_all(
        [texts[number] for number in order], dimension, batch_size, embed
    )
    return vectors


async def _embed_or_split(texts: list[str], dimension: int, embed: EmbedBatch) -> Vectors:
    try:
        return check_vectors(await embed(texts), len(texts), dimension)
    except BatchRefused as refusal:
        await _require_harmless_text(dimension, embed, refusal)
        if len(texts) == 1:
            return await _embed_shorter(texts[0], dimension, embed, refusal)
    half = len(texts) // 2
    first = await _embed_or_split(texts[:half], dimension, embed)
    return np.concatenate([first, await _embed_or_split(texts[half:], dimension, embed)])


async def _require_harmless_text(dimension: int, embed: EmbedBatch, refusal: BatchRefused) -> None:
    """Raise `EmbedderUnavailable` if not even a harmless text is accepted.

    Without this check, every text would lose its vector if the model is out of order.
    """
    try:
        check_vectors(await embed([PROBE]), 1, dimension)
    except BatchRefused as probe_refusal:
        raise EmbedderUnavailable(
            f"the embedding model refuses every text: {probe_refusal}",
            "see the log of its server, or name another model",
        ) from refusal


async def _embed_shorter(
    text: str, dimension: int, embed: EmbedBatch, refusal: BatchRefused
) -> Vectors:
    """Embed the longest accepted part of a refused text: its first half, quarter and so on.

    A short text that is refused gets a zero row.
    """
    while len(text) > SHORTEST_CUT:
        text = text[: len(text) // 2]
        try:
            return check_vectors(await embed([text]), 1, dimension)
        except BatchRefused as shorter_refusal:
            refusal = shorter_refusal
    log.warning("text_not_embedded", extra={"reason": str(refusal), "characters": len(text)})
    return np.zeros((1, dimension), dtype=np.float32)


def check_vectors(vectors: Vectors, count: int, dimension: int) -> Vectors:
    """Return the vectors if their shape is right and all values are finite.

    Raises `EmbedderUnavailable` for another shape, `BatchRefused` for values that are no numbers.
    """
    if vectors.shape != (count, dimension):
        raise EmbedderUnavailable(
            f"asked for {count} vectors of {dimension} dimensions, got an array of {vectors.shape}",
            "the model behind the name has changed: reopen the index or name the previous model",
        )
    if not np.isfinite(vectors).all():
        raise BatchRefused("a vector with values that are not numbers")
    return vectors


def normalise(vectors: Vectors) -> Vectors:
    """Scale rows to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    rows: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return rows
