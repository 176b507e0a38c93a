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
    "s3", "s_mean", "s_raw", "f_all", "f_def", "f_com", "f_path", "p_s", "symF", "symI", "sole", "stemeq",
    "test", "test_unasked", "prose", "hub", "depth", "lsize",
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
