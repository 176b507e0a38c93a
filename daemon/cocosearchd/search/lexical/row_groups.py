"""Groups of consecutive rows: the rows of each index in arrays of several indexes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.array_types import Array, Floats, Ints, Mask


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """N rows in G consecutive groups. If there are several groups, none is empty."""

    starts: Ints  # (G,): the first row of each group
    numbers: NDArray[np.int32]  # (N,): the group of each row

    def __len__(self) -> int:
        return len(self.starts)

    def rows(self, number: int) -> slice:
        """Return the rows of a group."""
        end = int(self.starts[number + 1]) if number + 1 < len(self) else len(self.numbers)
        return slice(int(self.starts[number]), end)

    def largest(self, values: Floats) -> Floats:
        """Return the largest value of each group, but at least 0: (G,)."""
        if not len(values):
            return np.zeros(len(self), values.dtype)
        largest: Floats = np.maximum(np.maximum.reduceat(values, self.starts), 0)
        return largest

    def sums(self, values: Array) -> Array:
        """Return the sum of the values of each group: (G,)."""
        if not len(values):
            return np.zeros(len(self), values.dtype)
        sums: Array = np.add.reduceat(values, self.starts)
        return sums

    def counts(self, mask: Mask) -> Ints:
        """Count the marked rows of each group: (G,)."""
        return self.sums(mask.astype(np.int64))

    def spread(self, values: Array) -> Array:
        """Return the value of the group of each row: (N,), or (1,) for a single group."""
        return values if len(self) == 1 else values.take(self.numbers)


def make_groups(counts: Sequence[int] | Ints) -> Groups:
    """Make groups with the given numbers of rows."""
    sizes = np.asarray(counts, np.int64)
    return Groups(np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
