"""A cached parse result equals a new one, whatever the path of the content; nothing else is cached."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.embedding.caching import ReuseCounters
from cocosearchd.indexing.coordinator.updater import IndexerSpec
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.pipeline.parse_cache import ParseCache, digest_pipeline_code
from cocosearchd.indexing.pipeline.parse_result import ParsedFile
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.worker.row_maker import FileExtract, RowRules
from cocosearchd.languages.detect import HEAD_BYTES, detect
from cocosearchd.model import IndexIdentity
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.store.connection.database import Database
from tests.indexing.conftest import python
from tests.indexing.parsing import extracted_here
from tests.indexing.support import every_path, fresh_digest, new_record, running

CASES = Path(__file__).parents[2] / "languages"
LIMITS = (ChunkLimits(), ChunkLimits(chunk_size=300), ChunkLimits("recursive", 500, 100))


def open_parse_cache(
    disk_cache: DiskCache | None, limits: ChunkLimits | None = None, code: bytes = b""
) -> ParseCache:
    return ParseCache(
        limits or ChunkLimits(), (), code or digest_pipeline_code(), disk_cache, ReuseCounters()
    )


def source(path: str, data: bytes, tmp_path: Path) -> tuple[SourceFile, str]:
    """A file as it is read, and its language."""
    (tmp_path / "one").write_bytes(data)
    (read,) = read_files(bytes(tmp_path), ["one"], 1 << 20)
    assert isinstance(read, SourceFile)
    return replace(read, path=path), detect(path, data[:HEAD_BYTES])


def rules(limits: ChunkLimits) -> RowRules:
    """All files are looked into."""
    return RowRules(
        1,
        IndexIdentity((), "", 0),
        limits,
        (),
        (),
        SkipRules(1 << 20, index_secrets=True, any_type=True),
    )


def extracted(open_parse_cache: ParseCache, *sources: SourceFile) -> list[FileExtract]:
    """The files together, as they are made."""
    return extracted_here(sources, rules(open_parse_cache._limits), open_parse_cache)


def found_in(open_parse_cache: ParseCache, source: SourceFile, language: str) -> ParsedFile | None:
    return open_parse_cache.get([open_parse_cache.key(source, language)])[0]


def cases() -> list[Path]:
    """Files of every language that has golden cases, and our own."""
    params = [
        path for path in sorted(CASES.rglob("*")) if path.is_file() and path.stat().st_size < 60_000
    ]
    return [*params, *sorted(Path(__file__).parents[3].glob("daemon/cocosearchd/indexing/*.py"))]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_a_cached_parse_result_equals_a_new_one(
    disk_cache: DiskCache, tmp_path: Path, limits: ChunkLimits
) -> None:
    files = [source(path.name, path.read_bytes(), tmp_path)[0] for path in cases()]
    first, second = open_parse_cache(disk_cache, limits), open_parse_cache(disk_cache, limits)
    extracts = extracted(first, *files)
    disk_cache.flush()
    assert extracted(second, *files) == extracts
    assert second._counters.parsed == 0 < first._counters.parsed
    assert {extract.language for extract in extracts} > {"python", "dockerfile", "yaml"}


def test_a_moved_file_is_known_and_its_headers_are_its_own(
    disk_cache: DiskCache, tmp_path: Path
) -> None:
    data = python("retry").encode()
    original, _ = source("lib/retry.py", data, tmp_path)
    after, parse_cache = replace(original, path="src/again.py"), open_parse_cache(disk_cache)
    extracted(parse_cache, original)
    assert extracted(parse_cache, after) == extracted(open_parse_cache(None), after)
    assert parse_cache._counters.parsed == 1


def test_files_of_one_content_are_parsed_once(disk_cache: DiskCache, tmp_path: Path) -> None:
    original, _ = source("lib/retry.py", python("retry").encode(), tmp_path)
    files, parse_cache = (
        [original, replace(original, path="src/again.py"), replace(original, path="src/again.md")],
        open_parse_cache(disk_cache),
    )
    assert extracted(parse_cache, *files) == [
        extracted(open_parse_cache(None), file)[0] for file in files
    ]
    assert parse_cache._counters.parsed == 2, "as Python and as Markdown"


def test_every_input_of_parsing_is_part_of_the_key(disk_cache: DiskCache, tmp_path: Path) -> None:
    data = b"const name = (a: number) => a;\nclass Found { find() {} }\n"
    read, language = source("a.ts", data, tmp_path)
    extracted(open_parse_cache(disk_cache), read)
    assert found_in(open_parse_cache(disk_cache), read, language)
    assert not found_in(open_parse_cache(disk_cache, ChunkLimits(chunk_size=500)), read, language)
    assert not found_in(open_parse_cache(disk_cache, code=b"other code"), read, language)
    assert not found_in(open_parse_cache(disk_cache), replace(read, path="a.tsx"), language), (
        "another grammar"
    )
    assert not found_in(open_parse_cache(disk_cache), read, "javascript")
    assert not found_in(
        open_parse_cache(disk_cache), source("a.ts", data + b"\n", tmp_path)[0], language
    )
    assert not found_in(
        ParseCache(
            ChunkLimits(),
            (("typescript", "; none"),),
            digest_pipeline_code(),
            disk_cache,
            ReuseCounters(),
        ),
        read,
        language,
    )


def test_a_damaged_parse_result_is_made_again(disk_cache: DiskCache, tmp_path: Path) -> None:
    read, language = source("a.py", python("retry").encode(), tmp_path)
    parse_cache = open_parse_cache(disk_cache)
    extracted(parse_cache, read)
    parsed = found_in(parse_cache, read, language)
    disk_cache.flush()
    with sqlite3.connect(tmp_path / "outlines.sqlite") as connection:
        (raw,) = connection.execute("select value from kept").fetchone()
        for damaged in (raw[:40] + b"\0\0\0\0" + raw[44:], raw[:-1], b"", raw[:7]):
            connection.execute("update kept set value = ?", (damaged,))
            connection.commit()
            assert found_in(parse_cache, read, language) is None
        connection.execute("update kept set value = ?", (raw,))
    assert found_in(parse_cache, read, language) == parsed


@pytest.mark.anyio
async def test_contents_that_come_back_are_not_parsed_again(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    """Also by the child after the one that parsed them, and in other places."""
    contents = {path: (root / path).read_bytes() for path in every_path(root)}
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == len(contents)
        bench.write({path: data + b"# more\n" for path, data in contents.items()})
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == 2 * len(contents)
        bench.write(contents)
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == 2 * len(contents)
    async with running(db, record, root, spec) as bench:
        bench.write({path: data + b"# more\n" for path, data in contents.items()})
        (root / "lib").rename(root / "moved")
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == 0
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")
