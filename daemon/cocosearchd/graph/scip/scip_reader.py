"""Reads SCIP indexes: the documents of a project with occurrences of symbols. Pure.

SCIP is a protobuf format; only the few fields that the code graph needs are read. The input is
untrusted: every length is checked, time is linear, and only one document at a time is in memory.
"""

from collections.abc import Iterator, Sized
from typing import BinaryIO, NamedTuple

from cocosearchd.errors import InvalidInput

# Bits of `ScipOccurrence.roles`, from scip.proto.
DEFINITION = 1
IMPORT = 2
# Values of `ScipDocument.encoding`: the unit of columns. Without a value, it is mostly UTF-16.
UTF8, UTF16, UTF32 = 1, 2, 3

# Bytes of a document. A file of 1 MB with 100,000 occurrences makes a document of some 10 MB.
MAX_DOCUMENT = 64 << 20
# Occurrences, and described symbols, of a document: each takes some 250 bytes of memory.
MAX_OCCURRENCES = 500_000

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf
_MAX_VARINT_BYTES = 10
_MAX_NUMBERS = 4  # of a range: lines and columns
_METADATA, _DOCUMENT = 1, 2  # fields of an index
_PATH, _OCCURRENCE, _SYMBOL, _TEXT, _ENCODING = 1, 2, 3, 5, 6  # fields of a document
_PROJECT_ROOT = 3  # field of the metadata
_HINT = "Make the index again, with scip-python, scip-typescript or another SCIP indexer."
_EXCLUDE = "Exclude generated files from it."


class ScipOccurrence(NamedTuple):
    """An occurrence of a symbol in a document."""

    line: int  # from 1
    column: int  # column of its first character, from 1
    end_column: int  # column after its last character
    symbol: str  # global name, or "local 7" within the document
    roles: int  # bits, see `DEFINITION`


class ScipDocument(NamedTuple):
    """A file of a SCIP index. `documentation` maps described symbols to their first text."""

    path: str  # relative to the root of the project
    occurrences: tuple[ScipOccurrence, ...]
    documentation: dict[str, str]
    text: str = ""  # text of the file; most indexers leave it out
    encoding: int = 0  # unit of columns: `UTF8`, `UTF16`, `UTF32`, or 0


class ScipMetadata(NamedTuple):
    """The head of an index."""

    project_root: str  # a URL


def read_index(file: BinaryIO) -> Iterator[ScipMetadata | ScipDocument]:
    """Yield the metadata and the documents of an index; the file is read lazily.

    Raises `InvalidInput` if it is no SCIP index, and `OSError`.
    """
    for field, data in _read_messages(file):
        if field == _DOCUMENT:
            yield _read_document(memoryview(data))
        elif field == _METADATA:
            values = [value for field, value in _fields(memoryview(data)) if field == _PROJECT_ROOT]
            roots = [_text(value) for value in values if isinstance(value, memoryview)]
            yield ScipMetadata(roots[-1] if roots else "")


def _read_messages(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of an index, which are all messages."""
    while first := file.read(1):
        key = _read_file_varint(file, first)
        if key & 7 != _BYTES:
            raise InvalidInput("The file is no SCIP index.", _HINT)
        size = _read_file_varint(file, file.read(1))
        if size > MAX_DOCUMENT:
            limit = MAX_DOCUMENT >> 20
            raise InvalidInput(f"The SCIP index has a document of more than {limit} MB.", _EXCLUDE)
        data = file.read(size)
        if len(data) < size:
            raise InvalidInput("The SCIP index ends within a message.", _HINT)
        yield key >> 3, data


def _read_file_varint(file: BinaryIO, data: bytes) -> int:
    """Read a varint from a file. `data` has its first byte, or is empty at the end of the file."""
    while data and data[-1] >= 0x80 and len(data) < _MAX_VARINT_BYTES:
        byte = file.read(1)
        if not byte:
            break
        data += byte
    return _read_varint(memoryview(data), 0)[0]


def _read_document(data: memoryview) -> ScipDocument:
    path = content = ""
    encoding = 0
    occurrences: list[ScipOccurrence] = []
    documentation: dict[str, str] = {}
    for field, value in _fields(data):
        if isinstance(value, int):
            encoding = value if field == _ENCODING else encoding
        elif field == _PATH:
            path = _text(value)
        elif field == _OCCURRENCE:
            occurrences.append(_read_occurrence(value))
            _check_count(occurrences, "occurrences")
        elif field == _SYMBOL:
            symbol, text = _read_symbol(value)
            documentation[symbol] = text
            _check_count(documentation, "described symbols")
        elif field == _TEXT:
            content = _text(value)
    return ScipDocument(path, tuple(occurrences), documentation, content, encoding)


def _check_count(entries: Sized, name: str) -> None:
    if len(entries) > MAX_OCCURRENCES:
        raise InvalidInput(
            f"The SCIP index has a document with more than {MAX_OCCURRENCES:,} {name}.", _EXCLUDE
        )


def _read_occurrence(data: memoryview) -> ScipOccurrence:
    numbers: list[int] = []
    symbol = ""
    roles = 0
    for field, value in _fields(data):
        if field == 1:  # range: packed, or one number per field
            if len(numbers) <= _MAX_NUMBERS:
                numbers += [value] if isinstance(value, int) else _read_numbers(value)
        elif field == 2 and isinstance(value, memoryview):
            symbol = _text(value)
        elif field == 3 and isinstance(value, int):
            roles = value
    if len(numbers) not in (3, _MAX_NUMBERS):
        raise InvalidInput("The SCIP index has an occurrence without a range.", _HINT)
    line, column, end_column = numbers[0], numbers[1], numbers[-1]
    return ScipOccurrence(line + 1, column + 1, end_column + 1, symbol, roles)


def _read_symbol(data: memoryview) -> tuple[str, str]:
    symbol = text = ""
    for field, value in _fields(data):
        if field == 1 and isinstance(value, memoryview):
            symbol = _text(value)
        elif field == 3 and isinstance(value, memoryview):
            text = text or _text(value)
    return symbol, text


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the fields of a message with their values: numbers, or the bytes of texts and messages."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        wire = key & 7
        if wire == _VARINT:
            number, position = _read_varint(data, position)
            yield key >> 3, number
            continue
        if wire == _BYTES:
            size, position = _read_varint(data, position)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise InvalidInput("The file is no SCIP index.", _HINT)
        if position + size > len(data):
            raise InvalidInput("The SCIP index ends within a message.", _HINT)
        if wire == _BYTES:
            yield key >> 3, data[position : position + size]
        position += size


def _read_numbers(data: memoryview) -> list[int]:
    """Return the numbers of a range; of more than `_MAX_NUMBERS`, only one more is read."""
    numbers: list[int] = []
    position = 0
    while position < len(data) and len(numbers) <= _MAX_NUMBERS:
        number, position = _read_varint(data, position)
        numbers.append(number)
    return numbers


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise InvalidInput("The SCIP index ends within a number.", _HINT)


def _text(data: memoryview) -> str:
    return str(data, "utf-8", "replace")
