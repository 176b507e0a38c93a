"""Saved queries: report matches that are new since a query began, as files become searchable.

A saved query runs as an ordinary search of the index that has changed. A match is new when it lies
in a changed file, and if the same text in the same file neither matched in the beginning nor was
reported since. Text that has only moved is not new. A search may run later than its commit, and may
then report matches of the next commit.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from cocosearch_ipc.protocol import SearchReply, SearchRequest, SearchResult
from cocosearchd.errors import NotFound
from cocosearchd.model import Commit

# Between two runs of a saved query: a checkout of a thousand files makes some tens of commits, but
# needs only one run.
GATHER_S = 0.25
# There is always a nearest text: without a bound, every change of a small project would be a match.
# Measured with the built-in model: files that are unrelated to a question lie below this bound, files
# that answer it lie above.
MIN_EVIDENCE = 0.25
MAX_DIGESTS = 20_000  # matches remembered; a digest takes about 70 bytes

Search = Callable[[SearchRequest], Awaitable[SearchReply]]


class SavedQuery:
    """One query of one subscriber. Remembers the first matches and the reported ones."""

    def __init__(self, search: Search, request: SearchRequest) -> None:
        """`request` names no index. Searches skip the cache and do not wait for changes.

        They ask no linked indexes: a path says which file has changed only within its index.
        """
        self._search = search
        self._request = replace(request, cwd=None, sync_timeout_ms=0, use_cache=False, linked=False)
        self._digests: dict[bytes, None] = {}  # in order of arrival

    async def begin(
        self, index: str, changed: Collection[str] | None = ()
    ) -> tuple[SearchResult, ...]:
        """Remember the current matches; return the matches in changed files, None for all files.

        Raises as `new` does.
        """
        results = await self._find_new_results(index)
        self._remember(results)
        return _in_paths(results, changed)

    async def new(self, index: str, changed: Collection[str]) -> tuple[SearchResult, ...]:
        """Return new matches in changed files, best first; none if the index is gone.

        Raises other errors of searches.
        """
        try:
            results = _in_paths(await self._find_new_results(index), changed)
        except NotFound:
            return ()
        # Matches in other files are reported, as new ones, with the commits of those files.
        self._remember(results)
        return results

    async def _find_new_results(self, index: str) -> tuple[SearchResult, ...]:
        reply = await self._search(replace(self._request, index=index))
        return tuple(result for result in reply.results if _digest(result) not in self._digests)

    def _remember(self, results: Iterable[SearchResult]) -> None:
        self._digests |= dict.fromkeys(map(_digest, results))
        while len(self._digests) > MAX_DIGESTS:
            del self._digests[next(iter(self._digests))]


def _in_paths(
    results: tuple[SearchResult, ...], paths: Collection[str] | None
) -> tuple[SearchResult, ...]:
    if paths is None:
        return results
    path_set = frozenset(paths)
    return tuple(result for result in results if result.path in path_set)


def _digest(result: SearchResult) -> bytes:
    content = f"{result.index}\0{result.path}\0{result.content}"
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()


async def next_batch(commits: MemoryObjectReceiveStream[Commit]) -> tuple[Commit, ...]:
    """Return the next commits, merged to one for each index; none at the end of the stream."""
    try:
        first = await commits.receive()
    except anyio.EndOfStream:
        return ()
    await anyio.sleep(GATHER_S)
    batch = {first.index: first}
    try:
        while True:
            commit = commits.receive_nowait()
            earlier = batch.get(commit.index, commit)
            paths = tuple(dict.fromkeys((*earlier.paths, *commit.paths)))
            batch[commit.index] = replace(commit, paths=paths)
    except (anyio.WouldBlock, anyio.EndOfStream):
        return tuple(batch.values())
