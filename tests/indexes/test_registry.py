"""Changes of the registry that fail half way: each index goes on, or starts again by itself."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from cocosearchd.config.layers import load_settings
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import CocoSearchError
from cocosearchd.indexes import registry as registry_module
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.store import index_roles
from cocosearchd.store.connection.database import Database
from tests.indexing.support import Source, new_record

pytestmark = pytest.mark.anyio


@dataclass
class Bench:
    """A registry whose updater has no indexer process: roots are watched, no file is indexed."""

    db: Database
    updater: Updater
    indexes: IndexRegistry
    home: Path

    def make_root(self, name: str) -> Path:
        """Make the directory of an index, with one file."""
        root = self.home / name
        root.mkdir()
        (root / "a.py").write_text("def quokka():\n    return 1\n")
        return root

    async def make_switched(self, name: str) -> tuple[IndexRecord, IndexRecord]:
        """Store an index, and the one that is to replace it."""
        record = await new_record(self.db, self.make_root(name), name)
        identity = replace(record.identity, header_version=77)
        return record, await index_roles.ensure_next_index(
            self.db, record, record.dimension, identity
        )

    async def add(self, name: str) -> None:
        await self.indexes.add(os.fsencode(self.home / name), name, ())

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(20):
            while not condition():  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.01)


@pytest.fixture
async def bench(
    db: Database, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    for name in ("FIRST_PAUSE_S", "LAST_PAUSE_S", "REPLACEMENT_POLL_S"):
        monkeypatch.setattr(registry_module, name, 0.02)
    async with running(db, dsn, tmp_path) as bench:
        yield bench


@asynccontextmanager
async def running(db: Database, dsn: str, tmp_path: Path) -> AsyncIterator[Bench]:
    loaded = load_settings(None, {})
    embedder = LazyEmbedder(partial(open_embedder, loaded.settings.embedder, ""))
    await embedder.open()

    async def on_commit(commit: Commit) -> None:
        await indexes.committed(commit)

    state = tmp_path / "state"
    updater = Updater(IndexerSpec(dsn, str(state)), on_commit)
    async with anyio.create_task_group() as tasks:
        indexes = IndexRegistry(db, updater, embedder, loaded, state, tasks)
        try:
            yield Bench(db, updater, indexes, tmp_path)
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await embedder.aclose()
                await indexes.analyser.pool.aclose()


def fail_once(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, is_chosen: Callable[..., bool]
) -> None:
    """Let the first chosen call of a function fail before it does anything."""
    function: Callable[..., Any] = getattr(owner, name)
    failures = iter([CocoSearchError("the database took too long")])

    async def fail_or_run(*args: Any, **kwargs: Any) -> Any:
        if is_chosen(*args) and (error := next(failures, None)) is not None:
            raise error
        return await function(*args, **kwargs)

    monkeypatch.setattr(owner, name, fail_or_run)


def supervised() -> Counter[str]:
    """Count the supervised tasks, which end with the index that they belong to."""
    return Counter(
        name
        for task in asyncio.all_tasks()
        if (name := task.get_name()).endswith(("supervise", "_run"))
    )


async def test_an_index_runs_on_while_the_start_of_its_replacement_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, following = await bench.make_switched("shop")
    fail_once(
        monkeypatch,
        bench.indexes.config,
        "begin",
        lambda record, *_: record.number == following.number,
    )
    await bench.indexes.start_all()
    index = bench.indexes.lookup.get("shop")
    assert (index.error, index.replacement) == (None, None)
    await bench.until(lambda: index.replacement is not None)
    assert bench.indexes.lookup.get("shop") is index
    assert index.replacement is not None
    assert index.replacement.record.number == following.number
    tasks = supervised()
    await anyio.sleep(0.2)  # ten times as long as until the next try
    assert supervised() == tasks


async def test_a_start_that_fails_leaves_no_task(bench: Bench) -> None:
    record = await new_record(bench.db, bench.make_root("shop"), "shop")
    await bench.updater.add(record, Source())  # so that the start fails at its last step
    tasks = supervised()
    await bench.indexes.start_all()
    await anyio.sleep(0.2)  # ten tries
    tasks_after_tries = supervised()
    assert bench.indexes.lookup.get("shop").error is not None
    assert tasks_after_tries == tasks
    await bench.updater.remove("shop")
    await bench.until(lambda: bench.indexes.lookup.get("shop").error is None)
