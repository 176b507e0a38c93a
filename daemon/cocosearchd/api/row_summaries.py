"""Keeps the summary of the rows of each index, so that `status` of many indexes asks no database."""

import asyncio
import math
import time

from cocosearchd.errors import StoreUnavailable
from cocosearchd.exclusion import EXCLUSIONS
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.pool.quarantine import NOT_PARSED
from cocosearchd.runtime.deadlines import call_within
from cocosearchd.store.connection.database import Database
from cocosearchd.store.row_summary import RowSummary, read_row_summary

EXCLUDED_REPORTED = 20  # files of each kind in a reply; the command line prints fewer
STATUS_S = 2.0  # short: people ask for `status` when something hangs
# Indexes that are read at a time. The time of a read begins with it: of 1,000 reads at once, the last
# would wait for the others and be taken for one that PostgreSQL does not answer.
READ_TOGETHER = 4


class RowSummaries:
    """Reads summaries, and reads one again only after a commit or an import. For one event loop."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._turns = asyncio.Semaphore(READ_TOGETHER)
        self._failures = 0  # in a row
        self._failed_at = -math.inf

    async def read(self, index: RunningIndex) -> RowSummary:
        """Return the summary of an index; its counts are -1 while PostgreSQL is away."""
        if (summary := index.row_summary) is not None:
            return summary
        began = time.monotonic()
        async with self._turns:
            if self._failures >= READ_TOGETHER and self._failed_at >= began:
                return RowSummary()  # it would wait as long for the same failure
            try:
                summary = await call_within(self._read(index), STATUS_S)
            except StoreUnavailable:
                self._failures += 1
                self._failed_at = time.monotonic()
                return RowSummary()
            self._failures = 0
            return summary

    async def _read(self, index: RunningIndex) -> RowSummary:
        moment = index.rows_moment
        summary = await read_row_summary(
            self._db, index.record, tuple(EXCLUSIONS), NOT_PARSED, EXCLUDED_REPORTED
        )
        index.keep_row_summary(summary, moment)
        return summary
