"""Converts between rows of the tables of one index and values of the project. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from cocosearchd.model import NO_CODE, Chunk, Fingerprint, PackedCode, ParseReport, SkipReason
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
from cocosearchd.store.chunks.packed_texts import ChunkTexts, pack_texts, unpack_texts
from cocosearchd.store.chunks.sent_vectors import encode_vectors, vector_text
from cocosearchd.store.index_records import pack_fingerprint

Key = tuple[str, int, int]  # path, start byte, end byte
Row = tuple[Any, ...]
# Column types of the statement copy_chunks. A row has a vector as it is sent (`sent_vectors`).
COPY_TYPES = (
    *("text", "int8", "bytea", "halfvec", "text", "int4", "int4"),
    *("text[]", "text[]", "bytea"),
)
# The columns in the same order: parameters of the statements insert_chunk and insert_chunks.
CHUNK_COLUMNS = (
    *("filename", "chunk_number", "packed_texts", "embedding", "language_id"),
    *("byte_count", "line_count", "symbol_kinds", "symbol_names", "chunk_hash"),
)
# Arrays of the files table that place the chunks of a file: one number for each chunk, in order.
PLACES = ("chunk_numbers", "starts", "first_lines")
# Parameters of statements that take many rows at once -> names of the values in one row.
FILE_COLUMNS = {
    "filenames": "filename",
    "hashes": "content_hash",
    "fingerprints": "fingerprint",
    "chunk_counts": "chunk_count",
    "symbol_counts": "symbol_count",
    "languages": "language",
    "skip_reasons": "skip_reason",
    "scopes": "scopes",
    "symbols": "symbols",
    "facts": "facts",
    "name_hashes": "name_hashes",
    "rules_digests": "rules_digest",
    **{name: name for name in PLACES},
}
PARSE_COLUMNS = {
    "filenames": "filename",
    "languages": "language",
    "statuses": "status",
    "error_counts": "error_count",
    "error_messages": "error_message",
}
FINGERPRINTS = {
    "filenames": "filename",
    "fingerprints": "fingerprint",
    "rules_digests": "rules_digest",
}
# Columns that the statement stored_files returns for comparison. The fingerprint and the digest of
# the rules are not among them: by themselves they are no change.
COMPARED = (
    *("content_hash", "chunk_count", "symbol_count", "language", "skip_reason", "scopes"),
    *("symbols", "facts", "name_hashes"),
)


@dataclass(frozen=True, slots=True)
class FileWrite:
    """The new stored state of one file.

    `vectors` has shape (len(chunks), dimension), L2-normalised, float32 or float16 as stored; a zero
    row is stored as NULL. A skipped file has no chunks and no parse row. `keywords` returns the words
    of a chunk for full text search: header and text after identifier splitting. It is called for rows
    that are written while the index keeps words, and must return the same for equal chunks.

    With a `diff`, `chunks` are those that are not stored, in the order of `diff.new`; without one,
    `chunks` are all chunks of the file.

    `rules_digest` tells the rules that made the rows; None: those that the registry has.
    """

    path: str
    content_hash: bytes
    fingerprint: Fingerprint | None
    language: str
    chunks: tuple[Chunk, ...]
    vectors: NDArray[np.float32] | NDArray[np.float16]
    report: ParseReport
    skip_reason: SkipReason | None = None
    code: PackedCode = NO_CODE
    diff: ManifestDiff | None = None
    rules_digest: bytes | None = None
    keywords: Callable[[Chunk], str] = field(kw_only=True)


class Candidate(NamedTuple):
    """A chunk that a statement returned, or a listed symbol.

    `score` is the cosine similarity or the text rank, by statement; 0 if nothing was ranked. A named
    tuple: a question makes many, and a frozen dataclass takes several times as long to make.
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
    symbol_parent: str | None = None  # of a listed symbol: the enclosing definition

    @property
    def key(self) -> Key:
        """The identity of the chunk in its index."""
        return (self.path, self.start_byte, self.end_byte)


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with the values that a side index needs."""

    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    content: str
    header: str
    definitions: tuple[str, ...]
    symbol_type: str | None
    symbol_name: str | None
    # None: the model knows no word of the text
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
    """The difference between the stored and the new state of a file.

    Apply it in this order: delete the rows with the chunk numbers in `gone`, write the `new` rows,
    then write the row of the file, which places all chunks.
    `words` gives the rows of words of the new chunks: chunk number and words.
    """

    path: str
    file: Mapping[str, Any]
    parse: Mapping[str, Any] | None
    gone: tuple[int, ...]
    new: tuple[Row, ...]
    retained: str | None  # None: unchanged
    differs: bool
    words: Callable[[], Iterator[tuple[int, str]]]


class FileRows:
    """The rows of a file.

    Only rows that are not stored yet are built: few rows in most changes.
    """

    def __init__(self, write: FileWrite, dimension: int) -> None:
        """Raises `ValueError` for vectors of another shape."""
        shape = (len(write.chunks), dimension)
        if write.vectors.shape != shape and write.chunks:
            raise ValueError(f"vectors of {write.path}: {write.vectors.shape}, not {shape}")
        self.write = write
        # by chunk
        self._vectors = (
            encode_vectors(write.vectors.astype(np.float16, copy=False)) if write.chunks else []
        )
        # position in the file -> index in `write.chunks`
        self._chunk_at: Mapping[int, int]
        if write.diff is not None:
            self._manifest = write.diff.manifest
            self._chunk_at = {position: index for index, position in enumerate(write.diff.new)}
        else:
            order = stored_chunk_order(write.chunks)
            self._manifest = build_manifest(write.chunks, order)
            self._chunk_at = dict(enumerate(order))

    def change(self, stored: StoredFile) -> FileChange:
        """Compute the difference to the stored state.

        Raises `OutdatedManifest` where it needs a chunk that `write.chunks` does not have.
        """
        diff = self._diff(stored)
        if not self._chunk_at.keys() >= set(diff.new):
            raise OutdatedManifest(self.write.path)
        positions = [
            number_array_literal(numbers)
            for numbers in (diff.chunk_numbers, self._manifest.starts, self._manifest.lines)
        ]
        file = file_values(
            self.write, self._manifest.symbol_count, len(diff.chunk_numbers), positions
        )
        parse = parse_values(self.write)
        new = tuple(self._make_rows(diff))
        retained = number_array_literal(diff.retained)
        changed_retained = retained if retained != stored.retained else None
        has_other_chunks = bool(diff.gone or new or changed_retained)
        return FileChange(
            path=self.write.path,
            file=file,
            parse=parse,
            gone=diff.gone,
            new=new,
            retained=changed_retained,
            differs=has_other_chunks or not _is_stored(file, parse, stored),
            words=partial(self._words, diff),
        )

    def _diff(self, stored: StoredFile) -> ManifestDiff:
        """Reuse the caller's diff if the stored state is unchanged; otherwise compare again."""
        diff = self.write.diff
        if diff is not None and diff.stored == stored:
            return diff
        return compare_manifest(
            self._manifest, stored, self.write.content_hash, retain=diff is not None
        )

    def _make_rows(self, diff: ManifestDiff) -> Iterator[Row]:
        """Make the new rows in the order of `COPY_TYPES`; the last column is a chunk's digest."""
        path = self.write.path
        chunks = self.write.chunks
        indexes = [self._chunk_at[position] for position in diff.new]
        packed_texts = pack_texts(path, [_texts(chunks[index]) for index in indexes])
        for position, index, texts in zip(diff.new, indexes, packed_texts, strict=True):
            size, digest = self._manifest.contents[position]
            columns = _columns(chunks[index], size)
            number = diff.chunk_numbers[position]
            yield (path, number, texts, self._vectors[index], *columns, digest)

    def _words(self, diff: ManifestDiff) -> Iterator[tuple[int, str]]:
        for position in diff.new:
            chunk = self.write.chunks[self._chunk_at[position]]
            yield diff.chunk_numbers[position], _clean(self.write.keywords(chunk))


