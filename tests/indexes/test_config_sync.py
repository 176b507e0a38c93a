"""Settings that change while an index runs: exactly the affected files are read again, and old rows
answer meanwhile.
"""

import asyncio
import gc
import os
import sys
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from cocosearchd.config.layers import load_settings
from cocosearchd.config.settings import LoadedSettings
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import StoreUnavailable
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.indexes import config_sync
from cocosearchd.indexes import registry as indexes_module
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.model import Commit
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from cocosearchd.store.reads.chunk_reads import first_matches
from tests.embedding.ollama_server import Script, ollama_server

pytestmark = pytest.mark.anyio

FILES = {
    "src/a.py": "def steps(value):\n"
    + "".join(f"    value = value + {n} * value\n" for n in range(60)),
    "src/b.go": "package b\n\nfunc Open() int { return 1 }\n",
    "gen/c.py": "def generated():\n    return 1\n",
    "notes.zzz": "a type that nobody knows\n",
}


@dataclass
class Bench:
    """Running indexes over one root."""

    db: Database
    root: Path
    indexes: IndexRegistry
    embedder: LazyEmbedder

    @property
    def index(self) -> RunningIndex:
        return self.indexes.lookup.all()[0]

    def project(self, text: str, name: str = "cocosearch.yaml") -> None:
        (self.root / name).write_text(text)

    async def touched(self) -> set[str]:
        """Follow the settings, wait until the index is fresh; the paths whose rows were written or
        removed for it.
        """
        previous = await self.generations()
        await self.indexes.refresh(self.index)
        freshness = await self.index.root.sync(20)
        assert freshness.fresh, freshness
        after = await self.generations()
        differ = {
            path for path in previous.keys() | after.keys() if previous.get(path) != after.get(path)
        }
        return differ - {"cocosearch.yaml"}

    async def generations(self) -> dict[str, int]:
        stored = await index_records.file_records(self.db, self.index.record)
        return {file.path: file.generation for file in stored}

    async def files(self) -> set[str]:
        stored = await index_records.file_records(self.db, self.index.record)
        return {file.path for file in stored if file.skip_reason is None} - {"cocosearch.yaml"}

    async def chunks(self, path: str) -> int:
        stored = await index_records.file_records(self.db, self.index.record, path)
        return stored[0].chunk_count

    async def symbols(self, kind: str) -> set[str]:
        candidates = await first_matches(
            self.db, self.index.record, Filter(symbol_types=(kind,)), 99
        )
        return {hit.path for hit in candidates}


@asynccontextmanager
async def running(
    dsn: str, tmp_path: Path, loaded: LoadedSettings | None = None
) -> AsyncIterator[Bench]:
    """The parts that `service` wires, without the front ends."""
    loaded = loaded or load_settings(None, {})
    settings = loaded.settings
    spec = IndexerSpec(
        dsn, str(tmp_path / "state"), embedder=settings.embedder, indexing=settings.indexing
    )
    async with Database.open(dsn, settings.database) as db, anyio.create_task_group() as tasks:
        embedder = LazyEmbedder(partial(open_embedder, settings.embedder, ""))
        await embedder.open()

        async def on_commit(commit: Commit) -> None:
            await indexes.committed(commit)

        updater = Updater(spec, on_commit)
        indexes = IndexRegistry(db, updater, embedder, loaded, tmp_path / "state", tasks)
        tasks.start_soon(updater.run)
        try:
            await indexes.start_all()
            yield Bench(db, tmp_path / "shop", indexes, embedder)
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await embedder.aclose()
                await indexes.analyser.pool.aclose()


@asynccontextmanager
async def shop(
    dsn: str, tmp_path: Path, files: Mapping[str, str] = FILES, loaded: LoadedSettings | None = None
) -> AsyncIterator[Bench]:
    """A new index of a directory of its own, fresh."""
    for path, text in files.items():
        file_path = tmp_path / "shop" / path
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_path.write_text(text)
    async with running(dsn, tmp_path, loaded) as bench:
        await bench.indexes.add(os.fsencode(tmp_path / "shop"), None, ())
        await bench.touched()
        yield bench


