"""Watching and indexing together: a watched root as the source, real hints, the real indexer
process.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.model import RACY_NS, Commit, IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.watching.stored_files import StoredFiles
from cocosearchd.watching.watched_root import WatchedRoot
from tests.indexing.conftest import python
from tests.indexing.support import every_path, fresh_digest, new_record

pytestmark = pytest.mark.anyio

SYNC_S = 20.0


@asynccontextmanager
async def watching(
    db: Database, record: IndexRecord, spec: IndexerSpec, sync_dir: Path
) -> AsyncIterator[tuple[WatchedRoot, list[Commit]]]:
    """A root that is watched and kept, once it is as on disk; and the commits."""
    commits: list[Commit] = []

    async def on_commit(commit: Commit) -> None:
        commits.append(commit)

    watched = WatchedRoot(
        record.root, StoredFiles(db, record), IndexingSettings(), WatchingSettings(), sync_dir
    )
    updater = Updater(spec, on_commit)
    await updater.add(record, watched)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        tasks.start_soon(watched.run)
        await fresh(watched)
        try:
            yield watched, commits
        finally:
            tasks.cancel_scope.cancel()


async def fresh(watched: WatchedRoot) -> None:
    freshness = await watched.sync(SYNC_S)
    assert freshness.fresh, freshness


async def test_saved_files_are_in_the_index_after_a_sync(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    record = await new_record(db, root)
    async with watching(db, record, spec, tmp_path / "sync") as (watched, _):
        assert {file.path for file in await index_records.file_records(db, record)} == set(
            every_path(root)
        )
        (root / "lib/retry.py").write_text(python("changed", 5))
        (root / "src/parser.py").unlink()
        (root / "lib/cache.py").rename(root / "src/moved.py")
        await fresh(watched)
        assert {file.path for file in await index_records.file_records(db, record)} == set(
            every_path(root)
        )
        digest = await index_records.table_digest(db, record)
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")


async def test_a_restart_without_changes_sends_no_file_to_the_indexer(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    record = await new_record(db, root)
    # what is read when it is younger is read again, however it looks
    await anyio.sleep(RACY_NS / 1e9 + 0.1)
    async with watching(db, record, spec, tmp_path / "sync") as (_, commits):
        assert commits
    async with watching(db, record, spec, tmp_path / "sync") as (_, commits):
        assert not commits
