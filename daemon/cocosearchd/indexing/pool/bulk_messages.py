"""What crosses between the child and a mate of its crew: files that nobody knows, and what was made
of them. Pure.

A message is what `marshal` wrote, in a frame of `sandbox.frames`. Both ends are of one Python and
one state of the code, see `sandbox.code_digest`.

    child -> mate   an Order for each portion
    mate -> child   for each order what was made of its files, in their order
"""

import marshal
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from cocosearchd.indexing.pipeline.chunker import Limits
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values

LARGEST_FILE_BYTES = 2 << 20  # what is larger is no bulk work of the crew


@dataclass(frozen=True, slots=True)
class TaskInput:
    """A file to be parsed, and of what is stored of it what chunks are compared with."""

    path: str
    language: str
    data: bytes
    stored: bytes  # `StoredFile.chunks`


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Files, and what shapes what is made of them. `embedder`: pairs of its fingerprint; empty for
    no vectors.
    """

    limits: Limits
    overrides: QueryOverrides
    embedder: tuple[tuple[str, str], ...]
    files: tuple[TaskInput, ...]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What was made of a file: outline and sheet as they are kept, and of its new chunks, by place,
    words and vectors.

    `halves` are float16 of shape (new chunks, dimension), empty where none were asked for.
    `cacheable`: the outline is worth keeping, as the parser did not give up.
    """

    parsed_file: bytes
    manifest: bytes
    keywords: tuple[str, ...]
    vectors: bytes
    cacheable: bool = True


def pack_task_request(order: TaskRequest) -> bytes:
    """Return an order as it is sent."""
    files = tuple((one.path, one.language, one.data, one.stored) for one in order.files)
    return marshal.dumps((astuple(order.limits), order.overrides, order.embedder, files))


def unpack_task_request(body: bytes) -> TaskRequest:
    """Return the inverse of `pack_task_request`."""
    limits, overrides, embedder, files = marshal.loads(body)  # noqa: S302 - a frame with its checksum
    return TaskRequest(
        Limits(*limits), overrides, embedder, tuple(TaskInput(*one) for one in files)
    )


def pack_task_results(made: Sequence[TaskResult]) -> bytes:
    """Return what was made of files as it is sent: outline, sheet, words and halves of each, and
    whether it lasts.
    """
    return marshal.dumps(
        [(one.parsed_file, one.manifest, one.keywords, one.vectors, one.cacheable) for one in made]
    )


def unpack_task_results(body: bytes, count: int) -> list[TaskResult]:
    """Return the inverse of `pack_task_results`. Raises `InvalidFrame` where it is not of so many
    files, `TypeError`.
    """
    values = read_values(body)
    if not isinstance(values, list) or len(values) != count:
        raise InvalidFrame("an answer of other files")
    return [TaskResult(*one) for one in values]
