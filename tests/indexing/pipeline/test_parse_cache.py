"""What is known of a content is what parsing it would find, whatever its path and whoever asks.
Nothing else is.
"""

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


def outlines(
    kept: DiskCache | None, limits: ChunkLimits | None = None, made: bytes = b""
) -> ParseCache:
    return ParseCache(
        limits or ChunkLimits(), (), made or digest_pipeline_code(), kept, ReuseCounters()
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
        1, IndexIdentity((), "", 0), limits, (), (), 1 << 20, index_secrets=True, any_type=True
    )


def extracted(outlines: ParseCache, *sources: SourceFile) -> list[FileExtract]:
    """The files together, as they are made."""
    return extracted_here(sources, rules(outlines._limits), outlines)


def found_in(outlines: ParseCache, source: SourceFile, language: str) -> ParsedFile | None:
    return outlines.get([outlines.key(source, language)])[0]


def cases() -> list[Path]:
    """Files of every language that has golden cases, and our own."""
    found = [
        path for path in sorted(CASES.rglob("*")) if path.is_file() and path.stat().st_size < 60_000
    ]
    return [*found, *sorted(Path(__file__).parents[3].glob("daemon/cocosearchd/indexing/*.py"))]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_what_is_known_is_what_parsing_finds(
    kept: DiskCache, tmp_path: Path, limits: ChunkLimits
) -> None:
    files = [source(path.name, path.read_bytes(), tmp_path)[0] for path in cases()]
    first, second = outlines(kept, limits), outlines(kept, limits)
    made = extracted(first, *files)
    kept.flush()
    assert extracted(second, *files) == made
    assert second._counters.parsed == 0 < first._counters.parsed
    assert {one.language for one in made} > {"python", "dockerfile", "yaml"}


def test_a_moved_file_is_known_and_its_headers_are_its_own(kept: DiskCache, tmp_path: Path) -> None:
    data = python("retry").encode()
    before, _ = source("lib/retry.py", data, tmp_path)
    after, one = replace(before, path="src/again.py"), outlines(kept)
    extracted(one, before)
    assert extracted(one, after) == extracted(outlines(None), after)
    assert one._counters.parsed == 1


def test_files_of_one_content_are_parsed_once(kept: DiskCache, tmp_path: Path) -> None:
    before, _ = source("lib/retry.py", python("retry").encode(), tmp_path)
    files, one = (
        [before, replace(before, path="src/again.py"), replace(before, path="src/again.md")],
        outlines(kept),
    )
    assert extracted(one, *files) == [extracted(outlines(None), file)[0] for file in files]
    assert one._counters.parsed == 2, "as Python and as Markdown"


def test_what_makes_another_outline_is_part_of_the_key(kept: DiskCache, tmp_path: Path) -> None:
    data = b"const name = (a: number) => a;\nclass Found { find() {} }\n"
    read, language = source("a.ts", data, tmp_path)
    extracted(outlines(kept), read)
    assert found_in(outlines(kept), read, language)
    assert not found_in(outlines(kept, ChunkLimits(chunk_size=500)), read, language)
    assert not found_in(outlines(kept, made=b"other code"), read, language)
    assert not found_in(outlines(kept), replace(read, path="a.tsx"), language), "another grammar"
    assert not found_in(outlines(kept), read, "javascript")
    assert not found_in(outlines(kept), source("a.ts", data + b"\n", tmp_path)[0], language)
    assert not found_in(
        ParseCache(
            ChunkLimits(),
            (("typescript", "; none"),),
            digest_pipeline_code(),
            kept,
            ReuseCounters(),
        ),
        read,
        language,
    )


def test_what_is_damaged_is_made_again(kept: DiskCache, tmp_path: Path) -> None:
    read, language = source("a.py", python("retry").encode(), tmp_path)
    one = outlines(kept)
    extracted(one, read)
    made = found_in(one, read, language)
    kept.flush()
    with sqlite3.connect(tmp_path / "outlines.sqlite") as other:
        (raw,) = other.execute("select value from kept").fetchone()
        for damaged in (raw[:40] + b"\0\0\0\0" + raw[44:], raw[:-1], b"", raw[:7]):
            other.execute("update kept set value = ?", (damaged,))
            other.commit()
            assert found_in(one, read, language) is None
        other.execute("update kept set value = ?", (raw,))
    assert found_in(one, read, language) == made


@pytest.mark.anyio
async def test_contents_that_come_back_are_not_parsed_again(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    """Also by the child after the one that parsed them, and in other places."""
    before = {path: (root / path).read_bytes() for path in every_path(root)}
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == len(before)
        bench.write({path: data + b"# more\n" for path, data in before.items()})
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == 2 * len(before)
        bench.write(before)
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == 2 * len(before)
    async with running(db, record, root, spec) as bench:
        bench.write({path: data + b"# more\n" for path, data in before.items()})
        (root / "lib").rename(root / "moved")
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == 0
        left = await bench.digest()
    assert left == await fresh_digest(db, root, spec, tmp_path / "other")