def _is_stored(
    file: Mapping[str, Any], parse: Mapping[str, Any] | None, stored: StoredFile
) -> bool:
    """Return True if the rows of a file and of its parse result are stored as they are."""
    parse_columns = tuple(parse.values())[1:] if parse else (None,) * 4
    file_columns = tuple(file[name] for name in (*COMPARED, *PLACES))
    return stored.file == file_columns and stored.parse == parse_columns


def to_columns(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, str]:
    """Turn rows into one array literal a column, for a statement that unnests them.

    `names` maps parameters of the statement to names in a row.
    """
    return {
        parameter: array_literal([row[name] for row in rows]) for parameter, name in names.items()
    }


def chunk_parameters(row: Row) -> dict[str, Any]:
    """Return the values of a row of chunks by column, for the statement insert_chunk."""
    return dict(zip(CHUNK_COLUMNS, map(_parameter, COPY_TYPES, row), strict=True))


def _parameter(column_type: str, value: Any) -> Any:
    """Return a value as it is sent.

    Numbers and lists are texts, whose types the server infers. Otherwise the driver would choose a
    type by the value, and each combination of types would be planned again.
    """
    if value is None or column_type in ("text", "bytea"):
        return value
    if column_type == "halfvec":
        return HalfVector.from_binary(value)
    return array_literal(value) if column_type == "text[]" else str(value)


