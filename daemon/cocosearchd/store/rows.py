"""The values that go into and come out of the tables of one index, and how they are rows. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.types.range import Int8Range

from cocosearchd.model import Chunk, Filter, Fingerprint, ParseReport, SkipReason
from cocosearchd.store.globs import symbol_regex
from cocosearchd.store.records import pack_fingerprint

Key = tuple[str, int, int]  # path, start byte, end byte
Row = tuple[Any, ...]
# Of the statement copy_chunks.
COPY_TYPES = (
    *("text", "int8range", "text", "text", "halfvec", *["text"] * 6, "int4", "int4"),
    *("text[]", "text", "text[]", "text[]", "bytea"),
)
# Raise it when rows get a column: rows of the version before are then written anew with the next change of their file.
ROW_VERSION = 2

# Parameters of statements that take many rows at once, and what they are called in one.
FILE_COLUMNS = {
    "filenames": "filename",
    "hashes": "content_hash",
    "fingerprints": "fingerprint",
    "chunk_counts": "chunk_count",
    "symbol_counts": "symbol_count",
    "languages": "language",
    "skip_reasons": "skip_reason",
    "scopes": "scopes",
}
PARSE_COLUMNS = {
    "filenames": "filename",
    "languages": "language",
    "statuses": "status",
    "error_counts": "error_count",
    "error_messages": "error_message",
}
FINGERPRINTS = {"filenames": "filename", "fingerprints": "fingerprint"}

# What of a file the statement stored_files gives back to be compared; the fingerprint alone is no change.
COMPARED = ("content_hash", "chunk_count", "symbol_count", "language", "skip_reason", "scopes")


@dataclass(frozen=True, slots=True)
class FileWrite:
    """All that is stored of one file.

    `vectors` has shape (len(chunks), dimension), float32, L2-normalised; a zero row is stored as NULL. A skipped file
    has no chunks and no parse row.
    """

    path: str
    content_hash: bytes
    fingerprint: Fingerprint | None
    language: str
    chunks: tuple[Chunk, ...]
    vectors: NDArray[np.float32]
    report: ParseReport
    skip_reason: SkipReason | None = None
    scopes: bytes | None = None  # of `languages.scopes`


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk as found. `score` is the leg's own: cosine similarity, text rank, or 0 where nothing was ranked."""

    path: str
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    language: str
    block_type: str
    hierarchy: str
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None
    content: str
    definitions: tuple[str, ...]
    header: str
    score: float

    @property
    def key(self) -> Key:
        """What identifies the chunk in its index."""
        return (self.path, self.start_byte, self.end_byte)


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """What a side index needs of one chunk. `keywords` is header and content after identifier splitting."""

    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    content: str
    header: str
    keywords: str
    definitions: tuple[str, ...]
    symbol_type: str | None
    symbol_name: str | None
    vector: NDArray[np.float16] | None = field(default=None, compare=False)  # None: nothing known of the text


