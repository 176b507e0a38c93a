"""Files with equal content are parsed once, whatever their paths, also when the content comes back."""

from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.indexing.pipeline.content_keys import ContentKeys, digest_pipeline_code
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.store.connection.database import Database
from tests.indexing.conftest import python
from tests.indexing.parsing import RULES, extracted_here, open_caches
from tests.indexing.support import every_path, fresh_digest, new_record, running


def source(path: str, data: bytes, tmp_path: Path) -> SourceFile:
    """A file as it is read."""
    (tmp_path / "one").write_bytes(data)
    (read,) = read_files(bytes(tmp_path), ["one"], 1 << 20)
    assert isinstance(read, SourceFile)
    return replace(read, path=path)


def test_files_of_one_content_are_parsed_once(tmp_path: Path) -> None:
    original = source("lib/retry.py", python("retry").encode(), tmp_path)
    copies = [replace(original, path=path) for path in ("src/again.py", "src/again.md")]
    caches = open_caches()
    assert extracted_here([original, *copies], caches) == [
        extracted_here([file], open_caches())[0] for file in (original, *copies)
    ]
    assert caches.counters.parsed == 2, "as Python and as Markdown"


def test_every_input_of_parsing_is_part_of_the_key(tmp_path: Path) -> None:
    file = source("a.ts", b"const name = (a: number) => a;\n", tmp_path)
    code = digest_pipeline_code()
    keys = ContentKeys(RULES.limits, (), code)
    key = keys.key(file, "typescript")
    assert keys.key(replace(file, path="src/b.ts"), "typescript") == key
    other_keys = [
        ContentKeys(chunker_limits(IndexingSettings(chunk_size=500)), (), code).key(
            file, "typescript"
        ),
        ContentKeys(RULES.limits, (), b"other code").key(file, "typescript"),
        ContentKeys(RULES.limits, (("typescript", "; none"),), code).key(file, "typescript"),
        keys.key(replace(file, path="a.tsx"), "typescript"),  # another grammar
        keys.key(file, "javascript"),
        keys.key(source("a.ts", file.data + b"\n", tmp_path), "typescript"),
    ]
    assert len({key, *other_keys}) == 7


@pytest.mark.anyio
async def test_contents_that_come_back_are_not_parsed_again(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    """Also by the child after the one that parsed them. Moved files are parsed again."""
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
        moved = [path for path in contents if path.startswith("lib/")]
        (root / "lib").rename(root / "moved")
        assert await bench.feed_all() == {}
        assert bench.updater.status.parsed == len(moved)
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")
