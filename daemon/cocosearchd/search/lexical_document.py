"""What the lexical index keeps of one file: term counts by field, names, sizes. Pure; rows in, arrays out."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical_definitions import FUNCTION, MINOR, Definition, comments, definitions
from cocosearchd.search.lexical_terms import WORD, Terms, term_hash

# What a term in the path or in a defined name weighs against one in the text, in the field of everything.
PATH_WEIGHT, DEFINITION_WEIGHT = 5, 3
_DIRECTORIES = 3  # of a path, from the right
_STEM_REPEATS = 2  # a file's own name counts twice


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk as stored. `definitions` are the names the syntax tree found in it."""

    start_byte: int
    end_byte: int
    start_line: int
    text: str
    definitions: tuple[str, ...] = ()


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

    The header of a chunk: the words of its path, of what it begins in and of what it defines.
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


def document(file: FileText, terms: Terms) -> Document:
    """Count the terms of a file."""
    texts = _without_overlap(file.chunks)
    defined = [_definitions(chunk, text, file.language) for chunk, text in zip(file.chunks, texts, strict=True)]
    path_words = " ".join(_path_words(file.path))
    headers = [f"{path_words} {names}" for names in _header_names(defined)]
    vectors, scales = quantised(file.vectors)
    known = file.vectors[scales > 0]
    mean, mean_scale = quantised(known.mean(axis=0, keepdims=True) if len(known) else file.vectors[:0].sum(0)[None])
    bodies = [terms.count(chunk.text) for chunk in file.chunks]
    chunks = [body + terms.count(header) for body, header in zip(bodies, headers, strict=True)]
    return Document(
        path=file.path,
        generation=file.generation,
        language=file.language,
        characters=sum(map(len, texts)),
        keys=np.array([(c.start_byte, c.end_byte) for c in file.chunks], np.int64).reshape(-1, 2),
        start_lines=np.array([c.start_line for c in file.chunks], np.int32),
        vectors=vectors,
        scales=scales,
        mean=mean[0],
        mean_scale=float(mean_scale[0]),
        chunk_postings=_chunk_postings(chunks),
        file_postings=_file_postings(
            body=_sum(bodies),
            defined=terms.count(" ".join({d.name for each in defined for d in each})),
            commented=terms.count(comments("\n".join(texts), file.language)),
            path=terms.count(path_words),
        ),
        names=_names(defined),
    )


def quantised(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows as int8 and their scales: row ~ int8 row x scale. A zero row has scale 0."""
    scales = (np.abs(vectors).max(axis=1, initial=0) / 127).astype(np.float32)
    safe = np.where(scales > 0, scales, 1)[:, None]
    return np.round(vectors / safe).astype(np.int8), scales


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


def _definitions(chunk: ChunkText, text: str, language: str) -> list[Definition]:
    """Those the expressions find, then those only the syntax tree knows, as functions at the place of the name."""
    found = definitions(text, language)
    known = {item.name for item in found}
    for name in chunk.definitions:
        last = re.split(r"\.|::", name)[-1]
        for each in dict.fromkeys((name, last)):
            if each not in known:
                known.add(each)
                found.append(Definition(each, max(text.find(last), 0), FUNCTION))
    return found


def _header_names(defined: Iterable[list[Definition]]) -> Iterable[str]:
    """Per chunk: the type and the definition it begins in, then all it defines. Scope is not checked."""
    inside_type, inside = "", ""
    for found in defined:
        yield " ".join([inside_type, inside, *dict.fromkeys(item.name for item in found)])
        for item in found:
            if item.value > MINOR and "." not in item.name:
                inside = item.name
                inside_type = item.name if item.value > FUNCTION else inside_type


def _sum(counts: Iterable[Counter[int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for each in counts:
        total.update(each)
    return total


def _chunk_postings(chunks: list[Counter[int]]) -> ChunkPostings:
    return ChunkPostings(
        np.array([term for found in chunks for term in found], np.uint64),
        np.repeat(np.arange(len(chunks), dtype=np.int32), np.array([len(found) for found in chunks], np.int64)),
        _clipped([times for found in chunks for times in found.values()], np.uint8),
        np.array([found.total() for found in chunks], np.float32),
    )


def _file_postings(
    body: Counter[int], defined: Counter[int], commented: Counter[int], path: Counter[int]
) -> FilePostings:
    union = list(body.keys() | defined.keys() | commented.keys() | path.keys())
    everything = [body[t] + PATH_WEIGHT * path[t] + DEFINITION_WEIGHT * defined[t] for t in union]
    return FilePostings(
        np.array(union, np.uint64),
        _clipped(everything, np.uint16),
        _clipped([defined[t] for t in union], np.uint8),
        _clipped([commented[t] for t in union], np.uint16),
        _clipped([path[t] for t in union], np.uint8),
        np.array([sum(everything), defined.total(), commented.total(), path.total()], np.float32),
    )


def _names(defined: Iterable[list[Definition]]) -> NamePostings:
    rows = [(item.name, number, item.value) for number, found in enumerate(defined) for item in found]
    return NamePostings(
        np.array([term_hash(name) for name, _, _ in rows], np.uint64),
        np.array([term_hash(name.lower()) for name, _, _ in rows], np.uint64),
        np.array([number for _, number, _ in rows], np.int32),
        np.array([value for _, _, value in rows], np.float32),
    )


def _clipped(values: list[int], kind: type[np.uint8] | type[np.uint16]) -> NDArray[np.unsignedinteger]:
    return np.minimum(np.array(values, np.int64), np.iinfo(kind).max).astype(kind)
