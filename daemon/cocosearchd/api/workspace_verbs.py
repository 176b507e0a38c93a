"""The verbs beside search: files, related code, languages, changes as they come. Part of the
`Engine`.
"""

import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import file_references, replies
from cocosearchd.api.overlay_sessions import OverlayRules, OverlaySessions, would_not_be_searched
from cocosearchd.config.index_settings import IndexSettings, shown
from cocosearchd.config.settings import Settings
from cocosearchd.errors import NotFound
from cocosearchd.indexes.registry import IndexRegistry, RunningIndex, chunker_limits
from cocosearchd.languages.language_table import languages
from cocosearchd.model import Clock, Commit, Freshness, named_glob, named_path
from cocosearchd.runtime.deadlines import at_last
from cocosearchd.search.answers import file_listing
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.search.answers.related import find_related
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.chunks.file_states import file_states
from cocosearchd.store.connection.database import Database

MAX_SYNC_MS = 600_000
AT_REST = frozenset({"live", "degraded", "root_missing", "failed", "refused"})
UNFOLLOWED = "its settings have changed, and wait for what is being indexed"
# Between two looks at states while any of them moves; then nobody looks before something happens.
LOOK_S = 1.0

Commits = MemoryObjectReceiveStream[Commit]


class WorkspaceVerbs:
    """Implements `workspace.WorkspaceEngine` over the running indexes."""

    def __init__(
        self,
        db: Database,
        indexes: IndexRegistry,
        settings: Settings,
        overlays: OverlaySessions,
        disk: VerifiedFiles,
    ) -> None:
        self._db, self._indexes, self._settings = db, indexes, settings
        self._overlays, self._disk = overlays, disk

    async def list_files(self, request: w.ListFilesRequest) -> w.ListFilesReply:
        """Indexed files, page by page, as they are after every change made before the question."""
        until = self._until(request.sync_timeout_ms)

        async def below(
            among: tuple[RunningIndex, ...], under: str
        ) -> tuple[file_listing.FilePage, Freshness]:
            freshness = least(among, await self._all_fresh(among, until))
            page = await file_listing.list_files(
                self._db,
                [index.record for index in among],
                under=under,
                pattern=None if request.pattern is None else named_glob(request.pattern),
                limit=request.limit,
                cursor=request.cursor,
            )
            return page, freshness

        among = await self._among(request.index, request.cwd, request.topic)
        page, freshness = await below(among, named_path(request.under))
        if request.under and not page.files:
            placed = await file_references.directory(
                self._indexes, request.under, request.index, request.cwd
            )
            if placed is not None:
                among = (placed[0],)
                page, freshness = await below(among, placed[1])
        found = tuple(
            w.FileEntry(file.index, file.path, file.language, file.chunks) for file in page.files
        )
        return replies.files(found, page.cursor, freshness, several=len(among) > 1)

    async def get_file(self, request: w.GetFileRequest) -> w.GetFileReply:
        """A file or some of its lines, from disk when it is as it was indexed."""
        until = self._until(None)

        async def read(among: tuple[RunningIndex, ...], path: str) -> file_listing.FileContent:
            return await file_listing.get_file(
                self._db,
                [index.record for index in among],
                path,
                self._disk,
                first_line=1 if request.start_line is None else request.start_line,
                last_line=request.end_line,
                overlays=await self._unsaved(request.session, among),
            )

        async def look(among: tuple[RunningIndex, ...], path: str) -> file_listing.FileContent:
            with suppress(NotFound):
                if (found := await read(among, path)).source != "index":
                    return found
            await self._caught_up(among, until)
            return await read(among, path)

        found = await file_references.first(
            self._indexes, request.path, request.index, request.cwd, request.topic, look
        )
        fresh = found.source != "index"
        return w.GetFileReply(
            index=found.index,
            path=found.path,
            language=found.language,
            content=found.content,
            start_line=found.first_line,
            end_line=found.last_line,
            total_lines=found.lines,
            fresh=fresh,
            stale_reason=None
            if fresh
            else "the file is not as it was indexed; this is what was indexed",
            overlay=found.source == "overlay",
        )

    async def find_related(self, request: w.FindRelatedRequest) -> p.SearchReply:
        """Code in other files that resembles what is at a line."""
        until = self._until(None)

        async def held(
            among: tuple[RunningIndex, ...], path: str, overlays: dict[str, Overlay]
        ) -> str:
            return await file_listing.find_owner(
                self._db, [index.record for index in among], path, overlays
            )

        async def look(among: tuple[RunningIndex, ...], path: str) -> p.SearchReply:
            overlays = await self._unsaved(request.session, among)
            try:
                name = await held(among, path, overlays)
            except NotFound:
                await self._caught_up(among, until)
                name = await held(among, path, overlays)
            index = self._indexes.get(name)
            if index.refusal is not None:
                raise index.refusal
            freshness = await self._freshness(index, until)
            began = anyio.current_time()
            hits = await find_related(
                self._db,
                index.record,
                path,
                request.line,
                request.limit,
                overlays.get(index.record.name),
            )
            timings = {"total": (anyio.current_time() - began) * 1000}
            asked = p.SearchRequest(f"{path}:{request.line}")
            return replies.search(
                asked, hits, (index.record.name,), freshness, "miss", timings, (), None
            )

        return await file_references.first(
            self._indexes, request.path, request.index, request.cwd, None, look
        )

    async def config(self, request: w.ConfigRequest) -> w.ConfigReply:
        """The settings that hold, each with where it comes from."""
        index = await self._indexes.around(request.cwd) if request.cwd else None
        if request.index is not None:
            index = self._indexes.get(request.index)
        followed = (
            index is None
            or index.refusal is not None
            or await self._followed(index, self._until(None))
        )
        settings = index.settings if index is not None else IndexSettings(self._indexes.loaded)
        values = tuple(w.ConfigValue(*value) for value in shown(settings))
        notes = (
            self._indexes.said + (index.said if index else ()) + (() if followed else (UNFOLLOWED,))
        )
        return w.ConfigReply(values, index.record.name if index else None, notes)

    async def languages(self, request: p.Empty) -> w.LanguagesReply:  # noqa: ARG002 - the shape of a verb
        """What is supported."""
        return w.LanguagesReply(
            tuple(
                w.LanguageEntry(
                    info.name,
                    info.extensions,
                    info.chunking,
                    info.symbols,
                    info.context,
                    info.file_names,
                    info.aliases,
                )
                for info in sorted(languages(), key=lambda info: info.name)
            )
        )

    async def locate(self, request: w.LocateRequest) -> w.LocateReply:
        """The index around the first of some directories that any is around. Looks at no disk but
        for links.
        """
        for path in request.paths:
            if (found := await self._indexes.around(path)) is not None:
                return w.LocateReply(found.record.name, os.fsdecode(found.record.root), path)
        return w.LocateReply()

    async def watch(self, request: w.WatchRequest) -> AsyncGenerator[w.WatchEvent, None]:
        """Committed batches from now on, as they become searchable, until the client goes."""
        if request.index is not None:
            self._indexes.get(request.index)
        async with self._indexes.commits() as commits:
            for missed in await self._since(request, commits):
                yield missed
            found = self._lives(commits) if request.lifecycle else self._committed(commits)
            async for event in found:
                if request.index in (None, event.index):
                    yield event

    async def _committed(self, commits: Commits) -> AsyncGenerator[w.WatchEvent, None]:
        """An index that was cleared and made again tells of what it holds now, and of nothing that
        went meanwhile.
        """
        clocks = {
            index.record.name: replies.as_of(index.root.clock()) for index in self._indexes.all()
        }
        lives = {name: _life(clock) for name, clock in clocks.items() if clock.epoch}
        async for commit in commits:
            if (event := await self._event(commit, commits)) is None:
                continue
            life = _life(event.as_of)
            if lives.setdefault(event.index, life) != life:
                lives[event.index] = life
                yield replace(
                    event, kind="missed", changed=(), removed=(), as_of=replace(event.as_of, seq=0)
                )
            yield event

    async def _lives(self, commits: Commits) -> AsyncGenerator[w.WatchEvent, None]:
        """Commits, and what became of the indexes themselves. Looks only when something happens or
        just happened.
        """
        seen, heard, stirred = self._seen(), self._indexes.bell.rung, True
        while True:
            moving = stirred or any(event.state not in AT_REST for event in seen.values())
            stirred = False
            with anyio.move_on_after(LOOK_S if moving else None):
                heard, stirred = await self._indexes.bell.wait(heard), True
            before, seen, told = seen, self._seen(), _waiting(commits)
            for event in _lifecycle(before, seen):
                first = next((commit.as_of for commit in told if commit.index == event.index), None)
                yield event if first is None else replace(event, as_of=replies.as_of(first))
            for place, commit in enumerate(told, 1):
                committed = await self._event(commit, commits, more=place < len(told))
                if committed is not None:
                    yield committed
            if _cut_off(commits) and not commits.statistics().current_buffer_used:
                return

    async def _since(self, request: w.WatchRequest, commits: Commits) -> tuple[w.WatchEvent, ...]:
        """What has changed since the clock of a request, one event an index; none where nothing
        has.
        """
        if request.since is None:
            return ()
        among = tuple(index for index in self._indexes.all() if index.refusal is None)
        if request.index is not None or request.cwd is not None:
            among = (await self._indexes.one(request.index, request.cwd),)
        clock = Clock(request.since.epoch, request.since.seq)
        found = [await self._changed(index, clock, commits) for index in among]
        return tuple(event for event in found if event is not None)

    async def _changed(
        self, index: RunningIndex, clock: Clock, commits: Commits
    ) -> w.WatchEvent | None:
        paths, now = index.root.since(clock), index.root.clock()
        if paths is None:
            return self._state(index, kind="missed")
        missed = Commit(index.record.name, index.record.generation, paths, as_of=now)
        return await self._event(missed, commits) if paths else None

    def _seen(self) -> dict[str, w.WatchEvent]:
        """Each index as an event of its state."""
        return {index.record.name: self._state(index) for index in self._indexes.all()}

    def _state(self, index: RunningIndex, kind: str = "state") -> w.WatchEvent:
        status = index.root.status()
        state = "refused" if index.refusal is not None else status.state
        name, generation = index.record.name, index.record.generation
        return w.WatchEvent(name, replies.as_of(status.clock), generation, state=state, kind=kind)

    async def _event(
        self, commit: Commit, commits: Commits, *, more: bool = False
    ) -> w.WatchEvent | None:
        """What to tell of a commit, None of an index that is gone. `more` are to be told than wait
        in `commits`.

        Its clock counts nothing that is not told yet, as whoever comes back asks for what came
        since.
        """
        try:
            index = self._indexes.get(commit.index)
            there = (
                await at_last(partial(file_states, self._db, index.record, commit.paths))
            ).files
        except NotFound:
            return None  # cleared since, maybe while it was asked
        behind = more or commits.statistics().current_buffer_used or _cut_off(commits)
        return w.WatchEvent(
            index=commit.index,
            as_of=replies.as_of(commit.as_of if behind and commit.as_of else index.root.clock()),
            generation=commit.generation,
            changed=tuple(path for path in commit.paths if path in there),
            removed=tuple(path for path in commit.paths if path not in there),
            state=index.root.status().state,
        )

    async def overlay_open(self, request: p.Empty) -> AsyncGenerator[w.OverlaySession, None]:  # noqa: ARG002 - a verb
        """A session for unsaved text, until the client goes."""
        with self._overlays.session() as name:
            yield w.OverlaySession(name)
            await anyio.sleep_forever()

    async def overlay_put(self, request: w.OverlayPutRequest) -> w.OverlayReply:
        """Hold the unsaved text of a file that would be indexed if it were saved."""
        index, path = await file_references.unsaved(
            self._indexes, request.path, request.index, request.cwd
        )
        if (rule := await index.root.left_out(path)) is not None:
            raise would_not_be_searched(path, rule)
        shaping = self._indexes.rules(index)
        indexing = shaping.indexing
        rules = OverlayRules(
            chunker_limits(indexing),
            indexing.max_file_bytes,
            indexing.index_secrets,
            shaping.queries,
            any_type=bool(indexing.include or indexing.extend_include),
        )
        held = await self._overlays.put(
            request.session, index.record, path, request.text.encode(), rules
        )
        notes = (held.note,) if held.note else ()
        return w.OverlayReply(held.files, held.bytes, index.record.name, path, held.chunks, notes)

    async def overlay_clear(self, request: w.OverlayClearRequest) -> w.OverlayReply:
        """Forget unsaved text."""
        if request.path is None:
            record = None if request.index is None else self._indexes.get(request.index).record
            held = self._overlays.clear(request.session, record)
            return w.OverlayReply(held.files, held.bytes, request.index)
        index, path = await file_references.unsaved(
            self._indexes, request.path, request.index, request.cwd
        )
        held = self._overlays.clear(request.session, index.record, path)
        return w.OverlayReply(held.files, held.bytes, index.record.name, path)

    async def aclose(self) -> None:
        """End what runs beside the daemon for its requests."""
        await self._overlays.aclose()
        await self._indexes.analyser.aclose()

    async def _unsaved(
        self, session: str | None, indexes: Iterable[RunningIndex]
    ) -> dict[str, Overlay]:
        """The overlays of a session by the name of the index."""
        found = [
            (index.record.name, await self._overlays.of(session, index.record)) for index in indexes
        ]
        return {name: overlay for name, overlay in found if overlay is not None}

    async def _among(
        self, name: str | None, cwd: str | None, topic: str | None
    ) -> tuple[RunningIndex, ...]:
        """The indexes of a topic, else the one that is meant."""
        if name is None and topic is not None:
            return self._indexes.of_topics((topic,))
        return (await self._indexes.one(name, cwd),)

    async def _say_absence(self, index: RunningIndex, told: dict[str, Any]) -> None:
        """Why a file that was asked about is not in the index: search does not know the rules, its
        root does.
        """
        absent = told.get("why_not")
        if absent is not None and absent["status"] == "not_indexed":
            absent["reason"] = await index.root.absence(absent["path"])

    async def _freshness(self, index: RunningIndex, until: float | None) -> Freshness:
        """Waits for pending changes until a time of the event loop; None: not at all, nor for what
        is not followed.
        """
        if index.refusal is not None:
            return replace(index.root.freshness(), reason=index.refusal.message)
        if until is None:
            return index.root.freshness()
        followed = await self._followed(index, until)
        if not followed and index.root.presence.silent:
            return index.root.freshness()
        if not followed:
            return replace(index.root.freshness(), reason=UNFOLLOWED)
        return await index.root.sync(max(0.0, until - anyio.current_time()))

    async def _followed(self, index: RunningIndex, until: float | None) -> bool:
        """Whether the settings of an index's project were followed in time."""
        with anyio.CancelScope(
            deadline=anyio.current_time() if until is None else until
        ) as waiting:
            await self._indexes.refresh(index)
        return not waiting.cancelled_caught

    async def _all_fresh(
        self, indexes: tuple[RunningIndex, ...], until: float | None
    ) -> list[Freshness]:
        found: list[Freshness | None] = [None] * len(indexes)

        async def ask(place: int, index: RunningIndex) -> None:
            found[place] = await self._freshness(index, until)

        async with anyio.create_task_group() as tasks:
            for place, index in enumerate(indexes):
                tasks.start_soon(ask, place, index)
        return [freshness for freshness in found if freshness is not None]

    async def _caught_up(self, among: tuple[RunningIndex, ...], until: float | None) -> None:
        """A file that is not found, or not as it was indexed, may have been written a moment ago:
        look again then.
        """
        await self._all_fresh(tuple(index for index in among if index.refusal is None), until)

    def _until(self, timeout_ms: int | None) -> float | None:
        """Until when a question that comes now waits for changes; None: as configured, 0: not at
        all.
        """
        timeout_ms = self._settings.search.sync_timeout_ms if timeout_ms is None else timeout_ms
        return (
            anyio.current_time() + min(timeout_ms, MAX_SYNC_MS) / 1000 if timeout_ms > 0 else None
        )


