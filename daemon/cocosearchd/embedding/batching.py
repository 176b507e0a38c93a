"""Many texts through a model that takes some at a time, so that one bad text costs its own vector
and no other.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from cocosearchd.embedding.base import Vectors
from cocosearchd.errors import EmbedderUnavailable

logger = logging.getLogger(__name__)

# Texts below this many characters are not cut further when a server refuses them: their length is
# not the reason.
SHORTEST_CUT = 400
PROBE = "probe"

# Takes texts, gives a vector each. Raises `BatchRefused` for the whole list, `EmbedderUnavailable`
# if nothing would pass.
EmbedBatch = Callable[[Sequence[str]], Awaitable[Vectors]]


class BatchRefused(Exception):
    """The model answered, and not with vectors of this list of texts; a part of it may still
    pass.
    """


async def embed_all(
    texts: Sequence[str], dimension: int, batch_size: int, ask: EmbedBatch
) -> Vectors:
    """Shape ``(len(texts), dimension)``, L2-normalised. A blank text, or one that is refused alone,
    gets a zero row.

    Raises `EmbedderUnavailable` when not even a harmless text passes.
    """
    vectors = np.zeros((len(texts), dimension), dtype=np.float32)
    asked = [number for number, text in enumerate(texts) if text.strip()]
    for start in range(0, len(asked), max(1, batch_size)):
        numbers = asked[start : start + max(1, batch_size)]
        vectors[numbers] = await _ask_or_split(
            [texts[number] for number in numbers], dimension, ask
        )
    return normalise(vectors)


async def embed_by_length(
    texts: Sequence[str], dimension: int, batch_size: int, ask: EmbedBatch
) -> Vectors:
    """As `embed_all`, in batches of like length: each text of a batch costs a local model as much
    as its longest.
    """
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    vectors = np.empty((len(texts), dimension), dtype=np.float32)
    vectors[order] = await embed_all(
        [texts[number] for number in order], dimension, batch_size, ask
    )
    return vectors


async def _ask_or_split(texts: list[str], dimension: int, ask: EmbedBatch) -> Vectors:
    try:
        return check_vectors(await ask(texts), len(texts), dimension)
    except BatchRefused as refusal:
        await _require_life(dimension, ask, refusal)
        if len(texts) == 1:
            return await _ask_shorter(texts[0], dimension, ask, refusal)
    half = len(texts) // 2
    first = await _ask_or_split(texts[:half], dimension, ask)
    return np.concatenate([first, await _ask_or_split(texts[half:], dimension, ask)])


async def _require_life(dimension: int, ask: EmbedBatch, refusal: BatchRefused) -> None:
    """What refuses everything is out of order, not choosy: without this each text would be given up
    one by one.
    """
    try:
        check_vectors(await ask([PROBE]), 1, dimension)
    except BatchRefused as again:
        raise EmbedderUnavailable(
            f"the embedding model refuses every text: {again}",
            "see the log of its server, or name another model",
        ) from refusal


async def _ask_shorter(
    text: str, dimension: int, ask: EmbedBatch, refusal: BatchRefused
) -> Vectors:
    """The vector of the longest passing half, quarter, … of a refused text; a zero row if a short
    one is refused.
    """
    while len(text) > SHORTEST_CUT:
        text = text[: len(text) // 2]
        try:
            return check_vectors(await ask([text]), 1, dimension)
        except BatchRefused as again:
            refusal = again
    logger.warning("text_not_embedded", extra={"reason": str(refusal), "characters": len(text)})
    return np.zeros((1, dimension), dtype=np.float32)


def check_vectors(vectors: Vectors, count: int, dimension: int) -> Vectors:
    """The vectors, if there are as many and as long as promised and all finite. Raises
    `EmbedderUnavailable`.
    """
    if vectors.shape != (count, dimension):
        raise EmbedderUnavailable(
            f"asked for {count} vectors of {dimension} dimensions, got an array of {vectors.shape}",
            "the model behind the name has changed: reopen the index or name the former model",
        )
    if not np.isfinite(vectors).all():
        raise BatchRefused("a vector with values that are not numbers")
    return vectors


def normalise(vectors: Vectors) -> Vectors:
    """Rows of length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    rows: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return rows
