"""Messages between the indexer process and a bulk worker: new files, and their task results. Pure.

A message is packed with `marshal`, in a frame of `sandbox.frames`. Both ends run the same Python
and the same code, see `sandbox.code_digest`.

    indexer -> bulk worker   a TaskRequest for each batch of files
    bulk worker -> indexer   the TaskResults of a request, in the request of its files
"""

import marshal
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import EmbedderPairs
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values

MAX_BULK_FILE_BYTES = 2 << 20  # bulk workers get no larger files


@dataclass(frozen=True, slots=True)
class TaskInput:
    """A file to parse, and its stored chunks, with which the new chunks are compared."""

    path: str
    language: str
    data: bytes
    stored: bytes  # `StoredFile.chunks`


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Files with the rules that shape their results.

    `embedder` has the pairs of its fingerprint; it is empty for results without vectors.
    """

    limits: ChunkLimits
    overrides: QueryOverrides
    embedder: EmbedderPairs
    files: tuple[TaskInput, ...]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Result of a file: its manifest, and the number and the vectors of its new chunks.

    `vectors` are in the order of positions: float16 of shape (new chunks, dimension), empty if none
    were requested. `cacheable`: the parser did not give up, so the manifest may be cached.
    """

    manifest: bytes
    new_chunks: int
    vectors: bytes
    cacheable: bool = True


def pack_task_request(request: TaskRequest) -> bytes:
    """Return a request as bytes."""
    files = tuple((file.path, file.language, file.data, file.stored) for file in request.files)
    return marshal.dumps((astuple(request.limits), request.overrides, request.embedder, files))


def unpack_task_request(body: bytes) -> TaskRequest:
    """Return the inverse of `pack_task_request`."""
    limits, overrides, embedder, files = marshal.loads(body)  # noqa: S302 - a frame with its checksum
    return TaskRequest(
        ChunkLimits(*limits), overrides, embedder, tuple(TaskInput(*file) for file in files)
    )


def pack_task_results(results: Sequence[TaskResult]) -> bytes:
    """Return task results as bytes."""
    return marshal.dumps(
        [
            (
                result.manifest,
                result.new_chunks,
                result.vectors,
                result.cacheable,
            )
            for result in results
        ]
    )


def unpack_task_results(body: bytes, count: int) -> list[TaskResult]:
    """Return the inverse of `pack_task_results`.

    Raises `InvalidFrame` if the results are not of `count` files, and `TypeError`.
    """
    values = read_values(body)
    if not isinstance(values, list) or len(values) != count:
        raise InvalidFrame("a response about other files")
    return [TaskResult(*value) for value in values]
