"""Types of arrays that searches compute with, and the concatenation of any number of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Array = NDArray[Any]  # of any type


def concatenate(arrays: Sequence[Array], kind: type) -> Array:
    """Concatenate arrays to one of a type; without arrays it is empty."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.zeros(0, kind)
