"""The chunker `definitions`: cuts a file into chunks where definitions and blocks begin. Pure.

Chunks cover every byte that is not blank, do not overlap, and have at most `HARD_CAP` times the
chunk size. Cuts are at lines: each line has a *cost* of a cut before it (`cut_points`), low at the
start of an outer definition and high inside of a statement. A piece that is too large is cut at all
of its cheapest lines. Small pieces are packed with their neighbours.

If cuts move, raise `VERSION`; if headers change, raise `HEADER_VERSION`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Literal

from cocosearchd.indexing.pipeline import cut_points
from cocosearchd.languages.handlers.base import Block
from cocosearchd.languages.identifiers import split_text
from cocosearchd.languages.parse import Parsed
from cocosearchd.languages.symbols import (
    FUNCTION_KINDS,
    LEAF_KINDS,
    MAJOR_KINDS,
    MINOR_KINDS,
    OWNER_KINDS,
    PLAIN_HEAD_KINDS,
    TYPE_KINDS,
)
from cocosearchd.model import Chunk, Symbol

# Parts of the identity of an index: after a raise, all its files are read again. Raise the first if
# headers or embedded texts change; raise the others if a chunker cuts in other places.
# ARCHITECTURE.md lists all versions; `tests/versions.py` notices a forgotten raise.
HEADER_VERSION = 1
VERSION = 1
RECURSIVE_VERSION = 1
# The size that the identity of `definitions` leaves out, whatever the setting's default is: indexes
# that exist were recorded so.
UNNAMED_CHUNK_SIZE = 1000
HEADER_NAMES = 6
MAX_HEADER = 400  # characters
_INFORMATIVE = MAJOR_KINDS - PLAIN_HEAD_KINDS
# Blocks that may share a chunk with others: settings, sections of a text.
_SETTINGS = frozenset({"metadata", "env", "permissions", "global"})
_SMALL_BLOCKS = _SETTINGS | {"section"}
# Sizes relative to the chunk size: a definition up to KEEP_WHOLE stays in one piece; no chunk is
# longer than HARD_CAP; pieces below MINIMUM are packed with a neighbour.
KEEP_WHOLE = 1.5
HARD_CAP = 2.0
MINIMUM = 0.25


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Limits of a chunker. Sizes are bytes; `chunk_overlap` is for `recursive` only."""

    chunker: Literal["definitions", "recursive"]
    chunk_size: int
    chunk_overlap: int


def chunker_id(limits: ChunkLimits) -> str:
    """Return name, version and sizes of a chunker: a part of the identity of an index."""
    if limits.chunker == "recursive":
        return f"recursive-{RECURSIVE_VERSION}:{limits.chunk_size}/{limits.chunk_overlap}"
    is_named = limits.chunk_size != UNNAMED_CHUNK_SIZE
    return f"definitions-{VERSION}" + (f":{limits.chunk_size}" if is_named else "")


def chunk_file(parsed: Parsed, limits: ChunkLimits) -> tuple[Chunk, ...]:
    """Return the chunks of a file, in order, cut at definitions.

    For `recursive`, pass its ranges to `describe_chunks`.
    """
    return describe_chunks(parsed, chunk_ranges(parsed, limits))


def chunk_ranges(parsed: Parsed, limits: ChunkLimits) -> tuple[tuple[int, int], ...]:
    """Return the byte ranges of chunks: disjoint, in order, without outer blank lines."""
    data = parsed.data
    size = max(4, limits.chunk_size)
    if parsed.blocks:
        spans = [
            cut_points.CodeSpan(block.start_byte, block.end_byte, _rank_of_block(block))
            for block in parsed.blocks
        ]
    else:
        spans = [
            cut_points.CodeSpan(symbol.start_byte, symbol.end_byte, _rank(symbol))
            for symbol in parsed.symbols
        ]
    plan = cut_points.plan_cuts(data, spans)
    pieces = cut_points.cut_lines(
        plan, cut_points.ChunkSizes(size, int(size * MINIMUM), int(size * KEEP_WHOLE))
    )
    trimmed = (_trim(data, plan.starts[first], plan.starts[last]) for first, last in pieces)
    cap = int(size * HARD_CAP)
    return tuple(
        part
        for start, end in trimmed
        for part in cut_points.split_long_range(data, start, end, cap)
    )


def _rank(symbol: Symbol) -> cut_points.SpanRank:
    if symbol.kind in LEAF_KINDS:
        return cut_points.LEAF
    if symbol.kind in PLAIN_HEAD_KINDS:
        return cut_points.SCOPE
    return cut_points.CONTAINER if symbol.kind in TYPE_KINDS else cut_points.MINOR


