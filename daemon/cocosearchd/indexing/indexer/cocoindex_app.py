"""One index in CocoIndex: its state on disk, its live run, and its comparison with PostgreSQL.

Two stores record the indexed files: CocoIndex's memory, on the local disk, and PostgreSQL. Either
can be older than the other (a crash, a restored backup, another database, rows deleted by hand). So
after each batch the files that CocoIndex did not have written are compared with PostgreSQL: as they
were read, and the rules that shape rows. Files that it does not hold, or that other rules made, are
processed again under a new unique number.
"""

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import cocoindex as coco

from cocosearchd.errors import CocoSearchError, EmbedderUnavailable
from cocosearchd.exclusion import embedder_failure
from cocosearchd.indexing.index_queue import max_files_in_flight
from cocosearchd.indexing.indexer.index_file import FileTools, index_file
from cocosearchd.indexing.indexer.live_feed import RootFeed
from cocosearchd.indexing.indexer.row_target import OnComplete, Written
from cocosearchd.indexing.pipeline.file_reader import (
    MissingFile,
    Reading,
    SourceFile,
    UnreadFile,
    read_files,
)
from cocosearchd.indexing.throttle import DISK_FULL
from cocosearchd.model import IndexRecord
from cocosearchd.runtime.deadlines import ends_within
from cocosearchd.store.chunks import file_writer
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import file_states

log = logging.getLogger(__name__)

# The LMDB map grows by doubling. Its address space is not memory, but a hundred indexes share 47 bits
# of address space.
MAP_BYTES = 1 << 30
NO_ANSWER_S = 10.0
NO_ANSWER = "its file system does not answer"
OPENING_FLAG = "opening"  # name of a file in CocoIndex's folder until the folder has been opened


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch. Every path outside `failed` is in PostgreSQL as it was read.

    `set_aside` has the paths of `failed` that are excluded until they change.
    """

    generation: int
    failed: Mapping[str, str]
    set_aside: tuple[str, ...] = ()


def _raise(error: BaseException, _: object) -> None:
    """Raise the error, as CocoIndex's exception handler: otherwise a failed file counts as done."""
    raise error


