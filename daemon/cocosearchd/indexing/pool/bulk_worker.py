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
from cocosearchd.indexing.pipeline.chunker import chunk_keywords
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.pool.bulk_messages import (
    TaskInput,
    TaskRequest,
    TaskResult,
    pack_task_results,
    unpack_task_request,
)
from cocosearchd.languages import scopes
from cocosearchd.model import Chunk
from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.store.chunks.manifest import new_positions, stored_chunk_order


def process_request(order: TaskRequest, embedder: BuiltinEmbedder) -> list[TaskResult]:
    """Outlines, sheets, words and halves of the files of an order."""
    described = [_describe_file(one, order) for one in order.files]
    new = [one.new_chunks for one in described]
    halves = [b""] * len(described)
    if order.embedder == embedder.fingerprint.pairs():
        halves = _embed_chunks(order, new, embedder)
    return [
        TaskResult(
            one.parsed_file,
            one.manifest,
            tuple(map(chunk_keywords, one.new_chunks)),
            half,
            one.cacheable,
        )
        for one, half in zip(described, halves, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _DescribedFile:
    """Outline and sheet of a file, packed, and those of its chunks that are not stored."""

    parsed_file: bytes
    manifest: bytes
    new_chunks: tuple[Chunk, ...]
    cacheable: bool


def _describe_file(asked: TaskInput, order: TaskRequest) -> _DescribedFile:
    cut, cacheable = parse_result.parse_file(
        asked.path, asked.language, asked.data, order.limits, order.overrides
    )
    chunks = cut.chunks(asked.path, asked.language, asked.data)
    whole = file_manifest.build_file_manifest(
        chunks, asked.language, cut.report, scopes.pack(cut.symbols), None
    )
    places, by_place = new_positions(whole.manifest, asked.stored), stored_chunk_order(chunks)
    new_chunks = tuple(chunks[by_place[place]] for place in places)
    return _DescribedFile(
        parse_result.pack_parsed_file(cut),
        file_manifest.pack_manifest(whole),
        new_chunks,
        cacheable,
    )


def _embed_chunks(
    order: TaskRequest, chunks: Sequence[Sequence[Chunk]], embedder: BuiltinEmbedder
) -> list[bytes]:
    """The vectors of the chunks of each file: texts embedded as documents, as bytes of float16."""
    texts = [
        build_embedding_texts(asked.path, some, order.embedder)
        for asked, some in zip(order.files, chunks, strict=True)
    ]
    vectors = embedder.documents([text for some in texts for text in some]).astype(np.float16)
    ends = accumulate(map(len, texts), initial=0)
    return [vectors[first:last].tobytes() for first, last in pairwise(ends)]


def open_handler() -> Handler:
    """Load the model; return what answers an order with what was made of its files."""
    embedder = BuiltinEmbedder()
    return lambda body: pack_task_results(process_request(unpack_task_request(body), embedder))


if __name__ == "__main__":
    run_worker(open_handler)
