"""Changes of the registry that fail half way: each index goes on, or starts again by itself."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cocosearchd.config.layers import load_settings
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import CocoSearchError, IdentityMismatch, NotStarted, StoreUnavailable
from cocosearchd.indexes import config_sync
from cocosearchd.indexes import registry as registry_module
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer_messages import IndexerSpec, IndexRules
from cocosearchd.indexing.row_shape import collect_shaping_settings, index_identity
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime import supervise as supervise_module
from cocosearchd.store import index_records, index_roles
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.migrate import schema_change
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from tests.indexing.support import Source, new_record
from tests.store.support import file_write

pytestmark = pytest.mark.anyio


@dataclass
class Bench:
    """A registry whose updater has no indexer process: roots are watched, no file is indexed."""

    db: Database
    updater: Updater
    indexes: IndexRegistry
    embedder: LazyEmbedder
    home: Path

    def make_root(self, name: str) -> Path:
        """Make the directory of an index, with one file."""
        root = self.home / name
        root.mkdir()
        (root / "a.py").write_text("def quokka():\n    return 1\n")
        return root

    async def make_switched(self, name: str) -> tuple[IndexRecord, IndexRecord]:
        """Store an index of another embedder, and the one that is to replace it."""
        fingerprint = self.embedder.fingerprint
        identity = index_identity(fingerprint.pairs(), IndexingSettings())
        pairs = dict(identity.embedder) | {"model": "former"}
        former = replace(identity, embedder=tuple(sorted(pairs.items())))
        record = await index_records.create_index(
            self.db, name, os.fsencode(self.make_root(name)), (), fingerprint.dimension, former
        )
        return record, await index_roles.ensure_next_index(
            self.db, record, record.dimension, identity
        )

    async def add(self, name: str) -> None:
        await self.indexes.add(os.fsencode(self.home / name), name, ())

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
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
            yield Bench(db, updater, indexes, embedder, tmp_path)
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await embedder.aclose()
                await indexes.analyser.pool.aclose()


def fail_first(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    is_chosen: Callable[..., bool],
    calls: int = 1,
) -> None:
    """Let the first chosen calls of a function fail before they do anything."""
    function: Callable[..., Any] = getattr(owner, name)
    failures = iter([CocoSearchError("the database took too long")] * calls)

    async def fail_or_run(*args: Any, **kwargs: Any) -> Any:
        if is_chosen(*args) and (error := next(failures, None)) is not None:
            raise error
        return await function(*args, **kwargs)

    monkeypatch.setattr(owner, name, fail_or_run)


def lose_answer(
    monkeypatch: pytest.MonkeyPatch, *, calls: int = 1, is_away: bool = True
) -> list[str]:
    """Let PostgreSQL go away after the commit of the next schema changes, before it answers.

    While it is away, the registry cannot be read either. Returns a list that is to get an item when
    it is back.
    """
    back = list[str]()
    remaining = iter(range(calls))

    @asynccontextmanager
    async def change_and_lose(db: Database, *args: Any, **kwargs: Any) -> AsyncIterator[Connection]:
        async with schema_change(db, *args, **kwargs) as connection:
            yield connection
        if next(remaining, None) is not None:
            raise StoreUnavailable("PostgreSQL went away")

    def refuse_while_away(function: Callable[..., Any]) -> Callable[..., Any]:
        async def read(*args: Any) -> Any:
            if is_away and not back:
                raise StoreUnavailable("PostgreSQL went away")
            return await function(*args)

        return read

    for module in (index_records, index_roles):
        monkeypatch.setattr(module, "schema_change", change_and_lose)
    for name in ("index_numbers", "list_indexes"):
        function = getattr(index_records, name)
        monkeypatch.setattr(index_records, name, refuse_while_away(function))
    return back


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
    fail_first(
        monkeypatch,
        bench.indexes.config,
        "apply_before_start",
        lambda record, *_: record.number == following.number,
        calls=2,
    )
    monkeypatch.setattr(supervise_module, "FIRST_PAUSE_S", 2.0)  # a busy machine looks before
    await bench.indexes.start_all()
    index = bench.indexes.lookup.get("shop")
    await bench.indexes.recheck()
    assert (index.error, index.replacement) == (None, None)
    await bench.until(lambda: index.replacement is not None)
    assert bench.indexes.lookup.get("shop") is index
    assert index.replacement is not None
    assert (index.error, index.replacement.record.number) == (None, following.number)
    await anyio.sleep(0.2)  # ten times as long as until the next try
    assert supervised()["cocosearchd.indexes.registry.IndexRegistry._run"] == 2


async def test_all_indexes_share_the_limit_of_catch_ups(bench: Bench) -> None:
    names = ("first", "second")
    for name in names:
        bench.make_root(name)
        await bench.add(name)
    first, second = (bench.indexes.lexical_of(name) for name in names)
    assert first is not None
    assert second is not None
    assert first._limiter is second._limiter


async def test_each_step_of_a_start_is_reported(bench: Bench) -> None:
    """A manager that hears nothing would end the start of many indexes, and begin it again."""
    for name in ("shop", "store"):
        await new_record(bench.db, bench.make_root(name), name)
    steps = list[str]()
    await bench.indexes.start_all(steps.append)
    assert steps == ["starting index 1 of 2", "starting index 2 of 2"]


async def test_a_stop_ends_the_start_of_many_indexes(bench: Bench) -> None:
    """A manager waits for a stop less than 1,000 indexes take to start on a busy machine."""
    for name in ("shop", "store"):
        await new_record(bench.db, bench.make_root(name), name)
    steps = list[str]()
    await bench.indexes.start_all(steps.append, lambda: bool(steps))
    assert [index.record.name for index in bench.indexes.lookup.all()] == ["shop"]


async def test_a_start_that_fails_leaves_no_task(bench: Bench) -> None:
    record = await new_record(bench.db, bench.make_root("shop"), "shop")
    await bench.updater.add(record, Source())  # so that the start fails at its last step
    tasks = supervised()
    await bench.indexes.start_all()
    await bench.until(lambda: bench.indexes.lookup.get("shop").error is not None)
    await anyio.sleep(0.2)  # ten tries
    tasks_after_tries = supervised()
    assert bench.indexes.lookup.get("shop").error is not None
    assert tasks_after_tries == tasks
    await bench.updater.remove("shop")
    await bench.until(lambda: bench.indexes.lookup.get("shop").error is None)


async def test_an_index_whose_creation_had_no_answer_is_listed_once_the_store_is_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make_root("shop")
    back = lose_answer(monkeypatch)
    with pytest.raises(StoreUnavailable):
        await bench.add("shop")
    await anyio.sleep(0.1)
    assert bench.indexes.lookup.find("shop") is None
    back.append("now")
    await bench.until(lambda: bench.indexes.lookup.find("shop") is not None)
    assert bench.indexes.lookup.get("shop").error is None


async def test_the_same_request_adopts_an_index_whose_creation_had_no_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "FIRST_PAUSE_S", 3600.0)
    bench.make_root("shop")
    lose_answer(monkeypatch, is_away=False)
    with pytest.raises(StoreUnavailable):
        await bench.add("shop")
    await bench.add("shop")
    assert bench.indexes.lookup.get("shop").error is None
    (record,) = await index_records.list_indexes(bench.db)
    assert record.name == "shop"


async def test_an_index_whose_first_start_fails_is_started_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make_root("shop")
    fail_first(monkeypatch, bench.indexes.config, "apply_before_start", lambda *_: True)
    with pytest.raises(CocoSearchError, match="took too long"):
        await bench.add("shop")
    assert bench.indexes.lookup.get("shop").error is not None
    await bench.until(lambda: bench.indexes.lookup.get("shop").error is None)


async def test_a_promotion_whose_answer_was_lost_is_completed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, following = await bench.make_switched("shop")
    await bench.indexes.start_all()
    monkeypatch.setattr(registry_module, "is_complete", lambda *_: True)
    monkeypatch.setattr(supervise_module, "FIRST_PAUSE_S", 0.02)
    lose_answer(monkeypatch, is_away=False)
    await bench.until(lambda: bench.indexes.lookup.get("shop").record.number == following.number)
    (stored,) = await index_records.list_indexes(bench.db)
    assert (stored.number, stored.name) == (following.number, record.name)


async def test_a_removal_whose_answer_was_lost_is_completed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shop", "bakery"):
        bench.make_root(name)
        await bench.add(name)
    lose_answer(monkeypatch, is_away=False)
    await bench.indexes.remove("shop")
    assert [index.record.name for index in bench.indexes.lookup.own()] == ["bakery"]
    monkeypatch.undo()
    monkeypatch.setattr(registry_module, "FIRST_PAUSE_S", 0.02)
    back = lose_answer(monkeypatch)
    with pytest.raises(StoreUnavailable):
        await bench.indexes.remove("bakery")
    await anyio.sleep(0.1)
    assert bench.indexes.lookup.get("bakery").error is None, "nobody can tell, so it goes on"
    back.append("now")
    await bench.until(lambda: bench.indexes.lookup.own() == ())


async def test_a_rebuild_whose_start_fails_is_started_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make_root("shop")
    await bench.add("shop")
    index = bench.indexes.lookup.get("shop")
    index.record = replace(index.record, identity=replace(index.record.identity, header_version=77))
    fail_first(monkeypatch, bench.indexes.config, "apply_before_start", lambda *_: True)
    with pytest.raises(CocoSearchError, match="took too long"):
        await bench.indexes.rebuild("shop")
    await bench.until(lambda: bench.indexes.lookup.get("shop").replacement is not None)


async def test_a_replacement_that_cannot_be_dropped_is_filled_further(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, following = await bench.make_switched("shop")
    await bench.indexes.start_all()
    index = bench.indexes.lookup.get("shop")
    replacement = index.replacement
    fail_first(monkeypatch, index_records, "drop_index", lambda *_: True)
    with pytest.raises(CocoSearchError, match="took too long"):
        await bench.indexes.remove("shop")
    assert bench.indexes.lookup.get("shop") is index
    await bench.until(lambda: index.replacement not in (None, replacement))
    assert index.replacement is not None
    assert index.replacement.record.number == following.number
    lose_answer(monkeypatch)
    with pytest.raises(StoreUnavailable):
        await bench.indexes.remove("shop")
    monkeypatch.undo()
    await bench.until(lambda: index.unstarted_replacement is None)
    assert index.replacement is None, "it was dropped"


OTHER_SETTINGS = "indexing: {chunk_size: 200}\n"


async def until_written(bench: Bench, find: Callable[[], RunningIndex | None]) -> None:
    """Wait until the registry takes the writes of an index: both have the same rules."""
    with anyio.fail_after(60):
        while True:
            index = find()
            if index is not None:
                write = file_write("a.py", "one: 1", dimension=index.record.dimension)
                with suppress(IdentityMismatch):
                    await replace_file(bench.db, index.record, write)
                    return
            await anyio.sleep(0.02)


async def test_rules_that_a_failed_start_of_a_replacement_stored_can_be_reverted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start begins with the stored rules, not with those that it was given first."""
    _, following = await bench.make_switched("shop")
    rules = IndexRules(IndexingSettings())
    shaping = collect_shaping_settings(rules.indexing, rules.queries)
    await invalidate(bench.db, following, following.identity, shaping, AffectedFiles())
    settings_file = bench.home / "shop" / "cocosearch.yaml"
    settings_file.write_text(OTHER_SETTINGS)
    add = bench.updater.add
    attempts = list[str]()

    async def fail_once(record: IndexRecord, *args: Any) -> None:
        if record.number == following.number:
            attempts.append(record.name)
            if len(attempts) == 1:
                settings_file.unlink()
                raise CocoSearchError("the database took too long")
        await add(record, *args)

    monkeypatch.setattr(bench.updater, "add", fail_once)
    monkeypatch.setattr(supervise_module, "FIRST_PAUSE_S", 0.02)
    await bench.indexes.start_all()
    index = bench.indexes.lookup.get("shop")
    await until_written(bench, lambda: index.replacement)
    assert len(attempts) == 2


