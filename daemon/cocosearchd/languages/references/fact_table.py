"""Packs the code facts of a file: a table of strings, and columns of numbers. Pure.

Facts are packed in the process that parses the file, stored with the file, and unpacked to resolve
names. Names come first in the table of strings, so that they can be read without the rest.
"""

import re
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, chain
from operator import sub
from typing import Any, NamedTuple, TypeVar, Union, get_args

from cocosearchd.languages.code_facts import (
    NO_FACTS,
    TOP_LEVEL,
    Binding,
    BindingColumns,
    BindingKind,
    CodeFacts,
    FactColumns,
    FactTable,
    Import,
    ImportColumns,
    Use,
    UseColumns,
    UseKind,
    make_columns,
)

_Fact = TypeVar("_Fact", bound=tuple[Any, ...])
_Values = Sequence[Any] | None
_Column = Union[bytes, "array[int]"]

# Largest unpacked table in bytes: enough for 50,000 uses in columns of four bytes, and their
# strings.
MAX_TABLE = 8_000_000
# Limit of definitions that facts may refer to: more than a file has (`symbols.MAX_SYMBOLS`).
MAX_SYMBOLS = 1 << 24

_USE_KINDS: tuple[UseKind, ...] = get_args(UseKind)
_BINDING_KINDS: tuple[BindingKind, ...] = get_args(BindingKind)
_FLAGS = (False, True)
_USE_KIND_NUMBERS = {kind: number for number, kind in enumerate(_USE_KINDS)}
_BINDING_KIND_NUMBERS = {kind: number for number, kind in enumerate(_BINDING_KINDS)}
# Size of the strings in bytes; counts of names, imports, uses and bindings.
_HEADER = struct.Struct("<5I")
# By type code: bytes of a number
_SIZES = {ord(code): array(code).itemsize for code in "BHI"}
_MAX_BYTE = 255
_BYTES = bytes(range(_MAX_BYTE + 1))
_SEPARATOR = "\n"  # no string has line breaks
_IMPORT_COLUMNS, _USE_COLUMNS, _BINDING_COLUMNS = 5, 7, 6
_MODULE_PARTS = re.compile(r"[\w$@-]+")
# Names of files that represent their directory, and file extensions that imports may have.
_DIRECTORY_FILES = frozenset({"index", "__init__", "mod"})
_FILE_ENDINGS = frozenset(
    {"py", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte", "json"}
    | {"h", "hh", "hpp", "hxx", "c", "cc", "cpp", "inc", "ipp", "inl", "tpp", "cuh"}
    | {"rb", "php", "dart", "zig", "lua", "proto", "sol", "css", "scss"}
)


def pack(facts: CodeFacts) -> bytes:
    """Pack the facts of a file; b"" without facts, or if they exceed `MAX_TABLE` bytes."""
    return pack_columns(make_columns(facts))


def pack_columns(facts: FactColumns) -> bytes:
    """Pack the facts of a file from columns, like `pack`."""
    imports, uses, bindings = facts.imports, facts.uses, facts.bindings
    counts = (len(imports.name), len(uses.name), len(bindings.name))
    if not facts.package and not any(counts):
        return b""
    strings = _StringTable(_collect_names(facts))
    name_count = len(strings.numbers)
    columns = [
        strings.number([facts.package]),
        *_import_columns(imports, strings),
        *_use_columns(uses, strings),
        *_binding_columns(bindings, strings),
    ]
    text = strings.join()
    header = _HEADER.pack(len(text), name_count, *counts)
    table = b"".join((header, text, *map(_pack_column, columns)))
    return zlib.compress(table, level=1) if len(table) <= MAX_TABLE else b""


def unpack(packed: bytes, symbols: int = MAX_SYMBOLS) -> CodeFacts | None:
    """Unpack facts; None for bytes that `pack` did not make.

    Only the first `symbols` definitions of the file are known: a fact of a later one counts as one
    of the file.
    """
    if not packed:
        return NO_FACTS
    try:
        return _read_facts(_FactReader(_decompress(packed)), symbols)
    except (zlib.error, ValueError, IndexError, OverflowError, struct.error):
        return None


def names(packed: bytes) -> frozenset[str]:
    """Return the unqualified names that packed facts use, import or export.

    They include the last two parts of each imported module's path: for "flask.app", `flask` and
    `app`; for "./a/b.js", `a` and `b`. The result is empty for bytes that `pack` did not make.
    """
    try:
        return frozenset(name.decode() for name in encoded_names(packed))
    except ValueError:
        return frozenset()


def encoded_names(packed: bytes) -> Sequence[bytes]:
    """Return the result of `names` in UTF-8, in the order of the table."""
    try:
        table = _decompress(packed) if packed else b""
        header = _FactHeader(*_HEADER.unpack_from(table)) if packed else _FactHeader(0, 0, 0, 0, 0)
    except (zlib.error, ValueError, struct.error):
        return ()
    strings = table[_HEADER.size : _HEADER.size + header.strings].split(_SEPARATOR.encode())
    return strings[: header.names]


class _StringTable:
    """The strings of a file, numbered in the order of their first occurrence."""

    def __init__(self, strings: Iterable[str]) -> None:
        self.numbers: dict[str, int] = {text: number for number, text in enumerate(strings)}

    def number(self, texts: Sequence[str]) -> list[int]:
        """Return the numbers of texts; new texts get the next numbers."""
        numbers = self.numbers
        for text in dict.fromkeys(texts):
            numbers.setdefault(text, len(numbers))
        return list(map(numbers.__getitem__, texts))

    def join(self) -> bytes:
        """Return all strings in order, with separators between them."""
        joined = _SEPARATOR.join(self.numbers)
        if joined.count(_SEPARATOR) >= len(self.numbers):
            joined = _SEPARATOR.join(text.replace(_SEPARATOR, " ") for text in self.numbers)
        return joined.encode()


def _collect_names(facts: FactColumns) -> Iterable[str]:
    """Collect distinct names in the order of the text, without "" and "*"."""
    collected = dict.fromkeys(facts.uses.name)
    modules = set[str]()
    for module, name, local, _, is_exported in zip(*facts.imports, strict=True):
        collected[name] = None
        if is_exported:
            collected[local] = None
        if module and module not in modules:
            modules.add(module)
            collected.update(dict.fromkeys(_module_names(module)))
    return (name for name in collected if name and name != "*")


def _module_names(module: str) -> Sequence[str]:
    """Return the last two parts of a module's path, without extensions and files like `index`."""
    parts = _MODULE_PARTS.findall(module)
    if len(parts) > 1 and parts[-1] in _FILE_ENDINGS:
        parts.pop()
    if len(parts) > 1 and parts[-1] in _DIRECTORY_FILES:
        parts.pop()
    return parts[-2:]


def _import_columns(imports: ImportColumns, strings: _StringTable) -> list[Sequence[int]]:
    return [
        strings.number(imports.module),
        strings.number(imports.name),
        strings.number(imports.local),
        _differences(imports.line),
        imports.exported,
    ]


def _use_columns(uses: UseColumns, strings: _StringTable) -> list[Sequence[int]]:
    return [
        list(map(_USE_KIND_NUMBERS.__getitem__, uses.kind)),
        strings.number(uses.name),
        strings.number(uses.receiver),
        uses.is_local,
        _differences(uses.line),
        uses.column,
        [symbol + 1 for symbol in uses.symbol],
    ]


def _binding_columns(bindings: BindingColumns, strings: _StringTable) -> list[Sequence[int]]:
    return [
        list(map(_BINDING_KIND_NUMBERS.__getitem__, bindings.kind)),
        strings.number(bindings.name),
        strings.number(bindings.text),
        [symbol + 1 for symbol in bindings.symbol],
        bindings.first_line,
        bindings.last_line,
    ]


def _differences(lines: Sequence[int]) -> list[int]:
    """Return the first line, then the differences between lines. Facts are in the order of lines."""
    return list(map(sub, lines, chain((0,), lines)))


def _pack_column(column: Sequence[int]) -> bytes:
    """Pack a column in the smallest type that holds its largest number, little-endian."""
    try:
        return b"B" + bytes(column)
    except ValueError:
        code = "H" if max(column) < 1 << 16 else "I"
    narrow = array(code, column)
    if sys.byteorder == "big":
        narrow.byteswap()
    return code.encode() + narrow.tobytes()


def _decompress(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    table = unpacker.decompress(packed, MAX_TABLE)
    if not unpacker.eof:
        raise ValueError("a table of facts is too large or cut off")
    return table


class _FactHeader(NamedTuple):
    strings: int  # size in bytes
    names: int
    imports: int
    uses: int
    bindings: int


class _FactReader:
    """Reads an unpacked table. Raises `ValueError` or `struct.error` for invalid bytes."""

    def __init__(self, table: bytes) -> None:
        self.header = _FactHeader(*_HEADER.unpack_from(table))
        self._table = table
        self._position = _HEADER.size + self.header.strings
        self.strings = table[_HEADER.size : self._position].decode().split(_SEPARATOR)
        self.name_count = self.header.names
        if self._position > len(table) or self.name_count > len(self.strings):
            raise ValueError("a table of facts has too few strings")

    def columns(self, count: int, rows: int) -> list[_Column]:
        """Return the next columns of numbers."""
        return [self._column(rows) for _ in range(count)]

    def _column(self, rows: int) -> _Column:
        """Return the next column. Most have numbers of one byte: their bytes are the column."""
        code, start = self._table[self._position], self._position + 1
        size = _SIZES.get(code)
        if size is None:
            raise ValueError("a column of facts has an unknown type")
        self._position = start + rows * size
        if self._position > len(self._table):
            raise ValueError("a column of facts is cut off")
        numbers = self._table[start : self._position]
        if size == 1:
            return numbers
        column = array(chr(code), numbers)
        if sys.byteorder == "big":
            column.byteswap()
        return column

    def table(
        self,
        make: Callable[[Iterable[Any]], _Fact],
        columns: Sequence[_Column],
        values: Sequence[_Values],
    ) -> FactTable[_Fact]:
        """Make a table of facts from columns. Raises `ValueError` for numbers without a value."""
        for column, column_values in zip(columns, values, strict=True):
            if column_values is not None and not _are_below(column, len(column_values)):
                raise ValueError("a number of a fact stands for no value")
        return FactTable(make, columns, values)

    def check_end(self) -> None:
        """Raise `ValueError` if bytes are left."""
        if self._position != len(self._table):
            raise ValueError("a table of facts is too long")


def _read_facts(reader: _FactReader, symbols: int) -> CodeFacts:
    ((package,),) = reader.columns(1, 1)
    facts = CodeFacts(
        reader.strings[package],
        _read_imports(reader),
        _read_uses(reader, symbols),
        _read_bindings(reader, symbols),
    )
    reader.check_end()
    return facts


def _read_imports(reader: _FactReader) -> Sequence[Import]:
    columns = reader.columns(_IMPORT_COLUMNS, reader.header.imports)
    columns[3] = _sums(columns[3])
    values = (reader.strings, reader.strings, reader.strings, None, _FLAGS)
    return reader.table(partial(tuple.__new__, Import), columns, values)


def _read_uses(reader: _FactReader, symbols: int) -> Sequence[Use]:
    columns = reader.columns(_USE_COLUMNS, reader.header.uses)
    columns[4] = _sums(columns[4])
    columns[6] = _known_positions(columns[6], symbols)
    strings = reader.strings
    values = (_USE_KINDS, strings, strings, _FLAGS, None, None, _positions(symbols))
    return reader.table(partial(tuple.__new__, Use), columns, values)


def _read_bindings(reader: _FactReader, symbols: int) -> Sequence[Binding]:
    columns = reader.columns(_BINDING_COLUMNS, reader.header.bindings)
    columns[3] = _known_positions(columns[3], symbols)
    strings = reader.strings
    values = (_BINDING_KINDS, strings, strings, _positions(symbols), None, None)
    return reader.table(partial(tuple.__new__, Binding), columns, values)


def _are_below(column: _Column, limit: int) -> bool:
    """Return True if all numbers of a column are below a limit."""
    if isinstance(column, bytes):
        return limit > _MAX_BYTE or not column.translate(None, _BYTES[:limit])
    return max(column, default=-1) < limit


def _known_positions(column: _Column, symbols: int) -> _Column:
    """Replace the numbers of definitions that are not known by that of the file, 0.

    The table of definitions of a file is cut if it is very large.
    """
    if _are_below(column, symbols + 1):
        return column
    return array("I", [number if number <= symbols else 0 for number in column])


def _positions(symbols: int) -> range:
    """Return the positions of definitions that the packed numbers 0, 1, 2, … stand for."""
    return range(TOP_LEVEL, symbols)


def _sums(steps: _Column) -> _Column:
    """Return the lines from the differences between them. Raises `OverflowError`."""
    return array("I", accumulate(steps))
