"""The owner's side of following: answers the questions of followers by publications."""

import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup

from cocosearchd.errors import CocoSearchError, StoreUnavailable
from cocosearchd.freshness import Freshness
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.store.connection.database import Database
from cocosearchd.store.following.publications import open_questions, publish, read_moment, set_host

log = logging.getLogger(__name__)

# The longest wait of a comparison: after this time a follower learns why the index is behind.
SYNC_S = 1.0
# The shortest time between two publications of an index. Each leaves one dead row.
REST_S = 0.01
SESSION_RETRY_S = 1.0  # after a lost session

WaitForChanges = Callable[[RunningIndex, float], Awaitable[Freshness]]


class Publisher:
    """Publishes when an index equals its disk, whenever a follower asks. `run` is supervised."""

    def __init__(self, db: Database, lookup: IndexLookup, wait: WaitForChanges) -> None:
        """`wait` waits for the pending changes of an index, at most the given number of seconds."""
        self._db = db
        self._lookup = lookup
        self._wait = wait
        self._asked: dict[int, anyio.Event] = {}

    async def run(self) -> None:
        """Answer for ever; listen again after a lost session."""
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    await self._listen(tasks)
                except StoreUnavailable as error:
                    log.warning("questions_not_heard", extra={"error": error.message})
                    await anyio.sleep(SESSION_RETRY_S)

    async def _listen(self, tasks: TaskGroup) -> None:
        await set_host(self._db, socket.gethostname())
        async with open_questions(self._db) as questions:
            async for number in questions:
                self._note(number, tasks)

    def _note(self, number: int, tasks: TaskGroup) -> None:
        """Record a question. Questions that come during an answer share the next answer."""
        if self._find(number) is None:
            return
        if number not in self._asked:
            self._asked[number] = anyio.Event()
            tasks.start_soon(partial(self._answer, number))
        self._asked[number].set()

    def _find(self, number: int) -> RunningIndex | None:
        return next((index for index in self._lookup.own() if index.record.number == number), None)

    async def _answer(self, number: int) -> None:
        """Answer questions about an index until none is left."""
        try:
            while self._asked[number].is_set():
                self._asked[number] = anyio.Event()
                index = self._find(number)
                if index is not None:
                    await self._publish(index)
                    await anyio.sleep(REST_S)
        finally:
            del self._asked[number]

    async def _publish(self, index: RunningIndex) -> None:
        record = index.record
        try:
            # Read before the comparison, which then covers every change before this moment.
            begun = await read_moment(self._db)
            freshness = await self._wait(index, SYNC_S)
            code, reason = freshness.code, freshness.reason
            stale = None if code is None or reason is None else (code, reason)
            await publish(self._db, record, begun, stale)
        except CocoSearchError as error:  # the follower says that there is no answer
            log.warning("not_published", extra={"index": record.name, "error": error.message})
