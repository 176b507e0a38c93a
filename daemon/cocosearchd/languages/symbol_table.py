"""Packs the definitions of a file: kinds, names, signatures and ranges. Pure.

Packed definitions are stored with the file, so that symbols can be listed with their lines without
parsing again.
"""

import heapq
import json
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import accumulate, takewhile
from operator import attrgetter
from typing import Any, get_args, get_type_hints, overload

from cocosearchd.model import Symbol

# Characters of an unpacked table: 20,000 symbols of 200 characters. A file with more is generated;
# its last symbols are left out.
MAX_TABLE = 4_000_000
# Rows before a line that are searched for definitions around it: 0.4 ms of CPU.
MAX_SKIPPED = 1_000

# The start of a packed row, up to the name. Possessive, so that each character is read once.
_ENCODED_KIND = re.compile(r'\["(?:[^"\\]++|\\.)*+",')
# A shared encoder: with these separators, `json.dumps` would make one per call.
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_FIELDS = tuple(field.name for field in fields(Symbol))
_VALUES = attrgetter(*_FIELDS)
# Allowed types of the values of each column.
_TYPES = tuple(frozenset(get_args(hint) or (hint,)) for hint in get_type_hints(Symbol).values())
# Rows that are decoded at once. Decoding a whole large table would hold the interpreter lock for 30
# ms; decoding row by row takes three times as long.
_BATCH_ROWS = 100


def pack(symbols: Iterable[Symbol]) -> bytes:
    """Pack the symbols of a file, in order; b"" without symbols."""
    text = "\n".join(_first_rows(symbols))
    return zlib.compress(text.encode("ascii"), level=1) if text else b""


def _first_rows(symbols: Iterable[Symbol]) -> Iterator[str]:
    rows = [_ENCODE(_VALUES(symbol)) for symbol in symbols]
    sizes = accumulate(len(row) + 1 for row in rows)
    fitting = takewhile(lambda pair: pair[1] < MAX_TABLE, zip(rows, sizes, strict=True))
    return (row for row, _ in fitting)


class SymbolTable(Sequence[Symbol]):
    """Symbols in columns. A symbol object is created when it is read. Thread-safe."""

    __slots__ = ("_columns", "_symbols")

    def __init__(self, columns: Sequence[Sequence[Any]]) -> None:
        """`columns` has one column per field of `Symbol`, with a value for each symbol."""
        self._columns = columns
        self._symbols: list[Symbol | None] = [None] * len(columns[0])

    def __len__(self) -> int:
        return len(self._symbols)

    @overload
    def __getitem__(self, position: int) -> Symbol: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[Symbol]: ...

    def __getitem__(self, position: int | slice) -> Symbol | Sequence[Symbol]:
        if isinstance(position, slice):
            return tuple(self)[position]
        symbol = self._symbols[position]
        if symbol is None:
            symbol = Symbol(*[column[position] for column in self._columns])
            self._symbols[position] = symbol
        return symbol

    def __eq__(self, symbols: object) -> bool:
        return isinstance(symbols, Sequence) and tuple(self) == tuple(symbols)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def values_of(self, field: str) -> Sequence[Any]:
        """Return the values of one field for all symbols, in order."""
        return self._columns[_FIELDS.index(field)]


def values_of(symbols: Sequence[Symbol], field: str) -> Sequence[Any]:
    """Return the values of one field for all symbols, in order, without creating symbols."""
    if isinstance(symbols, SymbolTable):
        return symbols.values_of(field)
    return list(map(attrgetter(field), symbols))


def unpack(packed: bytes) -> Sequence[Symbol] | None:
    """Unpack symbols; None for bytes that `pack` did not make."""
    try:
        rows = _rows(packed)
        return _read_table(rows) if rows else ()
    except (zlib.error, ValueError, RecursionError):
        return None