async def test_exactly_what_a_project_changes_is_made_anew(dsn: str, tmp_path: Path) -> None:
    async with shop(dsn, tmp_path) as bench:
        assert await bench.files() == {"src/a.py", "src/b.go", "gen/c.py"}
        chunks = await bench.chunks("src/a.py")

        bench.project("indexing: {exclude: [gen/], extend_include: ['*.zzz']}")
        assert await bench.touched() == {"gen/c.py", "notes.zzz"}
        assert await bench.files() == {"src/a.py", "src/b.go", "notes.zzz"}
        assert list(bench.index.warnings) == [
            "settings changed: exclude, extend_include; only files that come or go are touched"
        ]

        bench.project(
            "topics: [shop]\nlinked_indexes: [other]\nindexing: {exclude: [gen/], extend_include: ['*.zzz']}"
        )
        generation = bench.index.record.generation
        assert await bench.touched() == set()
        assert "shop" in bench.index.record.topics
        assert list(bench.index.warnings) == [
            "settings changed: topics, linked_indexes; no file is touched"
        ]
        assert bench.indexes.lookup.with_topics(["shop"]) == (bench.index,)

        bench.project("indexing: {chunk_size: 200, extend_include: ['*.zzz']}")
        assert await bench.touched() == {"src/a.py", "gen/c.py"}, (
            "the chunks of the others are what they were"
        )
        assert await bench.chunks("src/a.py") > chunks
        assert bench.index.record.identity.chunker == "definitions-1:200"
        assert bench.index.record.generation > generation

        (bench.root / "cocosearch.yaml").unlink()
        await bench.touched()
        assert await bench.chunks("src/a.py") == chunks
        assert await bench.files() == {"src/a.py", "src/b.go", "gen/c.py"}
        assert bench.index.record.topics == ()


@pytest.mark.parametrize("reverted", [False, True])
async def test_rules_are_applied_again_if_the_answer_of_postgresql_was_lost(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reverted: bool
) -> None:
    async def lose_answer(*arguments: Any) -> None:
        await invalidate(*arguments)
        raise StoreUnavailable("PostgreSQL went away")

    async with shop(dsn, tmp_path) as bench:
        chunks = await bench.chunks("src/a.py")
        with monkeypatch.context() as patch:
            patch.setattr(config_sync, "invalidate", lose_answer)
            limit = {"COCOSEARCH_INDEXING_MAX_FILE_BYTES": "1000"}
            await bench.indexes.configure(load_settings(None, limit))
            assert bench.index.rules_in_doubt
        (bench.root / "src/b.go").write_text("package b\n\nfunc Close() int { return 1 }\n")
        if reverted:
            await bench.indexes.configure(load_settings(None, {}))
        await bench.indexes.refresh(bench.index)
        while not (await bench.index.root.sync(5)).fresh:
            pass  # a save that was refused meanwhile is tried again
        assert await bench.chunks("src/a.py") == (chunks if reverted else 0)
        (registered,) = await index_records.list_indexes(bench.db)
        assert registered.shaping_settings == bench.index.record.shaping_settings
        (bench.root / "src/b.go").write_text("package b\n\nfunc Open() int { return 1 }\n")
        assert await bench.touched() == {"src/b.go"}


async def test_a_bad_file_changes_nothing_and_is_said(dsn: str, tmp_path: Path) -> None:
    async with shop(
        dsn, tmp_path, FILES | {"cocosearch.yaml": "topics: [good]\nindexing: {exclude: [gen/]}\n"}
    ) as bench:
        assert await bench.files() == {"src/a.py", "src/b.go"}
        for text in ("indexing: {exclud: []}", "indexing: [", "indexing: {chunk_size: 1}"):
            bench.project(text)
            assert await bench.touched() == set()
            assert await bench.files() == {"src/a.py", "src/b.go"}
            assert bench.index.record.topics == ("good",)
            assert "cocosearch.yaml:1" in bench.index.warnings[0]
            assert "(the last valid file stays in force)" in bench.index.warnings[0]
        bench.project("topics: [good]\nindexing: {exclude: [gen/]}\n")
        assert await bench.touched() == set()
        assert not bench.index.warnings


