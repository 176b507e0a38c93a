"""The verb `search`: ranked chunks of one index, or of several merged."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import anyio

from cocosearch_ipc import protocol as p
from cocosearchd.api import file_references, replies
from cocosearchd.api.index_reports import IndexReports
from cocosearchd.api.index_sync import IndexSync, least_fresh
from cocosearchd.api.missing_indexes import find_missing_indexes
from cocosearchd.api.overlay_sessions import OverlaySessions
from cocosearchd.api.search_requests import (
    QueryParser,
    asks_all_indexes,
    searched_indexes,
    wants_explanation,
)
from cocosearchd.freshness import Freshness
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.search.answers.multi_index import MergedAnswer, search_several
from cocosearchd.search.joint.index_sentences import group_sentences, limit_sentences
from cocosearchd.search.latency import Latency
from cocosearchd.search.listing.symbol_list import next_cursor, page_notes
from cocosearchd.search.pipeline import Answer, Pipeline
from cocosearchd.search.plan import Query, fill_defaults
from cocosearchd.search.trace import Trace


class SearchVerbs:
    """Implements `search`. Records the latency of its answers."""

    def __init__(
        self,
        indexes: IndexRegistry,
        pipeline: Pipeline,
        overlays: OverlaySessions,
        sync: IndexSync,
        reports: IndexReports,
    ) -> None:
        self._indexes = indexes
        self._pipeline = pipeline
        self._overlays = overlays
        self._sync = sync
        self._reports = reports
        self._parser = QueryParser()
        self.latency = Latency()

    async def search(self, request: p.SearchRequest) -> p.SearchReply:
        """Return ranked chunks of the indexes, after every change made before the request."""
        deadline = self._sync.deadline(request.sync_timeout_ms)
        indexes, query, warnings = await self._resolve(request, deadline)
        if len(indexes) == 1:
            reply = await self._search_one(indexes[0], request, query, warnings, deadline)
        else:
            reply = await self._search_several(indexes, request, query, warnings, deadline)
        self.latency.add(reply.timings_ms["total"])
        if not asks_all_indexes(request, query):
            return reply
        return find_missing_indexes(self._indexes.lookup, needs_vectors=True).mark(reply)

    async def _resolve(
        self, request: p.SearchRequest, deadline: float | None
    ) -> tuple[tuple[RunningIndex, ...], Query, tuple[str, ...]]:
        """Return indexes, query and warnings of a request.

        A single index adds the indexes that it links, and the defaults of its project.
        """
        query = await self._parser.parse(request)
        indexes = await searched_indexes(self._indexes.lookup, request, query)
        warnings: tuple[str, ...] = ()
        if len(indexes) == 1:
            if deadline is not None:
                with anyio.CancelScope(deadline=deadline):
                    await self._indexes.refresh(indexes[0])
            query = fill_defaults(query, indexes[0].settings.search)
            if request.linked:
                linked, warnings = self._indexes.lookup.linked_to(indexes[0])
                indexes += linked
        if request.why_not is not None:
            path = await file_references.missing_path(
                self._indexes.lookup, indexes[0], request.why_not, request.cwd
            )
            query = replace(query, why_not=path)
        if query.where.has_symbols:
            outdated = [await self._reports.outdated_warning(index) for index in indexes]
            warnings += limit_sentences(tuple(chain.from_iterable(outdated)))
        return indexes, query, warnings

    async def _search_one(
        self,
        index: RunningIndex,
        request: p.SearchRequest,
        query: Query,
        warnings: tuple[str, ...],
        deadline: float | None,
    ) -> p.SearchReply:
        trace = Trace(explain=wants_explanation(request))
        began = time.perf_counter()
        with trace.stage("sync"):
            freshness = await self._sync.wait(index, deadline)
        overlay = await self._overlays.overlay(request.session, index.record)
        answer = await self._pipeline.run(index.record, query, trace, overlay=overlay)
        index.root.mark_possibly_changed(answer.changed_paths)
        await _explain_absence(index, trace.details)
        if not answer.hits:
            warnings += await self._reports.empty_warning(index)
        generations = {answer.index: answer.generation}
        trace.timings_ms["total"] = (time.perf_counter() - began) * 1000
        return replies.search(
            request,
            answer.hits,
            (index.record.name,),
            _observed_freshness(freshness, answer),
            cache=answer.cache,
            timings_ms=trace.timings_ms,
            notes=(*warnings, *answer.warnings, *page_notes(query, generations)),
            listing=not query.words,
            cursor=next_cursor(query, answer.hits, generations) if answer.more else None,
            explain=dict(trace.details) if wants_explanation(request) else None,
            omitted=answer.omitted,
            is_cold=answer.is_cold,
        )

    async def _search_several(
        self,
        indexes: tuple[RunningIndex, ...],
        request: p.SearchRequest,
        query: Query,
        warnings: tuple[str, ...],
        deadline: float | None,
    ) -> p.SearchReply:
        began = time.perf_counter()
        freshness = least_fresh(indexes, await self._sync.wait_all(indexes, deadline))
        synced = time.perf_counter()
        records = [index.record for index in indexes]
        merged = await search_several(
            self._pipeline,
            records,
            query,
            explain=wants_explanation(request),
            overlays=await self._overlays.overlays(request.session, records),
            own_index=self._find_own_index(request, indexes),
        )
        freshness = _suspect_changes(indexes, merged, freshness)
        for index in indexes:
            await _explain_absence(index, merged.traces[index.record.name].details)
        if not merged.hits:
            warnings += await self._empty_warnings(indexes)
        timings = {"sync": (synced - began) * 1000, "total": (time.perf_counter() - began) * 1000}
        explanation: dict[str, object] = {
            name: dict(trace.details) for name, trace in merged.traces.items()
        }
        return replies.search(
            request,
            merged.hits,
            tuple(record.name for record in records),
            freshness,
            cache="exact" if all(answer.cache == "exact" for answer in merged.answers) else "miss",
            timings_ms=timings,
            notes=(*warnings, *merged.warnings, *page_notes(query, merged.generations)),
            listing=not query.words,
            cursor=merged.cursor,
            explain=explanation if wants_explanation(request) else None,
            omitted=merged.omitted,
            is_cold=merged.is_cold,
        )

    def _find_own_index(
        self, request: p.SearchRequest, indexes: Sequence[RunningIndex]
    ) -> str | None:
        """Return the name of the index of the project that asks, or None.

        It is the one around the directory of the request, else the one that is named and links the
        others. Links in the directory are not followed: a preference is not worth waiting for a disk.
        """
        around = self._indexes.lookup.containing(os.fsencode(request.cwd or ""))
        if around in indexes and around is not None:
            return around.record.name
        first_name = indexes[0].record.name
        return first_name if request.index == first_name else None

    async def _empty_warnings(self, indexes: Sequence[RunningIndex]) -> tuple[str, ...]:
        """Return warnings about the indexes without a searchable file."""
        sentences = [
            (index.record.name, sentence)
            for index in indexes
            for sentence in await self._reports.empty_warning(index)
        ]
        return group_sentences(sentences)


async def _explain_absence(index: RunningIndex, details: dict[str, Any]) -> None:
    """Add to `details` why a file is not in the index: only its root knows the rules of scope."""
    absent = details.get("why_not")
    if absent is not None and absent["status"] == "not_indexed":
        absent["reason"] = await index.root.exclusions.reason(absent["path"])


def _suspect_changes(
    indexes: Sequence[RunningIndex], merged: MergedAnswer, freshness: Freshness
) -> Freshness:
    """Report changed files to their roots, and return the freshness after all answers."""
    roots = {index.record.name: index.root for index in indexes}
    for answer in merged.answers:
        roots[answer.index].mark_possibly_changed(answer.changed_paths)
        freshness = _observed_freshness(freshness, answer, name_index=True)
    return replace(freshness, stale=merged.stale) if merged.stale is not None else freshness


def _observed_freshness(
    freshness: Freshness, answer: Answer, *, name_index: bool = False
) -> Freshness:
    """Return the freshness after the wait, made stale by changes that the answer has seen.

    With `name_index` the reason names the index of the answer.
    """
    if answer.stale is not None:
        observed = replace(freshness, stale=answer.stale)
    else:
        observed = freshness.with_changes(answer.changed_paths)
    if observed is freshness or not name_index:
        return observed
    return observed.in_index(answer.index)
