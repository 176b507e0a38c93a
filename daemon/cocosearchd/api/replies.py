"""Model values as the shapes that front ends pass on. Pure."""

import os
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from datetime import UTC
from typing import Literal

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.exclusion import exclusion_sentence, find_exclusion, unparsed_sentence
from cocosearchd.model import Clock, Freshness, Hit, IndexRecord
from cocosearchd.store.index_records import Counts, IndexStatistics, ParseFailure
from cocosearchd.watching.root_status import RootStatus

_RESULT_FIELDS = tuple(field.name for field in fields(p.SearchResult))


def result(hit: Hit) -> p.SearchResult:
    """A hit without what only explain shows."""
    return p.SearchResult(**{name: getattr(hit, name) for name in _RESULT_FIELDS})


def as_of(clock: Clock) -> p.AsOf:
    """A clock."""
    return p.AsOf(clock.epoch, clock.seq)


def sync(index: str, freshness: Freshness) -> p.SyncReply:
    """What waiting for an index came to."""
    return p.SyncReply(
        index, freshness.fresh, as_of(freshness.as_of), freshness.reason, freshness.pending
    )


def progress(record: IndexRecord, status: RootStatus, stored: Counts) -> p.IndexProgress:
    """A moment of an index's work. Before the first scan has counted, what is stored is what is
    known of its files.
    """
    skipped = sum(files for _, files in stored.skipped)
    done = status.done if status.total is not None else max(0, stored.files) + skipped
    return p.IndexProgress(
        record.name,
        status.state,
        done,
        status.total,
        stored.chunks,
        status.failed_count,
        status.reason,
        skipped,
    )


def refused_progress(record: IndexRecord, reason: str, stored: Counts) -> p.IndexProgress:
    """An index that is not worked on, as the configured embedder is not the one it was made by."""
    skipped = sum(files for _, files in stored.skipped)
    done = stored.files + skipped
    return p.IndexProgress(record.name, "refused", done, done, stored.chunks, 0, reason, skipped)


def index_status(record: IndexRecord, status: RootStatus, stored: Counts) -> p.IndexStatus:
    """One index, as `list` and `status` show it."""
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
    """Files that are not searched, from their paths and reasons."""
    return tuple(p.ExcludedFile(path, code, exclusion_sentence(path, code)) for path, code in files)


def unparsed(files: tuple[tuple[str, str], ...]) -> tuple[p.ExcludedFile, ...]:
    """Files that no parser may have, from their paths and how their parsers ended."""
    return tuple(
        p.ExcludedFile(path, "quarantined", unparsed_sentence(path, detail))
        for path, detail in files
    )


def failure(failed: ParseFailure) -> dict[str, object]:
    """A file that is not, or not wholly, searched; of one that was skipped also why, and what to
    do.
    """
    reason = find_exclusion(failed.error_message).sentence if failed.status == "skipped" else ""
    return {**asdict(failed), "reason": reason}


def model_use(
    record: IndexRecord, following: IndexRecord | None, digest: str, configured: str | None
) -> w.ModelUse:
    """What an index was made by, `digest`, beside the digest of the configured embedder, None if
    that is not known.
    """
    made = dict(record.identity.embedder)
    return w.ModelUse(
        record.name,
        made.get("provider", ""),
        made.get("model", ""),
        record.dimension,
        digest,
        configured is None or configured == digest,
        following.identity.model if following else None,
    )


def refused_status(record: IndexRecord, reason: str, stored: Counts) -> p.IndexStatus:
    """An index that is not run."""
    return p.IndexStatus(
        record.name,
        os.fsdecode(record.root),
        record.topics,
        "refused",
        stored.files,
        stored.chunks,
        0,
        record.generation,
        None,
        reason,
        skipped=dict(stored.skipped),
    )


def files(
    page: tuple[w.FileEntry, ...], cursor: str | None, freshness: Freshness, *, several: bool
) -> w.ListFilesReply:
    """A page of files; clocks of several indexes have no common `as_of`."""
    return w.ListFilesReply(
        page,
        cursor,
        freshness.fresh,
        freshness.reason,
        None if several else as_of(freshness.as_of),
        freshness.pending,
    )


def stats(
    record: IndexRecord,
    found: IndexStatistics,
    failures: tuple[ParseFailure, ...],
    freshness: Freshness,
) -> p.StatsReply:
    """Counts of one index."""
    return p.StatsReply(
        index=record.name,
        root=os.fsdecode(record.root),
        files=found.files,
        chunks=found.chunks,
        symbols=found.symbols,
        size_bytes=found.size_bytes,
        languages={
            language: {"files": files, "chunks": chunks}
            for language, files, chunks in found.languages
        },
        parse_health=_health(found),
        skipped=dict(found.skipped),
        last_change=found.last_change.astimezone(UTC).isoformat() if found.last_change else None,
        embedder=dict(record.identity.embedder),
        generation=found.generation,
        failures=tuple(failure(each) for each in failures),
        fresh=freshness.fresh,
        stale_reason=freshness.reason,
        as_of=as_of(freshness.as_of),
        pending=freshness.pending,
    )


def _health(found: IndexStatistics) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for language, status, files in found.parse_health:
        table.setdefault(language, dict.fromkeys(("ok", "partial", "error", "no_grammar"), 0))[
            status
        ] = files
    return table


def search(
    request: p.SearchRequest,
    hits: tuple[Hit, ...],
    where: tuple[str, ...],
    freshness: Freshness,
    cache: Literal["miss", "exact", "semantic"],
    timings_ms: Mapping[str, float],
    notes: tuple[str, ...],
    explain: dict[str, object] | None,
) -> p.SearchReply:
    """An answer. One index gives `index`, several give `indexes`; clocks of several indexes have no
    common `as_of`.
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
    )


def without(reply: p.SearchReply, lacking: Mapping[str, str]) -> p.SearchReply:
    """An answer that was to be of every index and is not: what it lacks, each with what would
    help.
    """
    if not lacking:
        return reply
    notes = tuple(f"{what}: {hint}" for what, hint in lacking.items())
    return replace(
        reply,
        fresh=False,
        stale_reason=reply.stale_reason or "; ".join(lacking),
        notes=(*reply.notes, *notes),
    )
