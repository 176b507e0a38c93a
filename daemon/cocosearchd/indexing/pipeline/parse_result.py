"""What parsing and cutting find out of a content, without its path; and how that is packed.
Pure.
"""

import hashlib
import marshal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter

from cocosearchd.indexing.pipeline.chunker import Limits, chunk_ranges, describe_chunks
from cocosearchd.languages.handlers.base import Block
from cocosearchd.languages.parse import Parsed, QueryOverrides, parse
from cocosearchd.model import Chunk, ParseReport, Symbol
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values

_SYMBOL, _BLOCK, _REPORT = (
    attrgetter(*(one.name for one in fields(kind))) for kind in (Symbol, Block, ParseReport)
)
CHECKSUM_BYTES = 8  # in front of what is packed: marshal crashes on what it has not written

FindRanges = Callable[[Parsed, Limits], tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file without its path: where it is cut (bytes, half-open), and what is defined in it."""

    ranges: tuple[tuple[int, int], ...]
    symbols: tuple[Symbol, ...]
    blocks: tuple[Block, ...]
    report: ParseReport

    def chunks(self, path: str, language: str, data: bytes) -> tuple[Chunk, ...]:
        """The chunks of a file that has this outline: described, where it is cut."""
        parsed = Parsed(path, data, language, None, self.symbols, self.blocks, self.report)
        return describe_chunks(parsed, self.ranges)


def parse_file(
    path: str,
    language: str,
    data: bytes,
    limits: Limits,
    overrides: QueryOverrides,
    cut: FindRanges = chunk_ranges,
) -> tuple[ParsedFile, bool]:
    """The outline of a parsed and cut file; and whether it is worth keeping. Takes as long as the
    file is large.
    """
    parsed = parse(path, data, overrides, language)
    outline = ParsedFile(cut(parsed, limits), parsed.symbols, parsed.blocks, parsed.report)
    # A parser that took too long may not do so the next time.
    return outline, parsed.tree is not None or parsed.report.status == "no_grammar"


def plain_parsed_file(data: bytes, limits: Limits, reason: str) -> ParsedFile:
    """Return the outline of a file that no parser and no pattern may touch: about equal parts, cut
    at line ends.
    """
    return ParsedFile(
        tuple(_plain_ranges(data, max(4, limits.chunk_size))),
        (),
        (),
        ParseReport("error", 1, reason),
    )


def _plain_ranges(data: bytes, size: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(data):
        end = _plain_end(data, start, size)
        text = data[start:end]
        if text.strip():
            yield start, start + len(text.rstrip())
        start = end


def _plain_end(data: bytes, start: int, size: int) -> int:
    """Return where a part ends that begins at a byte: after a line if one ends in it, else between
    two characters.
    """
    end = start + size
    if end >= len(data):
        return len(data)
    line_end = data.rfind(b"\n", start, end)
    if line_end >= 0:
        return line_end + 1
    # a continuation byte of UTF-8 (RFC 3629)
    while end > start + size - 4 and data[end] & 0xC0 == 0x80:
        end -= 1
    return max(end, start + 1)


def pack_parsed_file(outline: ParsedFile) -> bytes:
    """The outline as it is kept: marshalled, symbols and blocks as tuples, with a sum in front."""
    values = (
        tuple(map(_SYMBOL, outline.symbols)),
        tuple(map(_BLOCK, outline.blocks)),
        _REPORT(outline.report),
    )
    return add_checksum(marshal.dumps((outline.ranges, *values)))


def unpack_parsed_file(raw: bytes | None) -> ParsedFile | None:
    """The outline that was packed in raw bytes; None if their sum is not right, or they are
    none.
    """
    if raw is None or not has_valid_checksum(raw):
        return None
    try:
        cut, symbols, blocks, report = read_values(raw[CHECKSUM_BYTES:])
        return ParsedFile(
            cut,
            tuple(Symbol(*one) for one in symbols),
            tuple(Block(*one) for one in blocks),
            ParseReport(*report),
        )
    except (InvalidFrame, ValueError, TypeError):
        return None


def add_checksum(raw: bytes) -> bytes:
    """Raw bytes with their sum in front."""
    return hashlib.blake2b(raw, digest_size=CHECKSUM_BYTES).digest() + raw


def has_valid_checksum(raw: bytes) -> bool:
    """Whether raw bytes begin with the sum of the rest."""
    return (
        raw[:CHECKSUM_BYTES]
        == hashlib.blake2b(raw[CHECKSUM_BYTES:], digest_size=CHECKSUM_BYTES).digest()
    )
