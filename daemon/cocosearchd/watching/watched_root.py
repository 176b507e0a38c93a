"""A watched root of an index: `LiveRoot` with the store as what is known of its files."""

import asyncio
import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.exclusion import find_exclusion
from cocosearchd.model import FileRecord, IndexRecord, decode_path
from cocosearchd.runtime.deadlines import ends_within
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.watching.availability.availability import RootAvailability
from cocosearchd.watching.dirty_set import DirtyBatch
from cocosearchd.watching.ignore.missing_files import why_absent, why_left_out
from cocosearchd.watching.live_root import LiveRoot
from cocosearchd.watching.root_status import FailedPath, RootStatus
from cocosearchd.watching.root_threads import RootThreads

__all__ = ["DirtyBatch", "FailedPath", "RootStatus", "StoredFiles", "WatchedRoot", "is_there"]


class StoredFiles:
    """The files of one index as PostgreSQL has them: `live.KnownFiles`."""

    def __init__(self, db: Database, record: IndexRecord) -> None:
        self._db, self._record = db, record

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        """Of the files at and below a path. Raises `StoreUnavailable`."""
        return await index_records.file_records(self._db, self._record, under)

    async def damaged_files(self) -> Sequence[str]:
        """Paths whose chunk rows are not what was written. Raises `StoreUnavailable`."""
        return await index_records.damaged_files(self._db, self._record)

    async def devices(self) -> frozenset[int]:
        """What the files were on when they were read. Raises `StoreUnavailable`."""
        return await index_records.devices(self._db, self._record)


async def is_there(
    db: Database, record: IndexRecord, within_s: float, executor: Executor | None = None
) -> bool:
    """Whether the root of an index is there; a file system that does not say so in that time is
    not.
    """
    presence = RootAvailability(record.root, StoredFiles(db, record), RootThreads(executor))
    look = asyncio.ensure_future(presence.look())
    return await ends_within(look, within_s) and not isinstance(look.result(), str)


class WatchedRoot(LiveRoot):
    """One per index. `run` it in a supervised task; pull batches, settle them; ask it how fresh the
    index is.

    `sync_dir` is a directory of this root alone, outside of every root; it is made if it is
    missing.
    """

    def __init__(
        self,
        record: IndexRecord,
        db: Database,
        indexing: IndexingSettings,
        watching: WatchingSettings,
        sync_dir: Path,
        executor: Executor | None = None,
    ) -> None:
        super().__init__(
            record.root, StoredFiles(db, record), indexing, watching, sync_dir, executor
        )

    def failed(self) -> tuple[FailedPath, ...]:
        """Every file that could not be indexed yet, by path. Their number has no bound: `status`
        names some.
        """
        return self._dirty.failed(time.monotonic())

    async def absence(self, path: str) -> str:
        """Why a file is not in the index, for people. `path` is relative to the root."""
        failed = next((file.error for file in self.failed() if file.path == path), None)
        if failed is not None:
            return f"{find_exclusion('failed').cause}: {failed}"
        scope = self._survey.scope
        if scope is None:
            return self.freshness().reason or "the root has not been looked at yet"
        why = await self.threads.run(why_absent, scope, self._survey.indexing, decode_path(path))
        return why or f"it is to be indexed, and not yet: {self.freshness().reason}"

    async def left_out(self, path: str) -> str | None:
        """The rule by which a file of this path, saved or not, is not indexed; None if there is
        none, or not known.
        """
        scope = self._survey.scope
        if scope is None:
            return None
        return await self.threads.run(why_left_out, scope, self._survey.indexing, decode_path(path))

    @property
    def waits(self) -> bool:
        """Whether something has failed and is tried again when its time comes."""
        return self._scan_trouble is not None or self._dirty.retrying()

    def retry(self) -> None:
        """Its time has come: what it failed for is over."""
        self._dirty.retry_due(math.inf)
        self._again.set()