@pytest.mark.parametrize("change", ["rebuild", "remove"])
async def test_reverted_rules_whose_change_had_no_answer_are_stored_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Also if the index is stopped and started in between."""
    root = bench.make_root("shop")
    await bench.add("shop")
    index = bench.indexes.lookup.get("shop")
    await bench.until(lambda: index.own_root.availability.available)
    lost = iter([StoreUnavailable("PostgreSQL went away")])

    async def lose_first(*args: Any) -> Any:
        outcome = await invalidate(*args)
        for error in lost:
            raise error
        return outcome

    monkeypatch.setattr(config_sync, "invalidate", lose_first)
    monkeypatch.setattr(registry_module, "SETTINGS_SLOW_POLL_S", 0.05)
    monkeypatch.setattr(registry_module, "SETTINGS_POLL_S", 0.05)
    async with index.lock:  # the task of the index waits
        (root / "cocosearch.yaml").write_text(OTHER_SETTINGS)
        with pytest.raises(StoreUnavailable):
            await bench.indexes.config.apply_current(index)
        (root / "cocosearch.yaml").unlink()
        if change == "rebuild":
            other_model = replace(bench.embedder.fingerprint, model="other")
            monkeypatch.setattr(LazyEmbedder, "fingerprint", other_model)
        else:
            fail_first(monkeypatch, index_records, "drop_index", lambda *_: True)
        changing = asyncio.ensure_future(getattr(bench.indexes, change)("shop"))
        await anyio.lowlevel.checkpoint()
    await asyncio.gather(changing, return_exceptions=True)
    assert bench.indexes.lookup.get("shop") is not index
    await until_written(bench, lambda: bench.indexes.lookup.get("shop"))


async def test_the_replacement_of_an_index_that_could_not_be_started_is_removed_with_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "FIRST_PAUSE_S", 3600.0)
    record, _ = await bench.make_switched("shop")
    fail_first(
        monkeypatch,
        bench.indexes.config,
        "apply_before_start",
        lambda started, *_: started.number == record.number,
    )
    await bench.indexes.start_all()
    assert isinstance(bench.indexes.lookup.get("shop").error, NotStarted)
    await bench.indexes.remove("shop")
    assert await index_records.index_numbers(bench.db) == frozenset()


async def test_a_replacement_that_waits_for_its_start_is_dropped_if_its_embedder_is_old(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is then refused: nothing will take its place."""
    record, following = await bench.make_switched("shop")
    fail_first(
        monkeypatch,
        bench.indexes.config,
        "apply_before_start",
        lambda started, *_: started.number == following.number,
        calls=1000,
    )
    await bench.indexes.start_all()
    index = bench.indexes.lookup.get("shop")
    assert (index.error, index.replacement) == (None, None)
    third_model = replace(bench.embedder.fingerprint, model="third")
    monkeypatch.setattr(LazyEmbedder, "fingerprint", third_model)
    await bench.indexes.recheck()
    assert isinstance(index.error, IdentityMismatch)
    assert index.unstarted_replacement is None
    assert await index_records.index_numbers(bench.db) == {record.number}


