"""The signals of every file for every annotated query, exactly as the daemon computes them."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.corpus import (
    CODE_SUFFIXES,
    Question,
    Repository,
    questions,
    repositories,
    strict_labels,
)
from benchmarks.quality.metric import Target
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.forms.path_forms import path_text
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.pipeline.skip_rules import content_skip_reason
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.detect import HEAD_BYTES, detect, is_supported
from cocosearchd.languages.parse import parse
from cocosearchd.model import Chunk
from cocosearchd.search.code.code_profile import compute_signals
from cocosearchd.search.lexical.analysis.documents import (
    ChunkText,
    FileText,
    extract_header_names,
    make_document,
)
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment

MAX_FILE_BYTES = 1 << 20
NAME = "name"  # the category of questions that nobody asked: names drawn from the code
NAMES = 4  # of each repository; 2 to 7 give the same figures

File = tuple[str, str, tuple[Chunk, ...]]  # path, language, chunks
Place = tuple[str, int]  # path and start byte of a chunk


@dataclass(frozen=True, slots=True)
class Row:
    """One query of one repository, annotated or a name: signals by name, each (files,), and which
    files answer it.
    """

    repository: str
    question: Question
    is_name: bool
    paths: tuple[str, ...]
    values: dict[str, NDArray[np.float32]]
    answers: NDArray[np.bool_]


def rows(checkouts: Path, embedder: Embedder | None) -> Iterator[Row]:
    """Every row, repository by repository. `embedder` None: no vectors."""
    terms = TermCache()
    for repository in repositories():
        files = list(read(checkouts / repository.name / repository.benchmark_root))
        yield from _of_repository(repository, files, terms, embedder)


def defined_once(files: Sequence[File]) -> list[tuple[str, Place]]:
    """Names of four letters and more that are defined in one place, and the chunk that does."""
    places = [
        (name.rpartition(".")[2], (path, chunk.start_byte))
        for path, _, chunks in files
        for chunk in chunks
        for name in chunk.definitions
    ]
    counts = Counter(name.lower() for name, _ in places)
    return [
        (name, place)
        for name, place in places
        if counts[name.lower()] == 1 and len(name) > 3 and name.isascii()
    ]


def name_questions(repository: str, files: Sequence[File]) -> tuple[Question, ...]:
    """A reproducible choice of names in code, other than that of benchmarks.quality.names_and_sentences."""
    code = [file for file in files if file[0].endswith(CODE_SUFFIXES)]
    # a test may be a sentence
    candidates = [(name, place) for name, place in defined_once(code) if len(name.split()) == 1]
    chosen = random.Random(f"names of {repository}").sample(candidates, min(NAMES, len(candidates)))
    return tuple(Question(name, NAME, (Target(path),)) for name, (path, _) in chosen)


def read(root: Path) -> Iterator[File]:
    """(path, language, chunks) of every file of a supported type below a directory, in order of
    path.
    """
    for path in sorted(root.rglob("*")):
        name = path_text(bytes(path.relative_to(root)))
        if not path.is_file() or ".git" in path.parts or not is_supported(name):
            continue
        data = path.read_bytes()
        language = detect(name, data[:HEAD_BYTES])
        if language and not content_skip_reason(data, MAX_FILE_BYTES):
            yield name, language, chunk_file(parse(name, data), chunker_limits(IndexingSettings()))


def _of_repository(
    repository: Repository, files: list[File], terms: TermCache, embedder: Embedder | None
) -> Iterator[Row]:
    all_questions = (*questions(repository.name), *name_questions(repository.name, files))
    state = indexed(files, terms, embedder)
    for question in all_questions:
        vector = asyncio.run(embedder.embed_query(question.text)) if embedder else None
        query = terms.make_query_terms(question.text, repository.name, state.common_language)
        yield _row(
            repository, question, query.is_name, compute_signal_matrix(state, query, terms, vector)
        )


def chunk_texts(path: str, chunks: Sequence[Chunk]) -> Iterator[ChunkText]:
    """Chunks as the lexical index reads them."""
    for chunk in chunks:
        names = extract_header_names(chunk.header, path)
        yield ChunkText(chunk.start_byte, chunk.end_byte, chunk.text, chunk.definitions, names)


def indexed(files: Sequence[File], terms: TermCache, embedder: Embedder | None) -> IndexSnapshot:
    """Make the snapshot that the daemon would have in memory for some files."""
    dimension = embedder.fingerprint.dimension if embedder else 0
    documents = []
    for name, language, chunks in files:
        if chunks:
            texts = [f"{chunk.header}\n{chunk.text}" for chunk in chunks]
            vectors = (
                asyncio.run(embedder.embed_documents(texts))
                if embedder
                else np.zeros((len(chunks), 0), np.float32)
            )
            documents.append(
                make_document(
                    FileText(name, 1, language, tuple(chunk_texts(name, chunks)), vectors), terms
                )
            )
    return make_snapshot((SegmentView(build_segment(documents, dimension)),), 1)


def _row(repository: Repository, question: Question, is_name: bool, matrix: SignalMatrix) -> Row:
    paths = tuple(matrix.paths)
    # a name's path is one of `paths`
    root = "" if question.category == NAME else repository.benchmark_root
    labels = strict_labels(question.targets, root, paths)
    answers = np.array([path in labels for path in paths], np.bool_)
    return Row(repository.name, question, is_name, paths, compute_signals(matrix), answers)
