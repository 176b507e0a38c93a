"""The child that does all CocoIndex work: `python -P -m cocosearchd.indexing.worker.indexer FD
PARENT`.

A process of its own, because a native parser that crashes, or runs for seconds, must cost no query.
It dies with the daemon, holds the lock on CocoIndex's memory (CocoIndex itself takes none), and
keeps out of the way (nice). What goes over the socket is in `wire`; nothing here decides what is to
be indexed.
"""

import asyncio
import contextlib
import faulthandler
import fcntl
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.caching import CachingEmbedder, ReuseCounters
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.embedding.offline import OfflineEmbedder, fingerprint_from_pairs
from cocosearchd.errors import CocoSearchError, EmbedderUnavailable, IdentityMismatch
from cocosearchd.indexing import indexer_messages
from cocosearchd.indexing.cores import bulk_pool_size, count_usable_cores
from cocosearchd.indexing.pipeline.parse_cache import (
    ParseCache,
    digest_pipeline_code,
    open_disk_cache,
)
from cocosearchd.indexing.pool.boxed_parser import ParserPools
from cocosearchd.indexing.pool.bulk_pool import BulkPool
from cocosearchd.indexing.row_shape import chunker_limits, digest_queries, index_identity
from cocosearchd.indexing.worker.cocoindex_app import BatchOutcome, IndexApp, describe_error
from cocosearchd.indexing.worker.index_file import FileTools
from cocosearchd.indexing.worker.row_maker import RowRules
from cocosearchd.indexing.worker.row_target import FileTarget
from cocosearchd.indexing.worker.set_aside import SetAside
from cocosearchd.indexing.worker.work_priority import WorkPriority
from cocosearchd.model import IndexRecord
from cocosearchd.runtime import interpreter
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.process_priority import die_with_parent, renice
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database

log = logging.getLogger(__name__)

STOP_S = 2.0
WRITE_TIMEOUT_MS = 60_000  # nobody waits for a large file's rows as for an answer
IDLE_S = 5.0  # without work, until memory is given back
LOCK_POLL_S = 0.02  # an orphan of a killed daemon is gone within 50 ms
_OF_ANY_RECORD = frozenset(vars(logging.makeLogRecord({})))
RECENT_DATABASES = 2  # of this database and of the one used before: switching back costs nothing


