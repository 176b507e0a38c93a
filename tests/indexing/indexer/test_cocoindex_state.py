"""CocoIndex's state and PostgreSQL's rows are compared, whichever of them is lost or old.

If one forgets, the rows still follow the disk.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import EmbedderSettings, IndexingSettings
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.indexing.row_shape import (
    collect_shaping_settings,
    find_affected_files,
    index_identity,
)
from cocosearchd.model import IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.chunks import file_writer
from cocosearchd.store.connection.database import Database
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from tests.embedding.ollama_server import Script, ollama_server
from tests.indexing.support import fresh_digest, new_record, running
from tests.store.support import file_write

pytestmark = pytest.mark.anyio


async def test_cocoindex_forgets(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
    shutil.rmtree(Path(spec.state_dir) / "cocoindex")
    (root / "lib/retry.py").write_text("def changed() -> None: ...\n")
    # CocoIndex does not remember that there is anything to delete
    (root / "src/parser.py").unlink()
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert "src/parser.py" not in await bench.stored()
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")


@pytest.mark.parametrize("part", ["half", pytest.param("zeros", marks=pytest.mark.slow)])
async def test_a_damaged_memory_is_begun_anew(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path, part: str
) -> None:
    """After a power cut or a copy of a state in use, CocoIndex's store fails or ends the process."""
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
    (memory,) = (Path(spec.state_dir) / "cocoindex").rglob("data.mdb")
    content = memory.read_bytes()
    memory.write_bytes(content[: len(content) // 2] if part == "half" else bytes(len(content)))
    (root / "lib/retry.py").write_text("def changed() -> None: ...\n")
    (root / "src/parser.py").unlink()
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()  # what fails once is tried again
        assert await bench.feed_all() == {}
        assert bench.source.aside == {}
        assert bench.updater.status.deaths <= 1
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")


async def test_postgresql_loses_a_file(db: Database, root: Path, spec: IndexerSpec) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        digest = await bench.digest()
        await file_writer.delete_file(db, record, "lib/retry.py")
        assert await bench.digest() != digest
        assert await bench.feed("lib/retry.py") == {}
        assert await bench.digest() == digest


async def test_postgresql_is_played_back(db: Database, root: Path, spec: IndexerSpec) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        (root / "src/parser.py").unlink()
        await bench.feed("src/parser.py")
        digest = await bench.digest()
        # one that is otherwise on disk, one that is not there
        for path in ("lib/retry.py", "src/parser.py"):
            older = file_write(path, "def older: ...", dimension=record.dimension)
            await file_writer.replace_file(db, record, older)
        assert await bench.feed("lib/retry.py", "src/parser.py") == {}
        assert await bench.digest() == digest


async def test_chunks_lost_behind_the_back_are_written_again(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        digest = await bench.digest()
        async with db.connection() as connection:
            await connection.execute(
                "delete from codeindex_code__code_chunks where filename = 'lib/retry.py'"
            )
        damaged = await index_records.damaged_files(db, record)
        assert damaged == ("lib/retry.py",)
        assert await bench.feed(*damaged, force=True) == {}
        assert await bench.digest() == digest


async def test_another_database_starts_from_nothing(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    """The same state directory under a database that has never seen the files, with the same index
    number.
    """
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        digest = await bench.digest()
    await index_records.drop_index(db, record)
    async with db.connection() as connection:
        await connection.execute("update cocosearch_registry set incarnation = gen_random_uuid()")
    again = await new_record(db, root)
    async with running(db, again, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert await bench.digest() == digest
    memories = Path(spec.state_dir) / "cocoindex"
    assert len(list(memories.iterdir())) == 2


async def apply_rules(db: Database, record: IndexRecord, indexing: IndexingSettings) -> IndexRecord:
    """Give an index the settings of its rows, as the daemon does at its start."""
    identity = index_identity(record.identity.embedder, indexing)
    settings = collect_shaping_settings(indexing, ())
    affected = find_affected_files(dict(record.shaping_settings), settings)
    return (await invalidate(db, record, identity, settings, affected))[0]


async def test_a_language_that_takes_other_files_makes_their_rows_anew(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    """CocoIndex remembers the content, the rules of the indexer are what they are, and the rows are
    those of a version that did not know the interpreter.
    """
    (root / "tool").write_text("#!/usr/bin/env uv\ndef deploy():\n    return 1\n")
    record = await apply_rules(db, await new_record(db, root), spec.indexing)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        digest = await bench.digest()
    (tool,) = await index_records.file_records(db, record, "tool")
    assert tool.language == "python"
    older = replace(
        file_write("tool", language="", dimension=record.dimension),
        content_hash=tool.content_hash,
        skip_reason="unsupported",
    )
    await file_writer.replace_file(db, record, older)
    settings = dict(record.shaping_settings) | {"language.python": "of an older version"}
    record, _ = await invalidate(db, record, record.identity, settings, AffectedFiles())
    record = await apply_rules(db, record, spec.indexing)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert await bench.digest() == digest


async def test_memories_of_two_hosts_with_other_rules(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    """Each memory has the same contents as PostgreSQL, but rows of its own rules."""
    short = IndexingSettings(chunk_size=100)
    hosts = [
        replace(spec, state_dir=str(tmp_path / "first")),
        replace(spec, state_dir=str(tmp_path / "second"), indexing=short),
    ]
    record = await new_record(db, root)
    digests = list[tuple[int, str, str, str]]()
    for host in (*hosts, *hosts):
        record = await apply_rules(db, record, host.indexing)
        async with running(db, record, root, host) as bench:
            assert await bench.feed_all() == {}
            digests.append(await bench.digest())
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]


async def test_rules_that_changed_behind_the_indexer(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    """The registry has other rules, and the answer that said so was lost: no file gets rows by the
    former ones, nor a fingerprint.
    """
    record = await apply_rules(db, await new_record(db, root), spec.indexing)
    limited = replace(spec, indexing=IndexingSettings(max_file_bytes=200))
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        changed = await apply_rules(db, record, limited.indexing)
        (root / "lib/retry.py").write_text("def changed() -> None: ...\n" * 20)
        failed = await bench.feed_all()
        assert all("other settings" in error for error in failed.values())
        assert "lib/retry.py" in failed
        forgotten = {
            file.path
            for file in await index_records.file_records(db, record)
            if file.fingerprint and not any(file.fingerprint[1:])
        }
        assert forgotten
        assert forgotten <= failed.keys()
    async with running(db, changed, root, limited) as bench:
        assert await bench.feed_all() == {}
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, limited, tmp_path / "other")


async def test_only_changed_chunks_are_embedded(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    script = Script(dimension=16)
    with ollama_server(script) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url, batch_size=64)
        record = await new_record(db, root, embedder=settings)
        body = "".join(
            f"def step_{n}(value: int) -> int:\n" + f"    value += {n}\n" * 60 + "\n\n"
            for n in range(8)
        )
        (root / "long.py").write_text(body)
        async with running(db, record, root, replace(spec, embedder=settings)) as bench:
            assert await bench.feed_all() == {}
            first = _texts(script)
            assert first >= sum((await bench.stored()).values())
            (root / "long.py").write_text(body + "def last() -> None: ...\n")
            assert await bench.feed("long.py") == {}
            assert 1 <= _texts(script) - first <= 2
            second = _texts(script)
            assert await bench.feed_all() == {}
            assert await bench.feed("long.py", force=True) == {}
            assert _texts(script) == second


async def test_an_embedder_that_is_down_is_waited_for(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    script = Script(dimension=16)
    with ollama_server(script) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url)
        record = await new_record(db, root, embedder=settings)
        async with running(db, record, root, replace(spec, embedder=settings)) as bench:
            assert await bench.feed("lib/retry.py") == {}
            script.status = 503
            failed = await bench.feed("lib/cache.py", "README.md", gone=["lib/retry.py"])
            # to delete, nothing need be embedded
            assert set(failed) == {"lib/cache.py", "README.md"}
            assert all("Ollama" in text for text in failed.values()), failed
            assert await bench.stored() == {}
            script.status = 0
            assert await bench.feed(*failed) == {}
            assert set(await bench.stored()) == set(failed)
            assert bench.updater.status.deaths == 0


async def test_rows_of_another_embedder_are_never_mixed_in(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    with ollama_server(Script(dimension=16)) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url)
        record = await new_record(db, root, embedder=settings)
    async with running(db, record, root, spec) as bench:  # configured: the built-in one
        failed = await bench.feed("lib/retry.py")
        assert "Ollama" in failed["lib/retry.py"], (
            "it goes on with the model that its rows were made by, or not at all"
        )
        assert await bench.stored() == {}


def _texts(script: Script) -> int:
    return sum(len(body["input"]) for body in script.requests)
