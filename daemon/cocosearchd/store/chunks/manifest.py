"""Compares a file with its stored state, to find the chunks that need new rows. Pure.

Most chunks of a changed file are stored already. The comparison comes first: rows are built only for
chunks that are not stored yet.

When many files change together, the rows of their previous content stay beside the new rows: these
are the *retained chunks*. No query sees them. They make it cheap to go back to the previous content:
a retained row with the same content is used again, like any row.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from cocosearchd.model import Chunk
from cocosearchd.store.chunks.arrays import EMPTY_ARRAY, parse_number_array
from cocosearchd.store.chunks.chunk_numbers import assign_numbers

# A part of each chunk's digest. Raise it when rows get a column, or texts are split into other words:
# rows of the previous version are then rewritten with the next change of their file. To rewrite all
# rows at once, raise `chunker.HEADER_VERSION` as well. `tests/versions.py` notices a forgotten raise.
ROW_VERSION = 7

Content = tuple[int, bytes]  # length in bytes and digest: a chunk without its position
# A stored row as the statement stored_files packs it: chunk number, length in bytes, digest.
_STORED = struct.Struct(">qi16s")


class OutdatedManifest(Exception):
    """A file was compared with a stored state that has changed: a row that should stay is gone.

    The message is the path.
    """


@dataclass(frozen=True, slots=True)
class ChunkManifest:
    """The stored chunks of a file, by position: first bytes, first lines, lengths and digests."""

    starts: tuple[int, ...]
    lines: tuple[int, ...]
    contents: tuple[Content, ...]
    symbol_count: int  # definitions in all chunks


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The stored state of a file, from the statement stored_files; nulls if it is not stored."""

    file: tuple[Any, ...]  # the columns of its row that `rows.COMPARED` and `rows.PLACES` name
    parse: tuple[Any, ...]  # language, status, error count, error message
    chunks: bytes  # chunk number, length in bytes and digest of each row, packed; retained ones too
    retained: str = EMPTY_ARRAY  # numbers of the retained chunks, as PostgreSQL writes an array


@dataclass(frozen=True, slots=True)
class ManifestDiff:
    """The difference between a file and its stored state: which rows go, stay, or are needed."""

    manifest: ChunkManifest
    stored: StoredFile
    chunk_numbers: Sequence[int]  # by position
    gone: tuple[int, ...]  # chunk numbers
    new: tuple[int, ...]  # positions that need a new row
    retained: tuple[int, ...] = ()  # chunk numbers


def stored_file_from_row(row: Sequence[Any]) -> StoredFile:
    """Read a row of the statement stored_files."""
    *file, language, status, errors, message, numbers, starts, lines, chunks, retained = row
    places = (numbers, starts, lines)
    parse = (language, status, errors, message)
    return StoredFile((*file, *places), parse, chunks or b"", retained or EMPTY_ARRAY)


def compare_manifest(
    manifest: ChunkManifest, stored: StoredFile, content_hash: bytes, *, retain: bool
) -> ManifestDiff:
    """Decide which rows of a file stay, go and come; its content has the hash `content_hash` now.

    With `retain`, the rows of the previous content, if there are any, are retained from now on and
    replace the rows retained so far. Without `retain`, this happens only if no retained chunks would
    be left otherwise: after many saves it is then still cheap to go back to the first content. If
    the content is unchanged, other rules made the old rows: they are not retained.
    """
    old, numbers, staying = _match_stored(manifest, stored.chunks)
    retained_before = old.keys() & parse_number_array(stored.retained)
    live_before = old.keys() - retained_before
    retained: Set[int] = retained_before.difference(numbers)
    if not staying and not set(manifest.contents).isdisjoint(old.values()):
        retained = frozenset()  # every chunk got a new number, and its row is written again
    elif stored.file[0] != content_hash and ((retain and live_before) or not retained):
        retained = live_before.difference(numbers)
    remaining = staying | retained
    gone = tuple(number for number in old if number not in remaining)
    new = _positions_without_row(numbers, staying)
    return ManifestDiff(manifest, stored, numbers, gone, new, tuple(sorted(retained)))


def new_positions(manifest: ChunkManifest, chunks: bytes) -> tuple[int, ...]:
    """Compute `ManifestDiff.new` from `StoredFile.chunks` alone."""
    _, numbers, staying = _match_stored(manifest, chunks)
    return _positions_without_row(numbers, staying)


def _match_stored(
    manifest: ChunkManifest, chunks: bytes
) -> tuple[Mapping[int, Content], Sequence[int], Set[int]]:
    """Return stored contents by number, the number of each position, and the staying numbers."""
    old = {number: (size, digest) for number, size, digest in _STORED.iter_unpack(chunks)}
    return old, *assign_numbers(old, manifest.contents, old.keys())


def _positions_without_row(numbers: Sequence[int], staying: Set[int]) -> tuple[int, ...]:
    return tuple(position for position, number in enumerate(numbers) if number not in staying)


def build_manifest(chunks: Sequence[Chunk], order: Sequence[int]) -> ChunkManifest:
    """Build the manifest of a file's chunks; `order` comes from `stored_chunk_order`."""
    stored = [chunks[index] for index in order]
    return ChunkManifest(
        tuple(chunk.start_byte for chunk in stored),
        tuple(chunk.start_line for chunk in stored),
        tuple((chunk.end_byte - chunk.start_byte, chunk_digest(chunk)) for chunk in stored),
        sum(len(chunk.definitions) for chunk in chunks),
    )


def stored_chunk_order(chunks: Sequence[Chunk]) -> list[int]:
    """Return the indexes of the chunks that are stored, by position in the file.

    An empty range is not stored. If several chunks begin at the same byte, only the longest is
    stored; if they are equally long, the first.
    """
    longest = dict[int, int]()
    for index, chunk in enumerate(chunks):
        best = longest.get(chunk.start_byte)
        if chunk.end_byte > (chunk.start_byte if best is None else chunks[best].end_byte):
            longest[chunk.start_byte] = index
    return [longest[start] for start in sorted(longest)]


def chunk_symbols(chunk: Chunk) -> list[tuple[str, str]]:
    """List (kind, qualified name): the chunk's own symbol, then those defined in it, each once."""
    pairs = [(symbol.kind, symbol.qualified_name) for symbol in chunk.symbols]
    if chunk.symbol_type and chunk.symbol_name:
        pairs.insert(0, (chunk.symbol_type, chunk.symbol_name))
    return list(dict.fromkeys(pairs))


def chunk_digest(chunk: Chunk) -> bytes:
    """Digest the stored values of a chunk except its position.

    NULs count although they are not stored: the vector was made from the text as it was read.
    """
    attributes = (
        ROW_VERSION,
        chunk.end_line - chunk.start_line,
        chunk.header,
        chunk.language,
        chunk.block_type,
        chunk.hierarchy,
        chunk.symbol_type,
        chunk.symbol_name,
        chunk.symbol_signature,
        chunk.definitions,
        chunk_symbols(chunk),
    )
    # The text comes last and unquoted: the closing bracket of the attributes separates it from them.
    text = f"{attributes!r}{chunk.text}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