class PackedSymbols:
    """The symbols of a file, unpacked lazily."""

    def __init__(self, packed: bytes) -> None:
        """`packed` is a result of `pack`; other bytes give no symbols."""
        self._packed = packed

    def around(self, line: int) -> tuple[Symbol, ...]:
        """Return the definitions around a line (from 1), innermost first.

        Of definitions that begin on one line, the last comes first. Only the last `MAX_SKIPPED`
        definitions before the line are searched.
        """
        try:
            after = bisect_right(self._rows, line, key=_first_line)
            nearest = self._rows[max(0, after - MAX_SKIPPED) : after]
            around = [row for row in reversed(nearest) if _last_line(row) >= line]
            return tuple(_read_table(around)) if around else ()
        except (zlib.error, ValueError, IndexError, RecursionError):
            return ()

    def beginning_in(self, lines: range) -> tuple[Symbol, ...]:
        """Return the definitions that begin on these lines, in order, at most `MAX_SKIPPED`."""
        try:
            first = bisect_left(self._rows, lines.start, key=_first_line)
            after = bisect_left(self._rows, lines.stop, key=_first_line)
            rows = self._rows[first : min(after, first + MAX_SKIPPED)]
            return tuple(_read_table(rows)) if rows else ()
        except (zlib.error, ValueError, IndexError, RecursionError):
            return ()

    def innermost(self, lines: Iterable[int]) -> dict[int, Symbol]:
        """Return the smallest definition around each line; lines without one are left out.

        A definition of one line is around nothing. One pass serves all lines: a file may have
        20,000 definitions, and as many matching lines.
        """
        try:
            numbers = _innermost_rows(self._rows, lines)
            distinct = list(dict.fromkeys(numbers.values()))
            table = _read_table([self._rows[number] for number in distinct]) if distinct else ()
        except (zlib.error, ValueError, IndexError, RecursionError):
            return {}
        symbols = dict(zip(distinct, table, strict=True))
        return {line: symbols[number] for line, number in numbers.items()}

    def named(self, name: str, owner: str = "") -> tuple[Symbol, ...]:
        """Return the definitions with this name as written, in order, at most `MAX_SKIPPED`.

        Those inside of `owner`, a type or module, are returned alone if there are any.
        """
        try:
            rows = self._rows_with_name(name)
            owner_text = _ENCODE(owner)[1:-1]
            symbols = _read_first([row for row in rows if owner and owner_text in row])
            members = tuple(
                symbol for symbol in symbols if owner in symbol.qualified_name.split(".")[:-1]
            )
            return members or _read_first(rows)
        except (zlib.error, ValueError, IndexError, RecursionError):
            return ()

    def _rows_with_name(self, name: str) -> list[str]:
        """Return the rows of the definitions with a name. Rows are not decoded for this."""
        encoded_name = _ENCODE(name)  # with its quotes, which are escaped within a longer text
        rows = (row for row in self._rows if encoded_name in row)
        return [
            row
            for row in rows
            if (kind := _ENCODED_KIND.match(row)) and row.startswith(encoded_name, kind.end())
        ]

    @cached_property
    def _rows(self) -> list[str]:
        return _rows(self._packed)


NO_SYMBOLS = PackedSymbols(b"")


def _rows(packed: bytes) -> list[str]:
    """Return the packed rows, ordered by first line. Raises `zlib.error` and `ValueError`."""
    if not packed:
        return []
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, MAX_TABLE)
    if not unpacker.eof:
        raise ValueError("a table of symbols is cut, or larger than any that is packed")
    return text.decode("ascii").split("\n")


def _innermost_rows(rows: Sequence[str], lines: Iterable[int]) -> dict[int, int]:
    """Return the number of the row of the smallest definition around each line."""
    spans = (_span(row, number) for number, row in enumerate(rows))
    waiting = sorted(span for span in spans if span[0] < span[2])
    numbers = dict[int, int]()
    open_spans = list[tuple[int, int, int]]()  # a heap of size, last line, number
    position = 0
    for line in sorted(set(lines)):
        while position < len(waiting) and waiting[position][0] <= line:
            _, *span = waiting[position]
            heapq.heappush(open_spans, (span[0], span[1], span[2]))
            position += 1
        while open_spans and open_spans[0][1] < line:
            heapq.heappop(open_spans)  # later lines are not in it either
        if open_spans:
            numbers[line] = open_spans[0][2]
    return numbers


def _span(row: str, number: int) -> tuple[int, int, int, int]:
    """Return the first line of a definition, its bytes, its last line, and the number of its row."""
    _, start_byte, end_byte, first_line, last_line = row.removesuffix("]").rsplit(",", 4)
    return int(first_line), int(end_byte) - int(start_byte), int(last_line), number


def _first_line(row: str) -> int:
    return int(row.rsplit(",", 2)[1])


def _last_line(row: str) -> int:
    return int(row.rsplit(",", 1)[1].removesuffix("]"))


def _read_first(packed_rows: Sequence[str]) -> tuple[Symbol, ...]:
    """Read the first `MAX_SKIPPED` rows. Raises `ValueError` if they are not rows of symbols."""
    rows = packed_rows[:MAX_SKIPPED]
    return tuple(_read_table(rows)) if rows else ()


def _read_table(packed_rows: Sequence[str]) -> SymbolTable:
    """Read the rows of a table. Raises `ValueError` if they are not rows of symbols."""
    columns = list(zip(*_read_rows(packed_rows), strict=True))
    if len(columns) != len(_FIELDS):
        raise ValueError("a row of symbols has another length")
    for column, types in zip(columns, _TYPES, strict=True):
        if not types.issuperset(map(type, column)):
            raise ValueError("a value of a symbol has another type")
    return SymbolTable(columns)


def _read_rows(packed_rows: Sequence[str]) -> Iterator[list[Any]]:
    for first in range(0, len(packed_rows), _BATCH_ROWS):
        batch = packed_rows[first : first + _BATCH_ROWS]
        rows = json.loads(f"[{','.join(batch)}]")
        if len(rows) != len(batch) or not all(type(row) is list for row in rows):
            raise ValueError("a row of symbols is no list")
        yield from rows
