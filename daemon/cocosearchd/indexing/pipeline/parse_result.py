"""The result of parsing and chunking a content, without its path, and its packed form. Pure."""

import hashlib
import marshal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter

from cocosearchd.indexing.pipeline.chunker import ChunkLimits, chunk_ranges, describe_chunks
from cocosearchd.languages.handlers.base import Block
from cocosearchd.languages.parse import Parsed, QueryOverrides, parse
from cocosearchd.languages.references import fact_table
from cocosearchd.model import Chunk, ParseReport, Symbol
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values

_SYMBOL, _BLOCK, _REPORT = (
    attrgetter(*(field.name for field in fields(kind))) for kind in (Symbol, Block, ParseReport)
)
CHECKSUM_BYTES = 8  # before packed values: marshal crashes on bytes that it has not written

FindRanges = Callable[[Parsed, ChunkLimits], tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A parsed file without its path: its chunk ranges (bytes, half-open) and its definitions."""

    ranges: tuple[tuple[int, int], ...]
    symbols: tuple[Symbol, ...]
    blocks: tuple[Block, ...]
    report: ParseReport
    facts: bytes = b""  # packed by `languages.references.fact_table`

    def chunks(self, path: str, language: str, data: bytes) -> tuple[Chunk, ...]:
        """Return the described chunks of a file with this parse result."""
        parsed = Parsed(
            path=path,
            data=data,
            language=language,
            tree=None,
            symbols=self.symbols,
            blocks=self.blocks,
            report=self.report,
        )
        return describe_chunks(parsed, self.ranges)


def parse_file(
    path: str,
    language: str,
    data: bytes,
    limits: ChunkLimits,
    overrides: QueryOverrides,
    cut: FindRanges = chunk_ranges,
) -> tuple[ParsedFile, bool]:
    """Parse a file and cut it into chunk ranges. Return the result, and true if it may be cached.

    The time grows with the size of the file.
    """
    parsed = parse(path, data, overrides, language)
    parsed_file = ParsedFile(
        cut(parsed, limits),
        parsed.symbols,
        parsed.blocks,
        parsed.report,
        fact_table.pack_columns(parsed.fact_columns),
    )
    # A parser that took too long may succeed the next time.
    return parsed_file, parsed.tree is not None or parsed.report.status != "error"


def plain_parsed_file(data: bytes, limits: ChunkLimits, reason: str) -> ParsedFile:
    """Return the result of a file that must not be parsed: about equal parts, cut at line ends.

    No pattern is matched against its content either. `reason` is the error of its parse report.
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
    """Return the end of the part that begins at `start`.

    It is after a line if one ends in the part, else between two characters.
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


def pack_parsed_file(parsed_file: ParsedFile) -> bytes:
    """Return a parsed file as bytes: a checksum, then its values packed with `marshal`."""
    values = (
        tuple(map(_SYMBOL, parsed_file.symbols)),
        tuple(map(_BLOCK, parsed_file.blocks)),
        _REPORT(parsed_file.report),
        parsed_file.facts,
    )
    return add_checksum(marshal.dumps((parsed_file.ranges, *values)))


def unpack_parsed_file(raw: bytes | None) -> ParsedFile | None:
    """Return the parsed file that `raw` packs; None without bytes or with a wrong checksum."""
    if raw is None or not has_valid_checksum(raw):
        return None
    try:
        cut, symbols, blocks, report, facts = read_values(raw[CHECKSUM_BYTES:])
        if not isinstance(facts, bytes):
            return None
        return ParsedFile(
            cut,
            tuple(Symbol(*symbol) for symbol in symbols),
            tuple(Block(*block) for block in blocks),
            ParseReport(*report),
            facts,
        )
    except (InvalidFrame, ValueError, TypeError):
        return None


def add_checksum(raw: bytes) -> bytes:
    """Return raw bytes after their checksum."""
    return hashlib.blake2b(raw, digest_size=CHECKSUM_BYTES).digest() + raw


def has_valid_checksum(raw: bytes) -> bool:
    """Return true if raw bytes begin with the checksum of the rest."""
    return (
        raw[:CHECKSUM_BYTES]
        == hashlib.blake2b(raw[CHECKSUM_BYTES:], digest_size=CHECKSUM_BYTES).digest()
    )
