"""Products of quantised vectors with the vector of a query. Pure.

Rows of int8 are widened to floats a block at a time, and each block is multiplied at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.array_types import Floats, Ints

# Numbers of int8 vectors that are widened at a time: they stay in a core's cache, and below what
# OpenBLAS would share among threads, whose waiting for each other costs 15 times the work on a busy
# machine (measured).
_BLOCK_NUMBERS = 1 << 16
# Rows that are multiplied together: OpenBLAS sums the last few in another order, and equal vectors
# would have cosines that differ by their position.
_ROWS_TOGETHER = 16

Rows = tuple[NDArray[np.int8], Ints]  # a table, and the numbers of its rows


@dataclass(frozen=True, slots=True, eq=False)
class WidenedRows:
    """Rows that every question is compared with, as floats: four times the memory of int8."""

    blocks: tuple[Floats, ...]  # of `_ROWS_TOGETHER` rows or a multiple; none without vectors
    scales: Floats  # (n,): the factor of each row

    def multiply(self, vector: Floats) -> Floats:
        """Multiply the rows with a vector, (n,), as `multiply_rows` does."""
        if not self.blocks or self.blocks[0].shape[1] != len(vector) or not vector.any():
            return _without_products(self.scales)
        products = np.concatenate([np.dot(block, vector) for block in self.blocks])
        return _scale(products[: len(self.scales)], self.scales)


def widen_rows(selections: Sequence[Rows], scales: Floats) -> WidenedRows:
    """Widen the selected rows of tables; `scales` are theirs, (n,)."""
    dimensions = {table.shape[1] for table, _ in selections}
    if len(dimensions) != 1 or 0 in dimensions:
        return WidenedRows((), scales)
    block = _make_block(len(scales), dimensions.pop())
    counts = _fill_blocks(block, selections)
    return WidenedRows(tuple(block[: _round_up_rows(count)].copy() for count in counts), scales)


def multiply_rows(selections: Sequence[Rows], scales: Floats, vector: Floats) -> Floats:
    """Multiply the selected rows of tables with a vector, (n,); NaN for rows of scale 0.

    Exact but for the int8 quantisation of the rows. All are NaN if a table has another dimension.
    """
    if not vector.any() or any(table.shape[1] != len(vector) for table, _ in selections):
        return _without_products(scales)
    products = np.zeros(len(scales), np.float32)
    block = _make_block(len(scales), len(vector))
    position = 0
    for count in _fill_blocks(block, selections):
        products[position : position + count] = np.dot(block[: _round_up_rows(count)], vector)[
            :count
        ]
        position += count
    return _scale(products, scales)


def _scale(products: Floats, scales: Floats) -> Floats:
    products *= scales
    products[scales == 0] = np.nan
    return products


def _without_products(scales: Floats) -> Floats:
    return np.full(len(scales), np.nan, np.float32)


def _make_block(count: int, dimension: int) -> Floats:
    """Make a block for `count` rows, or for as many as are widened at a time."""
    height = max(1, _BLOCK_NUMBERS // dimension // _ROWS_TOGETHER) * _ROWS_TOGETHER
    return np.zeros((min(height, _round_up_rows(count)), dimension), np.float32)


def _round_up_rows(count: int) -> int:
    return -(-count // _ROWS_TOGETHER) * _ROWS_TOGETHER


def _fill_blocks(block: Floats, selections: Sequence[Rows]) -> Iterator[int]:
    """Copy the selected rows to the block, again and again; yield how many rows it has.

    As many are selected at a time as fit into the block: more would leave the core's cache.
    """
    filled = 0
    for table, numbers in selections:
        start = 0
        while start < len(numbers):
            rows = table.take(numbers[start : start + len(block) - filled], axis=0)
            block[filled : filled + len(rows)] = rows
            filled += len(rows)
            start += len(rows)
            if filled == len(block):
                yield filled
                filled = 0
    if filled:
        yield filled
