"""Messages between a process and its workers: a frame is a length, a checksum and a body.

The input that a worker parses may have corrupted the worker. Bytes that are not a frame therefore
raise `InvalidFrame`, and no part of them is used. The checksum detects accidents. It is not a
signature: it does not stop code that runs in a worker.
"""

import hashlib
import struct
from typing import Protocol

# A file of 2 MiB makes about 10 MiB of texts, words and vectors.
LARGEST_FRAME_BYTES = 128 << 20
CHECKSUM_BYTES = 8
_HEADER = struct.Struct(f">I{CHECKSUM_BYTES}s")
HEADER_BYTES = _HEADER.size


class InvalidFrame(Exception):
    """The bytes on the socket are not a message."""


class Readable(Protocol):
    """A blocking stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, or fewer at the end of the stream."""


def encode_frame(body: bytes) -> bytes:
    """Return the frame that carries a body.

    Raises `ValueError` for a body above `LARGEST_FRAME_BYTES`.
    """
    if len(body) > LARGEST_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes")
    return _HEADER.pack(len(body), _checksum(body)) + body


def body_size(header: bytes) -> int:
    """Return the length of the body that follows a header. Raises `InvalidFrame`."""
    length: int = _HEADER.unpack(header)[0]
    if length > LARGEST_FRAME_BYTES:
        raise InvalidFrame(f"a message of {length} bytes")
    return length


def verify_body(header: bytes, body: bytes) -> bytes:
    """Return the body if it matches the checksum in the header. Raises `InvalidFrame`."""
    if _HEADER.unpack(header)[1] != _checksum(body):
        raise InvalidFrame("a message with a wrong checksum")
    return body


def read_frame(stream: Readable) -> bytes | None:
    """Read one body from a blocking stream. Return None at its end, even in the middle of a frame.

    Raises `InvalidFrame`.
    """
    header = stream.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    length = body_size(header)
    body = stream.read(length)
    return verify_body(header, body) if len(body) == length else None


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()
