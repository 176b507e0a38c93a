"""Converts vectors to and from the binary format of pgvector (`halfvec_send`). Pure.

The format is the number of dimensions and an unused word, 16 bits each, then half floats; all are
big-endian.

All vectors of a file are converted at once: an object for each would cost more than the rest.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER = np.dtype(">u2")
_HALF = np.dtype(">f2")
_HEADER_FIELDS = 2


def sent_size(dimension: int) -> int:
    """Return the bytes of a sent vector."""
    return (_HEADER_FIELDS + dimension) * _HALF.itemsize


def encode_vectors(vectors: NDArray[np.float16]) -> list[bytes | None]:
    """Encode rows, shape (count, dimension). A zero row is None, which is stored as null."""
    count, dimension = vectors.shape
    size = sent_size(dimension)
    header = np.array([dimension, 0], _HEADER).tobytes()
    halves = vectors.astype(_HALF).tobytes()
    body = size - len(header)
    has_vector: Any = vectors.any(axis=-1).tolist()
    return [
        header + halves[number * body : (number + 1) * body] if has_vector[number] else None
        for number in range(count)
    ]


def decode_vectors(sent: Iterable[bytes | None], dimension: int) -> NDArray[np.float32]:
    """Decode vectors to shape (count, dimension); None gives a zero row."""
    missing = bytes(sent_size(dimension))
    raw = b"".join([vector or missing for vector in sent])
    fields = np.frombuffer(raw, _HALF).reshape(-1, _HEADER_FIELDS + dimension)
    return fields[:, _HEADER_FIELDS:].astype(np.float32)


def vector_text(sent: bytes, texts: list[str]) -> str:
    """Write a sent vector as text; `texts` are those of all half floats, by their bits."""
    bits = np.frombuffer(sent, _HEADER)[_HEADER_FIELDS:].tolist()
    return "[" + ",".join(map(texts.__getitem__, bits)) + "]"
