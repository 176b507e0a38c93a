"""Rows made from a cached manifest equal rows made from the whole file, and no manifest serves
another file.
"""

import asyncio
import random
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.indexer.index_threads import IndexThreads
from cocosearchd.indexing.indexer.row_maker import FileExtract, RowMaker, RowRules
from cocosearchd.indexing.indexer.transaction_group import GroupWriter
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.pipeline import manifest_cache
from cocosearchd.indexing.pipeline.file_manifest import FileManifest, build_file_manifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache, open_manifest_file
from cocosearchd.indexing.pipeline.skip_rules import skip_reason
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.model import IndexRecord
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.store.chunks.file_writer import stored_files
from cocosearchd.store.chunks.manifest import StoredFile
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.index_records import counts, damaged_files, table_digest
from tests.indexing.conftest import python
from tests.indexing.parsing import (
    NOTHING,
    RULES,
    Caches,
    ParserHere,
    differing_here,
    extracted_here,
    open_caches,
)
from tests.store.support import new_index

pytestmark = pytest.mark.anyio

CASES = Path(__file__).parents[2] / "languages"
NAMES = [f"name_{number}" for number in range(12)]


def source(path: str, data: bytes, tmp_path: Path) -> SourceFile:
    (tmp_path / "one").write_bytes(data)
    (read,) = read_files(bytes(tmp_path), ["one"], 1 << 20)
    assert isinstance(read, SourceFile)
    return replace(read, path=path)


def maker(caches: Caches) -> RowMaker:
    work_priority = WorkPriority()
    return RowMaker(
        caches.rules,
        BuiltinEmbedder(),
        caches.keys,
        caches.manifests,
        caches.counters,
        work_priority,
        IndexThreads(work_priority),
        ParserHere(caches.rules.limits),
    )


def cached_manifests(
    disk_cache: DiskCache, rules: RowRules = RULES, code: bytes = b""
) -> ManifestCache:
    """The manifest cache of an index of these rules."""
    return open_caches(disk_cache, rules, code).manifests


def whole(sources: Sequence[SourceFile]) -> list[FileExtract]:
    return extracted_here(sources, open_caches())


def of_extract(extract: FileExtract) -> FileManifest:
    return build_file_manifest(
        extract.chunks,
        extract.language,
        extract.report,
        extract.code,
        extract.skip_reason,
    )


async def of_index(db: Database, name: str) -> IndexRecord:
    return await new_index(db, name, f"/{name}".encode(), BuiltinEmbedder().fingerprint.dimension)


async def write(
    writer: GroupWriter[SourceFile], sources: Sequence[SourceFile], *, urgent: bool = False
) -> None:
    """All at once."""
    await asyncio.gather(*(writer.apply(source.path, source, urgent=urgent) for source in sources))


def edited(lines: Sequence[str], dice: random.Random) -> list[str]:
    """A module with definitions gone, new, moved, twice or changed."""
    new_lines = list(lines)
    for _ in range(dice.randrange(1, 4)):
        position, name = dice.randrange(len(new_lines) + 1), dice.choice(NAMES)
        what = dice.randrange(5)
        if what == 0 or not new_lines:
            new_lines.insert(position, python(name, dice.randrange(3)))
        elif what == 1:
            del new_lines[position - 1]
        elif what == 2:
            new_lines.insert(position, new_lines.pop(dice.randrange(len(new_lines))))
        elif what == 3:
            new_lines.insert(position, dice.choice(new_lines))
        else:
            new_lines[position - 1] = new_lines[position - 1].replace(
                "total", f"sum_{dice.randrange(3)}"
            ) + "# \0 nul\n" * (position % 2)
    return new_lines


@pytest.mark.parametrize("seed", range(4))
async def test_rows_are_those_that_are_made_as_a_whole(
    db: Database, cacheable: DiskCache, tmp_path: Path, seed: int
) -> None:
    """Rows and vectors made with cached manifests equal those made from whole files, after edits."""
    dice, caches = random.Random(seed), open_caches(cacheable)
    record, plain = await of_index(db, "compared"), await of_index(db, "whole")
    by_manifests = GroupWriter(db, record, WorkPriority(), maker(caches))
    by_whole_files = GroupWriter(db, plain, WorkPriority(), maker(open_caches()))
    modules: dict[str, list[list[str]]] = {
        f"src/{name}.py": [[python(name)]] for name in ("a", "b", "c")
    }
    for step in range(10):
        files = list[SourceFile]()
        for path, history in modules.items():
            history.append(edited(history[-1], dice) if step % 3 else dice.choice(history))
            files.append(source(path, "\n".join(history[-1]).encode(), tmp_path))
        await write(by_manifests, files)
        await write(by_whole_files, files, urgent=True)
        assert await table_digest(db, record) == await table_digest(db, plain)
    assert await damaged_files(db, record) == ()
    assert caches.counters.parsed < 30


