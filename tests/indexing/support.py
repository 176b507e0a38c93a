"""A root, an index and an updater with its real indexer process, for tests that change files and
read the tables.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from cocosearchd.config.settings import EmbedderSettings, IndexingSettings
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.indexing.coordinator.updater import STALL_S, Updater
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.indexing.row_shape import index_identity
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose

WAIT_S = 120.0  # on a busy machine; most tests have a timeout that is shorter


@dataclass(frozen=True, slots=True)
class Change:
    """A batch, as a source gives it."""

    paths: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    force: bool = False
    urgent: bool = False


class Source:
    """Gives the changes that a test says, and keeps what fails until it is asked for again.

    The daemon's source decides from the disk what is dirty. Here the test decides, because what
    must hold for any batch cannot be shown with the batches that a working source would make.
    """

    def __init__(self) -> None:
        self.settled: list[tuple[Change, Mapping[str, str]]] = []
        self.aside: dict[str, str] = {}
        self._waiting: list[Change] = []
        self._under_way = 0
        self._moved = asyncio.Event()

    async def next_batch(self, limit: int = 64, *, edits: bool = False) -> Change:
        while (
            first := next((job for job in self._waiting if job.urgent or not edits), None)
        ) is None:
            await self._next_move()
        self._waiting.remove(first)
        if len(first.paths) > limit:
            self._waiting.insert(0, replace(first, paths=first.paths[limit:]))
            first = replace(first, paths=first.paths[:limit], gone=())
        self._under_way += 1
        return first

    def settle(self, batch: Change, failed: Mapping[str, str]) -> None:
        self.settled.append((batch, dict(failed)))
        self._under_way -= 1
        self._moved.set()

    def set_aside(self, path: str, error: str) -> None:
        self.aside[path] = error

    def give(self, change: Change) -> None:
        self._waiting.append(change)
        self._moved.set()

    @property
    def waiting(self) -> int:
        """Batches that nobody has asked for yet."""
        return len(self._waiting)

    async def overtake(self, change: Change) -> None:
        """Give something urgent: next, whatever waits. Returns when it is settled."""
        self._waiting.insert(0, change)
        self._moved.set()
        while not any(batch is change for batch, _ in self.settled):
            await self._next_move()

    async def idle(self, wait_s: float = WAIT_S) -> dict[str, str]:
        """Wait until all that was given is settled; what failed since the last call."""
        with anyio.fail_after(wait_s):
            while self._waiting or self._under_way:
                await self._next_move()
        failed = {path: error for _, part in self.settled for path, error in part.items()}
        self.settled.clear()
        return failed

    async def _next_move(self) -> None:
        self._moved.clear()
        await self._moved.wait()


@dataclass
class Bench:
    """One index over a directory of the test's own. `commits` are what the hook was told."""

    db: Database
    record: IndexRecord
    root: Path
    updater: Updater
    source: Source = field(default_factory=Source)
    commits: list[Commit] = field(default_factory=list)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for path, content in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())

    def remove(self, *paths: str) -> None:
        for path in paths:
            (self.root / os.fsdecode(path_bytes(path))).unlink()

    async def feed(
        self, *paths: str, gone: Sequence[str] = (), force: bool = False
    ) -> dict[str, str]:
        """Have the paths looked at; what failed."""
        self.source.give(Change(paths, tuple(gone), force))
        return await self.source.idle()

    async def feed_all(self) -> dict[str, str]:
        """Have every file looked at, and every stored path that is not there any more."""
        stored = {file.path for file in await index_records.file_records(self.db, self.record)}
        return await self.feed(*sorted(stored | set(every_path(self.root))))

    async def digest(self) -> tuple[int, str, str, str]:
        return await index_records.table_digest(self.db, self.record)

    async def row_versions(self) -> dict[tuple[str, str], str]:
        """Chunk -> the transaction that wrote its row; without retained ones."""
        async with self.db.connection() as connection:
            query = compose(
                "select filename, chunk_number::text, xmin::text from {chunks} where {live}",
                self.record,
            )
            rows = await (await connection.execute(query)).fetchall()
        return {(path, number): version for path, number, version in rows}

    async def stored(self) -> dict[str, int]:
        """Path -> number of chunks."""
        return {
            file.path: file.chunk_count
            for file in await index_records.file_records(self.db, self.record)
        }


def every_path(root: Path) -> list[str]:
    """The regular files below a root, as the index names them."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path_text(os.fsencode(path.relative_to(root))) for path in files)


async def new_record(
    db: Database,
    root: Path,
    name: str = "code",
    *,
    suffix: bytes = b"",
    embedder: EmbedderSettings | None = None,
    indexing: IndexingSettings | None = None,
) -> IndexRecord:
    """A new index as the daemon would make it. `suffix` writes the root another way: no two indexes
    have one root.
    """
    indexing = indexing or IndexingSettings()
    opened = await open_embedder(embedder or EmbedderSettings())
    identity = index_identity(opened.fingerprint.pairs(), indexing)
    await opened.aclose()
    return await index_records.create_index(
        db, name, os.fsencode(root) + suffix, (), opened.fingerprint.dimension, identity
    )


@asynccontextmanager
async def running(
    db: Database, record: IndexRecord, root: Path, spec: IndexerSpec, stall_s: float = STALL_S
) -> AsyncIterator[Bench]:
    """An updater with its child over one index, until the block ends."""
    commits: list[Commit] = []

    async def on_commit(commit: Commit) -> None:
        commits.append(commit)

    updater = Updater(spec, on_commit, stall_s=stall_s)
    bench = Bench(db, record, root, updater, commits=commits)
    await updater.add(record, bench.source)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        try:
            yield bench
        finally:
            tasks.cancel_scope.cancel()


async def fresh_digest(
    db: Database, root: Path, spec: IndexerSpec, state: Path
) -> tuple[int, str, str, str]:
    """Return the digest of a new index of the same files, made with its own CocoIndex memory."""
    record = await new_record(
        db, root, "fresh", suffix=b"/.", embedder=spec.embedder, indexing=spec.indexing
    )
    async with running(db, record, root, replace(spec, state_dir=str(state))) as bench:
        assert await bench.feed_all() == {}
        digest = await bench.digest()
    await index_records.drop_index(db, record)
    return digest
