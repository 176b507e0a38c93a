"""The values that go into and come out of the tables of one index, and how they are rows. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from cocosearchd.model import Chunk, Filter, Fingerprint, ParseReport, SkipReason
from cocosearchd.store.chunks.arrays import array_literal, number_array_literal
from cocosearchd.store.chunks.manifest import (
    ManifestDiff,
    OutdatedManifest,
    StoredFile,
    build_manifest,
    chunk_symbols,
    compare_manifest,
    stored_chunk_order,
)
from cocosearchd.store.globs import symbol_matcher
from cocosearchd.store.index_records import pack_fingerprint

Key = tuple[str, int, int]  # path, start byte, end byte
Row = tuple[Any, ...]
# Of the statement copy_chunks.
COPY_TYPES = (
    *("text", "int8", "text", "text", "halfvec", *["text"] * 6, "int4", "int4"),
    *("text[]", "text", "text[]", "text[]", "bytea"),
)
# Where the chunks of a file are: as many numbers each, in the order of the chunks.
PLACES = ("ordinals", "starts", "first_lines")
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
    **{name: name for name in PLACES},
}
PARSE_COLUMNS = {
    "filenames": "filename",
    "languages": "language",
    "statuses": "status",
    "error_counts": "error_count",
    "error_messages": "error_message",
}
FINGERPRINTS = {"filenames": "filename", "fingerprints": "fingerprint"}
# What of a file the statement stored_files gives back to be compared; the fingerprint alone is no
# change.
COMPARED = ("content_hash", "chunk_count", "symbol_count", "language", "skip_reason", "scopes")


@dataclass(frozen=True, slots=True)
class FileWrite:
    """All that is stored of one file.

    `vectors` has shape (len(chunks), dimension), float32, L2-normalised; a zero row is stored as
    NULL. A skipped file has no chunks and no parse row. `keywords` says what full text search sees
    of a chunk: header and text after identifier splitting. It is asked for rows that are written,
    and must say the same of chunks that are the same.

    Where the file was `compared` before, `chunks` are those that are not stored, in its order; else
    they are all.
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
    diff: ManifestDiff | None = None
    keywords: Callable[[Chunk], str] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk as found. `score` is the leg's own: cosine similarity, text rank, or 0 where nothing
    was ranked.
    """

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
    """What a side index needs of one chunk. `keywords` is header and content after identifier
    splitting.
    """

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
    # None: nothing known of the text
    vector: NDArray[np.float16] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FileChunks:
    """A file with its chunks in order; `generation` is the one that last changed it."""

    path: str
    generation: int
    language: str
    chunks: tuple[StoredChunk, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What differs between a file as stored and as wanted.

    To be done in this order: rows with the ordinals of `gone` go, `new` ones are for the statement
    copy_chunks, and the row of the file says where all of them are.
    """

    path: str
    file: Mapping[str, Any]
    parse: Mapping[str, Any] | None
    gone: tuple[int, ...]
    new: tuple[Row, ...]
    retained: str | None  # None: as they were
    differs: bool


