"""Documents from short texts, for tests of the layers above them"""

from collections.abc import Mapping

import numpy as np

from cocosearchd.languages.detect import detect
from cocosearchd.search.lexical.analysis.documents import (
    ChunkText,
    Documents,
    FileText,
    make_document,
)
from cocosearchd.search.lexical.analysis.terms import TermCache

DIMENSION = 4


SIGNALS = (
    "chunk_words", "mean_chunk_words", "chunk_points", "file_words", "definition_words", "comment_words",
    "path_words", "name_coverage", "defined_exactly", "defined_folded", "definition_share", "stem_match",
    "test", "test_unasked", "prose", "reexporter", "depth", "log_size",
)  # fmt: skip


def file_text(path: str, text: str, vectors: Mapping[str, int] | None = None) -> FileText:
    """Make a file whose chunks are the parts between lines `---`.

    `vectors`: the axis of a chunk's vector by its text.
    """
    chunks = list[ChunkText]()
    start = 0
    for part in text.split("\n---\n"):
        size = max(1, len(part.encode()))
        chunks.append(ChunkText(start, start + size, part))
        start = start + size
    rows = np.zeros((len(chunks), DIMENSION), np.float32)
    for row, chunk in zip(rows, chunks, strict=True):
        if vectors and chunk.text in vectors:
            row[vectors[chunk.text]] = 1
    return FileText(path, 1, detect(path, b""), tuple(chunks), rows)


def documents(
    files: Mapping[str, str], vectors: Mapping[str, int] | None = None
) -> list[Documents]:
    terms = TermCache()
    return [make_document(file_text(path, text, vectors), terms) for path, text in files.items()]
