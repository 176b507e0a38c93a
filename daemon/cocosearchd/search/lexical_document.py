"""What the lexical index keeps of files: term counts by field, names, sizes. Pure; rows in, arrays out.

Files are counted together: a step over arrays costs as much for one of them as for fifty.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical_definitions import FUNCTION, MINOR, Definition, comments, definitions
from cocosearchd.search.lexical_table import LINE_END, TEXT_START, Numbers, WordTable
from cocosearchd.search.lexical_terms import WORD, Terms

# What a term in the path or in a defined name weighs against one in the text, in the field of everything.
PATH_WEIGHT, DEFINITION_WEIGHT = 5, 3
_DIRECTORIES = 3  # of a path, from the right
_STEM_REPEATS = 2  # a file's own name counts twice
_NAME_REPEATS = 3  # of what a chunk is called: measured by sentences that look for a function, see training.evaluate
_Small = TypeVar("_Small", np.uint8, np.uint16)
_TOGETHER = 64  # files: more make no step cheaper
_TERM_BITS = 32
_TERM = (1 << _TERM_BITS) - 1
_FIELDS = 4  # of a file: body, defined, commented, path
_LAST = re.compile(r"\.|::")


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk as stored. `definitions` are the names the syntax tree found in it, `names` those of its header."""

    start_byte: int
    end_byte: int
    start_line: int
    text: str
    definitions: tuple[str, ...] = ()
    names: str = ""


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as stored; chunks in order of place."""

    path: str
    generation: int
    language: str
    chunks: tuple[ChunkText, ...]
    vectors: NDArray[np.float32]  # (chunks, dimension), a zero row where nothing is known; or (chunks, 0)


@dataclass(frozen=True, slots=True)
class ChunkPostings:
    """Parallel arrays, one row per term of a chunk; and one row per chunk in `lengths`.

    The header of a chunk: the words of its path, and three times those of what it begins in and what it defines.
    """

    term: NDArray[np.uint64]
    chunk: NDArray[np.int32]  # within the file
    count: NDArray[np.uint8]  # how often in the text and its header, at most 255
    lengths: NDArray[np.float32]  # (chunks,): terms of text and header


@dataclass(frozen=True, slots=True)
class FilePostings:
    """Parallel arrays, one row per term of the file; `lengths` are the sums of the columns."""

    term: NDArray[np.uint64]
    everything: NDArray[np.uint16]  # text + 5 x path + 3 x defined names
    defined: NDArray[np.uint8]
    commented: NDArray[np.uint16]  # wider than a byte: a common word of a long comment passes 255
    path: NDArray[np.uint8]
    lengths: NDArray[np.float32]  # (4,)


@dataclass(frozen=True, slots=True)
class NamePostings:
    """Defined names: one row per (name, chunk). `exact` and `folded` are hashes of the name and of its lower case."""

    exact: NDArray[np.uint64]
    folded: NDArray[np.uint64]
    chunk: NDArray[np.int32]
    value: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Document:
    """One file, ready for a segment."""

    path: str
    generation: int
    language: str
    characters: int
    keys: NDArray[np.int64]  # (chunks, 2): start and end byte
    start_lines: NDArray[np.int32]
    vectors: NDArray[np.int8]  # (chunks, dimension), or (chunks, 0)
    scales: NDArray[np.float32]  # (chunks,)
    mean: NDArray[np.int8]  # (dimension,): of the chunks that have a vector
    mean_scale: float  # 0: none has
    chunk_postings: ChunkPostings
    file_postings: FilePostings
    names: NamePostings


@dataclass(frozen=True, slots=True)
class _Words:
    """One file: the numbers of its words by field, and its definitions by chunk."""

    body: Numbers  # each chunk begins with TEXT_START
    headers: tuple[list[int], ...]  # by chunk
    defined: list[int]
    commented: Numbers
    path: list[int]
    definitions: tuple[list[Definition], ...]  # by chunk
    characters: int


def document(file: FileText, terms: Terms) -> Document:
    """Count the terms of one file."""
    return next(documents([file], terms))


def documents(files: Sequence[FileText], terms: Terms) -> Iterator[Document]:
    """Count the terms of files whose vectors are of one dimension, in their order."""
    for start in range(0, len(files), _TOGETHER):
        yield from _documents(files[start : start + _TOGETHER], terms.table())


def _documents(files: Sequence[FileText], table: WordTable) -> Iterator[Document]:
    words = [_words(file, table) for file in files]
    ends = np.cumsum([len(file.chunks) for file in files]).tolist()
    chunks = _chunk_postings(words, ends, table)
    of_files = _file_postings(words, table)
    vectors, scales = quantised(np.concatenate([file.vectors for file in files]))
    for number, (file, found) in enumerate(zip(files, words, strict=True)):
        own = slice(ends[number] - len(file.chunks), ends[number])
        known = file.vectors[scales[own] > 0]
        mean, mean_scale = quantised(known.mean(axis=0, keepdims=True) if len(known) else file.vectors[:0].sum(0)[None])
        yield Document(
            path=file.path,
            generation=file.generation,
            language=file.language,
            characters=found.characters,
            keys=np.array([(c.start_byte, c.end_byte) for c in file.chunks], np.int64).reshape(-1, 2),
            start_lines=np.array([c.start_line for c in file.chunks], np.int32),
            vectors=vectors[own],
            scales=scales[own],
            mean=mean[0],
            mean_scale=float(mean_scale[0]),
            chunk_postings=chunks[number],
            file_postings=of_files[number],
            names=_names(found.definitions, table),
        )


def quantised(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows as int8 and their scales: row ~ int8 row x scale. A zero row has scale 0."""
    scales = (np.abs(vectors).max(axis=1, initial=0) / 127).astype(np.float32)
    safe = np.where(scales > 0, scales, 1)[:, None]
    return np.round(vectors / safe).astype(np.int8), scales


