"""The unsaved texts of a client in one index: searched and shown instead of the files. Pure.

An overlay is a value; `api.overlay_sessions` stores overlays by client for a limited time. This
module determines which stored rows an overlay hides, which rows it adds, and how it extends a
filter. An answer is the same as if the texts were saved.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cocosearchd.filters.filter_fields import Filter, chunk_conditions, chunk_matcher, file_passes
from cocosearchd.filters.globs import exact_glob
from cocosearchd.model import NO_CODE, Chunk, PackedCode, Symbol
from cocosearchd.search.answers.disk_files import FileContents
from cocosearchd.search.lexical.analysis.documents import ChunkText, FileText, extract_header_names
from cocosearchd.store.chunks.manifest import chunk_symbols
from cocosearchd.store.chunks.rows import Candidate, Key
from cocosearchd.store.reads.file_states import FileState
from cocosearchd.store.reads.file_symbols import SymbolFile

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class OverlayFile:
    """An unsaved file, as it would be indexed.

    `vectors` have the shape (chunks, dimension); an unknown vector is a zero row.
    """

    path: str
    text: FileContents
    language: str
    chunks: tuple[Chunk, ...]
    vectors: Vector
    code: PackedCode = NO_CODE
    symbols: tuple[Symbol, ...] = ()


@dataclass(frozen=True)
class Overlay:
    """Unsaved files by path. `digest` identifies the overlay in plans and cache keys."""

    files: Mapping[str, OverlayFile]
    digest: str

    @cached_property
    def rows(self) -> Mapping[Key, Candidate]:
        """The chunks of all files, by key."""
        return {row.key: row for file in self.files.values() for row in _rows(file)}

    @cached_property
    def texts(self) -> Mapping[str, FileContents]:
        """The contents of the files by path."""
        return {path: file.text for path, file in self.files.items()}

    @cached_property
    def states(self) -> Mapping[str, FileState]:
        """The states of the files, as the index would have them."""
        return {
            path: FileState(
                path, file.text.content_hash, 0, file.code.scopes or None, file.code.symbols
            )
            for path, file in self.files.items()
        }

    def exclude_overlaid(self, where: Filter) -> Filter:
        """Extend a filter so that it excludes the stored rows of unsaved files."""
        hidden = tuple(exact_glob(path) for path in self.files)
        return replace(where, not_paths=tuple(sorted({*where.not_paths, *hidden})))

    def matching_chunks(self, where: Filter) -> tuple[tuple[Candidate, Vector], ...]:
        """Return the chunks that pass a filter, each with its vector."""
        matches_chunk = chunk_matcher(where)
        return tuple(
            (self.rows[(file.path, chunk.start_byte, chunk.end_byte)], vector)
            for file in self.files.values()
            if file_passes(where, file)
            for chunk, vector in zip(file.chunks, file.vectors, strict=True)
            if matches_chunk(chunk.text, chunk_symbols(chunk))
        )

    def symbol_files(self, where: Filter) -> tuple[SymbolFile, ...]:
        """Return the files with symbols that pass a filter, like the store."""
        symbols, _ = chunk_conditions(where)
        matches = symbols.matcher()
        is_written = symbols.written_matcher()
        files = list[SymbolFile]()
        for path, file in self.files.items():
            names = [(symbol.kind, symbol.qualified_name) for symbol in file.symbols]
            written = [is_written(*name) for name in names if matches(*name)]
            if written and file_passes(where, file):
                files.append(SymbolFile(path, any(written), not all(written)))
        return tuple(files)

    def compare_vectors(self, where: Filter, vector: Vector) -> tuple[Candidate, ...]:
        """Return the chunks that pass a filter and have a vector, scored by cosine similarity.

        The query vector is rounded to 16 bits like in PostgreSQL, so that unsaved and stored chunks
        are compared in the same way. Rounding may give a cosine above 1, which PostgreSQL cuts too.
        """
        query = vector.astype(np.float16).astype(np.float32)
        query /= np.linalg.norm(query) or 1
        return tuple(
            row._replace(score=min(1.0, float(stored @ query / np.linalg.norm(stored))))
            for row, stored in self.matching_chunks(where)
            if len(stored) == len(query) and stored.any()
        )

    def documents(self, dimension: int) -> Iterator[FileText]:
        """Yield the files with chunks, for a lexical index with vectors of `dimension` numbers."""
        for file in self.files.values():
            if file.chunks:
                fitting = file.vectors.shape[1] == dimension
                vectors = (
                    file.vectors if fitting else np.zeros((len(file.chunks), dimension), np.float32)
                )
                texts = (chunk_text(chunk, file.path) for chunk in file.chunks)
                yield FileText(file.path, 0, file.language, tuple(texts), vectors)


def chunk_text(chunk: Chunk, path: str) -> ChunkText:
    """Convert a chunk of the file at `path` to a `ChunkText` for the lexical index."""
    return ChunkText(
        start_byte=chunk.start_byte,
        end_byte=chunk.end_byte,
        text=chunk.text,
        definitions=chunk.definitions,
        names=extract_header_names(chunk.header, path),
        symbols=tuple(chunk_symbols(chunk)),
    )


def make_overlay(files: Iterable[OverlayFile]) -> Overlay | None:
    """Make an overlay of files; None without files.

    Equal texts with equal vectors give equal overlays.
    """
    by_path = {file.path: file for file in sorted(files, key=lambda file: file.path)}
    digest = hashlib.blake2b(digest_size=16)
    for path, file in by_path.items():
        digest.update(
            repr((path, file.text.content_hash)).encode("utf-8", "surrogatepass")
            + file.vectors.tobytes()
        )
    return Overlay(by_path, digest.hexdigest()) if by_path else None


def best_candidates(candidates: Iterable[Candidate], limit: int) -> tuple[Candidate, ...]:
    """Return the candidates with the highest scores, in the store's order."""
    return tuple(sorted(candidates, key=lambda row: (-row.score, row.key))[:limit])


def _rows(file: OverlayFile) -> Iterator[Candidate]:
    for chunk in file.chunks:
        yield Candidate(
            path=file.path,
            start_byte=chunk.start_byte,
            end_byte=chunk.end_byte,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            language=chunk.language,
            block_type=chunk.block_type,
            hierarchy=chunk.hierarchy,
            symbol_type=chunk.symbol_type,
            symbol_name=chunk.symbol_name,
            symbol_signature=chunk.symbol_signature,
            content=chunk.text,
            definitions=chunk.definitions,
            header=chunk.header,
            score=0.0,
        )
