"""What the lexical index keeps of files: term counts by field, names, sizes. Pure; rows in, arrays
out.

Files are counted together: a step over arrays costs as much for one of them as for fifty.
"""

import posixpath
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.analysis.chunk_terms import (
    ChunkTermCache,
    ChunkWords,
    TermChunk,
    unpack_numbers,
)
from cocosearchd.search.lexical.analysis.term_table import TEXT_START, Numbers, WordTable
from cocosearchd.search.lexical.analysis.terms import WORD, TermCache
from cocosearchd.search.lexical.analysis.text_definitions import (
    FUNCTION,
    LONG_TEXT,
    MINOR,
    Definition,
)

# What a term in the path or in a defined name weighs against one in the text, in the field of
# everything.
PATH_WEIGHT, DEFINITION_WEIGHT = 5, 3
_DIRECTORIES = 3  # of a path, from the right
_STEM_REPEATS = 2  # a file's own name counts twice
# of what a chunk is called: measured by sentences that look for a function, see training.evaluate
_NAME_REPEATS = 3
_Small = TypeVar("_Small", np.uint8, np.uint16)
BATCH_FILES = 64  # files: more make no step cheaper
_OWNER_BITS = 32
_OWNER = (1 << _OWNER_BITS) - 1
_FIELDS = 4  # of a file: body, defined, commented, path, in this order


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk as stored. `definitions` are the names the syntax tree found in it, `names` those of
    its header.

    `symbols`: kind and qualified name of each definition, as filters have them.
    """

    start_byte: int
    end_byte: int
    start_line: int
    text: str
    definitions: tuple[str, ...] = ()
    names: str = ""
    symbols: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as stored; chunks in order of place."""

    path: str
    generation: int
    language: str
    chunks: tuple[ChunkText, ...]
    # (chunks, dimension), a zero row where nothing is known; or (chunks, 0)
    vectors: NDArray[np.float32]
    digest: int = 0  # 64 bits of all of the chunks; 0: not known


@dataclass(frozen=True, slots=True)
class ChunkPostings:
    """Parallel arrays, one row per term of a chunk; and one row per chunk in `lengths`.

    Those of a term are in the order of the chunks. Their order by terms is any, but `build` is
    quickest where it is that of the hashes. The header of a chunk: the words of its path, and three
    times those of what it begins in and what it defines.
    """

    term: NDArray[np.uint64]
    chunk: NDArray[np.int32]  # within the documents
    count: NDArray[np.uint8]  # how often in the text and its header, at most 255
    lengths: NDArray[np.float32]  # (chunks,): terms of text and header


@dataclass(frozen=True, slots=True)
class FilePostings:
    """Parallel arrays, one row per term of a file, in an order as those of `ChunkPostings` have.

    `lengths` are the sums of the columns, by file.
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
    """Defined names: one row per (name, chunk). `exact` and `folded` are hashes of the name and of
    its lower case.
    """

    exact: NDArray[np.uint64]
    folded: NDArray[np.uint64]
    chunk: NDArray[np.int32]
    value: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SymbolPostings:
    """What filters on symbols ask for: one row per (symbol, chunk)."""

    symbols: tuple[tuple[str, str], ...]  # kind and qualified name
    chunk: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that the texts of F files with C chunks say. It is computed where no text can stop
    the daemon.
    """

    characters: NDArray[np.int64]  # (F,)
    chunk_postings: ChunkPostings
    file_postings: FilePostings
    names: NamePostings


@dataclass(frozen=True, slots=True)
class Documents:
    """Some files, ready for a segment: F files with C chunks, in order."""

    paths: tuple[str, ...]
    languages: tuple[str, ...]
    generations: NDArray[np.int64]  # (F,)
    digests: NDArray[np.uint64]  # (F,)
    characters: NDArray[np.int64]  # (F,)
    chunk_counts: NDArray[np.int64]  # (F,)
    keys: NDArray[np.int64]  # (C, 2): start and end byte
    start_lines: NDArray[np.int32]  # (C,)
    vectors: NDArray[np.int8]  # (C, dimension), or (C, 0)
    scales: NDArray[np.float32]  # (C,)
    means: NDArray[np.int8]  # (F, dimension): of the chunks that have a vector
    mean_scales: NDArray[np.float32]  # (F,): 0: none has
    chunk_postings: ChunkPostings
    file_postings: FilePostings
    names: NamePostings
    symbols: SymbolPostings


@dataclass(frozen=True, slots=True)
class _FileTerms:
    """Some files, read: F files, C chunks in order, the numbers of their words, what is defined in
    each chunk.
    """

    ends: list[int]  # (F,): of the chunks of each file
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
    """Count the terms of files whose vectors are of one dimension, in their order, some of them at
    a time.
    """
    for start in range(0, len(files), BATCH_FILES):
        some = files[start : start + BATCH_FILES]
        yield assemble_documents(some, analyse(some, terms.chunk_cache()))