class IndexApp:
    """A live CocoIndex app for one index, with its own memory, which is deleted with the index."""

    def __init__(
        self, record: IndexRecord, database: Database, tools: FileTools, state: Path, inflight: int
    ) -> None:
        self.record = record
        self._database = database
        self._tools = tools
        self._feed = RootFeed()
        self._environment = coco.Environment(
            coco.Settings(db_path=state, lmdb_map_size=MAP_BYTES), exception_handler=_raise
        )
        # A kill loses all files in flight. The default of 1024 was measured to lose everything.
        slots = max_files_in_flight(inflight)
        config = coco.AppConfig(
            name="index", environment=self._environment, max_inflight_components=slots
        )
        self._app: coco.App[[], None] = coco.App(config, self._main)
        self._run: asyncio.Task[Any] | None = None

    @classmethod
    async def open(
        cls, record: IndexRecord, database: Database, tools: FileTools, state: Path, inflight: int
    ) -> Self:
        """Start the live run. `state` is CocoIndex's folder of this index.

        Raises `StoreUnavailable`.
        """
        await asyncio.to_thread(prepare_folder, state)
        app = cls(record, database, tools, state, inflight)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(app._environment.close)
            tools.target.open(database, record, tools.make)
            handle = app._app.update(live=True)
            # CocoIndex deletes files that are fed before the first run of `_main` is committed.
            async for snapshot in handle.watch():
                if snapshot.status is coco.UpdateStatus.READY:
                    break
            on_failure.pop_all()
        await asyncio.to_thread((state / OPENING_FLAG).unlink, missing_ok=True)
        app._run = asyncio.create_task(handle.result())
        return app

    async def _main(self) -> None:
        await coco.mount_each(coco.component_subpath("files"), index_file, self._feed, self._tools)

    async def wait_ended(self) -> None:
        """Wait for the end of the live run, by `close` or an error. Raise the error."""
        assert self._run is not None
        await asyncio.shield(self._run)

    async def close(self) -> None:
        """End the live run; batches must have been awaited. Raise the error that ended it before.

        CocoIndex opens a folder once a program, so its environment is closed in any case.
        """
        self._feed.stop()
        try:
            if self._run is not None:
                await self._run
        finally:
            self._tools.target.close(self.record.number)
            self._tools.threads.close()
            self._environment.close()

    async def process(
        self,
        paths: Sequence[str],
        gone: Sequence[str],
        *,
        force: bool,
        urgent: bool,
        on_commit: OnComplete | None = None,
    ) -> BatchOutcome:
        """Store the files at `paths` as they are now, and delete those of `gone`.

        `urgent` files go first. A path without a regular file counts as gone, and so does a path in
        both. It never raises for a file, the embedder or PostgreSQL: `failed` has the error texts.
        `on_commit` gets the generation once PostgreSQL has committed a change of every path.
        """
        gone = tuple(dict.fromkeys(gone))
        paths = tuple(path for path in dict.fromkeys(paths) if path not in gone)
        all_paths = [*paths, *gone]
        urgent_paths = all_paths if urgent else []
        target = self._tools.target
        number = self.record.number
        # The order matters: bulk work that locked a path first must go on. Otherwise urgent work
        # would wait for bulk work, and bulk work for urgent work.
        async with self._feed.hold_paths(all_paths), target.work_priority.slot(urgent=urgent):
            await target.wait_ended(number, all_paths)
            with (
                target.mark_urgent(number, urgent_paths),
                target.collect_written(number, all_paths, on_commit) as written,
            ):
                return await self._process(paths, gone, written, force=force, urgent=urgent)

    async def _process(
        self,
        paths: Sequence[str],
        gone: Sequence[str],
        written: Mapping[str, Written],
        *,
        force: bool,
        urgent: bool,
    ) -> BatchOutcome:
        read = await self._read(paths, time.time_ns() if force else 0, urgent=urgent)
        sources = [item for item in read if isinstance(item, SourceFile)]
        set_aside = self._tools.set_aside.reasons_by_path(sources)
        missing = [*gone, *(item.path for item in read if isinstance(item, MissingFile))]
        failed = set_aside | {
            item.path: item.error for item in read if isinstance(item, UnreadFile)
        }
        sources = _without_failed(sources, failed)
        try:
            if not urgent:
                expected_paths = [*(source.path for source in sources), *missing]
                self._tools.target.expect(self.record.number, expected_paths)
            failed |= await self._feed_all(sources, missing)
            unwritten = [
                source
                for source in sources
                if not _is_written(source.path, source.content_hash, written)
            ]
            failed |= await self._confirm(_without_failed(unwritten, failed), may_repeat=True)
            if len(failed) == len(paths) + len(gone):
                return BatchOutcome(0, failed, tuple(set_aside))
            unknown = [
                path
                for path in missing
                if path not in failed and not _is_written(path, None, written)
            ]
            generation = await self._confirm_gone(unknown, written)
            return BatchOutcome(generation, failed, tuple(set_aside))
        # PostgreSQL did not answer the comparison: no path is known to be done
        except CocoSearchError as error:
            return BatchOutcome(0, dict.fromkeys([*paths, *gone], describe_error(error)))

    async def set_aside(self, path: str, reason: str) -> None:
        """Never index the content that is at the path now."""
        for item in await self._read([path], 0, urgent=True):
            if isinstance(item, SourceFile):
                await asyncio.to_thread(self._tools.set_aside.add, item.content_hash, reason)

    async def _read(self, paths: Sequence[str], force: int, *, urgent: bool) -> list[Reading]:
        """Read the paths. After `NO_ANSWER_S` without a new result, the rest is an `UnreadFile`."""
        readings = list[Reading]()
        count = -1
        reading = partial(
            readings.extend,
            read_files(self.record.root, paths, self._tools.rules.skip.max_file_bytes, force),
        )
        task = asyncio.ensure_future(self._tools.threads.run_in_thread(reading, urgent=urgent))
        while not await ends_within(task, NO_ANSWER_S):
            if len(readings) == count:  # the thread may still add results; they are ignored
                return [
                    *readings[:count],
                    *(UnreadFile(path, NO_ANSWER) for path in paths[count:]),
                ]
            count = len(readings)
        task.result()
        return readings

    async def _feed_all(
        self, sources: Sequence[SourceFile], missing: Sequence[str]
    ) -> dict[str, str]:
        end = partial(self._tools.target.expect_no_more, self.record.number)
        failed = await self._feed.apply(sources, missing, end)
        return {path: describe_error(error) for path, error in failed.items()}

    async def _confirm(self, sources: Sequence[SourceFile], *, may_repeat: bool) -> dict[str, str]:
        """Compare files as read with PostgreSQL. Return path -> error of the failed files.

        Files that it does not hold by these rules are fed once more, with a new number that CocoIndex's memory
        cannot have.
        """
        if not sources:
            return {}
        readings = [(source.path, source.content_hash, source.fingerprint) for source in sources]
        stored_paths = await file_writer.refresh_fingerprints(
            self._database, self.record, readings, self._tools.make.rules_digest
        )
        lost = [source for source in sources if source.path not in stored_paths]
        if not lost:
            return {}
        if not may_repeat:
            return {
                source.path: "PostgreSQL does not keep the rows that are written" for source in lost
            }
        log.warning("memories_differ", extra={"index": self.record.name, "files": len(lost)})
        forced = [replace(source, force=time.time_ns()) for source in lost]
        failed = await self._feed_all(forced, [])
        return failed | await self._confirm(_without_failed(forced, failed), may_repeat=False)

    async def _confirm_gone(self, paths: Sequence[str], written: Mapping[str, Written]) -> int:
        """Delete rows of files that CocoIndex did not know. Return the generation after that.

        It is the one of PostgreSQL, or that of the last write if there is nothing to ask for.
        """
        if written and not paths:
            return max(state.generation for state in written.values())
        states = await file_states(self._database, self.record, paths)
        if not states.files:
            return states.generation
        work = [self._tools.target.apply(self.record.number, path, None) for path in states.files]
        # All must end before the paths are unlocked: a late deletion would delete a newer file.
        results = await asyncio.gather(*work, return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                raise error
        return max(generation for generation in results if isinstance(generation, int))


def _is_written(path: str, content_hash: bytes | None, written: Mapping[str, Written]) -> bool:
    """Return whether the last write of a file was this content, or its deletion for None.

    Such a commit needs no comparison. Another may be a late write of a batch that was cancelled.
    """
    state = written.get(path)
    return state is not None and state.content_hash == content_hash


def _without_failed(sources: Iterable[SourceFile], failed: Container[str]) -> list[SourceFile]:
    return [source for source in sources if source.path not in failed]


def prepare_folder(state: Path) -> None:
    """Prepare CocoIndex's folder of an index for opening. Blocking.

    A folder whose last opening did not finish is deleted first: it may be damaged, and would fail
    or end the process each time. Its content is not needed: PostgreSQL has the indexed files.
    """
    if (state / OPENING_FLAG).exists():
        log.warning("memory_begun_anew", extra={"path": str(state)})
        shutil.rmtree(state)
    state.mkdir(parents=True, exist_ok=True)
    (state / OPENING_FLAG).touch()


def describe_error(error: BaseException) -> str:
    """Return the text for people about a failed file."""
    # an error of CocoIndex's store
    if os.strerror(errno.ENOSPC) in str(error) and not isinstance(error, CocoSearchError):
        return DISK_FULL
    if not isinstance(error, CocoSearchError):
        return f"{type(error).__name__}: {error}"
    text = f"{error}; {error.hint}" if error.hint else str(error)
    return embedder_failure(text) if isinstance(error, EmbedderUnavailable) else text
