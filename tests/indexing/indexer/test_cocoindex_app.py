"""A live run of CocoIndex that ends by itself costs its index at most the batch in flight."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.indexing.indexer.cocoindex_app import BatchOutcome, IndexApp
from cocosearchd.indexing.indexer.index_file import FileTools
from cocosearchd.indexing.indexer.indexer import LiveRunEnded, OpenIndex
from cocosearchd.indexing.indexer.row_target import FileTarget, WantedFile
from cocosearchd.indexing.indexer.set_aside import SetAside
from cocosearchd.indexing.indexer_messages import IndexRules
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pool.bulk_pool import BulkPool
from cocosearchd.model import IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.chunks import file_writer
from cocosearchd.store.connection.database import Database
from tests.indexing.parsing import RULES, ParserHere, open_caches
from tests.indexing.support import new_record

pytestmark = pytest.mark.anyio


async def wait_for_ever() -> BatchOutcome:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.fixture
async def record(db: Database, root: Path) -> IndexRecord:
    return await new_record(db, root)


@pytest.fixture
async def open_app(
    db: Database, record: IndexRecord, target: FileTarget, tmp_path: Path
) -> AsyncIterator[Callable[[], Awaitable[IndexApp]]]:
    """Open the app of the index, as the indexer process does."""
    embedder = await open_embedder(EmbedderSettings())

    async def open_one() -> IndexApp:
        caches = open_caches()
        tools = FileTools(
            rules=RULES,
            embedder=embedder,
            target=target,
            guard=lambda path: None,
            keys=caches.keys,
            manifests=caches.manifests,
            counters=caches.counters,
            parser=ParserHere(RULES.limits),
            bulk_pool=BulkPool(0, ""),
            set_aside=SetAside(tmp_path, ""),
        )
        return await IndexApp.open(record, db, tools, tmp_path / "memory", 16)

    yield open_one
    await embedder.aclose()


@pytest.mark.parametrize("error", [None, OSError("MDB_PANIC")])
async def test_a_live_run_that_ended_is_begun_again(
    db: Database,
    record: IndexRecord,
    open_app: Callable[[], Awaitable[IndexApp]],
    error: OSError | None,
) -> None:
    async def end(app: IndexApp, live_run: asyncio.Task[Any]) -> None:
        app._feed.stop()
        await live_run
        if error is not None:
            raise error

    index = OpenIndex(record, IndexRules())
    app = await open_app()
    # Its file on disk may fail at any time; CocoIndex is not known to do so on purpose.
    assert app._run is not None
    app._run = asyncio.ensure_future(end(app, app._run))
    index.start(app)
    batches = [asyncio.ensure_future(wait_for_ever()) for _ in range(2)]
    with anyio.fail_after(60):
        outcomes = await asyncio.gather(*map(index.unless_ended, batches), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LiveRunEnded] * 2
    assert all(str(outcome).endswith(str(error or "by itself")) for outcome in outcomes)
    index.start(await open_app())
    assert index.app is not None
    outcome = await index.app.process(["README.md"], [], force=False, urgent=True)
    assert outcome.failed == {}
    await index.close()
    assert [file.path for file in await index_records.file_records(db, record)] == ["README.md"]


async def test_an_app_that_is_being_opened_is_closed_too(
    record: IndexRecord, open_app: Callable[[], Awaitable[IndexApp]]
) -> None:
    """CocoIndex opens its folder once a program: the index could not be opened again."""
    index = OpenIndex(record, IndexRules())
    async with index.opening:
        closed = asyncio.ensure_future(index.close())
        await asyncio.sleep(0)
        index.start(await open_app())
    with anyio.fail_after(60):
        await closed
    assert index.app is None
    app = await open_app()
    await app.close()


async def test_only_files_that_a_batch_did_not_write_are_compared(
    db: Database,
    record: IndexRecord,
    root: Path,
    open_app: Callable[[], Awaitable[IndexApp]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The commit of a file proves more than a comparison after it, which costs a save 3 ms."""
    compared = list[list[str]]()
    refresh = file_writer.refresh_fingerprints

    async def record_comparison(*args: Any) -> frozenset[str]:
        compared.append([path for path, _, _ in args[2]])
        return await refresh(*args)

    async def process(*paths: str, gone: tuple[str, ...] = ()) -> int:
        outcome = await app.process(paths, gone, force=False, urgent=True)
        assert outcome.failed == {}
        return outcome.generation

    monkeypatch.setattr(file_writer, "refresh_fingerprints", record_comparison)
    app = await open_app()
    first = await process("README.md")
    assert first == await index_records.read_generation(db, record)
    assert compared == []
    (root / "lib/retry.py").write_text("def changed() -> None: ...\n")
    assert await process("README.md", "lib/retry.py") == first + 1
    assert compared == [["README.md"]]
    assert await process(gone=("lib/retry.py",)) == first + 2
    assert await process(gone=("lib/retry.py",)) == first + 2
    assert await process("README.md") == first + 2
    assert compared == [["README.md"]] * 2
    await file_writer.delete_file(db, record, "README.md")
    assert await process("README.md") == first + 4
    assert compared == [["README.md"]] * 4, "what was missing is compared again"
    await app.close()


async def test_a_file_that_a_late_write_brings_back_is_deleted(
    db: Database,
    record: IndexRecord,
    root: Path,
    target: FileTarget,
    open_app: Callable[[], Awaitable[IndexApp]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CocoIndex may still call the sink of a batch whose caller was cancelled."""
    app = await open_app()
    number = record.number
    await app.process(["README.md"], [], force=False, urgent=True)
    (reading,) = await app._read(["README.md"], 0, urgent=True)
    assert isinstance(reading, SourceFile)
    late = WantedFile(reading, (b"", 0, b""))
    delete = app._feed.apply

    async def delete_and_write(*args: Any) -> dict[str, BaseException]:
        failed = await delete(*args)
        await target.apply(number, "README.md", late)
        return failed

    monkeypatch.setattr(app._feed, "apply", delete_and_write)
    outcome = await app.process([], ["README.md"], force=False, urgent=True)
    assert outcome.failed == {}
    assert await index_records.file_records(db, record) == ()
    assert outcome.generation == await index_records.read_generation(db, record)
    await app.close()
