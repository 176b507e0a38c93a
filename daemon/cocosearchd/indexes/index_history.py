"""The history of a running index in memory, and the task that reads it from git in the background.

A follower has none: the repository is on the host of the owner.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Sequence
from functools import partial

import anyio
import numpy as np

from cocosearchd.errors import CocoSearchError
from cocosearchd.forms.path_forms import path_text
from cocosearchd.indexes.running_index import IndexHistory, RunningIndex
from cocosearchd.model import Revision
from cocosearchd.runtime.ticks import REST_TICK_S, seconds_to_tick
from cocosearchd.search.history.history_index import HistoryIndex, MessageTerms, build_history
from cocosearchd.search.lexical.analysis.analyser import Analyser
from cocosearchd.search.lexical.analysis.documents import ChunkText, Documents, FileText
from cocosearchd.watching.git.git_command import GitRefused, GitUnresponsive
from cocosearchd.watching.git.git_history import GitHistory, HeadStamp, head_stamp, read_history
from cocosearchd.watching.git.object_reader import NoRepository

log = logging.getLogger(__name__)

HEAD_POLL_S = REST_TICK_S  # between two looks for a HEAD that has moved
# The pause is longer by this factor while no history is in memory: a question that finds none has the
# keeper look at once. With 1,000 indexes without a repository, the short pause took 3 % of a core.
ABSENT_FACTOR = 6
START_POLL_S = 2.0  # until the index follows its disk
# Time without a long question after which the memory of a history is returned. The next such
# question has it read again, and is answered without.
HISTORY_IDLE_S = 1800.0
MAX_HISTORIES = 32  # in memory at a time, of all indexes: each takes a megabyte or two
FAILURE_PAUSE_S = 600.0  # until git is asked again for a HEAD that it could not read
_NO_VECTORS = np.zeros((1, 0), np.float32)


class HistoryKeeper:
    """Keeps the history of one index as its HEAD moves, while questions use it.

    `turn` is held during a read, so that the indexes of a daemon are read one after another.
    `in_memory` are those of the daemon that are in memory; keepers share it.
    """

    def __init__(
        self,
        index: RunningIndex,
        analyser: Analyser,
        turn: asyncio.Lock,
        in_memory: set[IndexHistory],
    ) -> None:
        self._index = index
        self._history = index.history
        self._analyser = analyser
        self._turn = turn
        self._in_memory = in_memory
        self._looked_at = -math.inf
        self._stamp: HeadStamp | None = None
        self._read_ids = frozenset[str]()  # of commits that were read, also if they are left out
        self._failure = ""
        self._failed_at = -math.inf

    async def run(self) -> None:
        """Follow HEAD, for ever; to be supervised."""
        self._drop()  # this task may run for the second time
        await self._wait_until_live()
        self._history.note_use()
        try:
            while True:
                await self._look_if_used()
                await self._pause()
        finally:
            self._drop()

    async def _look_if_used(self) -> None:
        if not self._history.is_used(HISTORY_IDLE_S) or not self._index.settings.search.history:
            self._drop()
        elif self._history.current is not None or len(self._in_memory) < MAX_HISTORIES:
            self._looked_at = anyio.current_time()
            await self._follow_head()

    async def _pause(self) -> None:
        """Wait until the next look is due, or a question finds no history.

        The look for a question comes `HEAD_POLL_S` after the last one: each question to all indexes
        would have as many keepers look again for the repositories that they have just not found.
        """
        pause_s = HEAD_POLL_S * (ABSENT_FACTOR if self._history.current is None else 1)
        with anyio.move_on_after(seconds_to_tick(pause_s)):
            await self._history.missed.wait()
            await anyio.sleep_until(self._looked_at + HEAD_POLL_S)
        self._history.missed = anyio.Event()

    def _drop(self) -> None:
        self._history.drop()
        self._in_memory.discard(self._history)

    async def _wait_until_live(self) -> None:
        root = self._index.own_root
        while True:
            if self._index.lexical.warm and root.status().state in ("live", "degraded"):
                return
            await anyio.sleep(seconds_to_tick(START_POLL_S))

    async def _follow_head(self) -> None:
        """Read the history if HEAD has moved, or if there is none in memory."""
        threads = self._index.own_root.history_threads
        stamp = await threads.run(head_stamp, self._index.record.root)
        if stamp == self._stamp and (self._history.current is not None or not self._is_due()):
            return
        self._stamp = stamp
        if stamp is None:
            self._drop()
            return
        try:
            async with self._turn:
                await self._read()
            self._failure, self._failed_at = "", -math.inf
        except (NoRepository, GitRefused, GitUnresponsive, CocoSearchError) as error:
            self._drop()
            self._failed_at = time.monotonic()
            self._log_failure(str(error))

    def _is_due(self) -> bool:
        return time.monotonic() - self._failed_at > FAILURE_PAUSE_S

    def _log_failure(self, failure: str) -> None:
        """Log a failure once: without a history, only the tail of long answers differs."""
        if failure != self._failure:
            log.warning(
                "history_not_read", extra={"index": self._index.record.name, "error": failure}
            )
        self._failure = failure

    async def _read(self) -> None:
        started = time.monotonic()
        previous = self._history.current
        history = await self._read_git(previous)
        messages = await self._split_messages(history.new)
        current = await asyncio.to_thread(
            build_history, history.ids, history.new, messages, previous
        )
        self._history.current = current
        self._in_memory.add(self._history)
        self._read_ids = frozenset(history.ids).difference(history.unread)
        log.info(
            "history_read",
            extra={
                "index": self._index.record.name,
                "commits": len(current.ids),
                "new": len(history.new),
                "bytes": current.nbytes,
                "seconds": round(time.monotonic() - started, 3),
            },
        )

    async def _read_git(self, previous: HistoryIndex | None) -> GitHistory:
        """Read the commits that `previous` lacks. A stop ends the read after one call of git."""
        is_stopped = threading.Event()
        known_ids = self._read_ids if previous is not None else ()
        read = partial(read_history, self._index.record.root, known_ids, is_stopped.is_set)
        try:
            return await self._index.own_root.history_threads.run(read)
        finally:
            is_stopped.set()

    async def _split_messages(self, revisions: Sequence[Revision]) -> MessageTerms:
        """Split the messages of commits into terms, in worker processes, as texts of files."""
        analysed = await self._analyser.analyse(list(map(message_text, revisions)))
        return collect_terms(analysed.documents)


def message_text(revision: Revision) -> FileText:
    """Return the message of a commit as the text of a file without a language."""
    size = len(revision.message.encode("utf-8", "surrogatepass"))
    chunk = ChunkText(0, size, revision.message)
    return FileText(f"commit {path_text(revision.id.encode())}", 0, "text", (chunk,), _NO_VECTORS)


def collect_terms(documents: Sequence[Documents]) -> MessageTerms:
    """Return the terms of all messages, without those of the names that the texts have."""
    terms, commits = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    start = 0
    for document in documents:
        postings = document.file_postings
        is_message = postings.path == 0
        terms.append(postings.term[is_message])
        commits.append(postings.file[is_message] + np.int32(start))
        start += len(document.paths)
    return MessageTerms(np.concatenate(terms), np.concatenate(commits))
