"""A watched root over a real store: what PostgreSQL says of files is what the next start compares with the disk."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import numpy as np

from cocosearchd.model import Chunk, IndexRecord, ParseReport, decode_path
from cocosearchd.roots.marks import Batch
from cocosearchd.roots.watched import WatchedRoot
from cocosearchd.settings import IndexingSettings
from cocosearchd.store import records
from cocosearchd.store.pool import Database
from cocosearchd.store.queries import FileWrite, delete_file, replace_file
from tests.roots.support import QUICK, digest, fingerprint
from tests.store.support import DIMENSION, new_index, words_of


class Writer:
    """Writes one chunk for each file, as the indexing child would."""

    def __init__(self, db: Database, live: WatchedRoot, root: Path) -> None:
        self.db, self.live, self.root, self.batches = db, live, root, list[Batch]()

    async def follow(self, record: IndexRecord) -> None:
        while True:
            batch = await self.live.next_batch()
            self.batches.append(batch)
            for path in batch.paths:
                place = os.path.join(os.fsencode(self.root), decode_path(path))
                data, status = Path(os.fsdecode(place)).read_bytes(), os.stat(place)
                chunk = Chunk(0, len(data), 1, 1, data.decode(), path, "python")
                write = FileWrite(
                    path,
                    digest(data),
                    fingerprint(status),
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
    live = WatchedRoot(record, db, IndexingSettings(), QUICK, sync_dir)
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
        assert {file.path for file in await records.file_records(db, record)} == {
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
        done = {(path, batch.force) for batch in writer.batches for path in (*batch.paths, *batch.gone)}
        assert done == {("a.py", False), ("sub/c.py", False), ("b.py", True)}
        assert [file.path for file in await records.file_records(db, record)] == ["a.py", "b.py", "odd\\xff\n.py"]
        assert await records.damaged_files(db, record) == ()