async def test_lost_commits_are_looked_for_between_changes_of_an_index(bench: Bench) -> None:
    """A change that is under way would write by an index that is being read anew, or is gone."""
    for name in ("shop", "bakery"):
        bench.make_root(name)
        await bench.add(name)
    index = bench.indexes.lookup.get("shop")
    generation = index.record.generation
    compare = bench.indexes.compare_generations
    async with index.lock:
        comparing = asyncio.ensure_future(compare(is_other_timeline=True))
        await anyio.sleep(0.2)
        assert (comparing.done(), index.record.generation) == (False, generation)
    await comparing
    assert index.record.generation > generation
    async with index.lock:
        generation = index.record.generation
        removing = asyncio.ensure_future(bench.indexes.remove("shop"))
        await bench.until(lambda: index.lock.statistics().tasks_waiting == 1)
        comparing = asyncio.ensure_future(compare(is_other_timeline=True))
        await anyio.sleep(0.1)
    await removing
    await comparing
    assert index.record.generation == generation, "it has been removed meanwhile"


@pytest.mark.parametrize("is_other_timeline", [False, True])
async def test_an_index_is_read_anew_after_acknowledged_commits_were_lost(
    bench: Bench, is_other_timeline: bool
) -> None:
    """By a failover to a server that lacks them, or by storage that was restored."""
    for name in ("shop", "bakery"):
        bench.make_root(name)
        await bench.add(name)
    index = bench.indexes.lookup.get("shop")
    number = {"number": index.record.number}
    write = file_write("a.py", "one: 1", dimension=index.record.dimension)
    generation = await replace_file(bench.db, index.record, write)
    await bench.indexes.committed(Commit("shop", generation, ("a.py",)))
    await bench.until(lambda: index.lexical.generation == generation)
    async with bench.db.connection() as connection:
        await connection.execute(compose("delete from {files}", index.record))
        await connection.execute(compose("delete from {chunks}", index.record))
        if not is_other_timeline:  # else a later commit has reached the lost one
            await connection.execute(
                "update cocosearch_indexes set generation = 0 where number = %(number)s", number
            )
    await bench.indexes.compare_generations(is_other_timeline=is_other_timeline)
    assert not index.own_root.freshness().fresh
    assert index.record.generation > generation
    assert await index_records.read_generation(bench.db, index.record) == index.record.generation
    await bench.until(lambda: index.lexical.generation == index.record.generation)
    assert index.lexical.sizes()["files"] == 0
    untouched = bench.indexes.lookup.get("bakery").record.generation
    assert (untouched > 0) == is_other_timeline
    await bench.indexes.compare_generations(is_other_timeline=False)
    assert await index_records.read_generation(bench.db, index.record) == index.record.generation
