"""Encodes SCIP indexes by hand: the few fields of protobuf that tests need."""

from collections.abc import Iterable

from cocosearchd.graph.scip.scip_reader import DEFINITION


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def message(field: int, content: bytes | str) -> bytes:
    """Return a field with bytes, a text or a message."""
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    """Return a field with a number."""
    return varint(field << 3) + varint(value)


def occurrence(*span: int, symbol: str, roles: int = 0) -> bytes:
    """Return an occurrence of a document, with a range from 0."""
    packed = b"".join(map(varint, span))
    return message(2, message(1, packed) + message(2, symbol) + number(3, roles))


def head(project_root: str) -> bytes:
    """Return the head of an index."""
    return message(1, message(2, message(1, "hand")) + message(3, project_root))


def document(path: str, text: str, names: Iterable[tuple[str, str]], *fields: bytes) -> bytes:
    """Return a document: the names of a text in their order, each with its symbol.

    A symbol with "=" before it is defined there. `fields` are further ones.
    """
    data = message(1, path)
    position = 0
    for name, symbol in names:
        position = text.index(name, position)
        line = text.count("\n", 0, position)
        column = position - (text.rfind("\n", 0, position) + 1)
        roles = DEFINITION if symbol.startswith("=") else 0
        span = (line, column, column + len(name))
        data += occurrence(*span, symbol=symbol.removeprefix("="), roles=roles)
        position += len(name)
    return message(2, data + b"".join(fields))