async def test_skipped_and_empty_files(db: Database, cacheable: DiskCache, tmp_path: Path) -> None:
    """Skipped and empty files have no manifest, and their rows are removed."""
    record, plain = await of_index(db, "compared"), await of_index(db, "whole")
    for data in (python("a").encode(), b"\0\1\2", python("b").encode(), b"", b"\n\n"):
        sources = [source("a.py", data, tmp_path)]
        await write(GroupWriter(db, record, WorkPriority(), maker(open_caches(cacheable))), sources)
        await write(
            GroupWriter(db, plain, WorkPriority(), maker(open_caches())),
            sources,
            urgent=True,
        )
        assert await table_digest(db, record) == await table_digest(db, plain)


def test_a_cached_manifest_equals_a_new_one(disk_cache: DiskCache, tmp_path: Path) -> None:
    paths = [
        path for path in sorted(CASES.rglob("*")) if path.is_file() and path.stat().st_size < 60_000
    ]
    files = [source(f"cases/{path.name}", path.read_bytes(), tmp_path) for path in paths]
    files = [source for source in files if not skip_reason(source.data, "any", RULES.skip)]
    rows, caches = [NOTHING] * len(files), open_caches(disk_cache)
    first = differing_here(files, rows, caches)
    assert [(source.chunks, source.language, source.report, source.code) for source in first] == [
        (source.chunks, source.language, source.report, source.code) for source in whole(files)
    ]
    disk_cache.flush()
    cached = [
        (source, row)
        for source, row, manifest in zip(files, first, caches.manifests.get(files), strict=True)
        if manifest
    ]
    assert len(cached) > len(files) * 0.9
    parsing = open_caches(disk_cache)
    again = differing_here([source for source, _ in cached], rows[: len(cached)], parsing)
    assert not parsing.counters.parsed, "a manifest is known of each"
    assert again == [row for _, row in cached]


async def test_only_what_is_not_stored_is_made(
    db: Database, cacheable: DiskCache, tmp_path: Path
) -> None:
    record, make = await of_index(db, "code"), maker(open_caches(cacheable))
    modules = [python(name) for name in NAMES[:5]]
    previous = source("a.py", "\n".join(modules).encode(), tmp_path)
    await write(GroupWriter(db, record, WorkPriority(), make), [previous])
    modules[2] = modules[2].replace("total", "sum")
    after = source("a.py", "\n".join(modules).encode(), tmp_path)
    (file_write,) = await make([after], await stored_files(db, record, ["a.py"]), urgent=False)
    assert isinstance(file_write, FileWrite)
    assert {chunk.text.count("sum") > 0 for chunk in file_write.chunks} == {True}
    assert len(file_write.chunks) == len(file_write.vectors) < (await counts(db, record)).chunks / 2
    (file_write,) = await make([previous], await stored_files(db, record, ["a.py"]), urgent=False)
    assert isinstance(file_write, FileWrite)
    assert not file_write.chunks


