"""Saved queries: what a question would show now and did not before, as files become searchable.

A saved query is asked in the ordinary way, of the index that has changed. A match is new when it
lies in a file that changed and nothing like it (the same text in the same file) was there in the
beginning or told since: not for a text that has only moved. An answer may be later than the commit
for which it is asked, and show what the next one tells of.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from cocosearch_ipc.protocol import SearchReply, SearchRequest, SearchResult
from cocosearchd.errors import NotFound
from cocosearchd.model import Commit

# Between two runs of a saved query: a checkout of a thousand files is some tens of commits, and one
# question.
GATHER_S = 0.25
# There is always a nearest text: without a bound, every change of a small project would be a match.
# Measured with the built-in model: files that have nothing to do with a question lie below, those
# that answer it above.
MIN_RELEVANCE = 0.25
MAX_KNOWN = 20_000  # matches remembered; a digest takes about 70 bytes

Ask = Callable[[SearchRequest], Awaitable[SearchReply]]


class SavedQuery:
    """One question of one subscriber. Remembers what was there in the beginning, and what was
    told.
    """

    def __init__(self, ask: Ask, request: SearchRequest) -> None:
        """`request` without an index; it is never explained, kept or made to wait."""
        self._ask = ask
        self._request = replace(request, cwd=None, sync_timeout_ms=0, use_cache=False)
        self._known: dict[bytes, None] = {}  # in the order in which they came

    async def begin(
        self, index: str, changed: Collection[str] | None = ()
    ) -> tuple[SearchResult, ...]:
        """What is there now is not new later; that of it which is in changed files, None: all.
        Raises as `new`.
        """
        fresh = await self._fresh(index)
        self._remember(fresh)
        return _within(fresh, changed)

    async def new(self, index: str, changed: Collection[str]) -> tuple[SearchResult, ...]:
        """The matches in changed files that were not told before, best first; none in an index that
        is gone.

        Raises as searches do otherwise: a question to all indexes does not end with one of them.
        """
        try:
            found = _within(await self._fresh(index), changed)
        except NotFound:
            return ()
        # and no others: those in files of which nobody was told yet are new then
        self._remember(found)
        return found

    async def _fresh(self, index: str) -> tuple[SearchResult, ...]:
        reply = await self._ask(replace(self._request, index=index))
        return tuple(result for result in reply.results if _digest(result) not in self._known)

    def _remember(self, results: Iterable[SearchResult]) -> None:
        self._known |= dict.fromkeys(map(_digest, results))
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]


def _within(
    results: tuple[SearchResult, ...], paths: Collection[str] | None
) -> tuple[SearchResult, ...]:
    known = None if paths is None else frozenset(paths)
    return tuple(result for result in results if known is None or result.path in known)


def _digest(result: SearchResult) -> bytes:
    content = f"{result.index}\0{result.path}\0{result.content}"
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()


async def gathered(commits: MemoryObjectReceiveStream[Commit]) -> tuple[Commit, ...]:
    """The next commits, those of a moment as one for each index; none at the end of the stream."""
    try:
        first = await commits.receive()
    except anyio.EndOfStream:
        return ()
    await anyio.sleep(GATHER_S)
    found = {first.index: first}
    try:
        while True:
            commit = commits.receive_nowait()
            known = found.get(commit.index, commit)
            paths = tuple(dict.fromkeys((*known.paths, *commit.paths)))
            found[commit.index] = replace(commit, paths=paths)
    except (anyio.WouldBlock, anyio.EndOfStream):
        return tuple(found.values())
