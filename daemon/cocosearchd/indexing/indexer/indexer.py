"""The indexer process: `python -P -m cocosearchd.indexing.indexer.indexer FD PARENT`.

All CocoIndex work is done in this separate process: native code that crashes or runs for seconds
delays no query. The process ends with the daemon, holds the lock on CocoIndex's memory (CocoIndex
itself takes none), and runs with a low priority (nice). `indexer_messages` has the messages of its
socket. The daemon decides which files are indexed.
"""

import asyncio
import contextlib
import faulthandler
import fcntl
import logging
import os
import shlex
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
from cocosearchd.indexing.indexer.cocoindex_app import BatchOutcome, IndexApp, describe_error
from cocosearchd.indexing.indexer.index_file import FileTools
from cocosearchd.indexing.indexer.row_maker import RowRules
from cocosearchd.indexing.indexer.row_target import FileTarget
from cocosearchd.indexing.indexer.set_aside import SetAside
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.pipeline.content_keys import ContentKeys, digest_pipeline_code
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache, open_manifest_file
from cocosearchd.indexing.pool.boxed_parser import ParserPools
from cocosearchd.indexing.pool.bulk_pool import BulkPool
from cocosearchd.indexing.row_shape import (
    chunker_limits,
    digest_languages,
    index_identity,
    skip_rules,
)
from cocosearchd.model import IndexRecord
from cocosearchd.runtime import interpreter
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.process_priority import die_with_parent, renice
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database

log = logging.getLogger(__name__)

STOP_S = 2.0
WRITE_TIMEOUT_MS = 60_000  # writes of a large file may take longer than a query
MEMORY_IDLE_S = 5.0  # without work, until memory is returned to the system
LOCK_POLL_S = 0.02  # an orphan of a killed daemon is gone within 50 ms
_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({})))
# Vectors in memory, about a KiB each, for an embedder without a cache on disk. All chunks of a saved
# file are embedded again; this many vectors are those of 4 MB of text.
RECENT_TEXTS = 4096
RECENT_DATABASES = 2  # the current database and the one before: switching back costs nothing


