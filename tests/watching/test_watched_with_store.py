"""A watched root over a real store: the stored files are what the next start compares with the
disk.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import psycopg
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.model import Chunk, FileRecord, Fingerprint, IndexRecord, ParseReport
from cocosearchd.store import index_records
from cocosearchd.store.chunks.file_writer import delete_file, replace_file
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from cocosearchd.watching.dirty_records import DirtyBatch
from cocosearchd.watching.stored_files import StoredFiles
from cocosearchd.watching.watched_root import WatchedRoot
from tests.store.support import DIMENSION, new_index, words_of
from tests.watching.support import QUICK, digest


class Writer:
    """Writes one chunk for each file, as the indexing child would."""

    def __init__(self, db: Database, live: WatchedRoot, root: Path) -> None:
        self.db, self.live, self.root, self.batches = db, live, root, list[DirtyBatch]()

    async def follow(self, record: IndexRecord) -> None:
        while True:
            batch = await self.live.next_batch()
            self.batches.append(batch)
            for path in batch.paths:
                full_path = os.path.join(os.fsencode(self.root), path_bytes(path))
                data, status = Path(os.fsdecode(full_path)).read_bytes(), os.stat(full_path)
                chunk = Chunk(0, len(data), 1, 1, data.decode(), path, "python")
                write = FileWrite(
                    path,
                    digest(data),
                    Fingerprint.from_status(status),
                    "python",
                    (chunk,),
                    np.zeros((1, DIMENSION), np.float32),
                    ParseReport("ok"),
                    keywords=words_of,
                )
                await replace_file(self.db, record, write)
            for path in batch.gone:
                await delete_file(self.db, record, path)
            self.live.settle(batch, {})


@contextlib.asynccontextmanager
async def written(
    db: Database, record: IndexRecord, root: Path, sync_dir: Path
) -> AsyncIterator[tuple[WatchedRoot, Writer]]:
    live = WatchedRoot(record.root, StoredFiles(db, record), IndexingSettings(), QUICK, sync_dir)
    writer = Writer(db, live, root)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live.run)
        tasks.start_soon(writer.follow, record)
        yield live, writer
        tasks.cancel_scope.cancel()


async def test_a_restart_does_what_is_needed_and_no_more(db: Database, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    odd = os.fsdecode(b"odd\xff\n.py")
    for name in ("a.py", "b.py", "sub/c.py", odd):
        (root / name).write_text("x = 1\n")
    record = await new_index(db, root=os.fsencode(root))
    async with written(db, record, root, tmp_path / "sync") as (live, _):
        assert (await live.sync(10)).fresh
        assert {file.path for file in await index_records.file_records(db, record)} == {
            "a.py",
            "b.py",
            "sub/c.py",
            "odd\\xff\n.py",
        }
    (root / "a.py").write_text("y = 2\n")
    (root / "sub" / "c.py").unlink()
    async with db.connection() as connection:
        await connection.execute("delete from codeindex_code__code_chunks where filename = 'b.py'")
    await asyncio.sleep(2.1)  # the racy time
    async with written(db, record, root, tmp_path / "sync") as (live, writer):
        assert (await live.sync(10)).fresh
        done = {
            (path, batch.force) for batch in writer.batches for path in (*batch.paths, *batch.gone)
        }
        assert done == {("a.py", False), ("sub/c.py", False), ("b.py", True)}
        assert [file.path for file in await index_records.file_records(db, record)] == [
            "a.py",
            "b.py",
            "odd\\xff\n.py",
        ]
        assert await index_records.damaged_files(db, record) == ()


async def test_files_with_the_time_of_any_year_are_read_once(db: Database, tmp_path: Path) -> None:
    """An archive may set any time: nanoseconds since 1970 exceed 64 bits from the year 2262 on."""
    root = tmp_path / "root"
    root.mkdir()
    for year in (1902, 2261, 2263, 2400):
        (root / f"of{year}.py").write_text("x = 1\n")
        seconds = (year - 1970) * 31_556_952
        os.utime(root / f"of{year}.py", (seconds, seconds))
    record = await new_index(db, root=os.fsencode(root))
    async with written(db, record, root, tmp_path / "sync") as (live, _):
        assert (await live.sync(10)).fresh
        assert len(await index_records.file_records(db, record)) == 4
    await asyncio.sleep(2.1)  # the racy time
    async with written(db, record, root, tmp_path / "sync") as (live, writer):
        assert (await live.sync(10)).fresh
        assert writer.batches == []
        os.utime(root / "of2400.py", (0, 0))
        assert (await live.sync(10)).fresh
        assert [batch.paths for batch in writer.batches] == [("of2400.py",)]


@pytest.mark.parametrize("is_invalid", [False, True])
async def test_a_root_that_is_not_mounted_keeps_its_rows_over_a_restart(
    db: Database, dsn: str, tmp_path: Path, is_invalid: bool
) -> None:
    """Stored files are of another device, like those of a disk that is not mounted yet.

    Other settings may have had all files be read again, and the disk went before that.
    """
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    record = await new_index(db, root=os.fsencode(root))
    async with written(db, record, root, tmp_path / "sync") as (live, _):
        assert (await live.sync(10)).fresh
    device = root.stat().st_dev
    assert await index_records.devices(db, record) == {device}
    device_bytes = (device + 1).to_bytes(8)
    with psycopg.connect(dsn, autocommit=True) as connection:
        (table,) = connection.execute(
            "select tablename from pg_tables where tablename like %s", ["%%_files"]
        ).fetchall()
        change = psycopg.sql.SQL("update {} set fingerprint = %s || substring(fingerprint from 9)")
        connection.execute(change.format(psycopg.sql.Identifier(table[0])), [device_bytes])
    (root / "a.py").unlink()
    if is_invalid:
        everything = AffectedFiles(everything=True)
        record, _ = await invalidate(db, record, record.identity, {"x": "1"}, everything)
    async with written(db, record, root, tmp_path / "sync") as (live, _):
        answer = await live.sync(10)
        assert not answer.fresh
        assert "on another file system" in (answer.reason or "")
        assert live.status().state == "root_missing"
        assert [file.path for file in await index_records.file_records(db, record)] == ["a.py"]
        (root / "b.py").write_text("x = 2\n")
        assert (await live.sync(10)).fresh
        assert [file.path for file in await index_records.file_records(db, record)] == ["b.py"]


async def test_retries_start_at_once_when_the_store_is_back(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store was away, and the next try would be in an hour."""
    root = tmp_path / "root"
    root.mkdir()
    record = await new_index(db, root=os.fsencode(root))
    read, away = StoredFiles.file_records, True

    async def records_of(self: StoredFiles, under: str = "") -> Sequence[FileRecord]:
        if away:
            raise StoreUnavailable("PostgreSQL does not answer")
        return await read(self, under)

    monkeypatch.setattr(StoredFiles, "file_records", records_of)
    slow = replace(QUICK, retry_base_s=3600.0, retry_max_s=3600.0)
    live = WatchedRoot(
        record.root, StoredFiles(db, record), IndexingSettings(), slow, tmp_path / "sync"
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live.run)
        answer = await live.sync(1)
        assert (answer.fresh, answer.reason, live.has_retries()) == (
            False,
            "PostgreSQL does not answer",
            True,
        )
        away = False
        live.retry()
        assert (await live.sync(10)).fresh
        (root / "a.py").write_text("x = 1\n")
        batch = await live.next_batch()
        live.settle(batch, {"a.py": "PostgreSQL went away"})
        assert live.has_retries()
        late = live.freshness()
        assert "a.py: PostgreSQL went away" in (late.reason or "")
        live.retry()
        with anyio.fail_after(60):
            assert (await live.next_batch()).paths == ("a.py",)
        tasks.cancel_scope.cancel()
