"""What of a file is compared with what is stored of it: enough to say which of its chunks need new
rows. Pure.

Most chunks of a changed file are stored already. Whoever compares before he makes rows, makes those
of the others only.

So that it is as cheap to come back, the rows of what a file held before many files changed together
are kept beside those of what it holds: *spare* rows, which no question sees. They are taken up
again by their content, as any row is.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from cocosearchd.model import Chunk
from cocosearchd.store.chunks.arrays import EMPTY_ARRAY, parse_number_array
from cocosearchd.store.chunks.chunk_numbers import assign_numbers

# Raise it when rows get a column, or texts are split into other words: rows of the version before
# are then written anew with the next change of their file.
ROW_VERSION = 3

Content = tuple[int, bytes]  # bytes, hash: all of a chunk but where it is
_STORED = struct.Struct(">qi16s")  # as the statement stored_files packs what is compared of a row


class OutdatedManifest(Exception):
    """What a file was compared with is stored no more: a row is missing where one was to stay. Its
    text: the path.
    """


@dataclass(frozen=True, slots=True)
class ChunkManifest:
    """The chunks of a file that are stored, by place: first bytes, first lines, and what each of
    them is.
    """

    starts: tuple[int, ...]
    lines: tuple[int, ...]
    contents: tuple[Content, ...]
    symbol_count: int  # definitions in all chunks


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What is stored of a file, as the statement stored_files gives it; nulls where there is
    nothing.
    """

    file: tuple[Any, ...]  # of its row what `rows.COMPARED` and `rows.PLACES` name
    parse: tuple[Any, ...]  # language, status, error count, error message
    chunks: bytes  # ordinal, bytes and hash of each row, packed; spare ones too
    retained: str = EMPTY_ARRAY  # the ordinals of those, as PostgreSQL writes an array


@dataclass(frozen=True, slots=True)
class ManifestDiff:
    """A file and what was stored of it: which rows go, which are spare from now on, and which
    places need new ones.
    """

    manifest: ChunkManifest
    stored: StoredFile
    chunk_numbers: Sequence[int]  # by position
    gone: tuple[int, ...]  # ordinals
    new: tuple[int, ...]  # places
    retained: tuple[int, ...] = ()  # ordinals


def stored_file_from_row(row: Sequence[Any]) -> StoredFile:
    """A row of the statement stored_files."""
    file, parse, chunks, spares = (*row[:6], *row[10:13]), row[6:10], row[13], row[14]
    return StoredFile(file, tuple(parse), chunks or b"", spares or EMPTY_ARRAY)


def compare_manifest(
    manifest: ChunkManifest, stored: StoredFile, content_hash: bytes, *, retain: bool
) -> ManifestDiff:
    """Which rows stay, go and come, of a file that has now the content of this hash.

    With `retain` the rows of the content of before, where there are any, are spare ones from now on,
    in place of those that were so. Without, they are if that leaves no others: who saves again and
    again may still go back to what was there in the beginning. Where the content is the same, rows
    were made by other rules, and nobody comes back to them.
    """
    old, ordinals, kept = _assigned(manifest, stored.chunks)
    spare = old.keys() & parse_number_array(stored.retained)
    before = old.keys() - spare
    staying: Set[int] = spare.difference(ordinals)
    if not kept and not set(manifest.contents).isdisjoint(old.values()):
        staying = frozenset()  # all are numbered anew: what is needed of them is written again
    elif stored.file[0] != content_hash and ((retain and before) or not staying):
        staying = before.difference(ordinals)
    spares = tuple(sorted(staying))
    stays = kept | staying
    gone = tuple(ordinal for ordinal in old if ordinal not in stays)
    return ManifestDiff(manifest, stored, ordinals, gone, _new(ordinals, kept), spares)


def new_positions(manifest: ChunkManifest, chunks: bytes) -> tuple[int, ...]:
    """As `ManifestDiff.new`, for who knows nothing of what is stored but `StoredFile.chunks`."""
    _, ordinals, kept = _assigned(manifest, chunks)
    return _new(ordinals, kept)


def _assigned(
    manifest: ChunkManifest, chunks: bytes
) -> tuple[Mapping[int, Content], Sequence[int], Set[int]]:
    old = {ordinal: (size, digest) for ordinal, size, digest in _STORED.iter_unpack(chunks)}
    return old, *assign_numbers(old, manifest.contents, old.keys())


def _new(ordinals: Sequence[int], kept: Set[int]) -> tuple[int, ...]:
    return tuple(place for place, ordinal in enumerate(ordinals) if ordinal not in kept)


def build_manifest(chunks: Sequence[Chunk], order: Sequence[int]) -> ChunkManifest:
    """Of the chunks of a file; `order` are the numbers of those that are stored, see `stored_chunk_order`."""
    kept = [chunks[number] for number in order]
    return ChunkManifest(
        tuple(chunk.start_byte for chunk in kept),
        tuple(chunk.start_line for chunk in kept),
        tuple((chunk.end_byte - chunk.start_byte, chunk_digest(chunk)) for chunk in kept),
        sum(len(chunk.definitions) for chunk in chunks),
    )


def stored_chunk_order(chunks: Sequence[Chunk]) -> list[int]:
    """The numbers of the chunks that are stored, by place.

    An empty range is not stored. Of two chunks that begin at the same byte the longer one is, or
    the first one.
    """
    longest = dict[int, int]()
    for number, chunk in enumerate(chunks):
        known = longest.get(chunk.start_byte)
        if chunk.end_byte > (chunk.start_byte if known is None else chunks[known].end_byte):
            longest[chunk.start_byte] = number
    return [longest[start] for start in sorted(longest)]


def chunk_symbols(chunk: Chunk) -> list[tuple[str, str]]:
    """(kind, qualified name) of what the chunk is or is part of, then of what is defined in it;
    each once.
    """
    pairs = [(symbol.kind, symbol.qualified_name) for symbol in chunk.symbols]
    if chunk.symbol_type and chunk.symbol_name:
        pairs.insert(0, (chunk.symbol_type, chunk.symbol_name))
    return list(dict.fromkeys(pairs))


def chunk_digest(chunk: Chunk) -> bytes:
    """Of all that is stored but where it is, and with the NULs: the vector was made of the text as
    it was read.
    """
    kept = (
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
    # The text last and as it is: what is in front ends where its last bracket closes.
    whole = f"{kept!r}{chunk.text}"
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()
