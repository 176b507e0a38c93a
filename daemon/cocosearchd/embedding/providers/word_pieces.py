"""Numbers the pieces of many words together, as `word_tokens.pieces` does for one word.

All pieces share a few operations of NumPy. Separate pieces would cost steps of the interpreter each.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.providers.word_tokens import LONGEST_WORD, PIECE_LENGTHS

Numbers = NDArray[np.int64]

_MASK = 0xFFFFFFFF
_POLYNOMIAL = 0xEDB88320  # CRC-32 of RFC 1952, bits reversed
BATCH_WORDS = 512  # with more, the states of the checksums leave a core's cache


def number_pieces(words: Sequence[str], buckets: int) -> tuple[Numbers, Numbers]:
    """Return the numbers of the pieces, word after word, and the number of pieces of each word.

    `BATCH_WORDS` words at a time are fastest.
    """
    marked = [f"<{word[:LONGEST_WORD]}>" for word in words]
    raw = np.frombuffer("".join(marked).encode(), np.uint8)
    lengths = np.array([len(text) for text in marked], np.int64)
    word_of = np.repeat(np.arange(len(marked)), lengths)
    # byte offset of each character, and of the end
    offsets = np.append(np.flatnonzero((raw & 0xC0) != 0x80), len(raw))
    ends = np.cumsum(lengths)[word_of]
    starts = [np.flatnonzero(np.arange(len(word_of)) + size <= ends) for size in PIECE_LENGTHS]
    flat_starts = np.concatenate(starts)
    counts = [len(starts_of_size) for starts_of_size in starts]
    sizes = np.repeat(np.array(PIECE_LENGTHS), counts)
    by_word_and_size = word_of[flat_starts] * len(starts) + np.repeat(
        np.arange(len(starts)), counts
    )
    order = np.argsort(by_word_and_size, kind="stable")
    byte_counts = offsets[flat_starts + sizes] - offsets[flat_starts]
    checksums = _checksums(raw, offsets[:-1], int(byte_counts.max(initial=0)))
    numbers = checksums[byte_counts, flat_starts].astype(np.int64) % buckets
    return numbers[order], np.bincount(word_of[flat_starts], minlength=len(words))


def _checksums(raw: NDArray[np.uint8], starts: Numbers, longest: int) -> NDArray[np.uint32]:
    """Return the CRC-32 of the n bytes from each start on, shape (longest + 1, starts)."""
    padded = np.append(raw, np.zeros(longest, np.uint8))
    states = np.empty((longest + 1, len(starts)), np.uint32)
    states[0] = _MASK
    for count in range(longest):
        low = (states[count] ^ padded[starts + count]) & 0xFF
        np.bitwise_xor(_TABLE[low], states[count] >> 8, out=states[count + 1])
    return states ^ np.uint32(_MASK)


def _make_table() -> NDArray[np.uint32]:
    """Make the remainders of all bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


_TABLE = _make_table()