class Indexer:
    """The open indexes, and the objects they share: database, embedders, target and pools."""

    def __init__(
        self,
        spec: indexer_messages.IndexerSpec,
        writer: asyncio.StreamWriter,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._spec = spec
        self._writer = writer
        self._stack = stack
        self._indexes: dict[str, OpenIndex] = {}
        self._target = FileTarget(WorkPriority())
        self._counters = ReuseCounters()
        self._embedders = EmbedderRegistry(
            LazyEmbedder(partial(self._open_embedder, spec.embedder)),
            spec.embedder,
            self._open_embedder,
        )
        self._code = installed_code_digest()
        self._bulk_pool = BulkPool(
            bulk_pool_size(spec.indexing.processes, count_usable_cores()), self._code
        )
        self._set_aside = SetAside(Path(spec.state_dir), self._code)
        self._parsers = ParserPools(self._code, Path(spec.state_dir))
        self._opening = asyncio.Lock()
        self._store: tuple[Database, Path] | None = None
        self._pipeline_digest = b""  # until the first index is opened
        self._disk_cache: DiskCache | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer messages until end of file. Batches overlap."""
        self._send({"ready": True})
        async with asyncio.TaskGroup() as tasks:
            while line := await read_message(reader):
                message = indexer_messages.decode_message(line)
                if message["do"] == "open":
                    record = indexer_messages.record_from_json(message["record"])
                    self._indexes[record.name] = index = OpenIndex(
                        record, indexer_messages.rules_from_json(message["rules"])
                    )
                    self._parsers.warm_up(chunker_limits(index.rules.indexing).chunker)
                elif message["do"] == "work":
                    index = self._indexes[message["index"]]
                    index.busy.add(task := tasks.create_task(self._answer_work(index, message)))
                    task.add_done_callback(index.busy.discard)
                elif message["do"] == "set_aside":
                    tasks.create_task(
                        self._set_path_aside(self._indexes[message["index"]], message)
                    )
                elif message["do"] == "ping":
                    self._send({"id": message["id"]})
                elif message["do"] == "close":
                    tasks.create_task(self._close(self._indexes.pop(message["index"]), message))
                else:
                    raise ValueError(f"unknown message: {message['do']}")
            await self._stop()

    async def _stop(self) -> None:
        busy = {task for index in self._indexes.values() for task in index.busy}
        if busy and (await asyncio.wait(busy, timeout=STOP_S))[1]:
            # no caller waits for these batches any more, and every step of them survives a kill
            os._exit(0)
        for index in self._indexes.values():
            await index.close()
        await self._bulk_pool.aclose()
        await self._parsers.aclose()
        await self._embedders.aclose()
        if self._disk_cache is not None:
            await self._disk_cache.aclose()

    async def _answer_work(self, index: "OpenIndex", message: dict[str, Any]) -> None:
        """Answer for every path, also after an error: a crash would blame the files."""
        (outcome,) = await asyncio.gather(
            self._process_work(index, message), return_exceptions=True
        )
        if isinstance(outcome, BaseException):
            outcome = BatchOutcome(
                0, dict.fromkeys([*message["paths"], *message["gone"]], describe_error(outcome))
            )
        answer = {
            "generation": outcome.generation,
            "failed": dict(outcome.failed),
            "set_aside": outcome.set_aside,
            "done": asdict(self._counters),
        }
        self._send({"id": message["id"], **answer})
        self._schedule_memory_release()

    def _schedule_memory_release(self) -> None:
        """Return memory to the system after `MEMORY_IDLE_S` without work."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(
            MEMORY_IDLE_S, loop.run_in_executor, None, interpreter.collect_and_return_memory
        )

    async def _process_work(self, index: "OpenIndex", message: dict[str, Any]) -> BatchOutcome:
        # Raises the errors of opening: no PostgreSQL, no embedder, another embedder, a full disk.
        app = await self._open_app(index)
        paths, gone = message["paths"], message["gone"]
        on_commit = partial(self._send_commit, message["id"]) if message["urgent"] else None
        work = app.process(
            paths, gone, force=message["force"], urgent=message["urgent"], on_commit=on_commit
        )
        return await index.unless_ended(asyncio.ensure_future(work))

    async def _set_path_aside(self, index: "OpenIndex", message: dict[str, Any]) -> None:
        try:
            app = await self._open_app(index)
        # the daemon keeps the path in memory; after a restart the path is found to be harmful again
        except CocoSearchError as error:
            log.warning("set_aside_not_saved", extra={"path": message["path"], "error": str(error)})
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

    async def _open_app(self, index: "OpenIndex") -> IndexApp:
        """Return the running app of the index, started at its first batch. Raises
        `CocoSearchError`.
        """
        async with index.opening:
            if index.app is None:
                embedder = await self._find_embedder(index.record)
                rules = _make_row_rules(index, embedder)
                database, memory = await self._open_store()
                keys, manifests = await self._open_manifests(rules)
                parser = await self._parsers.parser(rules.limits, rules.overrides)
                tools = FileTools(
                    rules=rules,
                    embedder=embedder,
                    target=self._target,
                    guard=self._fail_on_purpose,
                    keys=keys,
                    manifests=manifests,
                    counters=self._counters,
                    parser=parser,
                    bulk_pool=self._bulk_pool,
                    set_aside=self._set_aside,
                )
                state = memory / str(index.record.number)
                index.start(
                    await IndexApp.open(
                        index.record, database, tools, state, self._spec.indexing.inflight_files
                    )
                )
            assert index.app is not None
            return index.app

    async def _find_embedder(self, record: IndexRecord) -> Embedder:
        """Return the embedder of an index, even if the settings have another one now.

        An embedder that does not answer yet is opened when a text needs it.
        """
        try:
            return await self._open_index_embedder(record)
        except EmbedderUnavailable:
            fingerprint = fingerprint_from_pairs(record.identity.embedder)
            if fingerprint is None:
                raise
            return OfflineEmbedder(fingerprint, partial(self._open_index_embedder, record))

    async def _open_index_embedder(self, record: IndexRecord) -> Embedder:
        with contextlib.suppress(EmbedderUnavailable):
            await self._embedders.configured.open()
        return await self._embedders.get(record.identity.embedder).open()

    async def _open_embedder(self, settings: EmbedderSettings) -> Embedder:
        folder = Path(self._spec.state_dir) / "embeddings"
        embedder = await open_embedder(settings, self._spec.api_key)
        recent_texts = RECENT_TEXTS if settings.cache_bytes is None else 0
        return await CachingEmbedder.create(
            embedder, folder, settings.vector_cache_bytes, self._counters, recent_texts
        )

    async def _open_manifests(self, rules: RowRules) -> tuple[ContentKeys, ManifestCache]:
        """Return the content keys and manifests of an index. All indexes share one disk cache."""
        async with self._opening:
            if not self._pipeline_digest:
                self._pipeline_digest = await asyncio.to_thread(digest_pipeline_code)
                self._disk_cache = await asyncio.to_thread(
                    open_manifest_file, Path(self._spec.state_dir), self._spec.indexing.cache_bytes
                )
        keys = ContentKeys(rules.limits, rules.overrides, self._pipeline_digest)
        shaping = keys.code_digest + repr(replace(rules, index=0)).encode()
        return keys, ManifestCache(shaping, self._disk_cache)

    async def _open_store(self) -> tuple[Database, Path]:
        async with self._opening:
            if self._store is None:
                timeout_ms = max(self._spec.database.statement_timeout_ms, WRITE_TIMEOUT_MS)
                settings = replace(self._spec.database, statement_timeout_ms=timeout_ms)
                opening = Database.open(
                    self._spec.dsn,
                    settings,
                    self._spec.store_wait_s,
                    self._spec.series,
                    self._spec.owner,
                )
                async with contextlib.AsyncExitStack() as stack:  # closes the database on an error
                    database = await stack.enter_async_context(opening)
                    memory = self._spec.cocoindex_dir / await index_records.read_incarnation(
                        database
                    )
                    numbers = {
                        str(number) for number in await index_records.index_numbers(database)
                    }
                    await asyncio.to_thread(
                        remove_stale_folders, self._spec.cocoindex_dir, memory, numbers
                    )
                    self._stack.push_async_callback(stack.pop_all().aclose)
                self._store = database, memory
            return self._store

    def _fail_on_purpose(self, path: str) -> None:
        """Crash or hang for the paths that tests name (`IndexerSpec.crash_on`, `hang_on`)."""
        if self._spec.crash_on and path.endswith(self._spec.crash_on):
            os.abort()
        if self._spec.hang_on and path.endswith(self._spec.hang_on):
            threading.Event().wait()

    def _send_commit(self, number: int, generation: int) -> None:
        """Tell of the rows of a save at once: the daemon reads them while CocoIndex's store is
        written.
        """
        self._send({"id": number, "committed": generation})

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(indexer_messages.encode_message(message))


