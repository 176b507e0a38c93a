"""Segments: the postings of files as immutable arrays.

A segment is built from documents and finds the rows of a term. Terms and names are sorted hashes,
each with a slice of rows (compressed sparse rows). The chunks of a file are contiguous. A segment
does not record which files are alive. A `SegmentView` pairs a segment with its live files; a view
is replaced, never changed. Segments are stored on disk: if a column changes, raise
`segment_files.FORMAT`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.analysis.documents import (
    ChunkPostings,
    Documents,
    NamePostings,
    SymbolPostings,
)
from cocosearchd.search.lexical.analysis.terms import term_hash
from cocosearchd.search.lexical.array_types import (
    Array,
    Floats,
    Ints,
    Mask,
    concatenate,
    mark_changes,
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Segment:
    """The postings of F files and C chunks, with P chunk rows, Q file rows and N names.

    A segment has only arrays, so that it can be mapped from disk. Segments are compared by
    identity.
    """

    paths: NDArray[np.uint8]  # UTF-8, concatenated
    path_ends: Ints  # (F,)
    languages: NDArray[np.uint8]  # UTF-8, concatenated
    language_ends: Ints  # (F,)
    generations: Ints  # (F,)
    digests: NDArray[np.uint64]  # (F,): digest of the stored chunks; 0 if unknown
    characters: Ints  # (F,)
    chunk_starts: Ints  # (F,): the first chunk of each file
    chunk_ends: Ints  # (F,): the chunk after the last of each file
    file_lengths: Floats  # (F, 4): terms of everything, defined, commented, path
    file_vectors: NDArray[np.int8]  # (F, D): the mean of the vectors of a file's chunks
    file_scales: Floats  # (F,): 0 if no chunk has a vector
    keys: Ints  # (C, 2): start and end byte
    chunk_files: NDArray[np.int32]  # (C,)
    chunk_lengths: Floats  # (C,): terms of text and header
    vectors: NDArray[np.int8]  # (C, D); D = 0 without vectors
    # (C,): the factor of each row of `vectors`; 0 for a chunk without a vector
    scales: Floats
    without_vector: Ints  # numbers of the chunks without a vector
    # (W, C): one bit per dimension of a vector; W = D / 64, rounded up
    binary_vectors: NDArray[np.uint64]
    chunk_terms: NDArray[np.uint64]  # sorted, unique
    chunk_slices: Ints  # (terms + 1,)
    posting_chunks: NDArray[np.int32]  # (P,)
    posting_counts: NDArray[np.uint8]  # (P,)
    file_terms: NDArray[np.uint64]
    file_slices: Ints
    posting_files: NDArray[np.int32]  # (Q,)
    posting_everything: NDArray[np.uint16]
    posting_defined: NDArray[np.uint8]
    posting_commented: NDArray[np.uint16]
    posting_paths: NDArray[np.uint8]
    exact_names: NDArray[np.uint64]  # (N,) sorted
    exact_chunks: NDArray[np.int32]
    exact_values: Floats
    folded_names: NDArray[np.uint64]  # (N,) sorted
    folded_chunks: NDArray[np.int32]
    folded_values: Floats
    symbol_terms: NDArray[np.uint64]  # (S,) of kind and name, sorted, unique
    symbol_kinds: NDArray[np.uint64]  # (S,)
    symbol_names: NDArray[np.uint8]  # UTF-8, concatenated
    symbol_ends: Ints  # (S,)
    symbol_slices: Ints  # (S + 1,)
    posting_symbols: NDArray[np.int32]  # chunks

    @property
    def file_count(self) -> int:
        """Number of files, F, including dead files."""
        return len(self.path_ends)

    @property
    def chunk_count(self) -> int:
        """Number of chunks, C, including those of dead files."""
        return len(self.keys)

    def path_list(self) -> list[str]:
        """Return the paths, in the order of the files."""
        return _unpack_texts(self.paths, self.path_ends)

    def language_list(self) -> list[str]:
        """Return the languages, in the order of the files."""
        return _unpack_texts(self.languages, self.language_ends)

    def defining_chunks(self) -> Mask:
        """Mark the chunks in which a definition begins, (C,)."""
        mask = np.zeros(self.chunk_count, np.bool_)
        mask[self.exact_chunks] = True
        return mask

    def chunk_row_bounds(self, terms: NDArray[np.uint64]) -> tuple[Ints, Ints]:
        """Find the first row of each term in `posting_chunks`, and the end of its rows."""
        return _find_bounds(self.chunk_terms, self.chunk_slices, terms)

    def file_row_bounds(self, terms: NDArray[np.uint64]) -> tuple[Ints, Ints]:
        """Find the first row of each term in `posting_files`, and the end of its rows."""
        return _find_bounds(self.file_terms, self.file_slices, terms)

    def chunk_rows(self, terms: NDArray[np.uint64]) -> list[slice]:
        """Find the rows of each term in `posting_chunks` and its parallel columns."""
        return _find_rows(self.chunk_terms, self.chunk_slices, terms)

    def file_rows(self, terms: NDArray[np.uint64]) -> list[slice]:
        """Find the rows of each term in `posting_files` and its parallel columns."""
        return _find_rows(self.file_terms, self.file_slices, terms)


@dataclass(frozen=True, slots=True)
class SegmentView:
    """A segment with the masks of its live files, `alive` (F,), and chunks, `alive_chunks` (C,).

    A mask is None if all are alive. `restored_generations`, (F,), has the generations of files that
    were dead and were restored since the segment was made; None if no file was restored.
    """

    segment: Segment
    alive: Mask | None = None
    alive_chunks: Mask | None = None
    restored_generations: Ints | None = None

    def with_deleted(self, files: Sequence[int]) -> "SegmentView":
        """Return a copy in which these files are dead.

        The masks are copied, because readers may still use the old masks.
        """
        alive = self._copy_alive()
        alive[list(files)] = False
        return replace(self, alive=alive, alive_chunks=alive[self.segment.chunk_files])

    def with_restored(self, files: Sequence[int], generations: Sequence[int]) -> "SegmentView":
        """Return a copy in which these dead files are alive again, with new `generations`."""
        alive = self._copy_alive()
        restored = self.generations.copy()
        alive[list(files)] = True
        restored[list(files)] = generations
        if alive.all():
            return SegmentView(self.segment, restored_generations=restored)
        return SegmentView(self.segment, alive, alive[self.segment.chunk_files], restored)

    def _copy_alive(self) -> Mask:
        alive = np.zeros(self.segment.file_count, np.bool_)
        alive[self.live_files] = True
        return alive

    @property
    def generations(self) -> Ints:
        """The generation of the last change of each file, (F,)."""
        return (
            self.segment.generations
            if self.restored_generations is None
            else self.restored_generations
        )

    @property
    def live_files(self) -> slice | Mask:
        """Index of the live files in a column of files."""
        return slice(None) if self.alive is None else self.alive

    @property
    def live_chunks(self) -> slice | Mask:
        """Index of the live chunks in a column of chunks."""
        return slice(None) if self.alive_chunks is None else self.alive_chunks

    @property
    def live_file_count(self) -> int:
        """Number of live files."""
        return self.segment.file_count if self.alive is None else int(self.alive.sum())


def build_segment(documents: Sequence[Documents], dimension: int = 0) -> Segment:
    """Build one segment from documents, in their order.

    `dimension` is the dimension of the vectors. Documents without vectors get zero rows.
    """
    counts = _join(documents, "chunk_counts", np.int64)
    ends = np.cumsum(counts)
    vectors = _join_vectors([batch.vectors for batch in documents], dimension)
    scales = _join(documents, "scales", np.float32)
    paths, path_ends = _pack_texts([path for batch in documents for path in batch.paths])
    languages, language_ends = _pack_texts(
        [language for batch in documents for language in batch.languages]
    )
    return Segment(
        paths=paths,
        path_ends=path_ends,
        languages=languages,
        language_ends=language_ends,
        generations=_join(documents, "generations", np.int64),
        digests=_join(documents, "digests", np.uint64),
        characters=_join(documents, "characters", np.int64),
        chunk_starts=ends - counts,
        chunk_ends=ends,
        keys=_join(documents, "keys", np.int64).reshape(-1, 2),
        chunk_files=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        vectors=vectors,
        binary_vectors=quantise_to_bits(vectors),
        file_vectors=_join_vectors([batch.means for batch in documents], dimension),
        file_scales=_join(documents, "mean_scales", np.float32),
        scales=scales,
        without_vector=np.flatnonzero(scales == 0),
        **_chunk_columns(documents),
        **_file_columns(documents),
        **_name_columns(documents),
        **_symbol_columns(documents),
    )


def _chunk_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    postings = [batch.chunk_postings for batch in documents]
    order, terms, slices = _sort_by_term(_join(postings, "term", np.uint64))
    return {
        "chunk_lengths": _join(postings, "lengths", np.float32),
        "chunk_terms": terms,
        "chunk_slices": slices,
        "posting_chunks": _join_chunk_numbers(documents, postings)[order],
        "posting_counts": _join(postings, "count", np.uint8)[order],
    }


def _file_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    postings = [batch.file_postings for batch in documents]
    order, terms, slices = _sort_by_term(_join(postings, "term", np.uint64))
    files = _renumber([batch.file for batch in postings], [len(batch.paths) for batch in documents])
    return {
        "file_lengths": _join(postings, "lengths", np.float32).reshape(-1, 4),
        "file_terms": terms,
        "file_slices": slices,
        "posting_files": files[order],
        "posting_everything": _join(postings, "everything", np.uint16)[order],
        "posting_defined": _join(postings, "defined", np.uint8)[order],
        "posting_commented": _join(postings, "commented", np.uint16)[order],
        "posting_paths": _join(postings, "path", np.uint8)[order],
    }


def _name_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    postings = [batch.names for batch in documents]
    chunks = _join_chunk_numbers(documents, postings)
    values = _join(postings, "value", np.float32)
    columns = dict[str, Array]()
    for kind in ("exact", "folded"):
        names = _join(postings, kind, np.uint64)
        order = np.argsort(names, kind="stable")
        columns |= {
            f"{kind}_names": names[order],
            f"{kind}_chunks": chunks[order],
            f"{kind}_values": values[order],
        }
    return columns


def _symbol_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    postings = [batch.symbols for batch in documents]
    symbols = [symbol for batch in postings for symbol in batch.symbols]
    hashes = {symbol: term_hash("\0".join(symbol)) for symbol in set(symbols)}
    order, terms, slices = _sort_by_term(
        np.array([hashes[symbol] for symbol in symbols], np.uint64)
    )
    firsts = [symbols[row] for row in order[slices[:-1]].tolist()]
    names, ends = _pack_texts([name for _, name in firsts])
    kinds = np.array([term_hash(kind) for kind, _ in firsts], np.uint64)
    return {
        "symbol_terms": terms,
        "symbol_kinds": kinds,
        "symbol_names": names,
        "symbol_ends": ends,
        "symbol_slices": slices,
        "posting_symbols": _join_chunk_numbers(documents, postings)[order],
    }


def quantise_to_bits(vectors: NDArray[np.int8] | Floats) -> NDArray[np.uint64]:
    """Quantise vectors, (n, D), to one bit per number: (W, n) words of 64 bits.

    A bit is set for a number above zero. The last word is padded with zeros. The words of one
    position are contiguous, because a query is compared with the same word of all rows at once.
    """
    packed = np.packbits(vectors > 0, axis=1)
    words = -(-packed.shape[1] // 8)
    filled = np.zeros((len(vectors), words * 8), np.uint8)
    filled[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(filled.view(np.uint64).T)


def size_bytes(segment: Segment) -> int:
    """Return the size of all arrays in bytes."""
    return sum(getattr(segment, column.name).nbytes for column in fields(Segment))


def _find_rows(
    sorted_terms: NDArray[np.uint64], slices: Ints, terms: NDArray[np.uint64]
) -> list[slice]:
    starts, ends = _find_bounds(sorted_terms, slices, terms)
    return list(map(slice, starts.tolist(), ends.tolist()))


def _find_bounds(
    sorted_terms: NDArray[np.uint64], slices: Ints, terms: NDArray[np.uint64]
) -> tuple[Ints, Ints]:
    numbers = sorted_terms.searchsorted(terms)
    # The end of an unknown term equals its start.
    numbers_after = sorted_terms.searchsorted(terms, side="right")
    return slices.take(numbers), slices.take(numbers_after)


def _sort_by_term(terms: NDArray[np.uint64]) -> tuple[Ints, NDArray[np.uint64], Ints]:
    """Sort rows stably by term; return the order, the unique terms and their slices."""
    order = np.argsort(terms, kind="stable")
    ordered = terms[order]
    starts = np.flatnonzero(mark_changes(ordered))
    return order, ordered[starts], np.append(starts, len(terms))


def _join(batches: Sequence[object], column: str, kind: type) -> Array:
    """Concatenate one column of all batches."""
    return concatenate([getattr(batch, column) for batch in batches], kind)


def _join_vectors(vectors: Sequence[NDArray[np.int8]], dimension: int) -> NDArray[np.int8]:
    """Concatenate vectors. Vectors of another dimension become zero rows."""
    blocks = [
        rows if rows.shape[1] == dimension else np.zeros((len(rows), dimension), np.int8)
        for rows in vectors
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, dimension), np.int8)


def _join_chunk_numbers(
    documents: Sequence[Documents],
    postings: Sequence[ChunkPostings | NamePostings | SymbolPostings],
) -> NDArray[np.int32]:
    """Concatenate the chunk numbers of postings, renumbered across all documents."""
    return _renumber([batch.chunk for batch in postings], [len(batch.keys) for batch in documents])


def _renumber(numbers: Sequence[NDArray[np.int32]], sizes: Sequence[int]) -> NDArray[np.int32]:
    """Concatenate positions within batches, renumbered across all. `sizes` has the count per batch."""
    firsts = np.cumsum([0, *sizes], dtype=np.int32)[:-1]
    return concatenate(
        [part + first for part, first in zip(numbers, firsts, strict=True)], np.int32
    )


def _pack_texts(texts: Sequence[str]) -> tuple[NDArray[np.uint8], Ints]:
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(raw), np.uint8), np.cumsum(
        [len(encoded) for encoded in raw], dtype=np.int64
    )


def _unpack_texts(blob: NDArray[np.uint8], ends: Ints) -> list[str]:
    raw = blob.tobytes()
    stops = ends.tolist()
    starts = [0, *stops][: len(stops)]
    if raw.isascii():  # true for nearly all paths: then byte offsets are character offsets
        text = raw.decode("ascii")
        return [text[start:end] for start, end in zip(starts, stops, strict=True)]
    return [
        raw[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip(starts, stops, strict=True)
    ]