async def test_changes_while_nobody_watched_are_followed(dsn: str, tmp_path: Path) -> None:
    """Settings are compared with those that the rows were made with, whenever they changed."""
    secret = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n"
    async with shop(dsn, tmp_path, FILES | {"key.txt": secret}) as bench:
        chunks = await bench.chunks("src/a.py")
    (tmp_path / "shop/cocosearch.yaml").write_text("indexing: {chunk_size: 200}")
    loaded = load_settings(None, {"COCOSEARCH_INDEXING_INDEX_SECRETS": "true"})
    async with running(dsn, tmp_path, loaded) as bench:
        assert bench.index.error is None
        assert "since the daemon ran last; " in bench.index.warnings[0]
        await bench.touched()
        assert await bench.files() == {"src/a.py", "src/b.go", "gen/c.py", "key.txt"}
        assert await bench.chunks("src/a.py") > chunks
    async with running(dsn, tmp_path, loaded) as bench:
        assert await bench.touched() == set()
        assert not bench.index.warnings


async def test_a_query_of_the_user_reparses_the_files_of_its_language(
    dsn: str, tmp_path: Path
) -> None:
    queries = tmp_path / "queries"
    queries.mkdir()
    loaded = load_settings(None, {"COCOSEARCH_INDEXING_QUERIES_DIR": str(queries)})
    async with shop(dsn, tmp_path, loaded=loaded) as bench:
        assert await bench.symbols("constant") == set()
        (queries / "go.scm").write_text(
            "; replace\n(package_clause (package_identifier) @name) @definition.constant\n"
        )
        assert await read_again(bench) == {"src/b.go"}
        assert await bench.symbols("constant") == {"src/b.go"}
        assert await bench.symbols("function") == {"src/a.py", "gen/c.py"}

        (queries / "go.scm").write_text("(no_such_node) @definition.constant\n")
        assert await read_again(bench) == {"src/b.go"}, "the built-in query is back"
        assert await bench.symbols("function") == {"src/a.py", "gen/c.py", "src/b.go"}
        assert "go.scm is not used" in bench.indexes.config.warnings[0]

        (queries / "go.scm").unlink()
        (queries / "python.scm").write_text("(module) @definition.module\n")
        assert await read_again(bench) == {"src/a.py", "gen/c.py"}
        assert not bench.indexes.config.warnings


async def test_a_version_that_finds_other_symbols_reads_the_files_of_the_language_again(
    dsn: str, tmp_path: Path
) -> None:
    async with shop(dsn, tmp_path) as bench:
        record = bench.index.record
        older = dict(record.shaping_settings) | {"query.go": "of an older version"}
        await invalidate(bench.db, record, record.identity, older, AffectedFiles())
    async with running(dsn, tmp_path) as bench:
        assert "1 file" in bench.index.warnings[0]
        assert dict(bench.index.record.shaping_settings) == dict(record.shaping_settings)
        await bench.touched()
        assert await bench.symbols("function") == {"src/a.py", "gen/c.py", "src/b.go"}


@pytest.mark.parametrize(
    ("older_digests", "count"),
    [
        # Files of Python, and files without a known type: their interpreter may be Python's.
        ({"language.python": "of an older version"}, "3 files"),
        ({"language.gone": "a language that this version does not know"}, "1 file"),
        (None, "1 file"),  # a version without such digests
    ],
)
async def test_a_version_that_takes_other_files_for_a_language_reads_them_again(
    dsn: str, tmp_path: Path, older_digests: Mapping[str, str] | None, count: str
) -> None:
    async with shop(dsn, tmp_path) as bench:
        (bench.root / "tool").write_text("a script of an unknown interpreter\n")
        await bench.touched()
        record = bench.index.record
        older = {
            name: value
            for name, value in record.shaping_settings
            if older_digests is not None or not name.startswith("language.")
        } | dict(older_digests or {})
        await invalidate(bench.db, record, record.identity, older, AffectedFiles())
    async with running(dsn, tmp_path) as bench:
        assert f" {count} " in f" {bench.index.warnings[0]} "
        assert dict(bench.index.record.shaping_settings) == dict(record.shaping_settings)


