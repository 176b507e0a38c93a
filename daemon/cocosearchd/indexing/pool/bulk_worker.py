"""A bulk worker: a worker process that parses, chunks, describes and embeds files.

It has only the bytes that the indexer process sends. It opens no file, no database and no index,
and loads neither CocoIndex nor the driver of PostgreSQL. It ends when the indexer process hangs up.
See `sandbox.worker_loop`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.pipeline import file_manifest, parse_result
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.pool.bulk_messages import (
    TaskInput,
    TaskRequest,
    TaskResult,
    pack_task_results,
    unpack_task_request,
)
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.model import Chunk
from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.store.chunks.manifest import new_positions, stored_chunk_order


def process_request(request: TaskRequest, embedder: BuiltinEmbedder) -> list[TaskResult]:
    """Return the result of each file of a request."""
    files = [_describe_file(task, request) for task in request.files]
    new_chunks = [file.new_chunks for file in files]
    vectors = [b""] * len(files)
    if request.embedder == embedder.fingerprint.pairs():
        vectors = _embed_chunks(request, new_chunks, embedder)
    return [
        TaskResult(
            file.manifest,
            len(file.new_chunks),
            file_vectors,
            file.cacheable,
        )
        for file, file_vectors in zip(files, vectors, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _DescribedFile:
    """Packed manifest of a file, and its chunks that are not stored."""

    manifest: bytes
    new_chunks: tuple[Chunk, ...]
    cacheable: bool


def _describe_file(task: TaskInput, request: TaskRequest) -> _DescribedFile:
    parsed_file, cacheable = parse_result.parse_file(
        task.path, task.language, task.data, request.limits, request.overrides
    )
    chunks = parsed_file.chunks(task.path, task.language, task.data)
    manifest = file_manifest.build_file_manifest(
        chunks,
        task.language,
        parsed_file.report,
        pack_code(parsed_file.symbols, parsed_file.facts),
        None,
    )
    positions = new_positions(manifest.chunk_manifest, task.stored)
    chunk_order = stored_chunk_order(chunks)
    new_chunks = tuple(chunks[chunk_order[position]] for position in positions)
    return _DescribedFile(
        file_manifest.pack_manifest(manifest),
        new_chunks,
        cacheable,
    )


def _embed_chunks(
    request: TaskRequest, chunks: Sequence[Sequence[Chunk]], embedder: BuiltinEmbedder
) -> list[bytes]:
    """Return the vectors of the chunks of each file, embedded as documents, as bytes of float16."""
    texts = [
        build_embedding_texts(task.path, file_chunks, request.embedder)
        for task, file_chunks in zip(request.files, chunks, strict=True)
    ]
    all_texts = [text for file_texts in texts for text in file_texts]
    vectors = embedder.documents(all_texts).astype(np.float16)
    ends = accumulate(map(len, texts), initial=0)
    return [vectors[first:last].tobytes() for first, last in pairwise(ends)]


def open_handler() -> Handler:
    """Load the model. Return the request handler."""
    embedder = BuiltinEmbedder()
    return lambda body: pack_task_results(process_request(unpack_task_request(body), embedder))


if __name__ == "__main__":
    run_worker(open_handler)
