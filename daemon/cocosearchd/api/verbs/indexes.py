"""Verbs about indexes: add, list, measure, clear, rebuild, locate, and wait for them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import replies
from cocosearchd.api.index_reports import IndexReports, error_text
from cocosearchd.api.index_sync import IndexSync
from cocosearchd.config.project import MAX_NAME_LENGTH, MAX_NAMES, is_plain
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.errors import InvalidInput
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database

# Time between two lines of progress; each line costs a count of files and chunks. A person reads at
# most five lines a second, and during work of minutes only one.
PROGRESS_S = 0.2
LONGEST_PROGRESS_S = 1.0
PROGRESS_SHARE = 0.05  # of the time since the first line
FAILURES_SHOWN = 200


class IndexVerbs:
    """Implements the verbs about indexes over the registry."""

    def __init__(
        self,
        db: Database,
        embedders: EmbedderRegistry,
        indexes: IndexRegistry,
        pipeline: Pipeline,
        sync: IndexSync,
        reports: IndexReports,
    ) -> None:
        self._db = db
        self._embedders = embedders
        self._indexes = indexes
        self._pipeline = pipeline
        self._sync = sync
        self._reports = reports

    async def index_codebase(self, request: p.IndexCodebaseRequest) -> p.IndexCodebaseReply:
        """Add a root; the work goes on after the reply."""
        if not request.path or not Path(request.path).is_absolute():
            raise InvalidInput(
                f"{request.path!r} is not an absolute path", "give the whole path of a directory"
            )
        _check_topics(request.topics)
        await self._embedders.configured.open()
        index, created = await self._indexes.add(
            os.fsencode(request.path),
            request.name,
            request.topics,
            follow_links=request.follow_links,
        )
        progress = await self._reports.progress(index)
        return p.IndexCodebaseReply(
            index.record.name, os.fsdecode(index.record.root), created, progress, index.warnings
        )

    async def report_progress(
        self, request: p.IndexRequest
    ) -> AsyncGenerator[p.IndexProgress, None]:
        """Yield the progress until the index is searchable and nothing is pending."""
        index = await self._indexes.lookup.select(request.index, request.cwd)
        began = anyio.current_time()
        while True:
            status = index.root.status()  # read first: the last progress is then of a root at rest
            yield await self._reports.progress(index)
            rests = index.error is not None or (
                status.state in p.STATES_AT_REST and not status.pending
            )
            if index.replacement is None and rests:
                return
            share = (anyio.current_time() - began) * PROGRESS_SHARE
            await anyio.sleep(min(max(PROGRESS_S, share), LONGEST_PROGRESS_S))
            # a replacement may have taken the name meanwhile
            index = self._indexes.lookup.get(index.record.name)

    async def list_indexes(self, request: p.Empty) -> p.IndexesReply:  # noqa: ARG002 - the shape of a verb
        """Return all indexes, by name."""
        statuses = await asyncio.gather(*map(self._reports.status, self._indexes.lookup.all()))
        return p.IndexesReply(tuple(statuses))

    async def index_stats(self, request: p.StatsRequest) -> p.StatsReply:
        """Return counts, languages and parse health, after every change made before the request."""
        index = await self._indexes.lookup.select(request.index, request.cwd)
        deadline = self._sync.deadline(request.sync_timeout_ms)
        freshness = await self._sync.wait(index, deadline)
        record = index.record
        statistics = await index_records.statistics(self._db, record)
        failures: tuple[index_records.ParseFailure, ...] = ()
        if request.include_failures:
            failures = await index_records.parse_failures(self._db, record, FAILURES_SHOWN)
        reply = replies.stats(record, statistics, failures, freshness)
        warnings = await self._reports.outdated_warning(index)
        return replace(reply, root=index.root_text, notes=(*index.warnings, *warnings))

    async def clear_index(self, request: p.IndexRequest) -> p.ClearReply:
        """Forget an index and its root. The name is required: a wrong guess could cost hours."""
        if request.index is None:
            raise InvalidInput("no index is named", "name the index to clear; `list` shows them")
        record = self._indexes.lookup.get(request.index).record
        removed = await self._indexes.remove(request.index)
        self._pipeline.forget(record)
        return p.ClearReply(request.index, removed.files, removed.chunks)

    async def reindex(self, request: p.IndexRequest) -> p.IndexProgress:
        """Index every file again, with the current embedder and settings."""
        index = await self._indexes.lookup.select(request.index, request.cwd)
        await self._embedders.recheck_configured()
        return await self._reports.progress(await self._indexes.rebuild(index.record.name))

    async def sync(self, request: p.SyncRequest) -> p.SyncReply:
        """Wait for the pending changes of one index.

        Waits for all indexes if no index is named and `cwd` is in none.
        """
        surrounding = await self._indexes.lookup.around(request.cwd) if request.cwd else None
        count = len(self._indexes.lookup.own())
        deadline = self._sync.deadline(request.timeout_ms)
        if request.index is None and surrounding is None and count > 1:
            return await self._sync_all(deadline)
        index = await self._indexes.lookup.select(request.index, request.cwd)
        if index.error is not None:
            raise index.error
        return replies.sync(index.record.name, await self._sync.wait(index, deadline))

    async def _sync_all(self, deadline: float | None) -> p.SyncReply:
        indexes = self._indexes.lookup.own()
        pairs = zip(indexes, await self._sync.wait_all(indexes, deadline), strict=True)
        # An index that does not run stays stale: it is reported only if all others are fresh.
        index, freshness = min(pairs, key=lambda pair: (pair[1].fresh, pair[0].error is not None))
        return replace(
            replies.sync(index.record.name, freshness),
            indexes=tuple(index.record.name for index in indexes),
            refused={
                index.record.name: error_text(index.error)
                for index in indexes
                if index.error is not None
            },
        )

    async def locate(self, request: w.LocateRequest) -> w.LocateReply:
        """Return the index around the first directory that lies in an index. Reads only links."""
        for path in request.paths:
            if (index := await self._indexes.lookup.around(path)) is not None:
                return w.LocateReply(index.record.name, os.fsdecode(index.record.root), path)
        return w.LocateReply()


def _check_topics(topics: Sequence[str]) -> None:
    """Raise `InvalidInput` for topics that a project's settings could not name either."""
    if len(topics) > MAX_NAMES:
        raise InvalidInput(f"{len(topics)} topics are too many", f"use at most {MAX_NAMES}")
    for topic in topics:
        if not is_plain(topic):
            raise InvalidInput(
                f"{topic[:MAX_NAME_LENGTH]!r} cannot be a topic",
                f"use 1 to {MAX_NAME_LENGTH} printable characters, without spaces at the ends",
            )