def chunk_elements(row: Row) -> tuple[str | bytes | int | None, ...]:
    """Write the values of a row of chunks as elements of arrays, for `chunk_columns`."""
    return tuple(map(_element, COPY_TYPES, row))


def chunk_columns(rows: Sequence[Sequence[str | bytes | int | None]]) -> dict[str, str]:
    """Turn rows into one array literal a column, for the statement insert_chunks."""
    columns = zip(*rows, strict=True)
    return dict(zip(CHUNK_COLUMNS, map(array_literal, columns), strict=True))


def _element(column_type: str, value: Any) -> str | bytes | int | None:
    """Write a vector as pgvector reads it, and a list as JSON."""
    if value is None or column_type not in ("halfvec", "text[]"):
        element: str | bytes | int | None = value
        return element
    if column_type == "halfvec":
        return vector_text(value, _half_texts())
    return json.dumps(value, ensure_ascii=False)


@cache
def _half_texts() -> list[str]:
    """Return the text of each half float, by its bits: 5 MB, ten times as fast as to format each
    number.

    Five digits distinguish all half floats.
    """
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return [format(number, ".5g") for number in numbers.tolist()]


def file_values(
    write: FileWrite, symbols: int, chunks: int, positions: Sequence[str]
) -> dict[str, Any]:
    """Build a row of the files table, without the generation."""
    return {
        "filename": write.path,
        "content_hash": write.content_hash,
        "chunk_count": chunks,
        "symbol_count": symbols,
        "language": write.language,
        "skip_reason": write.skip_reason,
        "scopes": write.code.scopes,
        "symbols": write.code.symbols,
        "facts": write.code.facts,
        "name_hashes": write.code.name_hashes,
        "fingerprint": pack_fingerprint(write.fingerprint),
        "rules_digest": write.rules_digest,
        **dict(zip(PLACES, positions, strict=True)),
    }


def parse_values(write: FileWrite) -> dict[str, Any] | None:
    """Build a row of the parses table; None for a file that was not parsed."""
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
    """Read a row of the statement part `columns` and a score."""
    path, start_byte, end_byte, start_line, end_line, language, packed, score = row
    texts = unpack_texts(path, packed)
    return Candidate(
        path=path,
        start_byte=start_byte,
        end_byte=end_byte,
        start_line=start_line,
        end_line=end_line,
        language=language,
        block_type=texts.block_type,
        hierarchy=texts.hierarchy,
        symbol_type=texts.symbol_type,
        symbol_name=texts.symbol_name,
        symbol_signature=texts.symbol_signature,
        content=texts.content,
        definitions=tuple(texts.definitions),
        header=texts.header,
        score=float(score),
    )


def stored_chunk_from_row(path: str, row: Sequence[Any]) -> StoredChunk:
    """Read a row of the statement file_chunks, from its fourth column on."""
    start_byte, end_byte, start_line, end_line, packed, stored = row
    texts = unpack_texts(path, packed)
    return StoredChunk(
        start_byte=start_byte,
        end_byte=end_byte,
        start_line=start_line,
        end_line=end_line,
        content=texts.content,
        header=texts.header,
        definitions=tuple(texts.definitions),
        symbol_type=texts.symbol_type,
        symbol_name=texts.symbol_name,
        vector=None if stored is None else stored.to_numpy(),
    )


def _texts(chunk: Chunk) -> ChunkTexts:
    """Collect the texts of a chunk. NULs are dropped, since PostgreSQL's texts hold none."""
    return ChunkTexts(
        header=_clean(chunk.header),
        block_type=_clean(chunk.block_type),
        hierarchy=_clean(chunk.hierarchy),
        symbol_type=_clean_optional(chunk.symbol_type),
        symbol_name=_clean_optional(chunk.symbol_name),
        symbol_signature=_clean_optional(chunk.symbol_signature),
        definitions=[_clean(name) for name in chunk.definitions],
        content=_clean(chunk.text),
    )


def _columns(chunk: Chunk, size: int) -> Row:
    """List the values in the order of the table, without key, texts, vector and digest."""
    pairs = chunk_symbols(chunk)
    kinds = [_clean(kind) for kind, _ in pairs]
    names = [_clean(name) for _, name in pairs]
    lines = chunk.end_line - chunk.start_line + 1
    return (_clean(chunk.language), size, lines, kinds, names)


def _clean_optional(text: str | None) -> str | None:
    return None if text is None else _clean(text)


def _clean(text: str) -> str:
    return text.replace("\0", "")