def analyse(files: Sequence[FileText], memory: ChunkTermCache) -> Analysis:
    """Count the terms of files, whose vectors do not matter, and find what they define."""
    read, table = _read_files(files, memory), memory.table
    chunk_postings, file_postings = _count_postings(read, table)
    return Analysis(
        np.array(read.characters, np.int64), chunk_postings, file_postings, _hash_names(read, table)
    )


def assemble_documents(files: Sequence[FileText], analysis: Analysis) -> Documents:
    """The documents of files of which this is the analysis. Their vectors are of one dimension."""
    chunks = [chunk for file in files for chunk in file.chunks]
    vectors, scales = quantise_to_int8(np.concatenate([file.vectors for file in files]))
    means, mean_scales = quantise_to_int8(np.stack([_mean(file.vectors) for file in files]))
    return Documents(
        paths=tuple(file.path for file in files),
        languages=tuple(file.language for file in files),
        generations=np.array([file.generation for file in files], np.int64),
        digests=np.array([file.digest for file in files], np.uint64),
        characters=analysis.characters,
        chunk_counts=np.array([len(file.chunks) for file in files], np.int64),
        keys=np.array([(chunk.start_byte, chunk.end_byte) for chunk in chunks], np.int64).reshape(
            -1, 2
        ),
        start_lines=np.array([chunk.start_line for chunk in chunks], np.int32),
        vectors=vectors,
        scales=scales,
        means=means,
        mean_scales=mean_scales,
        chunk_postings=analysis.chunk_postings,
        file_postings=analysis.file_postings,
        names=analysis.names,
        symbols=_collect_symbols([chunk.symbols for chunk in chunks]),
    )


