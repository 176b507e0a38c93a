"""Converts model values to replies of the protocol. Pure."""

import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC
from typing import Literal

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.exclusion import exclusion_sentence, find_exclusion, unparsed_sentence
from cocosearchd.freshness import Freshness
from cocosearchd.languages import blocks, language_table
from cocosearchd.model import Clock, Hit, IndexRecord, Place
from cocosearchd.search.relevance import WEAK
from cocosearchd.store.index_records import Counts, IndexStatistics, ParseFailure
from cocosearchd.watching.root_status import RootStatus

_PLACE_FIELDS = tuple(field.name for field in fields(p.Place))
_HIT_FIELDS = tuple(
    field.name
    for field in fields(p.SearchResult)
    if field.name not in {"also", "similar", "similar_paths"}
)
MAX_SIMILAR_PATHS = 20


def result(hit: Hit) -> p.SearchResult:
    """Return a hit, without the signals that only an explanation shows."""
    values = {name: getattr(hit, name) for name in _HIT_FIELDS}
    return p.SearchResult(
        **values,
        also=tuple(map(_place, hit.other_places)),
        similar_paths=hit.similar_paths[:MAX_SIMILAR_PATHS],
        similar=len(hit.similar_paths),
    )


def _place(entry: Place) -> p.Place:
    return p.Place(**{name: getattr(entry, name) for name in _PLACE_FIELDS})


def as_of(clock: Clock) -> p.AsOf:
    """Return a clock."""
    return p.AsOf(clock.epoch, clock.seq)


def sync(index: str, freshness: Freshness) -> p.SyncReply:
    """Return the reply of `sync`: freshness after the wait."""
    return p.SyncReply(
        index,
        freshness.fresh,
        as_of(freshness.as_of),
        freshness.reason,
        freshness.pending,
        stale_code=freshness.code,
    )


def progress(record: IndexRecord, status: RootStatus, stored: Counts) -> p.IndexProgress:
    """Return the progress of an index; before the first scan, stored files count as done."""
    skipped = sum(files for _, files in stored.skipped)
    return p.IndexProgress(
        index=record.name,
        state=status.state,
        done=status.done if status.total is not None else max(0, stored.files) + skipped,
        total=status.total,
        chunks=stored.chunks,
        failed=status.failed_count,
        reason=status.reason,
        skipped=skipped,
    )


def refused_progress(record: IndexRecord, reason: str, stored: Counts) -> p.IndexProgress:
    """Return the progress of an index that does not run: another embedder built it, for example."""
    skipped = sum(files for _, files in stored.skipped)
    done = stored.files + skipped
    return p.IndexProgress(
        record.name, "refused", done, done, stored.chunks, 0, reason=reason, skipped=skipped
    )


def index_status(record: IndexRecord, status: RootStatus, stored: Counts) -> p.IndexStatus:
    """Return one index, as `list` and `status` show it."""
    return p.IndexStatus(
        name=record.name,
        root=os.fsdecode(record.root),
        topics=record.topics,
        state=status.state,
        files=stored.files,
        chunks=stored.chunks,
        pending=status.pending,
        generation=record.generation,
        as_of=as_of(status.clock),
        reason=status.reason,
        failed=tuple(p.FailedFile(f.path, f.error, f.tries, f.retry_in_s) for f in status.failed),
        skipped=dict(stored.skipped),
        watcher=status.watcher,
        unreadable=status.unreadable,
        failed_count=status.failed_count,
    )


def excluded(files: tuple[tuple[str, str], ...]) -> tuple[p.ExcludedFile, ...]:
    """Return files that are not searched, from their paths and reasons."""
    return tuple(p.ExcludedFile(path, code, exclusion_sentence(path, code)) for path, code in files)


def unparsed(files: tuple[tuple[str, str], ...]) -> tuple[p.ExcludedFile, ...]:
    """Return quarantined files, from their paths and the reasons why their parsers ended."""
    return tuple(
        p.ExcludedFile(path, "quarantined", unparsed_sentence(path, detail))
        for path, detail in files
    )


def failure(failed: ParseFailure) -> dict[str, object]:
    """Return a file that is not fully searched; a skipped file also has its reason and remedy."""
    reason = find_exclusion(failed.error_message).sentence if failed.status == "skipped" else ""
    return {**asdict(failed), "reason": reason}


def model_use(
    record: IndexRecord, replacement: IndexRecord | None, digest: str, configured: str | None
) -> w.ModelUse:
    """Return the embedder of an index; `configured` is the configured digest, None if unknown."""
    embedder = dict(record.identity.embedder)
    return w.ModelUse(
        index=record.name,
        provider=embedder.get("provider", ""),
        model=embedder.get("model", ""),
        dimension=record.dimension,
        fingerprint=digest,
        configured=configured is None or configured == digest,
        following=replacement.identity.model if replacement else None,
    )


