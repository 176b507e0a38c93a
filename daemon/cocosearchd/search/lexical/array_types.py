"""Array types for searches, and a concatenation that also accepts no arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Array = NDArray[Any]  # of any type


def concatenate(arrays: Sequence[Array], kind: type) -> Array:
    """Concatenate arrays into one array of a type; empty without arrays."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.zeros(0, kind)


def mark_changes(values: Array) -> Mask:
    """Mark the first of N values, and each that differs from the one before it, (N,)."""
    marks = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=marks[1:])
    return marks


def join_ranges(starts: Ints, counts: Ints) -> Ints:
    """Join ranges of numbers, each from its start, of so many numbers, in their order."""
    offsets = np.cumsum(counts) - counts
    numbers: Ints = np.arange(int(counts.sum())) + np.repeat(starts - offsets, counts)
    return numbers
