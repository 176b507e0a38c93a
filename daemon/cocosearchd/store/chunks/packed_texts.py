"""Packs the text of a chunk with its names: all of a row that is shown, and that no statement compares.
Pure.

PostgreSQL compresses no row of this size. Compressed here, text and names take less than half of
their bytes. Packed are: the layout, a JSON list of the names, NUL, and the text; texts of
PostgreSQL have no NUL. The path is the dictionary of the compression, since headers begin with it.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

# The first byte. Rows older than the column are given as they are, by the statement part `texts`.
_PLAIN = b"\x00"
_DEFLATED = b"\x01"
# Raw deflate (RFC 1951) with a window of 4 kB: larger ones cost more to set up than they save on
# texts of a kilobyte. Higher levels save 3 % more for a fifth more time.
_LEVEL = 1
_WINDOW_BITS = -12
_MEMORY_LEVEL = 5
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """The texts of a row of chunks."""

    header: str
    block_type: str
    hierarchy: str
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None
    definitions: Sequence[str]
    content: str

    @property
    def searched(self) -> str:
        """The text that full text search sees, before words are split."""
        return f"{self.header}\n{self.content}"


def pack_texts(path: str, texts: ChunkTexts) -> bytes:
    """Pack the texts of a chunk of the file at a path. They have no NUL."""
    names = (
        *(texts.header, texts.block_type, texts.hierarchy),
        *(texts.symbol_type, texts.symbol_name, texts.symbol_signature),
        texts.definitions,
    )
    compressor = zlib.compressobj(
        _LEVEL,
        zlib.DEFLATED,
        _WINDOW_BITS,
        _MEMORY_LEVEL,
        zlib.Z_DEFAULT_STRATEGY,
        path.encode(),
    )
    packed = compressor.compress(f"{_encode(names)}\0{texts.content}".encode())
    return _DEFLATED + packed + compressor.flush()


def unpack_texts(path: str, packed: bytes) -> ChunkTexts:
    """Return the texts that were packed. Raises `ValueError` or `zlib.error` for other bytes."""
    encoded, content = _parts(path, packed)
    header, block_type, hierarchy, symbol_type, name, signature, definitions = _decode(encoded)
    return ChunkTexts(
        header=header,
        block_type=block_type,
        hierarchy=hierarchy,
        symbol_type=symbol_type,
        symbol_name=name,
        symbol_signature=signature,
        definitions=definitions,
        content=content,
    )


def unpack_content(path: str, packed: bytes) -> str:
    """Return the text of the chunk alone. Raises as `unpack_texts` does."""
    return _parts(path, packed)[1]


def _parts(path: str, packed: bytes) -> tuple[str, str]:
    layout = packed[:1]
    if layout == _DEFLATED:
        raw = zlib.decompressobj(_WINDOW_BITS, path.encode()).decompress(packed[1:])
    elif layout == _PLAIN:
        raw = packed[1:]
    else:
        raise ValueError(f"texts of a chunk of {path} have the unknown layout {layout!r}")
    names, _, content = raw.decode().partition("\0")
    return names, content