class LiveRunEnded(Exception):
    """CocoIndex has ended the live run of an index by itself. A new run may succeed."""


class OpenIndex:
    """An index of this process. Its app runs from its first batch on."""

    def __init__(self, record: IndexRecord, rules: indexer_messages.IndexRules) -> None:
        self.record, self.rules = record, rules
        self.app: IndexApp | None = None
        self.opening = asyncio.Lock()
        self.busy: set[asyncio.Task[None]] = set()
        # ends with the app's live run
        self._ended: asyncio.Task[None] | None = None

    def start(self, app: IndexApp) -> None:
        """Set the running app."""
        self.app = app
        self._ended = asyncio.ensure_future(app.wait_ended())

    async def unless_ended(self, work: asyncio.Future[BatchOutcome]) -> BatchOutcome:
        """Return the outcome of work. Raise `LiveRunEnded` if the live run ends first.

        The next work of this index starts another live run. The process and all other indexes go
        on.
        """
        ended = self._ended
        app = self.app
        assert app is not None
        assert ended is not None
        futures: set[asyncio.Future[Any]] = {work, ended}
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.wait({work})
        async with self.opening:
            if self.app is app:
                await self._close_app(app)
        cause = ended.exception() if not ended.cancelled() else None
        raise LiveRunEnded(
            f"CocoIndex ended the live run of {self.record.name!r}: {cause or 'by itself'}"
        )

    async def close(self) -> None:
        """End the live run, also one that is being started; batches must have been awaited."""
        async with self.opening:
            if self.app is not None:
                await self._close_app(self.app)

    async def _close_app(self, app: IndexApp) -> None:
        """Close the running app. Callers hold `opening`: only then may the index be opened again."""
        if self._ended is not None:
            self._ended.cancel()
        self.app = self._ended = None
        # the error of a live run that has ended: the work that it ended has it
        (error,) = await asyncio.gather(app.close(), return_exceptions=True)
        if error is not None:
            extra = {"index": self.record.name, "error": str(error)}
            log.warning("live_run_ended", extra=extra)


def remove_stale_folders(memories: Path, current: Path, numbers: Iterable[str]) -> None:
    """Remove the folders of databases that are not recent, and of deleted indexes; blocking."""
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
    """Return the row rules of an index. Raises `IdentityMismatch`: identities never mix."""
    record, settings = index.record, index.rules.indexing
    if index_identity(embedder.fingerprint.pairs(), settings) != record.identity:
        raise IdentityMismatch(
            f"index {record.name!r} was built with another embedder or chunker",
            f"cocosearchctl reindex {shlex.quote(record.name)}",
        )
    return RowRules(
        index=record.number,
        identity=record.identity,
        limits=chunker_limits(settings),
        overrides=index.rules.queries,
        languages=tuple(digest_languages(index.rules.queries).items()),
        skip=skip_rules(settings),
    )


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Read a line; empty when the daemon has hung up, also while an answer was written to it."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""


async def hold_lock(state: Path, reader: asyncio.StreamReader) -> int:
    """Wait for the lock on CocoIndex's memory, which this process then holds. Exit at end of file."""
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
    """Serve the daemon over the socket until it hangs up."""
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
    """Formats an event and its fields as one line, which the daemon logs unchanged."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of the base class, and `name=value` for each field."""
        fields = [
            f"{name}={value}" for name, value in vars(record).items() if name not in _RECORD_FIELDS
        ]
        return " ".join((super().format(record), *fields))


def main() -> None:
    """Run the indexer process. Its exit code is 0 when the daemon hangs up."""
    faulthandler.enable()  # a crash writes its stack to the daemon's log
    interpreter.configure_interpreter()
    handler = logging.StreamHandler()
    handler.setFormatter(EventLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # Ctrl-C reaches the whole process group; the daemon decides when to stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(run(int(sys.argv[1]), int(sys.argv[2])))


if __name__ == "__main__":
    main()
