"""Transaction groups: files that arrive at the same time share lookups and a transaction.

PostgreSQL's cost per transaction is most of the cost of a file; thread calls and cache lookups per
file were most of the rest. A group waits a short time for announced files. While one group is
written, the next is made. An urgent file never waits for others: it has its own transaction. If a
group fails, each of its files is tried alone, so no file fails for another's error. A transaction
that has begun is never cancelled. Its caller may be, and its writer may be closed; `wait_ended` of
the next writer then waits for its end.

The stored chunks of a group are read first: then only new chunks are made. The transaction reads the
stored chunks again, and this second read decides. An urgent file is made without the first read,
which costs more than it saves for a single file.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cocosearchd.errors import NotFound, StoreUnavailable
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks import file_writer
from cocosearchd.store.chunks.manifest import OutdatedManifest, StoredFile
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database

# Largest group, in files: the size of a batch of `index_queue`. Largest transaction, in chunks: a
# longer one would delay other commits.
GROUP_FILES = 128
GROUP_CHUNKS = 4000
LINGER_S = 0.1  # longest wait for announced files

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
Transactions = dict[str, asyncio.Task[int]]  # path -> the transaction that writes it now


class MakeRows(Protocol[S_contra]):
    """A function that makes the rows of files."""

    async def __call__(
        self, sources: Sequence[S_contra], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[FileWrite | Exception]:
        """Return for each source the rows to write, or an error. With `stored`, only new chunks."""


@dataclass(eq=False, slots=True)
class _PendingFile(Generic[S]):
    """A file to make and write; with `source` None, a file to delete."""

    path: str
    source: S | None
    done: asyncio.Future[int]
    write: FileWrite | None = None


class GroupWriter(Generic[S]):
    """Makes and writes the files of one index, in groups."""

    def __init__(
        self,
        database: Database,
        record: IndexRecord,
        work_priority: WorkPriority,
        make: MakeRows[S],
        in_flight: Transactions | None = None,
    ) -> None:
        """`in_flight` has the transactions of the index, also those of its former writers."""
        self._database = database
        self._record = record
        self._work_priority = work_priority
        self._make = make
        self._waiting: deque[_PendingFile[S]] = deque()
        self._working: asyncio.Task[None] | None = None
        # writes the group before the one that is being made
        self._writing: asyncio.Task[None] | None = None
        self._in_flight = {} if in_flight is None else in_flight
        self._closed = False
        self._expected: set[str] = set()
        self._ready = asyncio.Event()  # a group is full, or nothing more is expected

    async def apply(self, path: str, source: S | None, *, urgent: bool) -> int:
        """Make and write a file; with None delete it. Return the generation after that.

        The same path must not be in flight twice. Raises the errors of the file or its transaction.
        """
        file = _PendingFile(path, source, asyncio.get_running_loop().create_future())
        if urgent:
            await self._fill([file], urgent=True, all_chunks=True)
            if file.done.done():
                return await file.done
            return await asyncio.shield(self._begin_transaction([file]))
        self._waiting.append(file)
        self.expect_no_more(path)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await file.done

    def expect(self, paths: Iterable[str]) -> None:
        """Announce files, so that a group waits for them. `expect_no_more` must follow for each."""
        self._expected.update(paths)

    def expect_no_more(self, path: str) -> None:
        """Withdraw the announcement of a file: it has come, is unchanged, or failed."""
        self._expected.discard(path)
        if self._complete():
            self._ready.set()

    def close(self) -> None:
        """Begin no transaction any more. Files without one fail with `NotFound`."""
        self._closed = True

    async def wait_ended(self, paths: Iterable[str]) -> None:
        """Wait until no transaction of these files is in flight. Their errors are not raised."""
        in_flight = {task for path in paths if (task := self._in_flight.get(path))}
        if in_flight:
            await asyncio.wait(in_flight)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._wait_group()
                group = [
                    self._waiting.popleft() for _ in range(min(GROUP_FILES, len(self._waiting)))
                ]
                await self._fill(group)
                if self._writing is not None:
                    await self._writing
                self._writing = asyncio.create_task(self._write_all(group))
        finally:
            self._working = None

    async def _wait_group(self) -> None:
        """Wait until a group is full, no file is announced, or `LINGER_S` is over."""
        try:
            async with asyncio.timeout(LINGER_S):
                while not self._complete():
                    self._ready.clear()
                    await self._ready.wait()
        except TimeoutError:
            pass

    def _complete(self) -> bool:
        return not self._expected or len(self._waiting) >= GROUP_FILES

    async def _fill(
        self, group: Sequence[_PendingFile[S]], *, urgent: bool = False, all_chunks: bool = False
    ) -> None:
        """Make the rows of a group: of all chunks if `all_chunks`, else of new chunks.

        An error goes to the future of its file.
        """
        group = [file for file in group if file.source is not None and not file.done.done()]
        if not group:
            return
        (outcome,) = await asyncio.gather(
            self._make_rows(group, urgent=urgent, all_chunks=all_chunks), return_exceptions=True
        )
        if _may_split(outcome) and len(group) > 1:
            for file in group:
                await self._fill([file], urgent=urgent, all_chunks=all_chunks)
            return
        writes = [outcome] * len(group) if isinstance(outcome, BaseException) else outcome
        for file, write in zip(group, writes, strict=True):
            _take_write(file, write)

    async def _make_rows(
        self, group: Sequence[_PendingFile[S]], *, urgent: bool, all_chunks: bool
    ) -> Sequence[FileWrite | Exception]:
        sources = [file.source for file in group if file.source is not None]
        paths = [file.path for file in group if file.source is not None]
        stored = (
            None
            if all_chunks
            else await file_writer.stored_files(self._database, self._record, paths)
        )
        return await self._make(sources, stored, urgent=urgent)

    async def _write_all(self, group: Sequence[_PendingFile[S]]) -> None:
        for part in _split_group(group):
            # transactions of one index do not overlap
            await self._work_priority.pause()
            await self._write_part(part)

    async def _write_part(self, group: Sequence[_PendingFile[S]]) -> None:
        # A file whose caller was cancelled may be older than a later write of the same path.
        group = [file for file in group if not file.done.done()]
        if not group:
            return
        (outcome,) = await asyncio.gather(self._begin_transaction(group), return_exceptions=True)
        if isinstance(outcome, OutdatedManifest):
            await self._fill(group, all_chunks=True)
            await self._write_part(group)
            return
        if _may_split(outcome) and len(group) > 1:
            for file in group:
                await self._write_part([file])
            return
        for file in group:
            _end_file(file, outcome)

    def _begin_transaction(self, group: Sequence[_PendingFile[S]]) -> asyncio.Task[int]:
        task = asyncio.create_task(self._write(group))
        self._in_flight |= {file.path: task for file in group}
        return task

    async def _write(self, group: Sequence[_PendingFile[S]]) -> int:
        writes = [file.write for file in group if file.write]
        gone = [file.path for file in group if not file.write]
        try:
            if self._closed:
                raise NotFound(f"index {self._record.name} was closed meanwhile")
            return await file_writer.replace_files(self._database, self._record, writes, gone)
        finally:
            for file in group:
                del self._in_flight[file.path]


def _take_write(file: _PendingFile[S], write: FileWrite | BaseException) -> None:
    """Give a file its rows, or hand the error to its caller."""
    if isinstance(write, BaseException):
        _end_file(file, write)
    else:
        file.write = write


def _end_file(file: _PendingFile[S], outcome: int | BaseException) -> None:
    """Hand a generation or an error to the caller of a file, unless the caller was cancelled."""
    if file.done.done():
        return
    if isinstance(outcome, BaseException):
        file.done.set_exception(outcome)
    else:
        file.done.set_result(outcome)


def _may_split(outcome: object) -> bool:
    """Return true if a group failed, and one of its files may be the cause."""
    return isinstance(outcome, Exception) and not isinstance(outcome, StoreUnavailable)


def _split_group(group: Sequence[_PendingFile[S]]) -> Iterator[Sequence[_PendingFile[S]]]:
    """Split files in order into transactions of about `GROUP_CHUNKS` chunks."""
    first = 0
    chunks = 0
    for number, file in enumerate(group):
        chunks += len(file.write.chunks) if file.write else 0
        if chunks >= GROUP_CHUNKS or number + 1 == len(group):
            yield group[first : number + 1]
            first = number + 1
            chunks = 0
