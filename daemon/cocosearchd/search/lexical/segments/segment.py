"""A segment: the postings of some files as immutable arrays. Built from documents, asked for a
term's rows.

Terms and names are sorted hashes with, for each, the slice of its rows (compressed sparse rows).
The chunks of a file are contiguous. Which files are alive is not part of a segment: `SegmentView`
pairs the two, and is replaced, not changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.analysis.documents import Documents
from cocosearchd.search.lexical.analysis.terms import term_hash

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Array = NDArray[Any]  # of the type the column has


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Segment:
    """Arrays only, so that it can be mapped from disk. F files, C chunks, P and Q rows, N names.

    One is equal to itself only.
    """

    paths: NDArray[np.uint8]  # UTF-8, all in one
    path_ends: Ints  # (F,)
    languages: NDArray[np.uint8]  # UTF-8, all in one
    language_ends: Ints  # (F,)
    generations: Ints  # (F,)
    digests: NDArray[np.uint64]  # (F,): of the chunks as stored; 0: not known
    characters: Ints  # (F,)
    chunk_starts: Ints  # (F,): the first chunk of each file
    chunk_ends: Ints  # (F,): and the one after its last
    file_lengths: Floats  # (F, 4): everything, defined, commented, path
    file_vectors: NDArray[np.int8]  # (F, D): the mean of the vectors of a file's chunks
    file_scales: Floats  # (F,): 0 where no chunk has a vector
    keys: Ints  # (C, 2): start and end byte
    start_lines: NDArray[np.int32]  # (C,)
    chunk_files: NDArray[np.int32]  # (C,)
    chunk_lengths: Floats  # (C,): terms of text and header
    vectors: NDArray[np.int8]  # (C, D); D = 0 without vectors
    # (C,): what a row of vectors is to be multiplied with; 0 where there is no vector
    scales: Floats
    without_vector: Ints  # the chunks that have none
    binary_vectors: NDArray[
        np.uint64
    ]  # (W, C): a bit for each number of a vector, W = D / 64 rounded up
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
    symbol_names: NDArray[np.uint8]  # UTF-8, all in one
    symbol_ends: Ints  # (S,)
    symbol_slices: Ints  # (S + 1,)
    posting_symbols: NDArray[np.int32]  # chunks

    @property
    def file_count(self) -> int:
        """F, the dead included."""
        return len(self.path_ends)

    @property
    def chunk_count(self) -> int:
        """C, those of dead files included."""
        return len(self.keys)

    def path_list(self) -> list[str]:
        """The paths, in the order of the files."""
        return _unpack_texts(self.paths, self.path_ends)

    def language_list(self) -> list[str]:
        """The languages, in the order of the files."""
        return _unpack_texts(self.languages, self.language_ends)

    def chunk_rows(self, terms: NDArray[np.uint64]) -> list[slice]:
        """For each term the rows of `posting_chunks` and its companions."""
        return _find_rows(self.chunk_terms, self.chunk_slices, terms)

    def file_rows(self, terms: NDArray[np.uint64]) -> list[slice]:
        """For each term the rows of `posting_files` and its companions."""
        return _find_rows(self.file_terms, self.file_slices, terms)


@dataclass(frozen=True, slots=True)
class SegmentView:
    """A segment and which of its files are alive: `alive` (F,), `alive_chunks` (C,). None: all are.

    `restored_generations` (F,): the generations of files that died and came back since the segment was made.
    None: none did.
    """

    segment: Segment
    alive: Mask | None = None
    alive_chunks: Mask | None = None
    restored_generations: Ints | None = None

    def with_deleted(self, files: Sequence[int]) -> "SegmentView":
        """A copy in which these files are dead. The masks are copied: readers may hold the old
        ones.
        """
        alive = (
            np.ones(self.segment.file_count, np.bool_) if self.alive is None else self.alive.copy()
        )
        alive[list(files)] = False
        return replace(self, alive=alive, alive_chunks=alive[self.segment.chunk_files])

    def with_restored(self, files: Sequence[int], generations: Sequence[int]) -> "SegmentView":
        """A copy in which these files, all of them dead, are alive again, of other generations."""
        alive = (
            np.ones(self.segment.file_count, np.bool_) if self.alive is None else self.alive.copy()
        )
        returned = self.generations.copy()
        alive[list(files)] = True
        returned[list(files)] = generations
        if alive.all():
            return SegmentView(self.segment, restored_generations=returned)
        return SegmentView(self.segment, alive, alive[self.segment.chunk_files], returned)

    @property
    def generations(self) -> Ints:
        """(F,): those that last changed each file."""
        return (
            self.segment.generations
            if self.restored_generations is None
            else self.restored_generations
        )

    @property
    def live_file_count(self) -> int:
        """How many files are alive."""
        return self.segment.file_count if self.alive is None else int(self.alive.sum())


def build_segment(documents: Sequence[Documents], dimension: int = 0) -> Segment:
    """One segment of documents, in their order. `dimension`: of the vectors; documents without any
    get zero rows.
    """
    counts = _concatenate([each.chunk_counts for each in documents], np.int64)
    ends = np.cumsum(counts)
    vectors = _concatenate_vectors([each.vectors for each in documents], dimension)
    scales = _concatenate([each.scales for each in documents], np.float32)
    paths, path_ends = _pack_texts([path for each in documents for path in each.paths])
    languages, language_ends = _pack_texts(
        [language for each in documents for language in each.languages]
    )
    return Segment(
        paths=paths,
        path_ends=path_ends,
        languages=languages,
        language_ends=language_ends,
        generations=_concatenate([each.generations for each in documents], np.int64),
        digests=_concatenate([each.digests for each in documents], np.uint64),
        characters=_concatenate([each.characters for each in documents], np.int64),
        chunk_starts=ends - counts,
        chunk_ends=ends,
        file_lengths=_concatenate(
            [each.file_postings.lengths for each in documents], np.float32
        ).reshape(-1, 4),
        keys=_concatenate([each.keys for each in documents], np.int64).reshape(-1, 2),
        start_lines=_concatenate([each.start_lines for each in documents], np.int32),
        chunk_files=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        chunk_lengths=_concatenate([each.chunk_postings.lengths for each in documents], np.float32),
        vectors=vectors,
        binary_vectors=quantise_to_bits(vectors),
        file_vectors=_concatenate_vectors([each.means for each in documents], dimension),
        file_scales=_concatenate([each.mean_scales for each in documents], np.float32),
        scales=scales,
        without_vector=np.flatnonzero(scales == 0),
        **_chunk_columns(documents),
        **_file_columns(documents),
        **_name_columns(documents),
        **_symbol_columns(documents),
    )


def _chunk_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    found = [each.chunk_postings for each in documents]
    order, terms, slices = _sort_by_term(_concatenate([each.term for each in found], np.uint64))
    chunks = _renumber([each.chunk for each in found], [len(each.keys) for each in documents])
    return {
        "chunk_terms": terms,
        "chunk_slices": slices,
        "posting_chunks": chunks[order],
        "posting_counts": _concatenate([each.count for each in found], np.uint8)[order],
    }


def _file_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    found = [each.file_postings for each in documents]
    order, terms, slices = _sort_by_term(_concatenate([each.term for each in found], np.uint64))
    files = _renumber([each.file for each in found], [len(each.paths) for each in documents])
    return {
        "file_terms": terms,
        "file_slices": slices,
        "posting_files": files[order],
        "posting_everything": _concatenate([each.everything for each in found], np.uint16)[order],
        "posting_defined": _concatenate([each.defined for each in found], np.uint8)[order],
        "posting_commented": _concatenate([each.commented for each in found], np.uint16)[order],
        "posting_paths": _concatenate([each.path for each in found], np.uint8)[order],
    }


def _name_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    found = [each.names for each in documents]
    chunks = _renumber([each.chunk for each in found], [len(each.keys) for each in documents])
    values = _concatenate([each.value for each in found], np.float32)
    columns = dict[str, Array]()
    for kind in ("exact", "folded"):
        names = _concatenate([getattr(each, kind) for each in found], np.uint64)
        order = np.argsort(names, kind="stable")
        columns |= {
            f"{kind}_names": names[order],
            f"{kind}_chunks": chunks[order],
            f"{kind}_values": values[order],
        }
    return columns


def _symbol_columns(documents: Sequence[Documents]) -> dict[str, Array]:
    found = [each.symbols for each in documents]
    symbols = [symbol for each in found for symbol in each.symbols]
    known = {symbol: term_hash("\0".join(symbol)) for symbol in set(symbols)}
    order, terms, slices = _sort_by_term(np.array([known[symbol] for symbol in symbols], np.uint64))
    chunks = _renumber([each.chunk for each in found], [len(each.keys) for each in documents])
    firsts = [symbols[row] for row in order[slices[:-1]].tolist()]
    names, ends = _pack_texts([name for _, name in firsts])
    kinds = np.array([term_hash(kind) for kind, _ in firsts], np.uint64)
    return {
        "symbol_terms": terms,
        "symbol_kinds": kinds,
        "symbol_names": names,
        "symbol_ends": ends,
        "symbol_slices": slices,
        "posting_symbols": chunks[order],
    }


def quantise_to_bits(vectors: NDArray[np.int8] | Floats) -> NDArray[np.uint64]:
    """(n, D) numbers -> (W, n): which of them are above zero, a bit each; the last word is filled
    up with zeros.

    Word by word, as a query is compared with the same word of all rows at once.
    """
    packed = np.packbits(vectors > 0, axis=1)
    words = -(-packed.shape[1] // 8)
    filled = np.zeros((len(vectors), words * 8), np.uint8)
    filled[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(filled.view(np.uint64).T)


def size_bytes(segment: Segment) -> int:
    """Bytes of all arrays."""
    return sum(getattr(segment, each.name).nbytes for each in fields(Segment))


def _find_rows(known: NDArray[np.uint64], slices: Ints, terms: NDArray[np.uint64]) -> list[slice]:
    at = np.searchsorted(known, terms)
    ends = np.searchsorted(known, terms, side="right")  # the same, where a term is not known
    return list(map(slice, slices[at].tolist(), slices[ends].tolist()))


def _sort_by_term(terms: NDArray[np.uint64]) -> tuple[Ints, NDArray[np.uint64], Ints]:
    """The order that sorts rows by term and keeps their order within one; the unique terms; their
    slices.
    """
    order = np.argsort(terms, kind="stable")
    ordered = terms[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(terms)])
    return order, ordered[starts], np.append(starts, len(terms))


def _concatenate_vectors(found: Sequence[NDArray[np.int8]], dimension: int) -> NDArray[np.int8]:
    """All rows; zero ones for those of another dimension."""
    rows = [
        each if each.shape[1] == dimension else np.zeros((len(each), dimension), np.int8)
        for each in found
    ]
    return np.concatenate(rows) if rows else np.zeros((0, dimension), np.int8)


def _renumber(found: Sequence[NDArray[np.int32]], sizes: Sequence[int]) -> NDArray[np.int32]:
    """Numbers within documents as numbers within all of them; `sizes`: how many there are in
    each.
    """
    firsts = np.cumsum([0, *sizes], dtype=np.int32)[:-1]
    return _concatenate([each + first for each, first in zip(found, firsts, strict=True)], np.int32)


def _pack_texts(texts: Sequence[str]) -> tuple[NDArray[np.uint8], Ints]:
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(raw), np.uint8), np.cumsum(
        [len(each) for each in raw], dtype=np.int64
    )


def _unpack_texts(blob: NDArray[np.uint8], ends: Ints) -> list[str]:
    raw, stops = blob.tobytes(), ends.tolist()
    starts = [0, *stops][: len(stops)]
    if raw.isascii():  # as nearly all paths are: then places of bytes are those of characters
        text = raw.decode("ascii")
        return [text[start:end] for start, end in zip(starts, stops, strict=True)]
    return [
        raw[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip(starts, stops, strict=True)
    ]


def _concatenate(arrays: Sequence[Array], kind: type) -> Array:
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.zeros(0, kind)
