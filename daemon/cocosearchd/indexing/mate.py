"""A process of the crew: a worker process (`sandbox.serving`) that makes what the child asks for.

It parses, cuts, describes and embeds what it is sent, and knows nothing else: it opens no file, no database and no
index, and loads neither CocoIndex nor the driver of PostgreSQL. It ends when the child hangs up.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from cocosearchd.embedding.builtin import BuiltinEmbedder
from cocosearchd.indexing import outline, sheet
from cocosearchd.indexing.chunk import keywords
from cocosearchd.indexing.portion import Asked, Made, Order, made_to_bytes, order_of
from cocosearchd.indexing.texts import embedded_texts
from cocosearchd.languages import scopes
from cocosearchd.model import Chunk
from cocosearchd.sandbox.serving import Handler, run_worker
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


def open_handler() -> Handler:
    """Load the model; return what answers an order with what was made of its files."""
    embedder = BuiltinEmbedder()
    return lambda body: made_to_bytes(made(order_of(body), embedder))


if __name__ == "__main__":
    run_worker(open_handler)
