"""Encodes requests to an analysis process, and its responses, as bytes. Pure.

Both ends run the same code (`sandbox.code_digest`), so `marshal` is safe between them. A response
is checked before use: `InvalidFrame` is raised if an array has the wrong shape or points beyond the
files that were sent.
"""

import marshal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values
from cocosearchd.search.lexical.analysis.documents import (
    Analysis,
    ChunkPostings,
    ChunkText,
    FilePostings,
    FileText,
    NamePostings,
)

# Types of the arrays of a response, in order.
_TYPES: tuple[type[np.generic], ...] = (
    np.int64,
    *(np.uint64, np.int32, np.uint8, np.float32),
    *(np.uint64, np.int32, np.uint16, np.uint8, np.uint16, np.uint8, np.float32),
    *(np.uint64, np.uint64, np.int32, np.float32),
)
# Arrays within each of these slices have equal lengths.
_CHUNK_ROWS = slice(1, 4)
_FILE_ROWS = slice(5, 11)
_NAME_ROWS = slice(12, 16)
_FIELDS = 4
_NO_VECTORS = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """Files to analyse. With `plain`, only words are counted, without definitions and comments."""

    files: tuple[FileText, ...]
    plain: bool = False

    def to_bytes(self) -> bytes:
        """Encode the request without vectors and other fields that contain no words."""
        files = [
            (file.path, file.language, [_chunk_values(chunk) for chunk in file.chunks])
            for file in self.files
        ]
        return marshal.dumps((self.plain, files))

    @classmethod
    def from_bytes(cls, body: bytes) -> "AnalysisRequest":
        """Decode the result of `to_bytes`."""
        plain, files = marshal.loads(body)  # noqa: S302 - from the daemon
        return cls(tuple(_file(*values) for values in files), plain)


def analysis_to_bytes(analysis: Analysis) -> bytes:
    """Encode a response."""
    return marshal.dumps([array.tobytes() for array in _arrays(analysis)])


def analysis_from_bytes(body: bytes, files: Sequence[FileText]) -> Analysis:
    """Decode a response.

    Raises `InvalidFrame` if it cannot be the analysis of these files.
    """
    try:
        raw = read_values(body)
        arrays = [np.frombuffer(data, kind) for data, kind in zip(raw, _TYPES, strict=True)]
        arrays[11] = arrays[11].reshape(-1, _FIELDS)
    except (ValueError, TypeError) as error:
        raise InvalidFrame(f"no analysis: {error}") from error
    _check(arrays, len(files), sum(len(file.chunks) for file in files))
    return Analysis(
        arrays[0],
        ChunkPostings(*arrays[1:5]),
        FilePostings(*arrays[5:12]),
        NamePostings(*arrays[12:]),
    )


def _check(arrays: Sequence[NDArray[np.generic]], files: int, chunks: int) -> None:
    lengths = [len(array) for array in arrays]
    equal_lengths = all(
        len(set(lengths[rows])) == 1 for rows in (_CHUNK_ROWS, _FILE_ROWS, _NAME_ROWS)
    )
    expected_counts = lengths[0] == lengths[11] == files and lengths[4] == chunks
    if not equal_lengths or not expected_counts:
        raise InvalidFrame("an analysis of other files")
    for owners, count in ((arrays[2], chunks), (arrays[6], files), (arrays[14], chunks)):
        if len(owners) and not (owners.min() >= 0 and owners.max() < count):
            raise InvalidFrame("an analysis that points beyond its files")


def _arrays(analysis: Analysis) -> list[NDArray[np.generic]]:
    chunk = analysis.chunk_postings
    file = analysis.file_postings
    name = analysis.names
    return [
        analysis.characters,
        *(chunk.term, chunk.chunk, chunk.count, chunk.lengths),
        *(
            file.term,
            file.file,
            file.everything,
            file.defined,
            file.commented,
            file.path,
            file.lengths,
        ),
        *(name.exact, name.folded, name.chunk, name.value),
    ]


def _chunk_values(chunk: ChunkText) -> tuple[object, ...]:
    return chunk.start_byte, chunk.end_byte, chunk.text, chunk.definitions, chunk.names


def _file(
    path: str, language: str, chunks: Sequence[tuple[int, int, str, tuple[str, ...], str]]
) -> FileText:
    return FileText(path, 0, language, tuple(starmap(ChunkText, chunks)), _NO_VECTORS)