def names_of(header: str, path: str) -> str:
    """What the header of a chunk says beside the path of its file: what the chunk begins in, and what it defines."""
    return header.removeprefix(path).lstrip()


def stem_of(path: str) -> str:
    """The file's name without its last extension; a dot file keeps its name."""
    return posixpath.splitext(posixpath.basename(path))[0]


def _path_words(path: str) -> list[str]:
    directories = posixpath.dirname(path).split("/")[-_DIRECTORIES:]
    return WORD.findall(stem_of(path)) * _STEM_REPEATS + [word for part in directories for word in WORD.findall(part)]


def _without_overlap(chunks: Sequence[ChunkText]) -> list[str]:
    """The texts with what the chunk before already held cut off, so that a file is counted once."""
    texts, reached = [], 0
    for chunk in chunks:
        text = chunk.text
        if chunk.start_byte < reached:
            text = text.encode()[reached - chunk.start_byte :].decode("utf-8", "replace")
        texts.append(text)
        reached = max(reached, chunk.end_byte)
    return texts


def _words(file: FileText, table: WordTable) -> _Words:
    whole = [chunk.text for chunk in file.chunks]
    texts = _without_overlap(file.chunks)
    body = table.numbers(whole)
    lines = _keyword_lines(body, table)
    found = tuple(
        _definitions(chunk, text, file.language, each if text is chunk.text else None)
        for chunk, text, each in zip(file.chunks, texts, lines, strict=True)
    )
    path = [table.number(word) for word in _path_words(file.path)]
    defined = dict.fromkeys(item.name for each in found for item in each)
    return _Words(
        body=body,
        headers=tuple(
            [*path, *[table.number(name) for name in chunk.names.split() or names] * _NAME_REPEATS]
            for chunk, names in zip(file.chunks, _header_names(found), strict=True)
        ),
        defined=[table.number(name) for name in defined],
        commented=table.numbers([comments("\n".join(texts), file.language)]),
        path=path,
        definitions=found,
        characters=sum(map(len, texts)),
    )


def _keyword_lines(body: Numbers, table: WordTable) -> list[list[int]]:
    """Per chunk: its lines that have a keyword of definitions, from 0."""
    found, line = list[list[int]](), 0
    for mark in body[body < table.marks].tolist():
        if mark == LINE_END:
            line += 1
        elif mark == TEXT_START:
            line = 0
            found.append([])
        elif not found[-1] or found[-1][-1] != line:
            found[-1].append(line)
    return found


def _definitions(chunk: ChunkText, text: str, language: str, lines: list[int] | None) -> list[Definition]:
    """Those the expressions find, then those only the syntax tree knows, as functions at the place of the name."""
    found = definitions(text, language, lines)
    if not chunk.definitions:
        return found
    known = {item.name for item in found}
    for name in chunk.definitions:
        last = _LAST.split(name)[-1]
        for each in dict.fromkeys((name, last)):
            if each not in known:
                known.add(each)
                found.append(Definition(each, max(text.find(last), 0), FUNCTION))
    return found


