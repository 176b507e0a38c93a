"""The signals of every file for every annotated query, exactly as the daemon computes them."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.corpus import Question, Repository, questions, repositories, strict_labels
from cocosearchd.embedding.base import Embedder
from cocosearchd.indexing.chunk import Limits, chunk
from cocosearchd.languages.detect import HEAD_BYTES, detect, skip_reason, supported
from cocosearchd.languages.parse import parse
from cocosearchd.model import Chunk, encode_path
from cocosearchd.search.code_profile import signals
from cocosearchd.search.lexical_document import ChunkText, FileText, document
from cocosearchd.search.lexical_segment import Part, build
from cocosearchd.search.lexical_terms import Terms
from cocosearchd.search.lexical_view import Evidence, evidence, view

MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One query of one repository: signals by name, each (files,), and which files are answers."""

    repository: str
    question: Question
    symbol: bool
    paths: tuple[str, ...]
    values: dict[str, NDArray[np.float32]]
    answers: NDArray[np.bool_]


def rows(checkouts: Path, embedder: Embedder | None) -> Iterator[Row]:
    """Every row, repository by repository. `embedder` None: no vectors."""
    terms = Terms()
    for repository in repositories():
        files = list(read(checkouts / repository.name / repository.benchmark_root))
        yield from _of_repository(repository, files, terms, embedder)


def read(root: Path) -> Iterator[tuple[str, str, tuple[Chunk, ...]]]:
    """(path, language, chunks) of every file of a supported type below a directory, in order of path."""
    for path in sorted(root.rglob("*")):
        name = encode_path(bytes(path.relative_to(root)))
        if not path.is_file() or ".git" in path.parts or not supported(name):
            continue
        data = path.read_bytes()
        language = detect(name, data[:HEAD_BYTES])
        if language and not skip_reason(data, MAX_FILE_BYTES):
            yield name, language, chunk(parse(name, data), Limits())


def _of_repository(
    repository: Repository, files: list[tuple[str, str, tuple[Chunk, ...]]], terms: Terms, embedder: Embedder | None
) -> Iterator[Row]:
    asked = questions(repository.name)
    dimension = embedder.fingerprint.dimension if embedder else 0
    documents = []
    for name, language, chunks in files:
        if chunks:
            texts = [f"{each.header}\n{each.text}" for each in chunks]
            vectors = (
                asyncio.run(embedder.embed_documents(texts)) if embedder else np.zeros((len(chunks), 0), np.float32)
            )
            rows = (ChunkText(c.start_byte, c.end_byte, c.start_line, c.text, c.definitions) for c in chunks)
            documents.append(document(FileText(name, 1, language, tuple(rows), vectors), terms))
    state = view((Part(build(documents, dimension)),), 1)
    for question in asked:
        vector = asyncio.run(embedder.embed_query(question.text)) if embedder else None
        query = terms.query(question.text)
        yield _row(repository, question, query.symbol, evidence(state, query, terms, vector))


def _row(repository: Repository, question: Question, symbol: bool, found: Evidence) -> Row:
    paths = tuple(found.paths)
    labels = strict_labels(question.targets, repository.benchmark_root, paths)
    answers = np.array([path in labels for path in paths], np.bool_)
    return Row(repository.name, question, symbol, paths, signals(found), answers)