@dataclass(frozen=True, slots=True)
class FileChunks:
    """A file with its chunks in order; `generation` is the one that last changed it."""

    path: str
    generation: int
    language: str
    chunks: tuple[StoredChunk, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What differs between a file as stored and as wanted. `new` are rows for the statement copy_chunks."""

    path: str
    file: Mapping[str, Any]
    parse: Mapping[str, Any] | None
    gone: tuple[tuple[int, int], ...]
    new: tuple[Row, ...]
    differs: bool


class WantedRows:
    """The rows a file shall have, made as far as they are needed: most chunks of a changed file are stored already."""

    def __init__(self, write: FileWrite, dimension: int) -> None:
        """Raises `ValueError` for vectors of another shape.

        An empty range has no place in the key, and of two chunks in one place the first one stays.
        """
        if write.vectors.shape != (len(write.chunks), dimension) and write.chunks:
            raise ValueError(f"vectors of {write.path}: {write.vectors.shape}, not {(len(write.chunks), dimension)}")
        self.write = write
        self._chunks = dict[tuple[int, int], tuple[int, bytes]]()  # place -> number of the chunk, its hash
        for number, chunk in enumerate(write.chunks):
            place = (chunk.start_byte, chunk.end_byte)
            if place[0] < place[1] and place not in self._chunks:
                self._chunks[place] = number, _digest(chunk)

    def compared(self, stored: Row) -> FileChange:
        """With a row of the statement stored_files."""
        file, parse = file_values(self.write, len(self._chunks)), parse_values(self.write)
        old = {(start, end): digest for start, end, digest in zip(*stored[10:], strict=True)}
        gone = tuple(place for place, digest in old.items() if self._hash(place) != digest)
        new = tuple(self._row(place) for place, (_, digest) in self._chunks.items() if old.get(place) != digest)
        same_file = stored[:6] == tuple(file[name] for name in COMPARED)
        same_parse = stored[6:10] == (tuple(parse.values())[1:] if parse else (None,) * 4)
        return FileChange(self.write.path, file, parse, gone, new, bool(gone or new) or not (same_file and same_parse))

    def _hash(self, place: tuple[int, int]) -> bytes | None:
        return self._chunks[place][1] if place in self._chunks else None

    def _row(self, place: tuple[int, int]) -> Row:
        """For the statement copy_chunks; the last column is the chunk's hash."""
        number, digest = self._chunks[place]
        columns, half = _columns(self.write.chunks[number]), self.write.vectors[number].astype(np.float16)
        vector = HalfVector(half) if half.any() else None
        return (self.write.path, Int8Range(*place), *columns[:2], vector, *columns[2:], digest)


def columns_of(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, list[Any]]:
    """Values by row as values by column, for a statement that unnests them; `names`: parameter -> name in a row."""
    return {parameter: [row[name] for row in rows] for parameter, name in names.items()}


def file_values(write: FileWrite, chunk_count: int) -> dict[str, Any]:
    """A row of the files table, without the generation."""
    return {
        "filename": write.path,
        "content_hash": write.content_hash,
        "chunk_count": chunk_count,
        "symbol_count": sum(len(chunk.definitions) for chunk in write.chunks),
        "language": write.language,
        "skip_reason": write.skip_reason,
        "scopes": write.scopes,
        "fingerprint": pack_fingerprint(write.fingerprint),
    }


def parse_values(write: FileWrite) -> dict[str, Any] | None:
    """A row of the parses table; None for a file that was not parsed."""
    if write.skip_reason is not None:
        return None
    return {
        "filename": write.path,
        "language": write.language,
        "status": write.report.status,
        "error_count": write.report.error_count,
        "error_message": write.report.error_message.replace("\0", ""),
    }


def candidate(row: Sequence[Any]) -> Candidate:
    """A row of `columns` and a score."""
    *columns, definitions, header, score = row
    return Candidate(*(*columns, tuple(definitions), header, float(score)))


def with_symbol(found: Candidate, symbols: Sequence[tuple[str, str]], where: Filter) -> Candidate:
    """The candidate, named after the first of its symbols, (kind, qualified name), that passes the symbol filter."""
    wanted = re.compile(symbol_regex(where.symbol_name or "*"), re.IGNORECASE)
    for kind, name in ((found.symbol_type or "", found.symbol_name or ""), *symbols):
        if name and (not where.symbol_types or kind in where.symbol_types) and wanted.search(name):
            own = name == found.symbol_name
            signature = found.symbol_signature if own else None
            return replace(found, symbol_type=kind, symbol_name=name, symbol_signature=signature)
    return found


def stored_chunk(row: Sequence[Any]) -> StoredChunk:
    """A row of the statement file_chunks, from its fourth column on."""
    *columns, definitions, symbol_type, symbol_name, half = row
    vector = None if half is None else half.to_numpy()
    return StoredChunk(*(*columns, tuple(definitions), symbol_type, symbol_name, vector))


def _columns(chunk: Chunk) -> Row:
    """In the order of the table, without key, vector and hash. PostgreSQL's texts hold no NUL."""
    texts = (
        chunk.text,
        chunk.keywords,
        chunk.block_type,
        chunk.hierarchy,
        chunk.language,
        chunk.symbol_type,
        chunk.symbol_name,
        chunk.symbol_signature,
    )
    clean = (text.replace("\0", "") if text is not None else None for text in texts)
    definitions = [name.replace("\0", "") for name in chunk.definitions]
    pairs = _symbols(chunk)
    kinds, names = [kind for kind, _ in pairs], [name for _, name in pairs]
    return (*clean, chunk.start_line, chunk.end_line, definitions, chunk.header.replace("\0", ""), kinds, names)


def _symbols(chunk: Chunk) -> list[tuple[str, str]]:
    """(kind, qualified name) of what the chunk is or is part of, then of what is defined in it; each once."""
    pairs = [(symbol.kind, symbol.qualified_name) for symbol in chunk.symbols]
    if chunk.symbol_type and chunk.symbol_name:
        pairs.insert(0, (chunk.symbol_type, chunk.symbol_name))
    return list(dict.fromkeys((kind.replace("\0", ""), name.replace("\0", "")) for kind, name in pairs))


def _digest(chunk: Chunk) -> bytes:
    """Of all but the place, and with the NULs: the vector was made of the text as it was read."""
    whole = ROW_VERSION, replace(chunk, start_byte=0, end_byte=0)
    return hashlib.blake2b(repr(whole).encode("utf-8", "surrogatepass"), digest_size=16).digest()