def _rank_of_block(block: Block) -> cut_points.SpanRank:
    return cut_points.MINOR if block.block_type in _SMALL_BLOCKS else cut_points.LEAF


def _trim(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Remove blank lines at both ends of a range. The indentation of the first line stays."""
    text = data[start:end]
    body = text.lstrip()
    if not body:
        return start, start
    first = start + len(text) - len(body)
    return max(start, data.rfind(b"\n", start, first) + 1), start + len(text.rstrip())


def describe_chunks(parsed: Parsed, byte_ranges: Iterable[tuple[int, int]]) -> tuple[Chunk, ...]:
    """Return the chunks of byte ranges in order, with text, lines, header, symbol and block."""
    describer = _ChunkDescriber(parsed)
    return tuple(describer.chunk(start, end) for start, end in byte_ranges)


def chunk_keywords(chunk: Chunk) -> str:
    """Return the text of a chunk for full text search: header and text, with split identifiers."""
    # NULs are dropped first: words are also made from the stored text, which has no NULs.
    return split_text(f"{chunk.header}\n{chunk.text}".replace("\0", ""))


class _ChunkDescriber:
    """Describes chunks of one file, in order: its line counter mostly moves forward."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.starts = [symbol.start_byte for symbol in parsed.symbols]
        self.parents = list(_parents(parsed.symbols))
        self.block_starts = [block.start_byte for block in parsed.blocks]
        self.block_parents = list(_parents(parsed.blocks))
        self.line = 1  # the line of the byte at `offset`
        self.offset = 0

    def chunk(self, start: int, end: int) -> Chunk:
        parsed = self.parsed
        data = parsed.data
        at = self._first_position(start)
        inside = parsed.symbols[at : self._first_position(end)]
        around = self._enclosing_symbols(start, at - 1)
        outer, blocks = self._blocks(start, end)
        block = _block_of(blocks, outer, start, end)
        symbol = _symbol_at(block, inside) or _symbol_of(inside, around, start, end)
        titles = () if inside else _titles(outer, blocks)
        minor = frozenset[str]() if parsed.blocks else MINOR_KINDS
        block_type, hierarchy = _block_columns(block, symbol)
        symbol_type, symbol_name, signature = _symbol_columns(symbol)
        first = self._line_of(start)
        return Chunk(
            start_byte=start,
            end_byte=end,
            start_line=first,
            end_line=first + data.count(b"\n", start, max(start, end - 1)),
            text=data[start:end].decode("utf-8", "replace"),
            header=_header(parsed.path, around, inside, titles, minor),
            language=parsed.language,
            block_type=block_type,
            hierarchy=hierarchy,
            symbol_type=symbol_type,
            symbol_name=symbol_name,
            symbol_signature=signature,
            definitions=tuple(dict.fromkeys(item.name for item in inside)),
            symbols=inside,
        )

    def _first_position(self, byte: int) -> int:
        """Return the index of the first symbol that starts at a byte or after it."""
        return bisect_right(self.starts, byte - 1)

    def _line_of(self, byte: int) -> int:
        if byte < self.offset:
            self.line = 1
            self.offset = 0
        self.line += self.parsed.data.count(b"\n", self.offset, byte)
        self.offset = byte
        return self.line

    def _enclosing_symbols(self, byte: int, index: int) -> list[Symbol]:
        """Return the definitions that are open at a byte, innermost first.

        `index` is that of the last definition that starts before the byte.
        """
        symbols = self.parsed.symbols
        enclosing = []
        while index >= 0:
            if symbols[index].end_byte > byte:
                enclosing.append(symbols[index])
            index = self.parents[index]
        return enclosing

    def _blocks(self, start: int, end: int) -> tuple[Block | None, tuple[Block, ...]]:
        """Return the innermost block open at the start, and the blocks that start inside."""
        blocks = self.parsed.blocks
        first = bisect_right(self.block_starts, start - 1)
        last = bisect_right(self.block_starts, end - 1)
        index = first - 1
        while index >= 0 and blocks[index].end_byte <= start:
            index = self.block_parents[index]
        return blocks[index] if index >= 0 else None, blocks[first:last]


def _parents(nested: Iterable[Symbol | Block]) -> Iterator[int]:
    """Yield for each definition or block the number of its parent, or -1 at the top."""
    around: list[tuple[int, int]] = []  # (end, number) of the open definitions or blocks
    for number, item in enumerate(nested):
        while around and around[-1][0] < item.end_byte:
            around.pop()
        yield around[-1][1] if around else -1
        around.append((item.end_byte, number))


def _symbol_at(block: Block | None, inside: Iterable[Symbol]) -> Symbol | None:
    """Return the definition that starts where a block does."""
    if block is None:
        return None
    return next((symbol for symbol in inside if symbol.start_byte == block.start_byte), None)


def _titles(outer: Block | None, blocks: Iterable[Block]) -> tuple[str, ...]:
    """Return the titles of blocks for the header, without those of settings."""
    return tuple(
        block.title for block in (outer, *blocks) if block and block.block_type not in _SETTINGS
    )


def _block_columns(block: Block | None, symbol: Symbol | None) -> tuple[str, str]:
    """Return the block type and the hierarchy of a chunk."""
    if block is not None:
        return block.block_type, block.hierarchy
    return (symbol.kind, symbol.qualified_name) if symbol is not None else ("", "")


def _symbol_columns(symbol: Symbol | None) -> tuple[str | None, str | None, str | None]:
    """Return kind, qualified name and signature of a chunk's definition."""
    if symbol is None:
        return None, None, None
    return symbol.kind, symbol.qualified_name, symbol.signature


def _symbol_of(
    inside: tuple[Symbol, ...], around: list[Symbol], start: int, end: int
) -> Symbol | None:
    """Return the definition that a chunk consists of, or is a part of.

    For a chunk inside of a function, it is that function, unless a definition that starts in the chunk
    fills half of it. Otherwise it is the largest of the outermost functions and types that start in
    the chunk, then the enclosing definition, then any other definition.
    """
    innermost = around[0] if around else None
    if not inside:
        return innermost
    largest = _largest_major(inside, end)
    if largest is None:
        return innermost or inside[0]
    if innermost is None or innermost.kind not in FUNCTION_KINDS:
        return largest
    fills_half = 2 * (min(largest.end_byte, end) - largest.start_byte) > end - start
    return largest if fills_half else innermost


def _largest_major(inside: Iterable[Symbol], end: int) -> Symbol | None:
    """Return the largest of the outermost functions and types, measured up to `end`.

    A definition with little information in its head, such as a namespace, is a last resort.
    """
    major = [symbol for symbol in inside if symbol.kind in MAJOR_KINDS]
    informative = [symbol for symbol in major if symbol.kind in _INFORMATIVE]
    return max(
        _outermost(informative or major),
        key=lambda symbol: min(symbol.end_byte, end) - symbol.start_byte,
        default=None,
    )


def _block_of(
    inside: tuple[Block, ...], around: Block | None, start: int, end: int
) -> Block | None:
    """Return the block of a chunk: the largest block that starts in it and fills at least half.

    Else it is the enclosing block.
    """
    largest = max(
        inside,
        key=lambda block: (min(block.end_byte, end) - block.start_byte, -block.start_byte),
        default=None,
    )
    if largest is None or (
        around is not None and 2 * (min(largest.end_byte, end) - largest.start_byte) < end - start
    ):
        return around or largest
    return largest


def _outermost(symbols: Iterable[Symbol]) -> Iterator[Symbol]:
    end = -1
    for symbol in symbols:
        if symbol.end_byte > end:
            end = symbol.end_byte
            yield symbol


def _header(
    path: str,
    around: list[Symbol],
    inside: tuple[Symbol, ...],
    titles: Iterable[str],
    minor: Set[str],
) -> str:
    """Return the header line: path, enclosing type and function, and names defined here.

    It has at most `HEADER_NAMES` names.
    """
    names = [_owner_name(around, inside), _first_name(around, MAJOR_KINDS)]
    names += [symbol.name for symbol in inside if symbol.kind not in minor]
    distinct = list(dict.fromkeys(filter(None, [*names, *titles])))[:HEADER_NAMES]
    return " ".join([path, *distinct]).replace("\n", " ")[:MAX_HEADER]


def _owner_name(around: list[Symbol], inside: tuple[Symbol, ...]) -> str:
    """Return the name of the enclosing type, or of the type in a method's qualified name."""
    if owner := _first_name(around, OWNER_KINDS):
        return owner
    function = next((symbol for symbol in inside if symbol.kind in FUNCTION_KINDS), None)
    return (function.parent or "").rpartition(".")[2] if function else ""


def _first_name(symbols: Iterable[Symbol], kinds: Set[str]) -> str:
    return next((symbol.name for symbol in symbols if symbol.kind in kinds), "")