def least(indexes: Sequence[RunningIndex], found: Sequence[Freshness]) -> Freshness:
    """That of all together: the first that is not fresh speaks for them, by its name where there
    are several.
    """
    index, one = min(zip(indexes, found, strict=True), key=lambda each: each[1].fresh)
    return (
        one
        if one.fresh or len(indexes) == 1
        else replace(one, reason=f"{index.record.name}: {one.reason}")
    )


def _waiting(commits: Commits) -> tuple[Commit, ...]:
    """The commits that can be told now."""
    return tuple(commits.receive_nowait() for _ in range(commits.statistics().current_buffer_used))


def _life(clock: p.AsOf) -> str:
    """What the clocks of a root have in common, from when it is begun to be watched until it is
    not.
    """
    return clock.epoch.rpartition(".")[0]


def _cut_off(commits: Commits) -> bool:
    """Whether nothing more comes than waits, whatever happens: its reader was too slow."""
    return not commits.statistics().open_send_streams


def _lifecycle(
    before: Mapping[str, w.WatchEvent], now: Mapping[str, w.WatchEvent]
) -> Iterator[w.WatchEvent]:
    """What came, went, or is in another state than before."""
    for name, event in now.items():
        if name not in before:
            yield replace(event, kind="added")
        elif event.state != before[name].state:
            yield event
    for name in before.keys() - now.keys():
        yield replace(before[name], kind="removed", state="")
