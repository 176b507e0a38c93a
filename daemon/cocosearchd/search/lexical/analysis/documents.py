"""Makes documents of the lexical index from files: term counts by field, names, sizes. Pure.

Many files are counted together: one array operation costs as much for one file as for fifty.
Segments are built from documents: if the counted values change, raise `segment_files.FORMAT`.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages.patterns.comments import LONG_TEXT
from cocosearchd.languages.patterns.definition_rules import FUNCTION, MINOR
from cocosearchd.languages.patterns.definitions import Definition
from cocosearchd.search.lexical.analysis.chunk_terms import (
    ChunkTermCache,
    ChunkWords,
    TermChunk,
    unpack_numbers,
)
from cocosearchd.search.lexical.analysis.term_table import TEXT_START, Numbers, WordTable
from cocosearchd.search.lexical.analysis.terms import WORD, TermCache

# Weights in the field `everything`: a term in the path or in a defined name counts as much as so
# many terms in the text.
PATH_WEIGHT = 5
DEFINITION_WEIGHT = 3
_DIRECTORIES = 3  # counted directories of a path, from the right
_STEM_REPEATS = 2  # the file's own name counts twice
# Weight of the names of a chunk. Measured with sentences that search for a function: see
# training.evaluate.
_NAME_REPEATS = 3
_Small = TypeVar("_Small", np.uint8, np.uint16)
BATCH_FILES = 64  # larger batches do not make a step cheaper
_OWNER_BITS = 32
_OWNER = (1 << _OWNER_BITS) - 1
_FIELDS = 4  # fields of a file, in this order: body, defined, commented, path


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A stored chunk.

    `definitions` are names from the syntax tree; `names` are those in its header. `symbols` has the
    kind and qualified name of each definition, for filters.
    """

    start_byte: int
    end_byte: int
    text: str
    definitions: tuple[str, ...] = ()
    names: str = ""
    symbols: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FileText:
    """A stored file. Its chunks are in order of position."""

    path: str
    generation: int
    language: str
    chunks: tuple[ChunkText, ...]
    # (chunks, dimension), with a zero row for a chunk without a vector; or (chunks, 0)
    vectors: NDArray[np.float32]
    digest: int = 0  # 64-bit digest of all chunks; 0 if unknown


@dataclass(frozen=True, slots=True)
class ChunkPostings:
    """Parallel arrays with one row per term of a chunk; `lengths` has one row per chunk.

    Rows of a term are in the order of the chunks. Terms are in any order, but `build_segment` is
    fastest if they are in the order of their hashes. The header of a chunk counts as the words of
    its path and, three times, the names of its enclosing definition and of its own definitions.
    """

    term: NDArray[np.uint64]
    chunk: NDArray[np.int32]  # within the documents
    count: NDArray[np.uint8]  # occurrences in the text and its header, at most 255
    lengths: NDArray[np.float32]  # (chunks,): terms of text and header


@dataclass(frozen=True, slots=True)
class FilePostings:
    """Parallel arrays with one row per term of a file, in the same order as in `ChunkPostings`.

    `lengths` are the sums of the columns for each file.
    """

    term: NDArray[np.uint64]
    file: NDArray[np.int32]  # within the documents
    everything: NDArray[np.uint16]  # text + 5 x path + 3 x defined names
    defined: NDArray[np.uint8]
    commented: NDArray[np.uint16]  # wider than a byte: a common word of a long comment passes 255
    path: NDArray[np.uint8]
    lengths: NDArray[np.float32]  # (files, 4)