@pytest.mark.skipif(sys.platform != "linux", reason="hints are exact on Linux alone")
async def test_files_of_settings_are_followed_when_hints_name_them(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes_module, "SETTINGS_POLL_S", 3600.0)
    monkeypatch.setattr(indexes_module, "SETTINGS_SLOW_POLL_S", 3600.0)
    async with shop(dsn, tmp_path) as bench, anyio.create_task_group() as tasks:
        tasks.start_soon(bench.indexes.watch_settings)
        for name, text, limit in (
            ("cocosearch.yaml", "search: {limit: 3}\n", 3),
            (".env", "COCOSEARCH_SEARCH_LIMIT=4\n", 4),
        ):
            bench.project(text, name)
            with anyio.fail_after(60):
                while bench.index.settings.search.limit != limit:  # noqa: ASYNC110 - nothing tells of it
                    await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def read_again(bench: Bench) -> set[str]:
    """Read settings as the next check of `watch_settings` does."""
    previous = await bench.generations()
    await bench.indexes.configure(
        load_settings(None, {"COCOSEARCH_INDEXING_QUERIES_DIR": str(bench.root.parent / "queries")})
    )
    await bench.touched()
    return {
        path
        for path, generation in (await bench.generations()).items()
        if previous[path] != generation
    }


async def test_names_and_topics_of_a_project(dsn: str, tmp_path: Path) -> None:
    async with running(dsn, tmp_path) as bench:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "cocosearch.yaml").write_text("name: shop\ntopics: [web]\n")
        first, _ = await bench.indexes.add(os.fsencode(tmp_path / "one"), None, ())
        two, _ = await bench.indexes.add(os.fsencode(tmp_path / "two"), None, ("mine",))
        assert (first.record.name, two.record.name) == ("shop", "two"), (
            "work trees of one repository bring the same file"
        )
        assert (first.record.topics, two.record.topics) == (("web",), ("mine",)), (
            "what a person gave wins"
        )
        again, created = await bench.indexes.add(os.fsencode(tmp_path / "one"), None, ("given",))
        assert (again, created, first.record.topics) == (first, False, ("given",))
        assert [record.topics for record in await index_records.list_indexes(bench.db)] == [
            ("given",),
            ("mine",),
        ]


def test_loaded_is_a_value() -> None:
    loaded = load_settings(None, {"COCOSEARCH_SEARCH_LIMIT": "3"})
    assert replace(loaded, variables={}) == loaded


async def test_a_switch_of_embedders_leaves_no_task_and_nothing_of_the_former_index(
    dsn: str, tmp_path: Path
) -> None:
    """A daemon runs for weeks, and models come and go meanwhile."""

    def supervised() -> int:
        return sum(task.get_name().endswith("supervise") for task in asyncio.all_tasks())

    script = Script(dimension=32)
    with ollama_server(script) as url:
        variables = {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_EMBEDDER_OLLAMA_URL": url,
        }
        async with shop(dsn, tmp_path, loaded=load_settings(None, variables)) as bench:
            tasks, former = supervised(), weakref.ref(bench.index.lexical)
            script.models = {"nomic-embed-text:latest": "sha256:other"}
            await bench.embedder.reopen()
            replacement = (await bench.indexes.rebuild("shop")).replacement
            assert replacement is not None
            end = anyio.current_time() + 60
            while (bench.index, supervised()) != (replacement, tasks):
                assert anyio.current_time() < end, (
                    bench.index.record,
                    replacement.root.status(),
                    supervised(),
                    tasks,
                )
                await anyio.sleep(0.05)
            gc.collect()
            assert former() is None
