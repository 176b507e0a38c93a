"""Packs the text of a chunk with its names: values that are shown, and that no statement compares.

PostgreSQL compresses no row of this size. Compressed here, text and names take less than half of
their bytes. The first byte is the layout. The layouts `ASCII` and `DEFLATED` have a Bloom filter of
the trigrams of header and text: with it, SQL leaves out most chunks that lack a phrase or a word.
Names and text follow, separated by NULs: no text in PostgreSQL has a NUL. The path is the dictionary
of the compression, since headers begin with it. `PLAIN` is for rows older than the column, as the
statement part `texts` gives them: a JSON list of the names, NUL, and the text. Pure.
"""

import json
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_PLAIN = b"\x00"
_ASCII = b"\x01"  # header and text
_DEFLATED = b"\x02"
_PRESENT = "="  # in front of a name that may be missing
# Raw deflate (RFC 1951) with a window of 4 kB: larger ones cost more to set up than they save on
# texts of a kilobyte. Higher levels save 1 % more.
_LEVEL = 1
_WINDOW_BITS = -12
_MEMORY_LEVEL = 5
_FIXED_NAMES = 6  # names in front of the definitions
# One hash for each trigram. A text of a kilobyte sets 60 % of these bits: one in a hundred texts that
# lack a phrase of eleven letters passes the filter.
_BLOOM_BITS = 512
_TEXT_START = 1 + _BLOOM_BITS // 8
# Odd factors of a multiplicative hash to 16 bits. The upper nine bits count.
_FACTORS = (np.uint16(0x9E37), np.uint16(0x85EB), np.uint16(0xC2B3))
_HASH_SHIFT = np.uint16(7)


class ChunkTexts(NamedTuple):
    """The texts of a row of chunks."""

    header: str
    block_type: str
    hierarchy: str
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None
    definitions: list[str]
    content: str

    @property
    def searched(self) -> str:
        """The text that full text search sees, before words are split."""
        return f"{self.header}\n{self.content}"


def pack_texts(path: str, chunks: Sequence[ChunkTexts]) -> list[bytes]:
    """Pack the texts of each of some chunks of the file at a path. They have no NUL."""
    searched = [texts.searched for texts in chunks]
    return [
        (_ASCII if text.isascii() else _DEFLATED) + bloom + _deflate(path, texts)
        for texts, text, bloom in zip(chunks, searched, _blooms(searched), strict=True)
    ]


def _deflate(path: str, texts: ChunkTexts) -> bytes:
    symbol = (texts.symbol_type, texts.symbol_name, texts.symbol_signature)
    parts = (
        *(texts.header, texts.block_type, texts.hierarchy),
        *("" if name is None else _PRESENT + name for name in symbol),
        *texts.definitions,
        texts.content,
    )
    compressor = zlib.compressobj(
        _LEVEL,
        zlib.DEFLATED,
        _WINDOW_BITS,
        _MEMORY_LEVEL,
        zlib.Z_DEFAULT_STRATEGY,
        path.encode(),
    )
    return compressor.compress("\0".join(parts).encode()) + compressor.flush()


def phrase_bits(phrase: str) -> list[int]:
    """List the bits, as get_bit counts them, that are set in packed texts with the phrase.

    Case does not count.
    """
    bits: list[int] = np.unique(8 + _trigram_hashes(_lower_bytes(phrase)).astype(np.int64)).tolist()
    return bits


def _blooms(texts: Sequence[str]) -> list[bytes]:
    """Return the Bloom filter of each text. The trigrams of all are hashed together."""
    raw = [_lower_bytes(text) for text in texts]
    # as indexes: NumPy would convert them for each text
    hashes = _trigram_hashes(b"".join(raw)).astype(np.intp)
    bits = np.zeros((len(texts), _BLOOM_BITS), np.uint8)
    start = 0
    for row, size in zip(bits, map(len, raw), strict=True):
        # the last two trigrams go on into the next text
        row[hashes[start : start + max(0, size - 2)]] = 1
        start += size
    packed = np.packbits(bits, axis=1, bitorder="little")
    return [row.tobytes() for row in packed]


def _lower_bytes(text: str) -> bytes:
    return text.lower().encode()


def _trigram_hashes(raw: bytes) -> NDArray[np.uint16]:
    """Hash the trigrams of bytes; none of less than three bytes."""
    codes = np.frombuffer(raw, np.uint8).astype(np.uint16)
    first, second, third = _FACTORS
    hashes: NDArray[np.uint16] = codes[:-2] * first + codes[1:-1] * second + codes[2:] * third
    return hashes >> _HASH_SHIFT


def unpack_texts(path: str, packed: bytes) -> ChunkTexts:
    """Return the texts that were packed. Raises `ValueError` or `zlib.error` for other bytes."""
    text = _text(path, packed)
    if packed.startswith(_PLAIN):
        names, _, content = text.partition("\0")
        *fixed, definitions = json.loads(names)
    else:
        parts = text.split("\0")
        fixed = [*parts[:3], *map(_optional, parts[3:_FIXED_NAMES])]
        definitions = parts[_FIXED_NAMES:-1]
        content = parts[-1]
    header, block_type, hierarchy, symbol_type, symbol_name, signature = fixed
    return ChunkTexts(
        header=header,
        block_type=block_type,
        hierarchy=hierarchy,
        symbol_type=symbol_type,
        symbol_name=symbol_name,
        symbol_signature=signature,
        definitions=definitions,
        content=content,
    )


def unpack_content(path: str, packed: bytes) -> str:
    """Return the text of the chunk alone. Raises as `unpack_texts` does."""
    return _text(path, packed).rpartition("\0")[2]


def _text(path: str, packed: bytes) -> str:
    """Return the unpacked text after the layout byte and the filter."""
    if packed.startswith((_ASCII, _DEFLATED)):
        decompressor = zlib.decompressobj(_WINDOW_BITS, path.encode())
        raw = decompressor.decompress(packed[_TEXT_START:])
        if not decompressor.eof:
            raise ValueError(f"texts of a chunk of {path} end too early")
        return raw.decode()
    if packed.startswith(_PLAIN):
        return packed[1:].decode()
    raise ValueError(f"texts of a chunk of {path} have the unknown layout {packed[:1]!r}")


def _optional(name: str) -> str | None:
    return name.removeprefix(_PRESENT) if name else None