@dataclass(frozen=True, slots=True)
class NamePostings:
    """Defined names with one row per (name, chunk).

    `exact` and `folded` are hashes of the name and of its folded form (`fold_name`).
    """

    exact: NDArray[np.uint64]
    folded: NDArray[np.uint64]
    chunk: NDArray[np.int32]
    value: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SymbolPostings:
    """Symbols for filters, with one row per (symbol, chunk)."""

    symbols: tuple[tuple[str, str], ...]  # kind and qualified name
    chunk: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The postings of the texts of F files with C chunks.

    A worker process computes it, so that no text can stop the daemon.
    """

    characters: NDArray[np.int64]  # (F,)
    chunk_postings: ChunkPostings
    file_postings: FilePostings
    names: NamePostings


@dataclass(frozen=True, slots=True)
class Documents:
    """Files that are ready for a segment: F files with C chunks, in order."""

    paths: tuple[str, ...]
    languages: tuple[str, ...]
    generations: NDArray[np.int64]  # (F,)
    digests: NDArray[np.uint64]  # (F,)
    characters: NDArray[np.int64]  # (F,)
    chunk_counts: NDArray[np.int64]  # (F,)
    keys: NDArray[np.int64]  # (C, 2): start and end byte
    vectors: NDArray[np.int8]  # (C, dimension), or (C, 0)
    scales: NDArray[np.float32]  # (C,)
    means: NDArray[np.int8]  # (F, dimension): mean of the vectors of each file
    mean_scales: NDArray[np.float32]  # (F,); 0 if no chunk has a vector
    chunk_postings: ChunkPostings
    file_postings: FilePostings
    names: NamePostings
    symbols: SymbolPostings


@dataclass(frozen=True, slots=True)
class _FileTerms:
    """The word numbers of F files with C chunks, in order, and the definitions by chunk."""

    ends: list[int]  # (F,): end of the chunks of each file
    definitions: list[tuple[Definition, ...]]  # (C,)
    body: Numbers  # each chunk begins with TEXT_START
    headers: list[list[int]]  # (C,)
    defined: list[list[int]]  # (F,)
    commented: list[Numbers]  # (F,)
    paths: list[list[int]]  # (F,)
    characters: list[int]  # (F,)


def make_document(file: FileText, terms: TermCache) -> Documents:
    """Count the terms of one file."""
    return next(make_documents([file], terms))


def make_documents(files: Sequence[FileText], terms: TermCache) -> Iterator[Documents]:
    """Count the terms of files, in order, in batches. All vectors have one dimension."""
    for start in range(0, len(files), BATCH_FILES):
        batch = files[start : start + BATCH_FILES]
        yield assemble_documents(batch, analyse(batch, terms.chunk_cache()))


def analyse(files: Sequence[FileText], cache: ChunkTermCache) -> Analysis:
    """Count the terms of files and find their definitions. Vectors are ignored."""
    file_terms = _read_files(files, cache)
    table = cache.table
    chunk_postings, file_postings = _count_postings(file_terms, table)
    return Analysis(
        np.array(file_terms.characters, np.int64),
        chunk_postings,
        file_postings,
        _hash_names(file_terms, table),
    )


def assemble_documents(files: Sequence[FileText], analysis: Analysis) -> Documents:
    """Combine files with their analysis. All vectors have one dimension."""
    chunks = [chunk for file in files for chunk in file.chunks]
    vectors, scales = quantise_to_int8(np.concatenate([file.vectors for file in files]))
    means, mean_scales = quantise_to_int8(np.stack([_mean(file.vectors) for file in files]))
    keys = [(chunk.start_byte, chunk.end_byte) for chunk in chunks]
    return Documents(
        paths=tuple(file.path for file in files),
        languages=tuple(file.language for file in files),
        generations=_column(files, "generation", np.int64),
        digests=_column(files, "digest", np.uint64),
        characters=analysis.characters,
        chunk_counts=np.array([len(file.chunks) for file in files], np.int64),
        keys=np.array(keys, np.int64).reshape(-1, 2),
        vectors=vectors,
        scales=scales,
        means=means,
        mean_scales=mean_scales,
        chunk_postings=analysis.chunk_postings,
        file_postings=analysis.file_postings,
        names=analysis.names,
        symbols=_collect_symbols([chunk.symbols for chunk in chunks]),
    )


def _column(items: Sequence[object], field: str, kind: type) -> NDArray[Any]:
    return np.array([getattr(item, field) for item in items], kind)


def _mean(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of the non-zero rows; zero if there are none."""
    nonzero = vectors[vectors.any(axis=1)]
    mean: NDArray[np.float32] = nonzero.sum(axis=0) / np.float32(len(nonzero) or 1)
    return mean


