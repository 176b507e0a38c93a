"""Requests to a parser process and its responses, packed as bytes. Pure.

A message is packed with `marshal`, in a frame of `sandbox.frames`. Both ends run the same Python
and the same code, see `sandbox.code_digest`.
"""

import marshal
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, unpack_parsed_file
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values

# A request with more files or bytes would keep a save waiting for the process.
BATCH_FILES = 8
BATCH_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ParseFile:
    """A file to parse. Only the name in `path` is used."""

    path: str
    language: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """Files with the rules that shape their parsed files.

    With `rehearse`, the process also does the indexer's work on a parsed file, and discards the
    result. A file that has ended another process, but survives this, is safe for the indexer.
    """

    limits: ChunkLimits
    overrides: QueryOverrides
    files: tuple[ParseFile, ...]
    rehearse: bool = False


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A parsed file. `cacheable` is False if the parse was too slow: a later one may succeed."""

    parsed_file: ParsedFile
    cacheable: bool


def split_batches(sizes: Sequence[int]) -> Iterator[range]:
    """Yield ranges of file numbers, one for each request. A large file is alone in its range."""
    first = 0
    total = 0
    for number, size in enumerate(sizes):
        if number > first and (number - first >= BATCH_FILES or total + size > BATCH_BYTES):
            yield range(first, number)
            first = number
            total = 0
        total += size
    if sizes:
        yield range(first, len(sizes))


def pack_request(request: ParseRequest) -> bytes:
    """Return a request as bytes."""
    files = tuple((file.path, file.language, file.data) for file in request.files)
    return marshal.dumps((astuple(request.limits), request.overrides, files, request.rehearse))


def unpack_request(body: bytes) -> ParseRequest:
    """Return the inverse of `pack_request`."""
    limits, overrides, files, rehearse = marshal.loads(body)  # noqa: S302 - from the process that started this one
    return ParseRequest(
        ChunkLimits(*limits), overrides, tuple(ParseFile(*file) for file in files), rehearse
    )


def pack_response(parsed_files: Sequence[tuple[bytes, bool]]) -> bytes:
    """Return packed parsed files as bytes, each with true if it may be cached."""
    return marshal.dumps(list(parsed_files))


def unpack_response(body: bytes, count: int) -> list[ParseResult]:
    """Return the inverse of `pack_response`. Raises `InvalidFrame`, `ValueError` or `TypeError`."""
    values = read_values(body)
    if not isinstance(values, list) or len(values) != count:
        raise InvalidFrame("a response about other files")
    return [_result(*value) for value in values]


def _result(packed: bytes, cacheable: bool) -> ParseResult:
    parsed_file = unpack_parsed_file(packed)
    if parsed_file is None:
        raise InvalidFrame("a parsed file with a wrong checksum")
    return ParseResult(parsed_file, cacheable)
