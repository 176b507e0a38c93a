"""Files that come at the same time are made together and share a transaction.

What PostgreSQL asks for each transaction is most of the cost of a file, and so was what each file
asked of a thread and of what is known already. A group waits for files that were announced, but not
for long; while one is written, the next one is made. An urgent file never waits for others: it has
a transaction of its own. When a group cannot be made or written, each of its files is tried alone,
so that no file fails for another's error. A transaction that has begun is never given up: whoever
waits for it may be, and can then learn from `ended` when it is over.

PostgreSQL is asked what is stored of a group before it is made, so that only what differs is. The
transaction looks again; what is stored by then decides. An urgent file is made without asking: of
one file that costs more than it saves.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cocosearchd.errors import StoreUnavailable
from cocosearchd.indexing.worker.work_priority import WorkPriority
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks import queries
from cocosearchd.store.chunks.manifest import OutdatedManifest, StoredFile
from cocosearchd.store.connection.database import Database

# A group ends at so many files, a transaction also at so many chunks: what is written late holds up
# the commits of others. As many as come in a batch of `lane`.
GROUP_FILES, GROUP_CHUNKS = 128, 4000
LINGER_S = 0.1  # for files that were announced

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class MakeRows(Protocol[S_contra]):
    """What makes the rows of files."""

    async def __call__(
        self, sources: Sequence[S_contra], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[queries.FileWrite | Exception]:
        """For each source what is to be written, or why that is not known; what differs from
        `stored` is enough.
        """


@dataclass(eq=False, slots=True)
class _PendingFile(Generic[S]):
    """A file to be made and written, or with `source` None to be forgotten."""

    path: str
    source: S | None
    done: asyncio.Future[int]
    write: queries.FileWrite | None = None


class GroupWriter(Generic[S]):
    """Makes and writes the files of one index. Answers with the generation after it."""

    def __init__(
        self,
        database: Database,
        record: IndexRecord,
        work_priority: WorkPriority,
        make: MakeRows[S],
    ) -> None:
        self._database, self._record, self._work_priority, self._make = (
            database,
            record,
            work_priority,
            make,
        )
        self._waiting: deque[_PendingFile[S]] = deque()
        self._working: asyncio.Task[None] | None = None
        # the group before the one that is being made
        self._writing: asyncio.Task[None] | None = None
        self._under_way: dict[str, asyncio.Task[int]] = {}  # path -> its transaction
        self._expected: set[str] = set()
        self._ready = asyncio.Event()  # a group is full, or nothing more is expected

    async def apply(self, path: str, source: S | None, *, urgent: bool) -> int:
        """Make and write a file, or with None forget it. Raises what making it or its transaction
        raised.

        The same path must not be under way twice.
        """
        one = _PendingFile(path, source, asyncio.get_running_loop().create_future())
        if urgent:
            await self._fill([one], urgent=True, whole=True)
            return await (one.done if one.done.done() else asyncio.shield(self._begun([one])))
        self._waiting.append(one)
        self.expect_no_more(path)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await one.done

    def expect(self, paths: Iterable[str]) -> None:
        """These files will come soon: they are worth waiting for. For each, `expect_no_more` must
        follow.
        """
        self._expected.update(paths)

    def expect_no_more(self, path: str) -> None:
        """The file has come, or will not: nothing about it has changed, or it failed."""
        self._expected.discard(path)
        if self._complete():
            self._ready.set()

    async def wait_ended(self, paths: Iterable[str]) -> None:
        """Returns when no transaction of these files is under way; what it came to is not said."""
        under_way = {task for path in paths if (task := self._under_way.get(path))}
        if under_way:
            await asyncio.wait(under_way)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._gathered()
                group = [
                    self._waiting.popleft() for _ in range(min(GROUP_FILES, len(self._waiting)))
                ]
                await self._fill(group)
                if self._writing is not None:
                    await self._writing
                self._writing = asyncio.create_task(self._write_all(group))
        finally:
            self._working = None

    async def _gathered(self) -> None:
        """Returns when a group is full, when nothing more is expected, or when it has lasted long
        enough.
        """
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
        self, group: Sequence[_PendingFile[S]], *, urgent: bool = False, whole: bool = False
    ) -> None:
        """Make the files of a group, `whole` or what differs. What cannot be made is told to who
        waits for it.
        """
        group = [one for one in group if one.source is not None and not one.done.done()]
        if not group:
            return
        (made,) = await asyncio.gather(
            self._made(group, urgent=urgent, whole=whole), return_exceptions=True
        )
        if _worth_parting(made) and len(group) > 1:
            for one in group:
                await self._fill([one], urgent=urgent, whole=whole)
            return
        for one, write in zip(
            group, [made] * len(group) if isinstance(made, BaseException) else made, strict=True
        ):
            if not isinstance(write, BaseException):
                one.write = write
            elif not one.done.done():
                one.done.set_exception(write)

    async def _made(
        self, group: Sequence[_PendingFile[S]], *, urgent: bool, whole: bool
    ) -> Sequence[queries.FileWrite | Exception]:
        sources = [one.source for one in group if one.source is not None]
        paths = [one.path for one in group if one.source is not None]
        stored = None if whole else await queries.stored_files(self._database, self._record, paths)
        return await self._make(sources, stored, urgent=urgent)

    async def _write_all(self, group: Sequence[_PendingFile[S]]) -> None:
        for part in _parts(group):
            await (
                self._work_priority.pause()
            )  # two transactions of one index end one after the other
            await self._settle(part)

    async def _settle(self, group: Sequence[_PendingFile[S]]) -> None:
        # What was given up before its turn may be older than what came after it.
        group = [one for one in group if not one.done.done()]
        if not group:
            return
        (outcome,) = await asyncio.gather(self._begun(group), return_exceptions=True)
        if isinstance(outcome, OutdatedManifest):
            await self._fill(group, whole=True)
            await self._settle(group)
            return
        if _worth_parting(outcome) and len(group) > 1:
            for one in group:
                await self._settle([one])
            return
        for one in group:
            if one.done.done():
                continue  # nobody waits for it any more
            if isinstance(outcome, BaseException):
                one.done.set_exception(outcome)
            else:
                one.done.set_result(outcome)

    def _begun(self, group: Sequence[_PendingFile[S]]) -> asyncio.Task[int]:
        task = asyncio.create_task(self._write(group))
        self._under_way |= {one.path: task for one in group}
        return task

    async def _write(self, group: Sequence[_PendingFile[S]]) -> int:
        writes = [one.write for one in group if one.write]
        gone = [one.path for one in group if not one.write]
        try:
            return await queries.replace_files(self._database, self._record, writes, gone)
        finally:
            for one in group:
                del self._under_way[one.path]


def _worth_parting(outcome: object) -> bool:
    """Whether a group failed for what may be the error of one of its files."""
    return isinstance(outcome, Exception) and not isinstance(outcome, StoreUnavailable)


def _parts(group: Sequence[_PendingFile[S]]) -> Iterator[Sequence[_PendingFile[S]]]:
    """The files in order, cut where a transaction has enough chunks."""
    first, chunks = 0, 0
    for number, one in enumerate(group):
        chunks += len(one.write.chunks) if one.write else 0
        if chunks >= GROUP_CHUNKS or number + 1 == len(group):
            yield group[first : number + 1]
            first, chunks = number + 1, 0