class FileRows:
    """The rows a file shall have, made as far as they are needed: most chunks of a changed file are
    stored already.
    """

    def __init__(self, write: FileWrite, dimension: int) -> None:
        """Raises `ValueError` for vectors of another shape."""
        if write.vectors.shape != (len(write.chunks), dimension) and write.chunks:
            raise ValueError(
                f"vectors of {write.path}: {write.vectors.shape}, not {(len(write.chunks), dimension)}"
            )
        self.write = write
        self._halves = write.vectors.astype(np.float16)
        # of each chunk whether anything is known
        self._known: Any = self._halves.any(axis=-1).tolist()
        if write.diff is not None:
            self._manifest, places = write.diff.manifest, write.diff.new
            self._numbers = {place: number for number, place in enumerate(places)}
        else:
            order = stored_chunk_order(write.chunks)
            self._manifest, self._numbers = (
                build_manifest(write.chunks, order),
                dict(enumerate(order)),
            )

    def change(self, stored: StoredFile) -> FileChange:
        """What differs from what is stored. Raises `OutdatedManifest` where that needs a chunk that
        was not made.
        """
        before = self.write.diff
        found = before if before is not None and before.stored == stored else self._compared(stored)
        if not self._numbers.keys() >= set(found.new):
            raise OutdatedManifest(self.write.path)
        places = [
            number_array_literal(numbers)
            for numbers in (found.chunk_numbers, self._manifest.starts, self._manifest.lines)
        ]
        file = file_values(
            self.write, self._manifest.symbol_count, len(found.chunk_numbers), places
        )
        parse = parse_values(self.write)
        new = tuple(self._row(place, found.chunk_numbers[place]) for place in found.new)
        same_file = stored.file == tuple(file[name] for name in (*COMPARED, *PLACES))
        same_parse = stored.parse == (tuple(parse.values())[1:] if parse else (None,) * 4)
        spares = (
            number_array_literal(found.retained)
            if number_array_literal(found.retained) != stored.retained
            else None
        )
        differs = bool(found.gone or new or spares) or not (same_file and same_parse)
        return FileChange(self.write.path, file, parse, found.gone, new, spares, differs)

    def _compared(self, stored: StoredFile) -> ManifestDiff:
        return compare_manifest(
            self._manifest, stored, self.write.content_hash, retain=self.write.diff is not None
        )

    def _row(self, place: int, ordinal: int) -> Row:
        """For the statement copy_chunks; the last column is the chunk's hash."""
        number, (size, digest) = self._numbers[place], self._manifest.contents[place]
        chunk, vector = (
            self.write.chunks[number],
            HalfVector(self._halves[number]) if self._known[number] else None,
        )
        text, *columns = _columns(chunk, size)
        words = _clean(self.write.keywords(chunk))
        return (self.write.path, ordinal, text, words, vector, *columns, digest)


def to_columns(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, str]:
    """Values by row as arrays by column, for a statement that unnests them; `names`: parameter ->
    name in a row.
    """
    return {
        parameter: array_literal([row[name] for row in rows]) for parameter, name in names.items()
    }


def file_values(
    write: FileWrite, symbols: int, chunks: int, places: Sequence[str]
) -> dict[str, Any]:
    """A row of the files table, without the generation."""
    return {
        "filename": write.path,
        "content_hash": write.content_hash,
        "chunk_count": chunks,
        "symbol_count": symbols,
        "language": write.language,
        "skip_reason": write.skip_reason,
        "scopes": write.scopes,
        "fingerprint": pack_fingerprint(write.fingerprint),
        **dict(zip(PLACES, places, strict=True)),
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


def candidate_from_row(row: Sequence[Any]) -> Candidate:
    """A row of `columns` and a score."""
    *columns, definitions, header, score = row
    return Candidate(*(*columns, tuple(definitions), header, float(score)))


def name_matching_symbol(
    found: Candidate, symbols: Sequence[tuple[str, str]], where: Filter
) -> Candidate:
    """The candidate, named after the first of its symbols, (kind, qualified name), that passes the
    symbol filter.
    """
    wanted = symbol_matcher(where.symbol_name or "*")
    for kind, name in ((found.symbol_type or "", found.symbol_name or ""), *symbols):
        if name and (not where.symbol_types or kind in where.symbol_types) and wanted(name):
            own = name == found.symbol_name
            signature = found.symbol_signature if own else None
            return replace(found, symbol_type=kind, symbol_name=name, symbol_signature=signature)
    return found


def stored_chunk_from_row(row: Sequence[Any]) -> StoredChunk:
    """A row of the statement file_chunks, from its fourth column on."""
    *columns, definitions, symbol_type, symbol_name, half = row
    vector = None if half is None else half.to_numpy()
    return StoredChunk(*(*columns, tuple(definitions), symbol_type, symbol_name, vector))


def _columns(chunk: Chunk, size: int) -> Row:
    """In the order of the table, without key, words, vector and hash. PostgreSQL's texts hold no
    NUL.
    """
    texts = (
        chunk.text,
        chunk.block_type,
        chunk.hierarchy,
        chunk.language,
        chunk.symbol_type,
        chunk.symbol_name,
        chunk.symbol_signature,
    )
    clean = (text if text is None else _clean(text) for text in texts)
    definitions = [_clean(name) for name in chunk.definitions]
    pairs = chunk_symbols(chunk)
    kinds, names = [_clean(kind) for kind, _ in pairs], [_clean(name) for _, name in pairs]
    lines = chunk.end_line - chunk.start_line + 1
    return (*clean, size, lines, definitions, _clean(chunk.header), kinds, names)


def _clean(text: str) -> str:
    return text.replace("\0", "")
