"""Progress and status of an index for front ends, and the warning about outdated chunks."""

import asyncio
import contextlib
import shlex
from dataclasses import replace

from cocosearch_ipc import protocol as p
from cocosearchd.api import replies
from cocosearchd.api.row_summaries import STATUS_S, RowSummaries
from cocosearchd.errors import CocoSearchError, NotFound, StoreUnavailable
from cocosearchd.exclusion import empty_index_sentence
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.runtime.deadlines import call_within, ends_within
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database


class IndexReports:
    """Reads the state of indexes. Without PostgreSQL it reports what the daemon itself knows."""

    def __init__(self, db: Database, updater: Updater) -> None:
        self._db = db
        self._updater = updater
        self._summaries = RowSummaries(db)

    async def progress(self, index: RunningIndex) -> p.IndexProgress:
        """Return the progress of an index, or of its replacement while that is being filled."""
        filling = index.replacement or index
        error = filling.error  # read once: a retry clears it while the counts are awaited
        counts = await self._counts(filling)
        if error is not None:
            return replies.refused_progress(index.record, error_text(error), counts)
        status = filling.root.status()
        if status.pending and not status.reason:
            status = replace(status, reason=self._updater.status.paused)
        record = replace(filling.record, name=index.record.name)
        warnings = await self._explain_empty(filling, counts)
        return replace(replies.progress(record, status, counts), notes=warnings)

    async def status(self, index: RunningIndex) -> p.IndexStatus:
        """Return the status of an index for `list` and `status`, with its owner if it is followed."""
        try:
            status = await self._status(index)
        except NotFound as error:  # the owner of a followed index cleared it a moment ago
            missing = index_records.Counts(-1, -1)
            reason = error_text(index.error or error)
            status = replies.refused_status(index.record, reason, missing)
        return replace(status, root=index.root_text, schema=index.record.schema, host=index.host)

    async def _status(self, index: RunningIndex) -> p.IndexStatus:
        """Return the status of the root and the rows, with warnings and samples of excluded files."""
        error = index.error  # read once: a retry clears it while the counts are awaited
        if error is not None:
            counts = await self._counts(index)
            return replies.refused_status(index.record, error_text(error), counts)
        summary = await self._summaries.read(index)
        warnings = (
            *await self._explain_empty(index, summary.counts),
            *index.lexical.reduced.warnings(),
            *await self.outdated_warning(index),
        )
        return replace(
            replies.index_status(index.record, index.root.status(), summary.counts),
            excluded=replies.excluded(summary.excluded),
            unparsed=replies.unparsed(summary.unparsed),
            notes=(*index.warnings, *warnings),
            linked=index.settings.project.linked_indexes,
            precise_files=summary.precise.files,
            changed_precise_files=summary.precise.changed,
        )

    async def empty_warning(self, index: RunningIndex) -> tuple[str, ...]:
        """Return a warning if no file of an index is searchable, with the reason and the remedy."""
        if index.lexical.sizes()["files"]:
            return ()
        return await self._explain_empty(index, await self._counts(index))

    async def _explain_empty(
        self, index: RunningIndex, counts: index_records.Counts
    ) -> tuple[str, ...]:
        status = index.root.status()
        if counts.files or status.pending or status.state not in p.SCANNED_STATES:
            return ()
        counting = asyncio.ensure_future(index.root.exclusions.left_out_files())
        if not await ends_within(counting, STATUS_S):
            return ()
        left_out = counting.result()
        if left_out is None:
            return ()
        files_by_code: dict[str, int] = {**left_out.counts, **dict(counts.skipped)}
        return (empty_index_sentence(files_by_code, is_complete=left_out.is_complete),)

    async def outdated_warning(self, index: RunningIndex) -> tuple[str, ...]:
        """Return a warning while an index has chunks from before the newest columns existed.

        These chunks are counted again on each call until none is left.
        """
        if index.outdated_chunks:
            with contextlib.suppress(StoreUnavailable):
                index.outdated_chunks = await call_within(
                    index_records.count_outdated_chunks(self._db, index.record), STATUS_S
                )
        if not index.outdated_chunks:
            return ()
        name = index.record.name
        warning = (
            f"{index.outdated_chunks:,} chunks of {name} are of an older version, which knew one symbol "
            f"of each: sym: and name: may miss some; cocosearchctl reindex {shlex.quote(name)} fixes that"
        )
        return (warning,)

    async def _counts(self, index: RunningIndex) -> index_records.Counts:
        """Return the numbers of stored files and chunks; both are -1 while PostgreSQL is away."""
        try:
            return await call_within(index_records.counts(self._db, index.record), STATUS_S)
        except StoreUnavailable:
            return index_records.Counts(-1, -1)


def error_text(error: CocoSearchError) -> str:
    """Return one sentence: the error and its hint."""
    return f"{error.message}: {error.hint}"
