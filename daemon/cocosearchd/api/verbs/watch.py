"""The verb `watch`: searchable commits, changes of indexes, matches of saved queries."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import replace
from functools import partial

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import replies
from cocosearchd.api.saved_queries import MIN_EVIDENCE, SavedQuery, Search, next_batch
from cocosearchd.api.search_requests import QueryParser, searched_indexes
from cocosearchd.errors import NotFound
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import Clock, Commit
from cocosearchd.runtime.deadlines import retry_until_available
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import file_states

# Between two reads of states while a state changes; at rest, only a notification causes a read.
RECHECK_S = 1.0

Commits = MemoryObjectReceiveStream[Commit]


class WatchVerbs:
    """Implements `watch` over the commits of the running indexes."""

    def __init__(self, db: Database, indexes: IndexRegistry, search: Search) -> None:
        self._db = db
        self._indexes = indexes
        self._search = search
        self._parser = QueryParser()

    def watch(self, request: w.WatchRequest) -> AsyncGenerator[w.WatchEvent, None]:
        """Yield committed batches as they become searchable, until the client disconnects.

        With a query, yield its new matches in these batches.
        """
        return self._changes(request) if request.query is None else self._matches(request)

    async def _changes(self, request: w.WatchRequest) -> AsyncGenerator[w.WatchEvent, None]:
        if request.index is not None:
            self._indexes.lookup.get(request.index)
        async with self._indexes.commits.subscribe() as commits:
            for event in await self._events_since(request, commits):
                yield event
            events = (
                self._commits_and_states(commits)
                if request.lifecycle
                else self._stream_commits(commits)
            )
            async for event in events:
                if request.index in (None, event.index):
                    yield event

    async def _matches(self, request: w.WatchRequest) -> AsyncGenerator[w.WatchEvent, None]:
        search_request = make_search_request(request)
        query = SavedQuery(self._search, replace(search_request, index=None, all_indexes=False))
        async with self._indexes.commits.subscribe() as commits:
            events = await self._events_since(request, commits)
            for event in events:
                if matched := await self._first_matches(event, query):
                    yield matched
            begun = {event.index for event in events}
            parsed = await self._parser.parse(search_request)
            for index in await searched_indexes(self._indexes.lookup, search_request, parsed):
                if index.record.name not in begun:
                    await query.begin(index.record.name)
            while batch := await next_batch(commits):
                for commit in batch:
                    if request.index in (None, commit.index) and (
                        matched := await self._new_matches(commit, commits, query)
                    ):
                        yield matched

    async def _first_matches(self, event: w.WatchEvent, query: SavedQuery) -> w.WatchEvent | None:
        """Begin a query after an event; return the event if it has matches or reports a gap."""
        missed = event.kind == "missed"
        matches = await query.begin(event.index, None if missed else event.changed)
        if matches:
            return replace(event, kind="matches", matches=matches)
        return event if missed else None

    async def _new_matches(
        self, commit: Commit, commits: Commits, query: SavedQuery
    ) -> w.WatchEvent | None:
        event = await self._event(commit, commits)
        if event is None:
            return None
        matches = await retry_until_available(partial(query.new, commit.index, event.changed))
        return replace(event, kind="matches", matches=matches) if matches else None

    async def _stream_commits(self, commits: Commits) -> AsyncGenerator[w.WatchEvent, None]:
        """Yield events of commits.

        A `missed` event precedes the first event of an index that was cleared and added again: no
        event reports the files that the old index lost.
        """
        clocks = {
            index.record.name: replies.as_of(index.root.clock())
            for index in self._indexes.lookup.all()
        }
        watch_ids = {name: _watch_id(clock) for name, clock in clocks.items() if clock.epoch}
        async for commit in commits:
            if (event := await self._event(commit, commits)) is None:
                continue
            watch_id = _watch_id(event.as_of)
            if watch_ids.setdefault(event.index, watch_id) != watch_id:
                watch_ids[event.index] = watch_id
                yield replace(
                    event, kind="missed", changed=(), removed=(), as_of=replace(event.as_of, seq=0)
                )
            yield event

    async def _commits_and_states(self, commits: Commits) -> AsyncGenerator[w.WatchEvent, None]:
        """Yield events of commits and of the indexes' states.

        Reads states only after a notification, and again while a state changes.
        """
        states = self._states()
        version = self._indexes.notifier.version
        notified = True
        while True:
            changing = notified or any(
                event.state not in p.STATES_AT_REST for event in states.values()
            )
            notified = False
            with anyio.move_on_after(RECHECK_S if changing else None):
                version = await self._indexes.notifier.wait(version)
                notified = True
            previous = states
            states = self._states()
            batch = _receive_waiting(commits)
            for event in _state_changes(previous, states):
                yield _before_commits(event, batch)
            for number, commit in enumerate(batch, 1):
                committed = await self._event(commit, commits, more=number < len(batch))
                if committed is not None:
                    yield committed
            if _is_cut_off(commits) and not commits.statistics().current_buffer_used:
                return

    async def _events_since(
        self, request: w.WatchRequest, commits: Commits
    ) -> tuple[w.WatchEvent, ...]:
        """Return changes since the clock of a request: one event for each index that has changed."""
        if request.since is None:
            return ()
        indexes = tuple(index for index in self._indexes.lookup.all() if index.error is None)
        if request.index is not None or request.cwd is not None:
            indexes = (await self._indexes.lookup.select(request.index, request.cwd),)
        clock = Clock(request.since.epoch, request.since.seq)
        events = [await self._event_since(index, clock, commits) for index in indexes]
        return tuple(event for event in events if event is not None)

    async def _event_since(
        self, index: RunningIndex, clock: Clock, commits: Commits
    ) -> w.WatchEvent | None:
        paths = index.root.changes.since(clock)
        as_of = index.root.clock()
        if paths is None:
            return _state_event(index, kind="missed")
        commit = Commit(index.record.name, index.record.generation, paths, as_of=as_of)
        return await self._event(commit, commits) if paths else None

    def _states(self) -> dict[str, w.WatchEvent]:
        """Return the state of each index, as an event, by name."""
        return {index.record.name: _state_event(index) for index in self._indexes.lookup.all()}

    async def _event(
        self, commit: Commit, commits: Commits, *, more: bool = False
    ) -> w.WatchEvent | None:
        """Return the event of a commit, None if its index is gone.

        `more`: further commits, which do not wait in `commits` any more, follow. The clock of an
        event must not count changes that are still to be reported: a client that comes back asks
        for changes since that clock.
        """
        try:
            index = self._indexes.lookup.get(commit.index)
            states = await retry_until_available(
                partial(file_states, self._db, index.record, commit.paths)
            )
        except NotFound:
            return None  # cleared since the commit, maybe during the query
        behind = more or commits.statistics().current_buffer_used or _is_cut_off(commits)
        return w.WatchEvent(
            index=commit.index,
            as_of=replies.as_of(commit.as_of if behind and commit.as_of else index.root.clock()),
            generation=commit.generation,
            changed=tuple(path for path in commit.paths if path in states.files),
            removed=tuple(path for path in commit.paths if path not in states.files),
            state=index.root.status().state,
        )


def _state_event(index: RunningIndex, kind: str = "state") -> w.WatchEvent:
    status = index.root.status()
    return w.WatchEvent(
        index.record.name,
        replies.as_of(status.clock),
        index.record.generation,
        state="refused" if index.error is not None else status.state,
        kind=kind,
    )


def _receive_waiting(commits: Commits) -> tuple[Commit, ...]:
    """Receive the commits that wait in the stream."""
    return tuple(commits.receive_nowait() for _ in range(commits.statistics().current_buffer_used))


def _watch_id(clock: p.AsOf) -> str:
    """Return the part of an epoch that all clocks of one root share while it is watched."""
    return clock.epoch.rpartition(".")[0]


def _is_cut_off(commits: Commits) -> bool:
    """Return True if the feed has closed the stream because its reader was too slow."""
    return not commits.statistics().open_send_streams


def _before_commits(event: w.WatchEvent, batch: tuple[Commit, ...]) -> w.WatchEvent:
    """Return the event with the clock of its index's first commit that is not reported yet."""
    clock = next((commit.as_of for commit in batch if commit.index == event.index), None)
    return event if clock is None else replace(event, as_of=replies.as_of(clock))


def _state_changes(
    previous: Mapping[str, w.WatchEvent], current: Mapping[str, w.WatchEvent]
) -> Iterator[w.WatchEvent]:
    """Yield events of indexes that were added, removed, or changed their state."""
    for name, event in current.items():
        if name not in previous:
            yield replace(event, kind="added")
        elif event.state != previous[name].state:
            yield event
    for name in previous.keys() - current.keys():
        yield replace(previous[name], kind="removed", state="")


def _min_evidence(request: w.WatchRequest) -> float:
    """Return `min_evidence` of a request, else its earlier name `min_score`, else the default."""
    if request.min_evidence is not None:
        return request.min_evidence
    return MIN_EVIDENCE if request.min_score is None else request.min_score


def make_search_request(request: w.WatchRequest) -> p.SearchRequest:
    """Make the request of a saved query."""
    return p.SearchRequest(
        request.query or "",
        limit=request.limit,
        min_evidence=_min_evidence(request),
        all_chunks=request.all_chunks,
        index=request.index,
        all_indexes=request.index is None,
    )