class Indexer:
    """The indexes that are open, and what they share: the pool, the embedder, the target."""

    def __init__(
        self,
        spec: indexer_messages.IndexerSpec,
        writer: asyncio.StreamWriter,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._spec, self._writer, self._stack = spec, writer, stack
        self._indexes: dict[str, OpenIndex] = {}
        self._target = FileTarget(WorkPriority())
        self._counters = ReuseCounters()
        self._embedders = EmbedderRegistry(
            LazyEmbedder(partial(self._opened_embedder, spec.embedder)),
            spec.embedder,
            self._opened_embedder,
        )
        self._code = installed_code_digest()
        self._crew = BulkPool(
            bulk_pool_size(spec.indexing.processes, count_usable_cores()), self._code
        )
        self._set_aside = SetAside(Path(spec.state_dir), self._code)
        self._parsers = ParserPools(self._code, Path(spec.state_dir))
        self._opening = asyncio.Lock()
        self._store: tuple[Database, Path] | None = None
        self._made_by = b""  # until the first index is opened
        self._kept: DiskCache | None = None
        self._rest: asyncio.TimerHandle | None = None

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer until end of file; batches overlap."""
        self._send({"ready": True})
        async with asyncio.TaskGroup() as tasks:
            while line := await reader.readline():
                message = indexer_messages.decode_message(line)
                if message["do"] == "open":
                    record = indexer_messages.record_from_json(message["record"])
                    self._indexes[record.name] = index = OpenIndex(
                        record, indexer_messages.rules_from_json(message["rules"])
                    )
                    self._parsers.warm_up(chunker_limits(index.rules.indexing).chunker)
                elif message["do"] == "work":
                    index = self._indexes[message["index"]]
                    index.busy.add(task := tasks.create_task(self._work(index, message)))
                    task.add_done_callback(index.busy.discard)
                elif message["do"] == "set_aside":
                    tasks.create_task(self._leave_out(self._indexes[message["index"]], message))
                elif message["do"] == "ping":
                    self._send({"id": message["id"]})
                else:
                    tasks.create_task(self._close(self._indexes.pop(message["index"]), message))
            await self._stop()

    async def _stop(self) -> None:
        busy = {task for index in self._indexes.values() for task in index.busy}
        if busy and (await asyncio.wait(busy, timeout=STOP_S))[1]:
            # nobody waits for these batches any more, and every step of them survives a kill
            os._exit(0)
        for index in self._indexes.values():
            await index.close()
        await self._crew.aclose()
        await self._parsers.aclose()
        await self._embedders.aclose()
        if self._kept is not None:
            await self._kept.aclose()

    async def _work(self, index: "OpenIndex", message: dict[str, Any]) -> None:
        """Answer for every path, whatever goes wrong: a process that ended would have the files
        blamed for it.
        """
        (outcome,) = await asyncio.gather(self._outcome(index, message), return_exceptions=True)
        if isinstance(outcome, BaseException):
            outcome = BatchOutcome(
                0, dict.fromkeys([*message["paths"], *message["gone"]], describe_error(outcome))
            )
        answer = {
            "generation": outcome.generation,
            "failed": dict(outcome.failed),
            "aside": outcome.aside,
            "done": asdict(self._counters),
        }
        self._send({"id": message["id"], **answer})
        self._rest_soon()

    def _rest_soon(self) -> None:
        """Give memory back once there has been no work for a while."""
        if self._rest is not None:
            self._rest.cancel()
        loop = asyncio.get_running_loop()
        self._rest = loop.call_later(
            IDLE_S, loop.run_in_executor, None, interpreter.collect_and_return_memory
        )

    async def _outcome(self, index: "OpenIndex", message: dict[str, Any]) -> BatchOutcome:
        # Raises what opening does: no PostgreSQL, no embedder yet or not this index's, no space for
        # the memory.
        app = await self._app(index)
        paths, gone = message["paths"], message["gone"]
        work = app.process(paths, gone, force=message["force"], urgent=message["urgent"])
        return await index.unless_ended(asyncio.ensure_future(work))

    async def _leave_out(self, index: "OpenIndex", message: dict[str, Any]) -> None:
        try:
            app = await self._app(index)
        # it is in the daemon's memory, and found out anew after a restart
        except CocoSearchError as error:
            log.warning("set_aside_not_kept", extra={"path": message["path"], "error": str(error)})
        else:
            await app.set_aside(message["path"], message["reason"])

    async def _close(self, index: "OpenIndex", message: dict[str, Any]) -> None:
        await asyncio.gather(*index.busy)
        await index.close()
        if message["forget"] and self._store is not None:
            await asyncio.to_thread(
                shutil.rmtree, self._store[1] / str(index.record.number), ignore_errors=True
            )
        self._send({"id": message["id"]})

    async def _app(self, index: "OpenIndex") -> IndexApp:
        """The running app of the index, started at its first batch. Raises `CocoSearchError`."""
        async with index.opening:
            if index.app is None:
                embedder = await self._embedder_of(index.record)
                rules = _make_row_rules(index, embedder)
                database, memory = await self._opened_store()
                outlines = await self._outlines(rules)
                parser = await self._parsers.parser(rules.limits, rules.overrides)
                tools = FileTools(
                    rules,
                    embedder,
                    self._target,
                    self._guard,
                    outlines,
                    parser,
                    self._crew,
                    self._set_aside,
                )
                state = memory / str(index.record.number)
                index.start(
                    await IndexApp.open(
                        index.record, database, tools, state, self._spec.indexing.inflight_files
                    )
                )
            assert index.app is not None
            return index.app

    async def _embedder_of(self, record: IndexRecord) -> Embedder:
        """The one that an index is made by, which the settings may name no more.

        Where it does not answer yet, it is asked for as soon as a text needs it.
        """
        try:
            return await self._opened_embedder_of(record)
        except EmbedderUnavailable:
            fingerprint = fingerprint_from_pairs(record.identity.embedder)
            if fingerprint is None:
                raise
            return OfflineEmbedder(fingerprint, partial(self._opened_embedder_of, record))

    async def _opened_embedder_of(self, record: IndexRecord) -> Embedder:
        with contextlib.suppress(EmbedderUnavailable):
            await self._embedders.configured.open()
        return await self._embedders.get(record.identity.embedder).open()

    async def _opened_embedder(self, settings: EmbedderSettings) -> Embedder:
        folder = Path(self._spec.state_dir) / "embeddings"
        embedder = await open_embedder(settings, self._spec.api_key)
        return await CachingEmbedder.create(embedder, folder, settings.cache_bytes, self._counters)

    async def _outlines(self, rules: RowRules) -> ParseCache:
        """Those of an index, kept with those of all others."""
        async with self._opening:
            if not self._made_by:
                self._made_by = await asyncio.to_thread(digest_pipeline_code)
                path, limit = (
                    Path(self._spec.state_dir) / "outlines.sqlite",
                    self._spec.indexing.cache_bytes,
                )
                self._kept = await asyncio.to_thread(open_disk_cache, path, limit)
        return ParseCache(rules.limits, rules.overrides, self._made_by, self._kept, self._counters)

    async def _opened_store(self) -> tuple[Database, Path]:
        async with self._opening:
            if self._store is None:
                patient = max(self._spec.database.statement_timeout_ms, WRITE_TIMEOUT_MS)
                settings = replace(self._spec.database, statement_timeout_ms=patient)
                opening = Database.open(
                    self._spec.dsn, settings, self._spec.store_wait_s, self._spec.series
                )
                async with contextlib.AsyncExitStack() as stack:  # what is not of use is closed
                    database = await stack.enter_async_context(opening)
                    memory = self._spec.cocoindex_dir / await index_records.incarnation(database)
                    numbers = {
                        str(number) for number in await index_records.index_numbers(database)
                    }
                    await asyncio.to_thread(
                        remove_stale_folders, self._spec.cocoindex_dir, memory, numbers
                    )
                    self._stack.push_async_callback(stack.pop_all().aclose)
                self._store = database, memory
            return self._store

    def _guard(self, path: str) -> None:
        if self._spec.crash_on and path.endswith(self._spec.crash_on):
            os.abort()
        if self._spec.hang_on and path.endswith(self._spec.hang_on):
            threading.Event().wait()

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(indexer_messages.encode_message(message))


class LiveRunEnded(Exception):
    """CocoIndex works on an index no more, unasked. Worth another try."""


class OpenIndex:
    """An index as this process holds it: told of, and running from its first batch on."""

    def __init__(self, record: IndexRecord, rules: indexer_messages.IndexRules) -> None:
        self.record, self.rules = record, rules
        self.app: IndexApp | None = None
        self.opening = asyncio.Lock()
        self.busy: set[asyncio.Task[None]] = set()
        # the app's live run, which does not end unasked
        self._ended: asyncio.Task[None] | None = None

    def start(self, app: IndexApp) -> None:
        """Keep the app for as long as its live run goes on."""
        self.app = app
        self._ended = asyncio.ensure_future(app.wait_ended())

    async def unless_ended(self, work: asyncio.Future[BatchOutcome]) -> BatchOutcome:
        """The outcome of work. Raises `LiveRunEnded` where the live run ends before: the next work
        begins another.

        Only this index loses it: the process, and with it the work on every other, goes on.
        """
        ended, app = self._ended, self.app
        assert ended is not None
        futures: set[asyncio.Future[Any]] = {work, ended}
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.wait({work})
        if self.app is app and app is not None:
            self.app = None
            await asyncio.gather(app.close(), return_exceptions=True)  # what it raises has ended it
        cause = ended.exception() if not ended.cancelled() else None
        raise LiveRunEnded(
            f"CocoIndex ended the live run of {self.record.name!r}: {cause or 'unasked'}"
        )

    async def close(self) -> None:
        """End the live run; batches must have been awaited."""
        if self._ended is not None:
            self._ended.cancel()
        if self.app is not None:
            await self.app.close()


def remove_stale_folders(memories: Path, current: Path, numbers: Iterable[str]) -> None:
    """Remove the memories of databases not used lately, and of indexes that are no more;
    blocking.
    """
    current.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.utime(current)
    by_age = sorted(
        (path for path in memories.iterdir() if path.is_dir()),
        key=lambda path: path.stat().st_mtime,
    )
    stale = [
        *by_age[:-RECENT_DATABASES],
        *(path for path in current.iterdir() if path.name not in numbers),
    ]
    for path in stale:
        shutil.rmtree(path, ignore_errors=True)


def _make_row_rules(index: OpenIndex, embedder: Embedder) -> RowRules:
    """What shapes the rows of the index. Raises `IdentityMismatch`: rows of two kinds never mix."""
    record, settings = index.record, index.rules.indexing
    if index_identity(embedder.fingerprint.pairs(), settings) != record.identity:
        raise IdentityMismatch(
            f"index {record.name!r} was built with another embedder or chunker",
            f"cocosearchctl reindex {record.name}",
        )
    return RowRules(
        index=record.number,
        identity=record.identity,
        limits=chunker_limits(settings),
        overrides=index.rules.queries,
        queries=tuple(digest_queries(index.rules.queries).items()),
        max_file_bytes=settings.max_file_bytes,
        index_secrets=settings.index_secrets,
        any_type=bool(settings.include or settings.extend_include),
    )


async def hold_lock(state: Path, reader: asyncio.StreamReader) -> int:
    """Wait for the lock on CocoIndex's memory, or for end of file. The lock lasts as long as the
    process.
    """
    await asyncio.to_thread(state.mkdir, parents=True, exist_ok=True)
    handle = os.open(state / "cocoindex.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if reader.at_eof():
                sys.exit(0)
            await asyncio.sleep(LOCK_POLL_S)
        else:
            return handle


async def run(descriptor: int, parent: int) -> None:
    """Serve the daemon at the other end of the socket until it hangs up."""
    connection = socket.socket(fileno=descriptor)
    reader, writer = await asyncio.open_connection(
        sock=connection, limit=indexer_messages.LINE_BYTES
    )
    spec = indexer_messages.spec_from_json(indexer_messages.decode_message(await reader.readline()))
    renice(spec.indexing.nice)
    die_with_parent(parent)
    await hold_lock(Path(spec.state_dir), reader)
    async with contextlib.AsyncExitStack() as stack:
        await Indexer(spec, writer, stack).serve(reader)
    writer.close()


class EventLine(logging.Formatter):
    """An event with its fields in one line: the daemon puts what this process says into its log as
    it is.
    """

    def format(self, record: logging.LogRecord) -> str:
        """As its base, and `name=value` for each field."""
        fields = [
            f"{name}={value}" for name, value in vars(record).items() if name not in _OF_ANY_RECORD
        ]
        return " ".join((super().format(record), *fields))


def main() -> None:
    """The process. Ends with 0 when the daemon hangs up."""
    faulthandler.enable()  # a crash says where, in the daemon's log
    interpreter.configure_interpreter()
    said = logging.StreamHandler()
    said.setFormatter(EventLine())
    logging.basicConfig(level=logging.WARNING, handlers=[said])
    # Ctrl-C reaches the whole group; the daemon says when to stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(run(int(sys.argv[1]), int(sys.argv[2])))


if __name__ == "__main__":
    main()
