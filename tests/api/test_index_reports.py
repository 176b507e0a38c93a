"""Status and progress of an index that is started again while its state is read."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from cocosearchd.api.index_reports import IndexReports
from cocosearchd.errors import NotStarted, StoreUnavailable
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Connection, Database, LivenessCheck

pytestmark = pytest.mark.anyio


def failed_index() -> RunningIndex:
    record = IndexRecord(1, "shop", "shop", b"/shop", (), 8, IndexIdentity((), "", 0), 0)
    error = NotStarted("shop could not be started", "the daemon tries it again")
    values = {
        "record": record,
        "error": error,
        "replacement": None,
        "row_summary": None,
        "rows_moment": (),
    }
    return cast(RunningIndex, SimpleNamespace(**values, root_text="/shop", host=""))


class StartsMeanwhile(Database):
    """A database whose use takes until a retry of the start has succeeded.

    A double: with a real one the moment between two reads cannot be chosen.
    """

    def __init__(self, index: RunningIndex) -> None:
        self._liveness = LivenessCheck()
        self._index = index

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        self._index.error = None
        raise StoreUnavailable("the counts do not matter here")
        yield  # type: ignore[unreachable] # which makes it what it is


async def test_an_index_that_starts_meanwhile_is_reported_as_it_was() -> None:
    for method in ("status", "progress"):
        index = failed_index()
        reports = IndexReports(StartsMeanwhile(index), cast(Updater, None))
        reply = await getattr(reports, method)(index)
        assert index.error is None, "the retry has to come while the report is made"
        assert reply.state == "refused"
        assert reply.reason == "shop could not be started: the daemon tries it again"


async def test_a_status_that_is_cancelled_at_once_leaves_no_warning_in_the_log() -> None:
    """The warning is of a coroutine that was never awaited; here it would be an error."""
    index = failed_index()
    index.error = None
    reports = IndexReports(StartsMeanwhile(index), cast(Updater, None))
    status = asyncio.create_task(reports.status(index))
    await asyncio.sleep(0)  # its calls to PostgreSQL are made, and have not begun
    status.cancel()
    with pytest.raises(asyncio.CancelledError):
        await status
    del status
    gc.collect()