def languages() -> w.LanguagesReply:
    """Return all languages, and the dialects of YAML and of templates, by name."""
    entries = [
        w.LanguageEntry(
            name=info.name,
            extensions=info.extensions,
            chunking=info.chunking,
            symbols=info.symbols,
            context=info.context,
            file_names=info.file_names,
            aliases=info.aliases,
        )
        for info in language_table.languages()
    ]
    entries += [
        w.LanguageEntry(
            name=dialect.name,
            extensions=(),
            chunking="grammar",
            symbols=False,
            context=False,
            kind_of=dialect.base_languages,
        )
        for dialect in blocks.DIALECTS
    ]
    return w.LanguagesReply(tuple(sorted(entries, key=lambda entry: entry.name)))


def refused_status(record: IndexRecord, reason: str, stored: Counts) -> p.IndexStatus:
    """Return the status of an index that does not run."""
    return p.IndexStatus(
        name=record.name,
        root=os.fsdecode(record.root),
        topics=record.topics,
        state="refused",
        files=stored.files,
        chunks=stored.chunks,
        pending=0,
        generation=record.generation,
        as_of=None,
        reason=reason,
        skipped=dict(stored.skipped),
    )


def files(
    page: tuple[w.FileEntry, ...],
    cursor: str | None,
    freshness: Freshness,
    *,
    has_several_indexes: bool,
    total: int,
) -> w.ListFilesReply:
    """Return a page of files; several indexes have no common `as_of`."""
    return w.ListFilesReply(
        files=page,
        cursor=cursor,
        fresh=freshness.fresh,
        stale_reason=freshness.reason,
        as_of=None if has_several_indexes else as_of(freshness.as_of),
        pending=freshness.pending,
        stale_code=freshness.code,
        total=total,
    )


def stats(
    record: IndexRecord,
    statistics: IndexStatistics,
    failures: tuple[ParseFailure, ...],
    freshness: Freshness,
) -> p.StatsReply:
    """Return counts of one index."""
    return p.StatsReply(
        index=record.name,
        root=os.fsdecode(record.root),
        files=statistics.files,
        chunks=statistics.chunks,
        symbols=statistics.symbols,
        size_bytes=statistics.size_bytes,
        languages={
            language: {"files": files, "chunks": chunks}
            for language, files, chunks in statistics.languages
        },
        parse_health=_health(statistics),
        skipped=dict(statistics.skipped),
        last_change=statistics.last_change.astimezone(UTC).isoformat()
        if statistics.last_change
        else None,
        embedder=dict(record.identity.embedder),
        generation=statistics.generation,
        failures=tuple(map(failure, failures)),
        fresh=freshness.fresh,
        stale_reason=freshness.reason,
        as_of=as_of(freshness.as_of),
        pending=freshness.pending,
        stale_code=freshness.code,
        failure_count=_failure_count(statistics),
    )


def _failure_count(statistics: IndexStatistics) -> int:
    unparsed = sum(
        files for _, status, files in statistics.parse_health if status in ("partial", "error")
    )
    return unparsed + sum(files for _, files in statistics.skipped)


def _health(statistics: IndexStatistics) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for language, status, files in statistics.parse_health:
        table.setdefault(language, dict.fromkeys(("ok", "partial", "error", "no_grammar"), 0))[
            status
        ] = files
    return table


def search(
    request: p.SearchRequest,
    hits: tuple[Hit, ...],
    where: tuple[str, ...],
    freshness: Freshness,
    *,
    timings_ms: Mapping[str, float],
    cache: Literal["miss", "exact", "semantic"] = "miss",
    notes: tuple[str, ...] = (),
    explain: dict[str, object] | None = None,
    listing: bool = False,
    cursor: str | None = None,
    omitted: int = 0,
    is_cold: bool = False,
) -> p.SearchReply:
    """Return the reply of a search. A cold answer is never weak: it has not seen all words.

    One index sets `index`, several set `indexes`; several indexes have no common `as_of`.
    """
    return p.SearchReply(
        query=request.query,
        results=tuple(result(hit) for hit in hits),
        fresh=freshness.fresh,
        stale_reason=freshness.reason,
        as_of=as_of(freshness.as_of) if len(where) == 1 else None,
        cache=cache,
        timings_ms={name: round(value, 3) for name, value in timings_ms.items()},
        index=where[0] if len(where) == 1 else None,
        indexes=where if len(where) > 1 else None,
        pending=freshness.pending,
        notes=notes,
        explain=explain,
        stale_code=freshness.code,
        listing=listing,
        cursor=cursor,
        weak=bool(hits) and not is_cold and max(hit.relevance for hit in hits) < WEAK,
        omitted=omitted,
    )
