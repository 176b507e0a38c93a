"""A process of the crew: a worker process (`sandbox.worker_loop`) that makes what the child asks
for.

It parses, cuts, describes and embeds what it is sent, and knows nothing else: it opens no file, no
database and no index, and loads neither CocoIndex nor the driver of PostgreSQL. It ends when the
child hangs up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.pipeline import file_manifest, parse_result
from cocosearchd.indexing.pipeline.chunker import keywords
from cocosearchd.indexing.pipeline.embedding_text import embedded_texts
from cocosearchd.indexing.pool.bulk_messages import (
    TaskInput,
    TaskRequest,
    TaskResult,
    made_to_bytes,
    order_of,
)
from cocosearchd.languages import scopes
from cocosearchd.model import Chunk
from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.store.chunks.manifest import new_positions, stored_chunk_order


def made(order: TaskRequest, embedder: BuiltinEmbedder) -> list[TaskResult]:
    """Outlines, sheets, words and halves of the files of an order."""
    described = [_described(one, order) for one in order.files]
    new = [one.new_chunks for one in described]
    halves = [b""] * len(described)
    if order.embedder == embedder.fingerprint.pairs():
        halves = _halves(order, new, embedder)
    return [
        TaskResult(one.outline, one.sheet, tuple(map(keywords, one.new_chunks)), half, one.lasting)
        for one, half in zip(described, halves, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Described:
    """Outline and sheet of a file, packed, and those of its chunks that are not stored."""

    outline: bytes
    sheet: bytes
    new_chunks: tuple[Chunk, ...]
    lasting: bool


def _described(asked: TaskInput, order: TaskRequest) -> _Described:
    cut, lasting = parse_result.outlined(
        asked.path, asked.language, asked.data, order.limits, order.overrides
    )
    chunks = cut.chunks(asked.path, asked.language, asked.data)
    whole = file_manifest.file_sheet(
        chunks, asked.language, cut.report, scopes.pack(cut.symbols), None
    )
    places, by_place = new_positions(whole.sheet, asked.stored), stored_chunk_order(chunks)
    new_chunks = tuple(chunks[by_place[place]] for place in places)
    return _Described(
        parse_result.packed_outline(cut), file_manifest.packed_sheet(whole), new_chunks, lasting
    )


def _halves(
    order: TaskRequest, chunks: Sequence[Sequence[Chunk]], embedder: BuiltinEmbedder
) -> list[bytes]:
    """The vectors of the chunks of each file: texts embedded as documents, as bytes of float16."""
    texts = [
        embedded_texts(asked.path, some, order.embedder)
        for asked, some in zip(order.files, chunks, strict=True)
    ]
    vectors = embedder.documents([text for some in texts for text in some]).astype(np.float16)
    ends = accumulate(map(len, texts), initial=0)
    return [vectors[first:last].tobytes() for first, last in pairwise(ends)]


def open_handler() -> Handler:
    """Load the model; return what answers an order with what was made of its files."""
    embedder = BuiltinEmbedder()
    return lambda body: made_to_bytes(made(order_of(body), embedder))


if __name__ == "__main__":
    run_worker(open_handler)