def quantise_to_int8(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise each row to int8 with a scale: row ~ int8 row x scale. A zero row has scale 0."""
    scales = (np.abs(vectors).max(axis=1, initial=0) / 127).astype(np.float32)
    safe = np.where(scales > 0, scales, 1)[:, None]
    return np.round(vectors / safe).astype(np.int8), scales


def extract_header_names(header: str, path: str) -> str:
    """Extract the names in the header of a chunk.

    These are the names of its enclosing definitions and of its own definitions.
    """
    return header.removeprefix(path).lstrip()


def cased_stem(path: str) -> str:
    """Return the name of a file without its last extension; a dot file keeps its name."""
    return posixpath.splitext(posixpath.basename(path))[0]


def _path_words(path: str) -> list[str]:
    directories = posixpath.dirname(path).split("/")[-_DIRECTORIES:]
    return WORD.findall(cased_stem(path)) * _STEM_REPEATS + [
        word for part in directories for word in WORD.findall(part)
    ]


def _cut_overlaps(chunks: Sequence[ChunkText]) -> list[str]:
    """Cut off the overlap of each chunk with the chunk before, so that each text is counted once."""
    texts = []
    reached = 0
    for chunk in chunks:
        text = chunk.text
        if chunk.start_byte < reached:
            text = text.encode()[reached - chunk.start_byte :].decode("utf-8", "replace")
        texts.append(text)
        reached = max(reached, chunk.end_byte)
    return texts


def _read_files(files: Sequence[FileText], cache: ChunkTermCache) -> _FileTerms:
    texts = [_cut_overlaps(file.chunks) for file in files]
    words = cache.read(list(chain.from_iterable(map(_term_chunks, files, texts))))
    number = cache.table.number
    ends = np.cumsum([len(file.chunks) for file in files]).tolist()
    words_by_file = [words[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    paths = [[number(word) for word in _path_words(file.path)] for file in files]
    headers = list[list[int]]()
    defined = list[list[int]]()
    commented = list[Numbers]()
    for file, path, new_texts, chunk_words in zip(files, paths, texts, words_by_file, strict=True):
        headers.extend(_number_headers(file.chunks, path, chunk_words, number))
        defined.append(_number_definitions(chunk_words, number))
        commented.append(_comment_words(file.language, new_texts, chunk_words, cache))
    return _FileTerms(
        ends=ends,
        definitions=[words_of_chunk.definitions for words_of_chunk in words],
        body=unpack_numbers([words_of_chunk.body for words_of_chunk in words]),
        headers=headers,
        defined=defined,
        commented=commented,
        paths=paths,
        characters=[sum(map(len, new_texts)) for new_texts in texts],
    )


def _term_chunks(file: FileText, new_texts: Sequence[str]) -> Iterator[TermChunk]:
    for chunk, text in zip(file.chunks, new_texts, strict=True):
        yield TermChunk(chunk.text, text, file.language, chunk.definitions)


def _number_definitions(
    chunk_words: Sequence[ChunkWords], number: Callable[[str], int]
) -> list[int]:
    names = {item.name for words in chunk_words for item in words.definitions}
    return [number(name) for name in names]


def _number_headers(
    chunks: Sequence[ChunkText],
    path: list[int],
    chunk_words: Sequence[ChunkWords],
    number: Callable[[str], int],
) -> Iterator[list[int]]:
    """Yield for each chunk of a file the numbers of its header's words: path and names."""
    defined = _header_names(words_of_chunk.definitions for words_of_chunk in chunk_words)
    for chunk, names in zip(chunks, defined, strict=True):
        yield [*path, *[number(name) for name in chunk.names.split() or names] * _NAME_REPEATS]


def _comment_words(
    language: str, texts: Sequence[str], chunk_words: Sequence[ChunkWords], cache: ChunkTermCache
) -> Numbers:
    """Return the words in the comments of a file: from its chunks, or from the whole file.

    The whole file is read if the start of a comment depends on more than one chunk.
    """
    by_chunk = [
        words_of_chunk.comments
        for words_of_chunk in chunk_words
        if words_of_chunk.comments is not None
    ]
    if len(by_chunk) == len(chunk_words) and sum(map(len, texts)) + len(texts) <= LONG_TEXT:
        return unpack_numbers(by_chunk)
    return cache.comment_words(language, texts)


def _header_names(defined: Iterable[Sequence[Definition]]) -> Iterator[list[str]]:
    """Yield for each chunk its enclosing type and definition, then its own definitions.

    The enclosing definition is the last one before the chunk: ends of scopes are not checked.
    """
    inside_type = ""
    inside = ""
    for definitions_of_chunk in defined:
        yield [inside_type, inside, *dict.fromkeys(item.name for item in definitions_of_chunk)]
        for item in definitions_of_chunk:
            if item.value > MINOR and "." not in item.name:
                inside = item.name
                inside_type = item.name if item.value > FUNCTION else inside_type


def _count_postings(file_terms: _FileTerms, table: WordTable) -> tuple[ChunkPostings, FilePostings]:
    """Count the rows of chunks and files, with terms ordered by hash.

    Terms are replaced by the ranks of their hashes, so that each row is sorted once, by a number.
    """
    fields = (
        (file_terms.body, np.cumsum(file_terms.body == TEXT_START) - 1),
        (_concatenate(file_terms.headers), _owners(file_terms.headers)),
        (_concatenate(file_terms.defined), _owners(file_terms.defined)),
        (np.concatenate(file_terms.commented), _owners(file_terms.commented)),
        (_concatenate(file_terms.paths), _owners(file_terms.paths)),
    )
    term, per_word = table.terms(np.concatenate([words for words, _ in fields]))
    hashes, rank = _rank_terms(term, table)
    owner = np.repeat(np.concatenate([owners for _, owners in fields]), per_word)
    counts = [
        int(counts_of_field.sum())
        for counts_of_field in np.split(
            per_word, np.cumsum([len(words) for words, _ in fields])[:-1]
        )
    ]
    body = counts[0]
    chunks = counts[0] + counts[1]
    chunk_counts = np.diff(file_terms.ends, prepend=0)
    file = np.repeat(np.arange(len(file_terms.ends)), chunk_counts)  # of each chunk
    files = (
        np.concatenate([file[owner[:body]], owner[chunks:]]),
        np.concatenate([rank[:body], rank[chunks:]]),
    )
    field = np.repeat(np.arange(_FIELDS), [body, *counts[2:]])
    return (
        _count_by_chunk(owner[:chunks], rank[:chunks], hashes, len(file_terms.headers)),
        _count_by_file(*files, field, hashes, len(file_terms.ends)),
    )


def _rank_terms(terms: Numbers, table: WordTable) -> tuple[NDArray[np.uint64], Numbers]:
    """Return the unique hashes of terms, ascending, and the rank of each term's hash."""
    ranks = np.zeros(terms.max(initial=0) + 1, np.int64)
    ranks[terms] = 1
    unique_terms = np.flatnonzero(ranks)
    hashes = table.hashes(unique_terms)
    order = np.argsort(hashes)
    ranks[unique_terms[order]] = np.arange(len(unique_terms))
    return hashes[order], ranks[terms]


def _count_by_chunk(
    chunks: Numbers, ranks: Numbers, hashes: NDArray[np.uint64], size: int
) -> ChunkPostings:
    """Count terms by chunk. `size` is the number of chunks."""
    key, times = np.unique(ranks << _OWNER_BITS | chunks, return_counts=True)
    chunk = key & _OWNER
    count = _clip(times, np.uint8)
    lengths = np.bincount(chunk, times, size).astype(np.float32)
    return ChunkPostings(hashes[key >> _OWNER_BITS], chunk.astype(np.int32), count, lengths)


def _count_by_file(
    files: Numbers, ranks: Numbers, fields: Numbers, hashes: NDArray[np.uint64], size: int
) -> FilePostings:
    """Count terms by file and field. `size` is the number of files."""
    # A row is a pair of term and file. The field is the last part of the key, so that the fields of
    # a row are adjacent.
    key, times = np.unique((ranks << _OWNER_BITS | files) * _FIELDS + fields, return_counts=True)
    row, number = _group_sorted(key // _FIELDS)
    counts = np.zeros((_FIELDS, len(row)), np.int64)
    counts[key % _FIELDS, number] = times
    body, defined, commented, path = counts
    everything = body + PATH_WEIGHT * path + DEFINITION_WEIGHT * defined
    file = row & _OWNER
    sums = [np.bincount(file, column, size) for column in (everything, defined, commented, path)]
    return FilePostings(
        term=hashes[row >> _OWNER_BITS],
        file=file.astype(np.int32),
        everything=_clip(everything, np.uint16),
        defined=_clip(defined, np.uint8),
        commented=_clip(commented, np.uint16),
        path=_clip(path, np.uint8),
        lengths=np.stack(sums, axis=1).astype(np.float32),
    )


def _group_sorted(values: Numbers) -> tuple[Numbers, Numbers]:
    """Return the unique values of sorted values, and for each value the position among them."""
    first = np.append(True, values[1:] != values[:-1])[: len(values)]
    return values[first], np.cumsum(first) - 1


def _hash_names(file_terms: _FileTerms, table: WordTable) -> NamePostings:
    items = [
        item for definitions_of_chunk in file_terms.definitions for item in definitions_of_chunk
    ]
    exact, folded = table.names([item.name for item in items])
    value = np.array([item.value for item in items], np.float32)
    return NamePostings(exact, folded, _owners(file_terms.definitions).astype(np.int32), value)


def _collect_symbols(symbols: Sequence[tuple[tuple[str, str], ...]]) -> SymbolPostings:
    """Collect the symbols of all chunks. `symbols` has one tuple per chunk."""
    return SymbolPostings(tuple(chain.from_iterable(symbols)), _owners(symbols).astype(np.int32))


def _owners(lists: Sequence[Sized]) -> Numbers:
    """Return for each element of the lists the number of its list."""
    return np.repeat(np.arange(len(lists)), [len(items) for items in lists])


def _concatenate(lists: Iterable[list[int]]) -> Numbers:
    return np.fromiter(chain.from_iterable(lists), np.int64)


def _clip(values: Numbers, kind: type[_Small]) -> NDArray[_Small]:
    return np.minimum(values, np.iinfo(kind).max).astype(kind)
