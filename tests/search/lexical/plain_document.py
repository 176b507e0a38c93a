"""Plain count of the terms of a file, word by word: the reference for the fast count"""

import re
from collections import Counter

import numpy as np

from cocosearchd.languages.identifiers import fold_name
from cocosearchd.languages.patterns.comments import extract_comments
from cocosearchd.languages.patterns.definition_rules import FUNCTION, MINOR
from cocosearchd.languages.patterns.definitions import Definition, find_definitions
from cocosearchd.search.lexical.analysis.documents import (
    DEFINITION_WEIGHT,
    PATH_WEIGHT,
    ChunkPostings,
    Documents,
    FilePostings,
    FileText,
    NamePostings,
    SymbolPostings,
    quantise_to_int8,
)
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash

Counts = Counter[int]


def plain_document(file: FileText, terms: TermCache) -> Documents:
    """Count the terms of one file like `documents.make_document`."""
    texts = without_overlap(file)
    defined = [
        defined_in(text, file.language, chunk.definitions)
        for chunk, text in zip(file.chunks, texts, strict=True)
    ]
    *directories, name = file.path.split("/")
    stem = name.rpartition(".")[0] or name
    path = counted(" ".join([stem, stem, *directories[-3:]]), terms)
    bodies = [counted(chunk.text, terms) for chunk in file.chunks]
    headers = [
        path + counted(" ".join([chunk.names or " ".join(names)] * 3), terms)
        for chunk, names in zip(file.chunks, header_names(defined), strict=True)
    ]
    vectors, scales = quantise_to_int8(file.vectors)
    cached = file.vectors[scales > 0]
    mean, mean_scale = quantise_to_int8(
        (cached if len(cached) else file.vectors).mean(axis=0)[None]
    )
    return Documents(
        paths=(file.path,),
        languages=(file.language,),
        generations=np.array([file.generation]),
        digests=np.array([file.digest], np.uint64),
        characters=np.array([sum(map(len, texts))]),
        chunk_counts=np.array([len(file.chunks)]),
        keys=np.array([(chunk.start_byte, chunk.end_byte) for chunk in file.chunks], np.int64),
        vectors=vectors,
        scales=scales,
        means=mean,
        mean_scales=mean_scale,
        chunk_postings=chunk_postings(
            [body + header for body, header in zip(bodies, headers, strict=True)]
        ),
        file_postings=file_postings(
            sum(bodies, Counts()),
            counted(" ".join({item.name for result in defined for item in result}), terms),
            counted(extract_comments("\n".join(texts), file.language), terms),
            path,
        ),
        names=names_of(defined),
        symbols=SymbolPostings(
            tuple(symbol for chunk in file.chunks for symbol in chunk.symbols),
            np.array(
                [number for number, chunk in enumerate(file.chunks) for _ in chunk.symbols],
                np.int32,
            ),
        ),
    )


def counted(text: str, terms: TermCache) -> Counts:
    return Counter(map(term_hash, terms.split_text(text)))


def without_overlap(file: FileText) -> list[str]:
    texts = []
    reached = 0
    for chunk in file.chunks:
        local = chunk.text.encode()[max(0, reached - chunk.start_byte) :]
        texts.append(local.decode("utf-8", "replace"))
        reached = max(reached, chunk.end_byte)
    return texts


def defined_in(text: str, language: str, known_to_tree: tuple[str, ...]) -> list[Definition]:
    result = find_definitions(text, language)
    for name in known_to_tree:
        for part in (name, re.split(r"\.|::", name)[-1]):
            if part not in {item.name for item in result}:
                result.append(Definition(part, 0, FUNCTION))
    return result


def header_names(defined: list[list[Definition]]) -> list[list[str]]:
    inside_type = ""
    inside = ""
    headers = []
    for result in defined:
        headers.append([inside_type, inside, *dict.fromkeys(item.name for item in result)])
        for item in result:
            if item.value > MINOR and "." not in item.name:
                inside = item.name
                if item.value > FUNCTION:
                    inside_type = item.name
    return headers


def chunk_postings(chunks: list[Counts]) -> ChunkPostings:
    rows = [
        (term, number, min(times, 255))
        for number, result in enumerate(chunks)
        for term, times in result.items()
    ]
    return ChunkPostings(
        np.array([term for term, _, _ in rows], np.uint64),
        np.array([number for _, number, _ in rows], np.int32),
        np.array([times for _, _, times in rows], np.uint8),
        np.array([result.total() for result in chunks], np.float32),
    )


def file_postings(body: Counts, defined: Counts, commented: Counts, path: Counts) -> FilePostings:
    terms = list(body | defined | commented | path)
    everything = [body[t] + PATH_WEIGHT * path[t] + DEFINITION_WEIGHT * defined[t] for t in terms]
    return FilePostings(
        np.array(terms, np.uint64),
        np.zeros(len(terms), np.int32),
        np.array([min(times, 65_535) for times in everything], np.uint16),
        np.array([min(defined[t], 255) for t in terms], np.uint8),
        np.array([min(commented[t], 65_535) for t in terms], np.uint16),
        np.array([min(path[t], 255) for t in terms], np.uint8),
        np.array([[sum(everything), defined.total(), commented.total(), path.total()]], np.float32),
    )


def names_of(defined: list[list[Definition]]) -> NamePostings:
    rows = [
        (item.name, number, item.value) for number, result in enumerate(defined) for item in result
    ]
    return NamePostings(
        np.array([term_hash(name) for name, _, _ in rows], np.uint64),
        np.array([term_hash(fold_name(name)) for name, _, _ in rows], np.uint64),
        np.array([number for _, number, _ in rows], np.int32),
        np.array([value for _, _, value in rows], np.float32),
    )
