"""Parses files in worker processes with resource limits, and quarantines harmful contents.

The calling process parses nothing. A content that ends a process is quarantined; one that stalls it
is quarantined when it does so twice, because a busy machine stalls processes as well. A file that
ends its process costs other files only time: a
failed batch is sent again with one file per request, which finds the culprit without a third try.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.parse_result import plain_parsed_file
from cocosearchd.indexing.pool.parse_task import (
    ParseFile,
    ParseRequest,
    ParseResult,
    pack_request,
    split_batches,
    unpack_response,
)
from cocosearchd.indexing.pool.quarantine import NOT_PARSED, Quarantine
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerUnavailable

log = logging.getLogger(__name__)

MODULES = {
    "definitions": "cocosearchd.indexing.pool.parser_worker",
    "recursive": "cocosearchd.indexing.pool.recursive_parser_worker",
}
# The CPU time of a request has its own limit; this deadline ends a process that waits. It is far above
# that limit, because a process gets only a fraction of a core on a busy machine.
DEADLINE_S = 60.0
# Two processes are warm: if the saves of one index stall one, other indexes have the second at once.
POOL_SIZE = PoolSize(max_processes=4, warm=2, idle_s=10.0)
# of every process that parses: parsers of saved files and of unsaved text, and bulk workers
PARSER_LIMITS = ResourceLimits()
SAVES_AT_ONCE = 1  # per index
# an index whose file has ended a process waits this long for a new one before its next file
REFILL_S = 5.0
PROVEN_S = 60.0  # a pool that has answered within this time counts as sound
# largest file that is parsed; a larger one would exceed the limit of a frame
LARGEST_BYTES = 64 << 20

Pause = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ParseTask:
    """A file to parse, and the quarantine key of its content."""

    file: ParseFile
    key: bytes


def parser_pool(chunker: str, code: str, size: PoolSize = POOL_SIZE) -> WorkerPool:
    """Return a pool of parser processes for a chunker. `code` is an `installed_code_digest`."""
    return WorkerPool("parser", parser_command(chunker), code, PARSER_LIMITS, size)


def parser_command(chunker: str) -> tuple[str, ...]:
    """Return the command of a parser process."""
    return (sys.executable, "-P", "-m", MODULES[chunker])


class BoxedParser:
    """Parses the files of one index. For one event loop."""

    def __init__(
        self, pool: WorkerPool, quarantine: Quarantine, bulk: asyncio.Semaphore, shape: ParseRequest
    ) -> None:
        """`bulk` limits bulk requests of all indexes. `shape` is a request without files."""
        self._pool = pool
        self._quarantine = quarantine
        self._bulk = bulk
        self._shape = shape
        self._saves = asyncio.Semaphore(SAVES_AT_ONCE)
        self._answered_at = -PROVEN_S

    @property
    def limits(self) -> ChunkLimits:
        """The chunker limits."""
        return self._shape.limits

    @property
    def quarantine(self) -> Quarantine:
        """The quarantined contents."""
        return self._quarantine

    async def parse_save(self, task: ParseTask) -> ParseResult:
        """Parse a file that a person has just saved. Raises `WorkerUnavailable`."""
        async with self._saves:
            return await self._parse_alone(task, rehearse=False)

    async def parse(self, tasks: Sequence[ParseTask], pause: Pause) -> list[ParseResult]:
        """Parse files in their order. Await `pause` before each request.

        Raises `WorkerUnavailable`.
        """
        results = list[ParseResult]()
        for batch in split_batches([len(task.file.data) for task in tasks]):
            await pause()
            async with self._bulk:
                results += await self._parse_batch([tasks[number] for number in batch])
        return results

    async def parse_suspects(self, tasks: Sequence[ParseTask], pause: Pause) -> list[ParseResult]:
        """Parse each file alone, because one of them has ended another process.

        Raises `WorkerUnavailable`.
        """
        results = list[ParseResult]()
        for task in tasks:
            await pause()
            async with self._bulk:
                results.append(await self._parse_alone(task, rehearse=True))
        return results

    async def _parse_batch(self, tasks: Sequence[ParseTask]) -> list[ParseResult]:
        if len(tasks) == 1:
            return [await self._parse_alone(tasks[0], rehearse=False)]
        try:
            return await self._request([task.file for task in tasks], rehearse=False)
        except WorkerLost:
            return [await self._parse_alone(task, rehearse=False) for task in tasks]

    async def _parse_alone(self, task: ParseTask, *, rehearse: bool) -> ParseResult:
        if len(task.file.data) > LARGEST_BYTES:
            return self._plain_result(task, f"it is larger than {LARGEST_BYTES >> 20} MiB")
        try:
            result = await self._request_patiently(task.file, rehearse=rehearse)
        except WorkerLost as error:
            await self._check_pool()
            log.error("file_quarantined", extra={"path": task.file.path, "how": error.reason})
            await asyncio.to_thread(self._quarantine.add, task.key, error.reason)
            await self._pool.wait_refilled(REFILL_S)
            return self._plain_result(task, error.reason)
        return result

    async def _request_patiently(self, file: ParseFile, *, rehearse: bool) -> ParseResult:
        """Send a request of one file; send it again if it misses the deadline for the first time."""
        try:
            (result,) = await self._request([file], rehearse=rehearse)
        except WorkerLost as error:
            if not error.missed_deadline:
                raise
            log.warning("parse_repeated", extra={"path": file.path, "how": error.reason})
            await self._pool.wait_refilled(REFILL_S)
            (result,) = await self._request([file], rehearse=rehearse)
        return result

    async def _check_pool(self) -> None:
        """Raise `WorkerUnavailable` if a harmless file ends a parser process too.

        Then the file is not the cause.
        """
        if time.monotonic() - self._answered_at < PROVEN_S:
            return
        try:
            await self._request(
                [ParseFile("control.py", "python", b"def control():\n    pass\n")], rehearse=True
            )
        except WorkerLost as error:
            raise WorkerUnavailable(
                f"the parser process ends whatever it parses: {error.reason}",
                "install cocosearchd again, or report it; the daemon tries again by itself",
            ) from error

    async def _request(self, files: Sequence[ParseFile], *, rehearse: bool) -> list[ParseResult]:
        request = replace(self._shape, files=tuple(files), rehearse=rehearse)
        decode = partial(unpack_response, count=len(files))
        results = await self._pool.call(pack_request(request), DEADLINE_S, decode)
        self._answered_at = time.monotonic()
        return results

    def _plain_result(self, task: ParseTask, reason: str) -> ParseResult:
        return ParseResult(
            plain_parsed_file(task.file.data, self.limits, NOT_PARSED + reason), cacheable=False
        )


class ParserPools:
    """The parsers of all indexes. They share pools by chunker and the quarantine.

    For one event loop.
    """

    def __init__(self, code: str, state_dir: Path) -> None:
        """`code` is an `installed_code_digest`."""
        self._code = code
        self._state_dir = state_dir
        self._pools: dict[str, WorkerPool] = {}
        self._bulk = asyncio.Semaphore(1)
        self._opening = asyncio.Lock()
        self._quarantine: Quarantine | None = None

    def warm_up(self, chunker: str) -> None:
        """Start a process for the first save, without waiting for it."""
        self._pool(chunker).warm_up()

    async def parser(self, limits: ChunkLimits, overrides: QueryOverrides) -> BoxedParser:
        """Return a parser with the rules of an index."""
        async with self._opening:
            if self._quarantine is None:
                self._quarantine = await asyncio.to_thread(Quarantine.open, self._state_dir)
        shape = ParseRequest(limits, overrides, ())
        return BoxedParser(self._pool(limits.chunker), self._quarantine, self._bulk, shape)

    async def aclose(self) -> None:
        """End all processes."""
        for pool in self._pools.values():
            await pool.aclose()
        if self._quarantine is not None:
            await asyncio.to_thread(self._quarantine.close)

    def _pool(self, chunker: str) -> WorkerPool:
        if chunker not in self._pools:
            self._pools[chunker] = parser_pool(chunker, self._code)
        return self._pools[chunker]
