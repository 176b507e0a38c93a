"""Requests to a parser process and its responses, and how both are packed. Pure.

A message is what `marshal` wrote, in a frame of `sandbox.frames`. Both ends run the same Python and
the same code, see `sandbox.code_digest`.
"""

import marshal
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from cocosearchd.indexing.pipeline.chunker import Limits
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, unpack_parsed_file
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values

# A request with more files or bytes would keep a save waiting for the process.
BATCH_FILES, BATCH_BYTES = 8, 1 << 16


@dataclass(frozen=True, slots=True)
class ParseFile:
    """A file to be parsed. `path` is only looked at for its name."""

    path: str
    language: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """Files with what shapes their outlines.

    With `rehearse`, the process also does what the indexer does with an outline, and throws it
    away: a file that has ended another process is safe for the indexer when it passes that.
    """

    limits: Limits
    overrides: QueryOverrides
    files: tuple[ParseFile, ...]
    rehearse: bool = False


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The outline of a file, and packed if it is worth keeping: a parser that took too long may not
    the next time.
    """

    parsed_file: ParsedFile
    packed: bytes | None


def split_batches(sizes: Sequence[int]) -> Iterator[range]:
    """Yield ranges of file numbers, one a request: few files and bytes. A large file is alone."""
    first, total = 0, 0
    for number, size in enumerate(sizes):
        if number > first and (number - first >= BATCH_FILES or total + size > BATCH_BYTES):
            yield range(first, number)
            first, total = number, 0
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
        Limits(*limits), overrides, tuple(ParseFile(*file) for file in files), rehearse
    )


def pack_response(outlines: Sequence[tuple[bytes, bool]]) -> bytes:
    """Return packed outlines, each with whether it is worth keeping, as bytes."""
    return marshal.dumps(list(outlines))


def unpack_response(body: bytes, count: int) -> list[ParseResult]:
    """Return the inverse of `pack_response`. Raises `InvalidFrame`, `ValueError` or `TypeError`."""
    values = read_values(body)
    if not isinstance(values, list) or len(values) != count:
        raise InvalidFrame("a response about other files")
    return [_result(*value) for value in values]


def _result(packed: bytes, cacheable: bool) -> ParseResult:
    outline = unpack_parsed_file(packed)
    if outline is None:
        raise InvalidFrame("an outline with a wrong checksum")
    return ParseResult(outline, packed if cacheable else None)
