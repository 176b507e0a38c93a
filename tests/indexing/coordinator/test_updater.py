"""Files become rows: the real indexer process, real PostgreSQL, real files."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.errors import Conflict
from cocosearchd.forms.path_forms import path_text
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from tests.indexing.support import Change, Source, every_path, fresh_digest, new_record, running

pytestmark = pytest.mark.anyio


async def test_files_become_rows_and_stay_equal_to_the_disk(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert set(await bench.stored()) == set(every_path(root))
        assert all((await bench.stored()).values())
        paths = {path for commit in bench.commits for path in commit.paths}
        assert paths == set(every_path(root))
        assert bench.commits[-1].generation == await index_records.read_generation(db, record)

        (root / "lib/retry.py").write_text("def changed() -> None:\n    ...\n")  # an edit
        (root / "src/parser.py").unlink()  # a deletion
        (root / "lib/cache.py").rename(root / "lib/store.py")  # a rename
        bench.write({"new/deep/file.go": "package deep\n\nfunc Deep() int { return 1 }\n"})
        assert await bench.feed_all() == {}
        assert set(await bench.stored()) == set(every_path(root))
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")


async def test_a_restart_without_changes_writes_nothing(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
    (record,) = await index_records.list_indexes(db)  # as a daemon finds it when it starts
    generation = await index_records.read_generation(db, record)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert bench.commits[-1].generation == generation
    assert await index_records.read_generation(db, record) == generation


async def test_a_forced_batch_is_processed_again_and_changes_nothing(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        previous, generation = await bench.digest(), await index_records.read_generation(db, record)
        assert await bench.feed(*every_path(root), force=True) == {}
        assert await bench.digest() == previous
        assert await index_records.read_generation(db, record) == generation


async def test_rows_of_unchanged_chunks_are_not_touched(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    long = "".join(
        f"def step_{n}(value: int) -> int:\n" + f"    value += {n}\n" * 60 + "\n\n"
        for n in range(8)
    )
    (root / "long.py").write_text(long)
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        previous = await bench.row_versions()
        (root / "long.py").write_text(long + "def last() -> None: ...\n")
        assert await bench.feed("long.py") == {}
        after = await bench.row_versions()
    unchanged = {key for key in previous if previous[key] == after.get(key)}
    assert len(previous) > 20
    assert len(set(previous) - unchanged) <= 2  # the last chunk, and none before it
    assert 1 <= len(set(after) - unchanged) <= 2


async def test_gone_paths_are_deleted_without_a_look_at_the_disk(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        assert await bench.feed("lib/retry.py", gone=["src/parser.py", "never/seen.py"]) == {}
        assert "src/parser.py" not in await bench.stored()
        assert (root / "src/parser.py").exists()


async def test_skipped_files_are_counted_with_their_reason(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    key = (
        "-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" * 8
    )
    files: dict[str, str | bytes] = {
        "binary.py": b"a = 1\0\0\0",
        "large.py": "x = 1\n" * 2000,
        "minified.js": "var a=1;" * 1200,
        "key.yaml": f"{key}-----END PRIVATE KEY-----\n",
        "notes": "no language has such a name\n",
    }
    small = replace(spec, indexing=IndexingSettings(max_file_bytes=10_000))
    record = await new_record(db, root)
    async with running(db, record, root, small) as bench:
        bench.write(files)
        assert await bench.feed_all() == {}
        reasons = {
            file.path: file.skip_reason for file in await index_records.file_records(db, record)
        }
        assert {path: reasons[path] for path in files} == {
            "binary.py": "binary",
            "large.py": "too_large",
            "minified.js": "minified",
            "key.yaml": "secret",
            "notes": "unsupported",
        }
        stored = await bench.stored()
        assert not any(stored[path] for path in files)
        bench.write({"large.py": "def small() -> None: ...\n"})
        await bench.feed("large.py")
        assert (await bench.stored())["large.py"] == 1


async def test_paths_of_any_bytes(db: Database, root: Path, spec: IndexerSpec) -> None:
    names = [b"caf\xe9.py", b"back\\slash.py", "naïve ☕.py".encode(), b"new\nline.py"]
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        bench.write({os.fsdecode(name): "def odd() -> None: ...\n" for name in names})
        # longer than a key of CocoIndex's store may be
        long = "/".join(["d" * 200] * 15) + "/file.py"
        bench.write({long: "def deep() -> None: ...\n"})
        assert await bench.feed_all() == {}
        stored = await bench.stored()
        assert "caf\\xe9.py" in stored
        assert long in stored
        assert "back\\\\slash.py" in stored
        assert set(stored) == set(every_path(root))
        bench.remove(long, *map(path_text, names))
        assert await bench.feed_all() == {}
        assert set(await bench.stored()) == set(every_path(root))


async def test_the_recursive_chunker(db: Database, root: Path, spec: IndexerSpec) -> None:
    body = "".join(
        f"def step_{n}(value: int) -> int:\n    return value + {n}\n\n\n" for n in range(80)
    )
    (root / "long.py").write_text(body)
    (root / "latin.py").write_bytes(b"# caf\xe9\n" + body.encode())
    settings = IndexingSettings(chunker="recursive", chunk_size=1000, chunk_overlap=300)
    record = await new_record(db, root, indexing=settings)
    async with running(db, record, root, replace(spec, indexing=settings)) as bench:
        assert await bench.feed_all() == {}
        stored = await bench.stored()
        assert stored["long.py"] >= 4
        assert stored["latin.py"] >= 4


async def test_indexes_come_and_go_at_run_time(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    record = await new_record(db, root)
    directory = tmp_path / "other"
    directory.mkdir()
    (directory / "one.py").write_text("def one() -> None: ...\n")
    async with running(db, record, root, spec) as bench:
        await bench.feed_all()
        second, source = await new_record(db, directory, "second"), Source()
        await bench.updater.add(second, source)
        with pytest.raises(Conflict):
            await bench.updater.add(second, source)
        assert bench.source is not source
        bench_of_second = replace(bench, record=second, root=directory, source=source)
        assert await bench_of_second.feed_all() == {}
        assert set(await bench_of_second.stored()) == {"one.py"}
        memory = Path(spec.state_dir) / "cocoindex" / await index_records.read_incarnation(db)
        assert sorted(path.name for path in memory.iterdir()) == sorted(
            [str(record.number), str(second.number)]
        )

        await bench.updater.remove("second")
        await index_records.drop_index(db, second)
        assert [path.name for path in memory.iterdir()] == [str(record.number)]
        assert await bench.feed_all() == {}  # the first one goes on

        # the same name, another index
        third, again = await new_record(db, directory, "second"), Source()
        await bench.updater.add(third, again)
        assert await replace(bench_of_second, record=third, source=again).feed_all() == {}
        assert bench.updater.status.deaths == 0


async def test_a_batch_that_comes_while_its_index_is_removed_does_not_end_the_indexer(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    """The waiting task is awake already: it cannot be cancelled before it goes on."""
    record, other_record = (
        await new_record(db, root),
        await new_record(db, root, "other", suffix=b"/."),
    )
    async with running(db, record, root, spec) as bench:
        source = Source()
        await bench.updater.add(other_record, source)
        of_other = replace(bench, record=other_record, source=source)
        assert await bench.feed_all() | await of_other.feed_all() == {}
        bench.source.give(Change(("lib/retry.py",)))
        await bench.updater.remove("code")
        assert await of_other.feed("lib/retry.py", force=True) == {}
        assert bench.updater.status.deaths == 0


def test_the_daemon_does_not_load_cocoindex() -> None:
    code = (
        "import sys, cocosearchd.service;"
        "bad = sorted(m for m in sys.modules if m.split('.')[0] == 'cocoindex' or m.endswith('indexing.indexer'));"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
