"""The daemon's verbs, one method each: model values in, `protocol` replies out. Implements
`protocol.Engine`.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import file_references, replies
from cocosearchd.api.health import Dependencies
from cocosearchd.api.overlay_sessions import OverlaySessions
from cocosearchd.api.requests import explains, query_of, wants_symbols, with_defaults
from cocosearchd.api.saved_queries import MIN_RELEVANCE, SavedQuery, gathered
from cocosearchd.api.workspace_verbs import AT_REST, WorkspaceVerbs, least
from cocosearchd.config.settings import Settings
from cocosearchd.embedding.base import pairs_digest
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.errors import (
    CocoSearchError,
    EmbedderUnavailable,
    InvalidInput,
    NotFound,
    StoreUnavailable,
)
from cocosearchd.exclusion import EXCLUSIONS
from cocosearchd.indexes.registry import IndexRegistry, RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.indexing.pool.quarantine import NOT_PARSED
from cocosearchd.model import Freshness
from cocosearchd.runtime.deadlines import at_last, soon, soon_or
from cocosearchd.runtime.process_resources import lacking_handles, resident
from cocosearchd.search.answers.multi_index import FailedIndex, search_several
from cocosearchd.search.latency import Latency
from cocosearchd.search.pipeline import Answer, Pipeline
from cocosearchd.search.plan import Query, parse_inline
from cocosearchd.search.trace import Trace
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database

FOLLOW_S = 0.2  # a progress line that a person reads needs no more than five a second
FAILURES_SHOWN = 200
EXCLUDED_SHOWN = 20
STATUS_S = 2.0  # `status` is what people ask when something hangs


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """What the daemon says of itself. `postgres` are the process ids of an embedded server."""

    version: str
    started: float  # time.monotonic()
    mcp: Callable[[], dict[str, str]]
    store: Callable[[], dict[str, Any]]
    postgres: Callable[[], tuple[int, ...]]
    warnings: Callable[[], tuple[str, ...]]


class Engine(WorkspaceVerbs):
    """One per daemon. Counts its answers; all other state (indexes, caches, models) is given."""

    def __init__(
        self,
        db: Database,
        embedders: EmbedderRegistry,
        indexes: IndexRegistry,
        pipeline: Pipeline,
        updater: Updater,
        settings: Settings,
        about: DaemonInfo,
        parts: Dependencies,
        stop: Callable[[], None],
    ) -> None:
        super().__init__(
            db, indexes, settings, OverlaySessions(embedders.get, OverlayParser()), pipeline.disk
        )
        self._embedders, self._embedder = embedders, embedders.configured
        self._pipeline, self._updater = pipeline, updater
        self._about, self._parts, self._stop = about, parts, stop
        self._latency = Latency()

    def configure(self, settings: Settings) -> None:
        """Take the settings of queries from here on; the others were read at the start."""
        self._settings = replace(self._settings, search=settings.search)
        self._pipeline.configure(settings.search)

    async def search(self, request: p.SearchRequest) -> p.SearchReply:
        """Ranked chunks of the indexes as they are after every change made before the question."""
        reply = await self._search(request)
        self._latency.add(reply.timings_ms["total"])
        return replies.without(reply, self._refused()) if request.all_indexes else reply

    async def _search(self, request: p.SearchRequest) -> p.SearchReply:
        until = self._until(request.sync_timeout_ms)
        indexes, asked, notes = await self._meant(request, until)
        if len(indexes) == 1:
            return await self._search_one(indexes[0], request, asked, notes, until)
        began = time.perf_counter()
        freshness = least(indexes, await self._all_fresh(indexes, until))
        synced = time.perf_counter()
        merged = await search_several(
            self._pipeline,
            [index.record for index in indexes],
            asked,
            explain=explains(request),
            overlays=await self._unsaved(request.session, indexes),
        )
        roots = {index.record.name: index.root for index in indexes}
        for answer in merged.answers:
            roots[answer.index].suspect(answer.changed_paths)
            freshness = _judged(freshness, answer, f"{answer.index}: ")
        if merged.failed:
            freshness = replace(freshness, fresh=False, reason=merged.incomplete_reason)
        for index in indexes:
            await self._say_absence(index, merged.traces[index.record.name].details)
        timings = {"sync": (synced - began) * 1000, "total": (time.perf_counter() - began) * 1000}
        return replies.search(
            request,
            merged.hits,
            tuple(index.record.name for index in indexes),
            freshness,
            "exact" if all(answer.cache == "exact" for answer in merged.answers) else "miss",
            timings,
            (*notes, *merged.warnings),
            {name: dict(trace.details) for name, trace in merged.traces.items()}
            if explains(request)
            else None,
        )

    async def _meant(
        self, request: p.SearchRequest, until: float | None
    ) -> tuple[tuple[RunningIndex, ...], Query, tuple[str, ...]]:
        """Where to search, what, and what to say of it. One index brings those it links, and its
        project's defaults.
        """
        indexes, notes = await self._wanted(request), tuple[str, ...]()
        asked = query_of(request)
        if len(indexes) == 1:
            if until is not None:
                with anyio.CancelScope(deadline=until):
                    await self._indexes.refresh(indexes[0])
            asked = with_defaults(asked, indexes[0].settings.search)
            linked, notes = self._indexes.linked(indexes[0]) if request.linked else ((), ())
            indexes += linked
        if request.why_not is not None:
            named = await file_references.explained(
                self._indexes, indexes[0], request.why_not, request.cwd
            )
            asked = replace(asked, why_not=named)
        if wants_symbols(request):
            notes += tuple([note for index in indexes for note in await self._lacking(index)])
        return indexes, asked, notes

    def _refused(self) -> dict[str, str]:
        """That indexes cannot be searched as they are, each with what would help."""
        failed = [
            FailedIndex(one.record.name, one.refusal)
            for one in self._indexes.all()
            if one.refusal is not None
        ]
        return {one.warning: one.error.hint for one in failed}

    async def _search_one(
        self,
        index: RunningIndex,
        request: p.SearchRequest,
        asked: Query,
        notes: tuple[str, ...],
        until: float | None,
    ) -> p.SearchReply:
        trace = Trace(explain=explains(request))
        began = time.perf_counter()
        with trace.stage("sync"):
            freshness = await self._freshness(index, until)
        overlay = await self._overlays.of(request.session, index.record)
        answer = await self._pipeline.run(index.record, asked, trace, overlay=overlay)
        index.root.suspect(answer.changed_paths)
        await self._say_absence(index, trace.details)
        trace.timings_ms["total"] = (time.perf_counter() - began) * 1000
        return replies.search(
            request,
            answer.hits,
            (index.record.name,),
            _judged(freshness, answer),
            answer.cache,
            trace.timings_ms,
            (*notes, *answer.warnings),
            dict(trace.details) if explains(request) else None,
        )

    async def index_codebase(self, request: p.IndexCodebaseRequest) -> p.IndexCodebaseReply:
        """Add a root; the work goes on after the reply."""
        if not request.path or not Path(request.path).is_absolute():
            raise InvalidInput(
                f"{request.path!r} is not an absolute path", "give the whole path of a directory"
            )
        await self._embedder.open()
        index, created = await self._indexes.add(
            os.fsencode(request.path), request.name, request.topics
        )
        progress = await self._progress(index)
        return p.IndexCodebaseReply(
            index.record.name, os.fsdecode(index.record.root), created, progress, index.said
        )

    async def follow(self, request: p.IndexRequest) -> AsyncGenerator[p.IndexProgress, None]:
        """Progress until the index is searchable and nothing is pending."""
        index = await self._indexes.one(request.index, request.cwd)
        while True:
            yield await self._progress(index)
            status = index.root.status()
            rests = index.refusal is not None or (status.state in AT_REST and not status.pending)
            if index.following is None and rests:
                return
            await anyio.sleep(FOLLOW_S)
            index = self._indexes.get(index.record.name)  # another one may have taken its place

    def watch(self, request: w.WatchRequest) -> AsyncGenerator[w.WatchEvent, None]:
        """Committed batches as they become searchable, or what a saved query finds in them; until
        the client goes.
        """
        return (
            super().watch(request)
            if request.query is None
            else self._matches(request.query, request)
        )

    async def _matches(
        self, query: str, request: w.WatchRequest
    ) -> AsyncGenerator[w.WatchEvent, None]:
        least = MIN_RELEVANCE if request.min_score is None else request.min_score
        asked = p.SearchRequest(
            query, limit=request.limit, min_score=least, all_chunks=request.all_chunks
        )
        saved = SavedQuery(self.search, asked)
        async with self._indexes.commits() as commits:
            missed = {event.index: event for event in await self._since(request, commits)}
            for name, event in missed.items():
                changed = None if event.kind == "missed" else event.changed
                if (matches := await saved.begin(name, changed)) or changed is None:
                    yield replace(event, kind="matches" if matches else event.kind, matches=matches)
            for index in await self._wanted(
                replace(asked, index=request.index, all_indexes=request.index is None)
            ):
                if index.record.name not in missed:
                    await saved.begin(index.record.name)
            while batch := await gathered(commits):
                for commit in batch:
                    told = (
                        await self._event(commit, commits)
                        if request.index in (None, commit.index)
                        else None
                    )
                    if told is None:
                        continue
                    if matches := await at_last(partial(saved.new, commit.index, told.changed)):
                        yield replace(told, kind="matches", matches=matches)

    async def list_indexes(self, request: p.Empty) -> p.IndexesReply:  # noqa: ARG002 - the shape of a verb
        """All indexes, by name."""
        found = await asyncio.gather(*(self._index_status(index) for index in self._indexes.all()))
        return p.IndexesReply(tuple(found))

    async def index_stats(self, request: p.StatsRequest) -> p.StatsReply:
        """Counts, languages, parse health, as they are after every change made before the
        question.
        """
        index = await self._indexes.one(request.index, request.cwd)
        freshness = await self._freshness(index, self._until(request.sync_timeout_ms))
        record = index.record
        found = await index_records.statistics(self._db, record)
        failures = (
            await index_records.parse_failures(self._db, record, FAILURES_SHOWN)
            if request.include_failures
            else ()
        )
        reply = replies.stats(record, found, failures, freshness)
        return replace(reply, notes=(*index.said, *await self._lacking(index)))

    async def clear_index(self, request: p.IndexRequest) -> p.ClearReply:
        """Forget an index and its root. Its name must be said: a guess could cost hours."""
        if request.index is None:
            raise InvalidInput("no index is named", "name the index to clear; `list` shows them")
        record = self._indexes.get(request.index).record
        gone = await self._indexes.remove(request.index)
        self._pipeline.forget(record)
        return p.ClearReply(request.index, gone.files, gone.chunks)

    async def reindex(self, request: p.IndexRequest) -> p.IndexProgress:
        """Index every file again, with the embedder and settings of now."""
        name = (await self._indexes.one(request.index, request.cwd)).record.name
        await self._embedders.recheck_configured()
        return await self._progress(await self._indexes.rebuild(name))

    async def sync(self, request: p.SyncRequest) -> p.SyncReply:
        """Wait for pending changes: of one index, or of all when none is named and `cwd` is in
        none.
        """
        here = await self._indexes.around(request.cwd) if request.cwd else None
        every = self._indexes.all()
        until = self._until(request.timeout_ms)
        if request.index is None and here is None and len(every) > 1:
            found = zip(every, await self._all_fresh(every, until), strict=True)
            # One that is refused stays so: it speaks for all only when there is nothing to wait
            # for.
            index, told = min(found, key=lambda one: (one[1].fresh, one[0].refusal is not None))
            names = tuple(each.record.name for each in every)
            refused = {
                each.record.name: _said_of(each.refusal)
                for each in every
                if each.refusal is not None
            }
            return replace(replies.sync(index.record.name, told), indexes=names, refused=refused)
        index = await self._indexes.one(request.index, request.cwd)
        if index.refusal is not None:
            raise index.refusal
        return replies.sync(index.record.name, await self._freshness(index, until))

    async def status(self, request: p.Empty) -> p.StatusReply:
        """The daemon as a whole."""
        about = self._about
        return p.StatusReply(
            version=about.version,
            protocol=p.PROTOCOL_VERSION,
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - about.started, 1),
            mcp=about.mcp(),
            store=await self._store_status(),
            embedder=self._embedder_status(),
            worker=asdict(self._updater.status),
            cache=asdict(self._pipeline.cache_statistics()),
            rss_bytes=await anyio.to_thread.run_sync(
                resident, self._updater.pid, about.postgres, self._indexes.analyser.pids
            ),
            indexes=(await self.list_indexes(request)).indexes,
            warnings=(
                *about.warnings(),
                *self._indexes.said,
                *filter(None, (self._updater.status.paused, lacking_handles())),
            ),
            queries=self._latency.summary(),
        )

    async def models(self, request: p.Empty) -> w.ModelsReply:  # noqa: ARG002 - the shape of a verb
        """What could be used, and what is."""
        known, found = self._embedder_status(), await self._embedders.models()
        entries = tuple(
            w.ModelEntry(each.provider, each.model, each.state, each.detail) for each in found
        )
        uses = [self._model_use(index, known.get("digest")) for index in self._indexes.all()]
        return w.ModelsReply(known, entries, tuple(uses))

    def _model_use(self, index: RunningIndex, configured: str | None) -> w.ModelUse:
        following = index.following.record if index.following else None
        return replies.model_use(
            index.record, following, pairs_digest(index.record.identity.embedder), configured
        )

    async def shutdown(self, request: p.Empty) -> p.ShutdownReply:  # noqa: ARG002 - the shape of a verb
        """Stop cleanly; the reply is sent first."""
        self._stop()
        return p.ShutdownReply(os.getpid())

    async def _wanted(self, request: p.SearchRequest) -> tuple[RunningIndex, ...]:
        """Where to search; filters inside the question (`index:`, `topic:`) count as named. Refused
        ones are errors.
        """
        inline = parse_inline(request.query)
        named = () if request.index is None else (request.index,)
        names = dict.fromkeys((*request.indexes, *inline.indexes, *named))
        topics = (*request.topics, *inline.topics)
        if request.all_indexes:
            found = (
                tuple(index for index in self._indexes.all() if index.refusal is None)
                or self._indexes.all()
            )
        elif topics or names:
            found = tuple(self._indexes.get(name) for name in names)
            found += (
                tuple(i for i in self._indexes.of_topics(topics) if i not in found)
                if topics
                else ()
            )
        else:
            found = (await self._indexes.one(None, request.cwd),)
        if not found:
            raise NotFound("there is no index yet", "cocosearchctl up DIRECTORY")
        for index in found:
            if index.refusal is not None:
                raise index.refusal
        return found

    async def _freshness(self, index: RunningIndex, until: float | None) -> Freshness:
        """As of any verb; what keeps the work from going on is said as well."""
        found, paused = await super()._freshness(index, until), self._updater.status.paused
        return (
            found
            if found.fresh or not paused
            else replace(found, reason=f"{found.reason}; {paused}")
        )

    async def _counts(self, index: RunningIndex) -> index_records.Counts:
        """What is stored; -1 files and chunks while PostgreSQL is away, because what can be said
        should be.
        """
        try:
            return await soon(index_records.counts(self._db, index.record), STATUS_S)
        except StoreUnavailable:
            return index_records.Counts(-1, -1)

    async def _progress(self, index: RunningIndex) -> p.IndexProgress:
        made = index.following or index
        stored = await self._counts(made)
        if made.refusal is not None:
            return replies.refused_progress(index.record, _said_of(made.refusal), stored)
        status = made.root.status()
        if status.pending and not status.reason:
            status = replace(status, reason=self._updater.status.paused)
        return replies.progress(replace(made.record, name=index.record.name), status, stored)

    async def _index_status(self, index: RunningIndex) -> p.IndexStatus:
        stored = await self._counts(index)
        if index.refusal is not None:
            return replies.refused_status(index.record, _said_of(index.refusal), stored)
        found = replies.index_status(index.record, index.root.status(), stored)
        notes = (*index.said, *index.lexical.reduced.warnings(), *await self._lacking(index))
        db, record, linked = self._db, index.record, index.settings.project.linked_indexes
        skipped = await soon_or(
            (),
            index_records.excluded_files(db, record, tuple(EXCLUSIONS), EXCLUDED_SHOWN),
            STATUS_S,
        )
        unparsed = await soon_or(
            (), index_records.unparsed_files(db, record, NOT_PARSED, EXCLUDED_SHOWN), STATUS_S
        )
        found = replace(
            found, excluded=replies.excluded(skipped), unparsed=replies.unparsed(unparsed)
        )
        return replace(found, notes=notes, linked=linked)

    async def _lacking(self, index: RunningIndex) -> tuple[str, ...]:
        """A warning while rows of before the newest columns are left; they are counted as long as
        there are any.
        """
        if index.lacking:
            with contextlib.suppress(StoreUnavailable):
                index.lacking = await soon(
                    index_records.count_outdated_chunks(self._db, index.record), STATUS_S
                )
        if not index.lacking:
            return ()
        name, count = index.record.name, f"{index.lacking:,} chunks"
        what = (
            "are of an older version, which knew one symbol of each: sym: and name: may miss some"
        )
        return (f"{count} of {name} {what}; cocosearchctl reindex {name} mends that",)

    async def _store_status(self) -> dict[str, Any]:
        versions = {"server": self._db.server_version, "pgvector": self._db.pgvector_version}
        return {
            **self._about.store(),
            **versions,
            **(await self._parts.store.look_soon(STATUS_S)).fields(),
        }

    def _embedder_status(self) -> dict[str, Any]:
        try:
            fingerprint = self._embedder.fingerprint
        except EmbedderUnavailable as error:
            provider = self._settings.embedder.provider
            return {
                "provider": provider,
                "state": "down",
                "reason": error.message,
                "hint": error.hint,
            }
        return {
            **asdict(fingerprint),
            "digest": fingerprint.digest(),
            **self._parts.embedder.condition.fields(),
        }


def _judged(freshness: Freshness, answer: Answer, of: str = "") -> Freshness:
    """What waiting promised, less what answering has seen; said as `of` an index."""
    if answer.outdated is not None:
        return Freshness(False, freshness.as_of, f"{of}{answer.outdated}", freshness.pending)
    if freshness.fresh and answer.changed_paths:
        reason = f"{of}files changed while the question was answered"
        return Freshness(False, freshness.as_of, reason, answer.changed_paths[:20])
    return freshness


def _said_of(refusal: CocoSearchError) -> str:
    return f"{refusal.message}: {refusal.hint}"