def _header_names(defined: Iterable[list[Definition]]) -> Iterator[list[str]]:
    """Per chunk: the type and the definition it begins in, then all it defines. Scope is not checked."""
    inside_type, inside = "", ""
    for found in defined:
        yield [inside_type, inside, *dict.fromkeys(item.name for item in found)]
        for item in found:
            if item.value > MINOR and "." not in item.name:
                inside = item.name
                inside_type = item.name if item.value > FUNCTION else inside_type


def _chunk_postings(files: Sequence[_Words], ends: Sequence[int], table: WordTable) -> list[ChunkPostings]:
    body = np.concatenate([file.body for file in files])
    headers = [header for file in files for header in file.headers]
    chunks = np.concatenate([np.cumsum(body == TEXT_START) - 1, _owners(headers)])
    terms, per_word = table.terms(np.concatenate([body, _joined(headers)]))
    key, times = np.unique(np.repeat(chunks, per_word) << _TERM_BITS | terms, return_counts=True)
    chunk, term, count = key >> _TERM_BITS, table.hashes(key & _TERM), _clipped(times, np.uint8)
    lengths = np.bincount(chunk, times, len(headers)).astype(np.float32)
    found, start, first = [], 0, 0
    for end, stop in zip(ends, np.searchsorted(chunk, ends).tolist(), strict=True):
        own = slice(start, stop)
        found.append(ChunkPostings(term[own], (chunk[own] - first).astype(np.int32), count[own], lengths[first:end]))
        start, first = stop, end
    return found


def _file_postings(files: Sequence[_Words], table: WordTable) -> list[FilePostings]:
    fields = [words for file in files for words in (file.body, file.defined, file.commented, file.path)]
    terms, per_word = table.terms(_joined(fields))
    owner = np.repeat(_owners(fields), per_word)
    # A row is a file and a term; the field comes last, so that those of a row are one after the other.
    row, field = owner // _FIELDS << _TERM_BITS | terms, owner % _FIELDS
    key, times = np.unique(row * _FIELDS + field, return_counts=True)
    row, number = _groups(key // _FIELDS)
    counts = np.zeros((_FIELDS, len(row)), np.int64)
    counts[key % _FIELDS, number] = times
    body, defined, commented, path = counts
    everything = body + PATH_WEIGHT * path + DEFINITION_WEIGHT * defined
    file = row >> _TERM_BITS
    sums = [np.bincount(file, column, len(files)) for column in (everything, defined, commented, path)]
    lengths = np.stack(sums, axis=1).astype(np.float32)
    term, ends = table.hashes(row & _TERM), np.searchsorted(file, np.arange(len(files) + 1)).tolist()
    wide, narrow = _clipped(np.stack([everything, commented]), np.uint16), _clipped(np.stack([defined, path]), np.uint8)
    return [
        FilePostings(
            term=term[start:end],
            everything=wide[0, start:end],
            defined=narrow[0, start:end],
            commented=wide[1, start:end],
            path=narrow[1, start:end],
            lengths=own,
        )
        for start, end, own in zip(ends, ends[1:], lengths, strict=False)
    ]


def _groups(values: Numbers) -> tuple[Numbers, Numbers]:
    """Of sorted values: each once, and for each value the number of it among these."""
    first = np.append(True, values[1:] != values[:-1])[: len(values)]
    return values[first], np.cumsum(first) - 1


def _names(defined: Sequence[list[Definition]], table: WordTable) -> NamePostings:
    exact, folded = table.names([item.name for found in defined for item in found])
    return NamePostings(
        exact,
        folded,
        _owners(defined).astype(np.int32),
        np.array([item.value for found in defined for item in found], np.float32),
    )


def _owners(lists: Sequence[Sized]) -> Numbers:
    """For each element of each list: the number of the list."""
    return np.repeat(np.arange(len(lists)), [len(each) for each in lists])


def _joined(lists: Sequence[Sequence[int] | Numbers]) -> Numbers:
    return np.concatenate([np.asarray(each, np.int64) for each in lists])


def _clipped(values: Numbers, kind: type[_Small]) -> NDArray[_Small]:
    return np.minimum(values, np.iinfo(kind).max).astype(kind)