@pytest.mark.parametrize(
    "damage", ["delete from {chunks}", "update {chunks} set chunk_hash = 'another one'"]
)
async def test_a_row_that_went_after_it_was_compared(
    db: Database, cacheable: DiskCache, tmp_path: Path, damage: str
) -> None:
    """The transaction sees that, and all files of it are made as a whole."""
    record, plain = await of_index(db, "code"), await of_index(db, "plain")
    make, calls = maker(open_caches(cacheable)), list[bool]()

    async def disturbed(
        sources: Sequence[SourceFile], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[FileWrite | Exception]:
        writes = await make(sources, stored, urgent=urgent)
        calls.append(stored is not None)
        if stored is not None and stored[0].chunks:
            async with db.connection() as connection:
                await connection.execute(
                    compose(f"{damage} where filename = 'a.py' and chunk_number = 0", record)
                )
        return writes

    writer = GroupWriter(db, record, WorkPriority(), disturbed)
    files = [
        source(path, "\n".join(map(python, NAMES)).encode(), tmp_path) for path in ("a.py", "b.py")
    ]
    await write(writer, files)
    changed = [source(file.path, file.data + b"# more\n", tmp_path) for file in files]
    await write(writer, changed)
    await write(GroupWriter(db, plain, WorkPriority(), maker(open_caches())), changed, urgent=True)
    assert calls == [True, True, False]
    assert await table_digest(db, record) == await table_digest(db, plain)
    assert await damaged_files(db, record) == ()


def test_every_input_that_shapes_rows_is_part_of_the_key(
    disk_cache: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = source("a.py", python("a").encode(), tmp_path)
    manifests = cached_manifests(disk_cache)
    manifests.put([(file, of_extract(whole([file])[0]))])
    assert manifests.get([file])[0]
    assert cached_manifests(disk_cache, replace(RULES, index=7)).get([file])[0], (
        "of another index by the same rules"
    )
    assert not manifests.get([replace(file, path="b.py")])[0]
    assert not manifests.get([source("a.py", python("b").encode(), tmp_path)])[0]
    for rules in (
        replace(RULES, limits=chunker_limits(IndexingSettings())),
        replace(RULES, overrides=(("python", "; none"),)),
        replace(RULES, languages=(("query.python", "other"),)),
        replace(RULES, skip=replace(RULES.skip, max_file_bytes=7)),
        replace(RULES, skip=replace(RULES.skip, index_secrets=True)),
        replace(RULES, skip=replace(RULES.skip, any_type=False)),
    ):
        assert not cached_manifests(disk_cache, rules).get([file])[0]
    assert not cached_manifests(disk_cache, code=b"other code").get([file])[0]
    for version in ("ROW_VERSION", "HEADER_VERSION"):
        with monkeypatch.context() as patch:
            patch.setattr(manifest_cache, version, 99)
            assert not cached_manifests(disk_cache).get([file])[0]
    assert cached_manifests(disk_cache).get([file])[0]


def test_a_damaged_manifest_is_not_used(disk_cache: DiskCache, tmp_path: Path) -> None:
    file = source("a.py", python("a").encode(), tmp_path)
    caches, manifest = open_caches(disk_cache), of_extract(whole([file])[0])
    manifests = caches.manifests
    manifests.put([(file, manifest)])
    disk_cache.flush()
    assert manifests.get([file]) == [manifest]
    with sqlite3.connect(tmp_path / "manifests.sqlite") as connection:
        (raw,) = connection.execute("select value from kept").fetchone()
        for damaged in (raw[:40] + b"\0\0\0\0" + raw[44:], raw[:-1], b"", raw[:7]):
            connection.execute("update kept set value = ?", (damaged,))
            connection.commit()
            assert manifests.get([file]) == [None]
            (again,) = differing_here([file], [NOTHING], caches)
            assert again.chunks == whole([file])[0].chunks
            disk_cache._fresh.clear()
    connection.close()


def test_uncertain_manifests_are_not_cached(disk_cache: DiskCache, tmp_path: Path) -> None:
    """Manifests of skipped files, and of those whose parser gave up, are not cached."""
    caches = open_caches(disk_cache)
    line = source("a.py", b"x = '" + b"a" * 1_000_000 + b"'\n", tmp_path)
    for file in (line, source("b.py", b"\0\1", tmp_path)):
        (extract,) = differing_here([file], [NOTHING], caches)
        assert extract.skip_reason or extract.report.status == "error"
        assert caches.manifests.get([file]) == [None]


def test_a_manifest_of_a_file_with_errors_is_cached(disk_cache: DiskCache, tmp_path: Path) -> None:
    """Its parser has read all of it."""
    caches = open_caches(disk_cache)
    file = source("a.py", b") ] }\n" * 40, tmp_path)
    (extract,) = differing_here([file], [NOTHING], caches)
    assert extract.report.status == "error"
    assert caches.manifests.get([file])[0]


def test_the_file_of_an_earlier_version_goes(tmp_path: Path) -> None:
    """It has parse results, which nothing reads any more."""
    for name in ("outlines.sqlite", "outlines.sqlite-wal"):
        (tmp_path / name).write_bytes(b"earlier")
    cache = open_manifest_file(tmp_path, 1 << 20)
    assert cache is not None
    cache.close()
    assert [path.name for path in tmp_path.iterdir()] == ["manifests.sqlite"]
