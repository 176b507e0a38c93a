"""Parses files in worker processes with bounds, and quarantines a content that ends or stalls one.

Nothing is parsed in the process that calls this. A file that ends its process costs others nothing
but time: a batch that fails is sent again one file a request, so the file that did it is found
without a third try.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cocosearchd.indexing.pipeline.chunker import Limits
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
# The CPU time of a request is bounded as well, so this ends a process that waits for something. It
# is far above that bound: on a busy machine a process gets a fraction of a core.
DEADLINE_S = 60.0
# Two are kept warm: an index may stall one with what is saved in it, and its neighbours have the
# other at once.
POOL_SIZE = PoolSize(max_processes=4, warm=2, idle_s=10.0)
SAVES_AT_ONCE = 1  # of one index
# an index whose file has ended a process waits so long for a new one before it parses the next file
REFILL_S = 5.0
PROVEN_S = 60.0  # a pool that has answered within this time is sound
# of a file that is parsed; larger ones make messages above the bound of a frame
LARGEST_BYTES = 64 << 20

Pause = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ParseTask:
    """A file to be parsed, and the key under which its content is quarantined."""

    file: ParseFile
    key: bytes


def parser_pool(chunker: str, code: str, size: PoolSize = POOL_SIZE) -> WorkerPool:
    """Return a pool of parser processes for one way to cut; `code` is that of `installed_code`."""
    return WorkerPool("parser", parser_command(chunker), code, ResourceLimits(), size)


def parser_command(chunker: str) -> tuple[str, ...]:
    """Return the command of a parser process."""
    return (sys.executable, "-P", "-m", MODULES[chunker])


class BoxedParser:
    """Parses the files of one index. For one event loop."""

    def __init__(
        self, pool: WorkerPool, quarantine: Quarantine, bulk: asyncio.Semaphore, shape: ParseRequest
    ) -> None:
        """`bulk` bounds bulk requests of all indexes together. `shape` holds limits and overrides,
        and no files.
        """
        self._pool, self._quarantine, self._bulk, self._shape = pool, quarantine, bulk, shape
        self._saves = asyncio.Semaphore(SAVES_AT_ONCE)
        self._answered_at = -PROVEN_S

    @property
    def limits(self) -> Limits:
        """How files are cut."""
        return self._shape.limits

    @property
    def quarantine(self) -> Quarantine:
        """The contents that are not parsed."""
        return self._quarantine

    async def parse_save(self, task: ParseTask) -> ParseResult:
        """Parse a file that a person has just saved. Raises `WorkerUnavailable`."""
        async with self._saves:
            return await self._parse_alone(task, rehearse=False)

    async def parse(self, tasks: Sequence[ParseTask], pause: Pause) -> list[ParseResult]:
        """Parse files in their order, `pause` before each request. Raises `WorkerUnavailable`."""
        results = list[ParseResult]()
        for batch in split_batches([len(task.file.data) for task in tasks]):
            await pause()
            async with self._bulk:
                results += await self._parse_batch([tasks[number] for number in batch])
        return results

    async def parse_suspects(self, tasks: Sequence[ParseTask], pause: Pause) -> list[ParseResult]:
        """Parse files one of which has ended another process, each alone. Raises
        `WorkerUnavailable`.
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
            return self._plain(task, f"it is larger than {LARGEST_BYTES >> 20} MiB")
        try:
            (result,) = await self._request([task.file], rehearse=rehearse)
        except WorkerLost as error:
            await self._check_pool()
            log.error("file_quarantined", extra={"path": task.file.path, "how": error.reason})
            await asyncio.to_thread(self._quarantine.add, task.key, error.reason)
            await self._pool.wait_refilled(REFILL_S)
            return self._plain(task, error.reason)
        return result

    async def _check_pool(self) -> None:
        """Raise `WorkerUnavailable` if a harmless file ends a parser process too: then it is not
        the file's fault.
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
                "install cocosearchd again, or report it; it is tried again by itself",
            ) from error

    async def _request(self, files: Sequence[ParseFile], *, rehearse: bool) -> list[ParseResult]:
        request = replace(self._shape, files=tuple(files), rehearse=rehearse)
        decode = partial(unpack_response, count=len(files))
        results = await self._pool.call(pack_request(request), DEADLINE_S, decode)
        self._answered_at = time.monotonic()
        return results

    def _plain(self, task: ParseTask, reason: str) -> ParseResult:
        return ParseResult(
            plain_parsed_file(task.file.data, self.limits, NOT_PARSED + reason), None
        )


class ParserPools:
    """The parsers of all indexes, and what they share: pools by chunker, and the quarantine. For
    one event loop.
    """

    def __init__(self, code: str, state_dir: Path) -> None:
        """`code` is that of `installed_code`."""
        self._code, self._state_dir = code, state_dir
        self._pools: dict[str, WorkerPool] = {}
        self._bulk = asyncio.Semaphore(1)
        self._opening = asyncio.Lock()
        self._quarantine: Quarantine | None = None

    def warm_up(self, chunker: str) -> None:
        """Have a process ready for the first save, without waiting for it."""
        self._pool(chunker).warm_up()

    async def parser(self, limits: Limits, overrides: QueryOverrides) -> BoxedParser:
        """Return a parser by the rules of an index."""
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
