"""Content that was embedded once is not embedded again: moved files, branches, other indexes."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.store.connection.database import Database
from tests.embedding.ollama_server import Script, ollama_server
from tests.indexing.support import Bench, every_path, fresh_digest, new_record, running

pytestmark = pytest.mark.anyio


def computed(bench: Bench) -> int:
    return bench.updater.status.computed


async def test_contents_that_come_back_are_not_embedded_again(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    contents = {path: (root / path).read_bytes() for path in every_path(root)}
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert computed(bench) == sum((await bench.stored()).values())
        versions = await bench.row_versions()
        bench.write(
            {"lib/retry.py": "def other() -> None: ...\n", "new.py": "def new() -> None: ...\n"}
        )
        bench.remove("README.md")
        assert await bench.feed_all() == {}
        computed_count = computed(bench)
        bench.write(contents)
        bench.remove("new.py")
        assert await bench.feed_all() == {}
        assert computed(bench) == computed_count
        assert await bench.row_versions() == versions, "no row of a chunk is written again"
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")


async def test_with_a_server_a_moved_directory_embeds_nothing(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    script = Script(dimension=16)
    with ollama_server(script) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url)
        spec = replace(spec, embedder=settings)
        record = await new_record(db, root, embedder=settings)
        async with running(db, record, root, spec) as bench:
            assert await bench.feed_all() == {}
            first = len(script.requests)
            (root / "lib").rename(root / "moved")
            assert await bench.feed_all() == {}
            assert "moved/retry.py" in await bench.stored()
            assert len(script.requests) == first
            digest = await bench.digest()
        assert digest == await fresh_digest(db, root, spec, tmp_path / "other")


async def test_a_copy_in_another_index_and_process_embeds_nothing(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    worktree = tmp_path / "worktree"
    shutil.copytree(root, worktree)
    # by default the built-in model has no cache
    spec = replace(spec, embedder=EmbedderSettings(cache_bytes=1 << 20))
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        digest = await bench.digest()
    other_record = await new_record(db, worktree, "worktree")
    async with running(db, other_record, worktree, spec) as bench:
        assert await bench.feed_all() == {}
        assert (computed(bench), bench.updater.status.reused) == (
            0,
            sum((await bench.stored()).values()),
        )
        assert await bench.digest() == digest
