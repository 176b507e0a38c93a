"""Makes Bloom filters of contents: the trigrams of a file, in one or two kilobytes. Pure.

A Bloom filter tells whether a content can contain a literal in any letter case, with few false
positives and no false negatives. Each trigram sets two bits. A filter has four to eight times as
many bits as the content has distinct trigrams: about one kilobyte for a file of ten kilobytes.
(Zoekt and Google's Code Search also narrow the files by trigrams: Russ Cox, "Regular Expression
Matching with a Trigram Index", 2012.)
"""

import numpy as np
from numpy.typing import NDArray

HASH_BITS = 17
_BITS_PER_HASH = 2
_MIN_BITS = 64
# Multiplicative hashing (Knuth): the golden ratio, and an odd constant of MurmurHash3.
_MULTIPLIERS = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B))
# Characters outside ASCII that RE2 matches with ASCII letters if case is ignored: Kelvin character,
# long s.
_LETTERS = ((b"\xe2\x84\xaa", b"k"), (b"\xc5\xbf", b"s"))

Hashes = NDArray[np.uint32]


def trigram_hashes(content: bytes) -> Hashes:
    """Hash each trigram of a content, in lower case, with both multipliers."""
    for character, letter in _LETTERS:
        content = content.replace(character, letter)
    codes = np.frombuffer(content.lower(), np.uint8).astype(np.uint32)
    trigrams = codes[:-2] | codes[1:-1] << np.uint32(8) | codes[2:] << np.uint32(16)
    shift = np.uint32(32 - HASH_BITS)
    return np.concatenate([trigrams * multiplier >> shift for multiplier in _MULTIPLIERS])


def make_bloom(content: bytes) -> bytes:
    """Make the Bloom filter of a content. Its length is a power of two."""
    bits = np.zeros(1 << HASH_BITS, np.bool_)
    bits[trigram_hashes(content)] = True
    size = max(_MIN_BITS, 1 << (_BITS_PER_HASH * int(np.count_nonzero(bits))).bit_length())
    size = min(size, 1 << HASH_BITS)
    folded = bits.reshape(-1, size).any(axis=0)
    return np.packbits(folded, bitorder="little").tobytes()
