"""What crosses between the child and a mate of its crew: files that nobody knows, and what was made of them. Pure.

A message is a frame: length, sum, and what `marshal` wrote. Both ends are of one Python and one state of the code, see
`installed`; whatever is no frame is `Garbled`, and nothing of it is believed.

    child -> mate   an Order for each portion
    mate -> child   an empty list when it is there, then for each order what was made of its files, in their order
"""

import hashlib
import marshal
import struct
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from cocosearchd.indexing.chunk import Limits
from cocosearchd.languages.parse import QueryOverrides

# Of one order. A mate has two of them at a time, so that it need not wait for the next one.
PORTION_FILES, PORTION_BYTES = 8, 1 << 16
# What is larger is made in the child, and no frame is: a file of 2 MiB has some 10 MiB of texts, words and vectors.
LARGEST_FILE_BYTES, LARGEST_FRAME_BYTES = 2 << 20, 128 << 20
_HEADER = struct.Struct(">I8s")
HEADER_BYTES = _HEADER.size
OTHER_CODE = 3  # exit code of a mate: what is installed now is not what the child runs


class Garbled(Exception):
    """What came over the socket is no message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A file to be parsed, and of what is stored of it what chunks are compared with."""

    path: str
    language: str
    data: bytes
    stored: bytes  # `StoredFile.chunks`


@dataclass(frozen=True, slots=True)
class Order:
    """Files, and what shapes what is made of them. `embedder`: pairs of its fingerprint; empty for no vectors."""

    limits: Limits
    overrides: QueryOverrides
    embedder: tuple[tuple[str, str], ...]
    files: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """What was made of a file: outline and sheet as they are kept, and of its new chunks, by place, words and vectors.

    `halves` are float16 of shape (new chunks, dimension), empty where none were asked for.
    """

    outline: bytes
    sheet: bytes
    words: tuple[str, ...]
    halves: bytes


def portions(files: Sequence[Asked]) -> Iterator[range]:
    """The numbers of the files as ranges: portions of few files and bytes, an order each."""
    first, size = 0, 0
    for number, one in enumerate(files):
        if number > first and (number - first >= PORTION_FILES or size + len(one.data) > PORTION_BYTES):
            yield range(first, number)
            first, size = number, 0
        size += len(one.data)
    if files:
        yield range(first, len(files))


def order_to_frame(order: Order) -> bytes:
    """An order as it is sent."""
    files = tuple((one.path, one.language, one.data, one.stored) for one in order.files)
    return _framed((astuple(order.limits), order.overrides, order.embedder, files))


def order_of(body: bytes) -> Order:
    """The inverse of `order_to_frame`, without the header."""
    limits, overrides, embedder, files = marshal.loads(body)  # noqa: S302 - by `checked`
    return Order(Limits(*limits), overrides, embedder, tuple(Asked(*one) for one in files))


def made_to_frame(made: Sequence[Made | None]) -> bytes:
    """What was made of files as a frame: outline, sheet, words and halves of each, or None."""
    return _framed([one and (one.outline, one.sheet, one.words, one.halves) for one in made])


def made_of(body: bytes, count: int) -> list[Made | None]:
    """The inverse of `made_to_frame`, without the header. Raises `Garbled` where it is not of so many files."""
    values = marshal.loads(body)  # noqa: S302 - by `checked`
    if not isinstance(values, list) or len(values) != count:
        raise Garbled("an answer of other files")
    return [Made(*one) if one is not None else None for one in values]


def body_bytes(header: bytes) -> int:
    """How long the body after a header is. Raises `Garbled`."""
    length: int = _HEADER.unpack(header)[0]
    if length > LARGEST_FRAME_BYTES:
        raise Garbled("a message without end")
    return length


def checked(header: bytes, body: bytes) -> bytes:
    """The body, if it is the one of this header. Raises `Garbled`."""
    if _HEADER.unpack(header)[1] != _sum(body):
        raise Garbled("a message with another sum")
    return body


def _framed(value: Any) -> bytes:
    body = marshal.dumps(value)
    return _HEADER.pack(len(body), _sum(body)) + body


def _sum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8).digest()
