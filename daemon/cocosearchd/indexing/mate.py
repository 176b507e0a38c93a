"""A process of the crew: `python -P -m cocosearchd.indexing.mate FD PARENT INSTALLED`. Makes what the child asks for.

It parses, cuts, describes and embeds what it is sent, and knows nothing else: it opens no file, no database and no
index, and loads neither CocoIndex nor the driver of PostgreSQL. It ends when the child hangs up.
"""

import contextlib
import io
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np

from cocosearchd import interpreter
from cocosearchd.embedding.builtin import BuiltinEmbedder
from cocosearchd.indexing import outline, sheet
from cocosearchd.indexing.chunk import keywords
from cocosearchd.indexing.giving_way import end_with, read_last
from cocosearchd.indexing.installed import installed
from cocosearchd.indexing.portion import (
    HEADER_BYTES,
    OTHER_CODE,
    Asked,
    Made,
    Order,
    body_bytes,
    checked,
    made_to_frame,
    order_of,
)
from cocosearchd.indexing.texts import embedded_texts
from cocosearchd.languages import scopes
from cocosearchd.model import Chunk
from cocosearchd.store.sheets import new_places, placed


def made(order: Order, embedder: BuiltinEmbedder) -> list[Made | None]:
    """Outlines, sheets, words and halves of the files of an order; None where the child had better make them."""
    found = [_described(one, order) for one in order.files]
    new = [chunks for _, chunks in found]
    halves = [b""] * len(found)
    if order.embedder == embedder.fingerprint.pairs():
        halves = _halves(order, new, embedder)
    return [
        one and Made(*one, tuple(map(keywords, chunks)), half)
        for (one, chunks), half in zip(found, halves, strict=True)
    ]


def _described(asked: Asked, order: Order) -> tuple[tuple[bytes, bytes] | None, tuple[Chunk, ...]]:
    """Outline and sheet of a file, packed, and those of its chunks that are not stored."""
    cut, lasting = outline.outlined(asked.path, asked.language, asked.data, order.limits, order.overrides)
    if not lasting:
        return None, ()
    chunks = cut.chunks(asked.path, asked.language, asked.data)
    whole = sheet.file_sheet(chunks, asked.language, cut.report, scopes.pack(cut.symbols), None)
    places, by_place = new_places(whole.sheet, asked.stored), placed(chunks)
    return (outline.packed_outline(cut), sheet.packed_sheet(whole)), tuple(chunks[by_place[place]] for place in places)


def _halves(order: Order, chunks: Sequence[Sequence[Chunk]], embedder: BuiltinEmbedder) -> list[bytes]:
    """The vectors of the chunks of each file: texts embedded as documents, as bytes of float16."""
    texts = [embedded_texts(asked.path, some, order.embedder) for asked, some in zip(order.files, chunks, strict=True)]
    vectors = embedder.documents([text for some in texts for text in some]).astype(np.float16)
    ends = accumulate(map(len, texts), initial=0)
    return [vectors[first:last].tobytes() for first, last in pairwise(ends)]


def serve(stream: io.BufferedRWPair, embedder: BuiltinEmbedder) -> None:
    """Write to the stream what was made of each order in it, flushed, until end of file."""
    stream.write(made_to_frame([]))
    stream.flush()
    for order in _orders(stream):
        stream.write(made_to_frame(made(order, embedder)))
        stream.flush()


def _orders(stream: io.BufferedRWPair) -> Iterator[Order]:
    while len(header := stream.read(HEADER_BYTES)) == HEADER_BYTES:
        length = body_bytes(header)
        body = stream.read(length)
        if len(body) < length:
            return
        yield order_of(checked(header, body))


def main() -> None:
    """The process. Ends with 0 when the child hangs up, however that was."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the daemon says when to stop
    end_with(int(sys.argv[2]))
    read_last()
    if sys.argv[3] != installed():
        sys.exit(OTHER_CODE)
    embedder = BuiltinEmbedder()
    interpreter.prepare()
    connection = socket.socket(fileno=int(sys.argv[1]))
    with contextlib.suppress(ConnectionError), connection, connection.makefile("rwb") as stream:
        serve(stream, embedder)


if __name__ == "__main__":
    main()
