"""The stored files of one index in PostgreSQL, and whether its root is available."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor

from cocosearchd.freshness import StaleReason
from cocosearchd.model import FileRecord, IndexRecord
from cocosearchd.runtime.deadlines import ends_within
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.watching.availability.availability import RootAvailability
from cocosearchd.watching.root_threads import RootThreads


class StoredFiles:
    """The files of one index as PostgreSQL has them: `scan_coordinator.KnownFiles`."""

    def __init__(self, db: Database, record: IndexRecord) -> None:
        self._db = db
        self._record = record

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        """Return the files at and below a path. Raises `StoreUnavailable`."""
        return await index_records.file_records(self._db, self._record, under)

    async def damaged_files(self) -> Sequence[str]:
        """Return the paths whose chunk rows differ from what was written. Raises `StoreUnavailable`."""
        return await index_records.damaged_files(self._db, self._record)

    async def devices(self) -> frozenset[int]:
        """Return the devices that the files were read from. Raises `StoreUnavailable`."""
        return await index_records.devices(self._db, self._record)


async def root_available(
    db: Database, record: IndexRecord, within_s: float, executor: Executor | None
) -> bool:
    """Return whether the root of an index is available.

    A file system that does not answer within `within_s` is not.
    """
    availability = RootAvailability(record.root, StoredFiles(db, record), RootThreads(executor))
    check = asyncio.ensure_future(availability.check())
    return await ends_within(check, within_s) and not isinstance(check.result(), StaleReason)
