"""Files that are ready at the same time share a transaction: what PostgreSQL asks for each one is most of the cost.

A group waits for files that were announced, but not for long. An urgent file never waits for others: it has a
transaction of its own. When a group cannot be written, each of its files is tried alone, so that no file fails for
another's error. A transaction that has begun is never given up: whoever waits for it may be, and can then learn from
`ended` when it is over.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cocosearchd.errors import StoreUnavailable
from cocosearchd.indexing.precedence import Precedence
from cocosearchd.model import IndexRecord
from cocosearchd.store import queries
from cocosearchd.store.pool import Database

# A group ends at so many files or chunks: what is written late holds up the commits of others. Measured: from 16 files
# on, the cost of a file hardly falls any more.
GROUP_FILES, GROUP_CHUNKS = 32, 1000
LINGER_S = 0.1  # for files that were announced: one of them may be large, or its vectors far away


@dataclass(eq=False, slots=True)
class _Waiting:
    """A file to be written, or with `write` None to be forgotten."""

    path: str
    write: queries.FileWrite | None
    done: asyncio.Future[int]


class GroupWriter:
    """Writes the files of one index. Answers with the generation after it."""

    def __init__(self, database: Database, record: IndexRecord, precedence: Precedence) -> None:
        self._database, self._record, self._precedence = database, record, precedence
        self._waiting: deque[_Waiting] = deque()
        self._working: asyncio.Task[None] | None = None
        self._under_way: dict[str, asyncio.Task[int]] = {}  # path -> its transaction
        self._expected: set[str] = set()
        self._moved = asyncio.Event()  # something came, or will not come

    async def apply(self, path: str, write: queries.FileWrite | None, *, urgent: bool) -> int:
        """Write a file, or with None forget it. Raises what its transaction raised.

        The same path must not be under way twice.
        """
        one = _Waiting(path, write, asyncio.get_running_loop().create_future())
        if urgent:
            return await asyncio.shield(self._begun([one]))
        self._waiting.append(one)
        self.expect_no_more(path)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await one.done

    def expect(self, paths: Iterable[str]) -> None:
        """These files will come soon: they are worth waiting for. For each, `expect_no_more` must follow."""
        self._expected.update(paths)

    def expect_no_more(self, path: str) -> None:
        """The file has come, or will not: nothing about it has changed, or it failed."""
        self._expected.discard(path)
        self._moved.set()

    async def ended(self, paths: Iterable[str]) -> None:
        """Returns when no transaction of these files is under way; what it came to is not said."""
        under_way = {task for path in paths if (task := self._under_way.get(path))}
        if under_way:
            await asyncio.wait(under_way)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._gathered()
                await self._precedence.pause()  # two transactions of one index end one after the other
                if group := self._next_group():
                    await self._settle(group)
        finally:
            self._working = None

    async def _gathered(self) -> None:
        """Returns when a group is full, when nothing more is expected, or when it has lasted long enough."""
        try:
            async with asyncio.timeout(LINGER_S):
                while self._expected and len(self._waiting) < GROUP_FILES:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            pass

    def _next_group(self) -> list[_Waiting]:
        group, chunks = list[_Waiting](), 0
        while self._waiting and len(group) < GROUP_FILES and chunks < GROUP_CHUNKS:
            one = self._waiting.popleft()
            if one.done.done():
                continue  # given up before its turn: what it holds may be older than what came after it
            group.append(one)
            chunks += len(one.write.chunks) if one.write else 0
        return group

    async def _settle(self, group: list[_Waiting]) -> None:
        (outcome,) = await asyncio.gather(self._begun(group), return_exceptions=True)
        if isinstance(outcome, Exception) and not isinstance(outcome, StoreUnavailable) and len(group) > 1:
            for one in group:
                if not one.done.done():
                    await self._settle([one])
            return
        for one in group:
            if one.done.done():
                continue  # nobody waits for it any more
            if isinstance(outcome, BaseException):
                one.done.set_exception(outcome)
            else:
                one.done.set_result(outcome)

    def _begun(self, group: Sequence[_Waiting]) -> asyncio.Task[int]:
        task = asyncio.create_task(self._write(group))
        self._under_way |= {one.path: task for one in group}
        return task

    async def _write(self, group: Sequence[_Waiting]) -> int:
        writes = [one.write for one in group if one.write]
        gone = [one.path for one in group if not one.write]
        try:
            return await queries.replace_files(self._database, self._record, writes, gone)
        finally:
            for one in group:
                del self._under_way[one.path]