def _mean(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of the rows that are not zero; zero without any."""
    known = vectors[vectors.any(axis=1)]
    mean: NDArray[np.float32] = known.sum(axis=0) / np.float32(len(known) or 1)
    return mean


def quantise_to_int8(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows as int8 and their scales: row ~ int8 row x scale. A zero row has scale 0."""
    scales = (np.abs(vectors).max(axis=1, initial=0) / 127).astype(np.float32)
    safe = np.where(scales > 0, scales, 1)[:, None]
    return np.round(vectors / safe).astype(np.int8), scales


def extract_header_names(header: str, path: str) -> str:
    """What the header of a chunk says beside the path of its file: what the chunk begins in, and
    what it defines.
    """
    return header.removeprefix(path).lstrip()


def file_stem(path: str) -> str:
    """The file's name without its last extension; a dot file keeps its name."""
    return posixpath.splitext(posixpath.basename(path))[0]


def _path_words(path: str) -> list[str]:
    directories = posixpath.dirname(path).split("/")[-_DIRECTORIES:]
    return WORD.findall(file_stem(path)) * _STEM_REPEATS + [
        word for part in directories for word in WORD.findall(part)
    ]


def _cut_overlaps(chunks: Sequence[ChunkText]) -> list[str]:
    """The texts with what the chunk before already held cut off, so that a file is counted once."""
    texts, reached = [], 0
    for chunk in chunks:
        text = chunk.text
        if chunk.start_byte < reached:
            text = text.encode()[reached - chunk.start_byte :].decode("utf-8", "replace")
        texts.append(text)
        reached = max(reached, chunk.end_byte)
    return texts


def _read_files(files: Sequence[FileText], memory: ChunkTermCache) -> _FileTerms:
    texts = [_cut_overlaps(file.chunks) for file in files]
    chunks = [
        TermChunk(chunk.text, text, file.language, chunk.definitions)
        for file, own in zip(files, texts, strict=True)
        for chunk, text in zip(file.chunks, own, strict=True)
    ]
    words, number = memory.read(chunks), memory.table.number
    ends = np.cumsum([len(file.chunks) for file in files]).tolist()
    headers, defined, commented, paths = (
        list[list[int]](),
        list[list[int]](),
        list[Numbers](),
        list[list[int]](),
    )
    for file, own, start, end in zip(files, texts, [0, *ends], ends, strict=False):
        found = words[start:end]
        path = [number(word) for word in _path_words(file.path)]
        headers.extend(
            [*path, *[number(name) for name in chunk.names.split() or names] * _NAME_REPEATS]
            for chunk, names in zip(
                file.chunks, _header_names(each.definitions for each in found), strict=True
            )
        )
        defined.append(
            [number(name) for name in {item.name for each in found for item in each.definitions}]
        )
        commented.append(_comment_words(file.language, own, found, memory))
        paths.append(path)
    return _FileTerms(
        ends=ends,
        definitions=[each.definitions for each in words],
        body=unpack_numbers([each.body for each in words]),
        headers=headers,
        defined=defined,
        commented=commented,
        paths=paths,
        characters=[sum(map(len, own)) for own in texts],
    )


def _comment_words(
    language: str, texts: Sequence[str], found: Sequence[ChunkWords], memory: ChunkTermCache
) -> Numbers:
    """The words of the comments of a file: those of its chunks, unless what is a comment depends on
    the whole.
    """
    by_chunk = [each.comments for each in found if each.comments is not None]
    if len(by_chunk) == len(found) and sum(map(len, texts)) + len(texts) <= LONG_TEXT:
        return unpack_numbers(by_chunk)
    return memory.commented(language, texts)


def _header_names(defined: Iterable[Sequence[Definition]]) -> Iterator[list[str]]:
    """Per chunk: the type and the definition it begins in, then all it defines. Scope is not
    checked.
    """
    inside_type, inside = "", ""
    for found in defined:
        yield [inside_type, inside, *dict.fromkeys(item.name for item in found)]
        for item in found:
            if item.value > MINOR and "." not in item.name:
                inside = item.name
                inside_type = item.name if item.value > FUNCTION else inside_type


def _count_postings(read: _FileTerms, table: WordTable) -> tuple[ChunkPostings, FilePostings]:
    """Of terms by the order of their hashes: then each row is sorted once, by a number."""
    fields = (
        (read.body, np.cumsum(read.body == TEXT_START) - 1),
        (_concatenate(read.headers), _owners(read.headers)),
        (_concatenate(read.defined), _owners(read.defined)),
        (np.concatenate(read.commented), _owners(read.commented)),
        (_concatenate(read.paths), _owners(read.paths)),
    )
    term, per_word = table.terms(np.concatenate([words for words, _ in fields]))
    hashes, rank = _rank_terms(term, table)
    owner = np.repeat(np.concatenate([owners for _, owners in fields]), per_word)
    counts = [
        int(each.sum())
        for each in np.split(per_word, np.cumsum([len(words) for words, _ in fields])[:-1])
    ]
    body, chunks = counts[0], counts[0] + counts[1]
    file = np.repeat(np.arange(len(read.ends)), np.diff(read.ends, prepend=0))  # of each chunk
    files = (
        np.concatenate([file[owner[:body]], owner[chunks:]]),
        np.concatenate([rank[:body], rank[chunks:]]),
    )
    field = np.repeat(np.arange(_FIELDS), [body, *counts[2:]])
    return (
        _count_by_chunk(owner[:chunks], rank[:chunks], hashes, len(read.headers)),
        _count_by_file(*files, field, hashes, len(read.ends)),
    )


def _rank_terms(terms: Numbers, table: WordTable) -> tuple[NDArray[np.uint64], Numbers]:
    """The hashes of some terms, each once, ascending; and for each term the place of its hash."""
    places = np.zeros(terms.max(initial=0) + 1, np.int64)
    places[terms] = 1
    some = np.flatnonzero(places)
    hashes = table.hashes(some)
    order = np.argsort(hashes)
    places[some[order]] = np.arange(len(some))
    return hashes[order], places[terms]


def _count_by_chunk(
    chunks: Numbers, ranks: Numbers, hashes: NDArray[np.uint64], size: int
) -> ChunkPostings:
    """`size`: how many chunks there are."""
    key, times = np.unique(ranks << _OWNER_BITS | chunks, return_counts=True)
    chunk, count = key & _OWNER, _clip(times, np.uint8)
    lengths = np.bincount(chunk, times, size).astype(np.float32)
    return ChunkPostings(hashes[key >> _OWNER_BITS], chunk.astype(np.int32), count, lengths)


def _count_by_file(
    files: Numbers, ranks: Numbers, fields: Numbers, hashes: NDArray[np.uint64], size: int
) -> FilePostings:
    """`size`: how many files there are."""
    # A row is a term and a file; the field comes last, so that those of a row are one after the
    # other.
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
    """Of sorted values: each once, and for each value the number of it among these."""
    first = np.append(True, values[1:] != values[:-1])[: len(values)]
    return values[first], np.cumsum(first) - 1


def _hash_names(read: _FileTerms, table: WordTable) -> NamePostings:
    items = [item for found in read.definitions for item in found]
    exact, folded = table.names([item.name for item in items])
    value = np.array([item.value for item in items], np.float32)
    return NamePostings(exact, folded, _owners(read.definitions).astype(np.int32), value)


def _collect_symbols(found: Sequence[tuple[tuple[str, str], ...]]) -> SymbolPostings:
    """By chunk."""
    return SymbolPostings(tuple(chain.from_iterable(found)), _owners(found).astype(np.int32))


def _owners(lists: Sequence[Sized]) -> Numbers:
    """For each element of each list: the number of the list."""
    return np.repeat(np.arange(len(lists)), [len(each) for each in lists])


def _concatenate(lists: Iterable[list[int]]) -> Numbers:
    return np.fromiter(chain.from_iterable(lists), np.int64)


def _clip(values: Numbers, kind: type[_Small]) -> NDArray[_Small]:
    return np.minimum(values, np.iinfo(kind).max).astype(kind)
