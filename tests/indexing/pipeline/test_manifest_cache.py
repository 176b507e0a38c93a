"""What is compared before it is made is stored as what is made as a whole is, and no sheet is used
for another file.
"""

import asyncio
import random
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.embedding.caching import ReuseCounters
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.pipeline import manifest_cache
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.file_manifest import FileManifest, build_file_manifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_cache import ParseCache, digest_pipeline_code
from cocosearchd.indexing.worker.index_threads import IndexThreads
from cocosearchd.indexing.worker.known_contents import skip_reason
from cocosearchd.indexing.worker.row_maker import FileExtract, RowMaker, RowRules
from cocosearchd.indexing.worker.transaction_group import GroupWriter
from cocosearchd.indexing.worker.work_priority import WorkPriority
from cocosearchd.model import IndexRecord
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.store.chunks.manifest import StoredFile
from cocosearchd.store.chunks.queries import FileWrite, stored_files
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.index_records import counts, damaged_files, table_digest
from tests.indexing.conftest import python
from tests.indexing.parsing import NOTHING, RULES, ParserHere, differing_here, extracted_here
from tests.store.support import new_index

pytestmark = pytest.mark.anyio

CASES = Path(__file__).parents[2] / "languages"
NAMES = [f"name_{number}" for number in range(12)]


def outlines(kept: DiskCache | None, made: bytes = b"") -> ParseCache:
    return ParseCache(RULES.limits, (), made or digest_pipeline_code(), kept, ReuseCounters())


def source(path: str, data: bytes, tmp_path: Path) -> SourceFile:
    (tmp_path / "one").write_bytes(data)
    (read,) = read_files(bytes(tmp_path), ["one"], 1 << 20)
    assert isinstance(read, SourceFile)
    return replace(read, path=path)


def maker(outlines: ParseCache, rules: RowRules = RULES) -> RowMaker:
    work_priority = WorkPriority()
    return RowMaker(
        rules,
        BuiltinEmbedder(),
        outlines,
        work_priority,
        IndexThreads(work_priority),
        ParserHere(rules.limits),
    )


def sheets_of(kept: DiskCache, rules: RowRules = RULES, made: bytes = b"") -> ManifestCache:
    """As an index of these rules has them."""
    return maker(outlines(kept, made), rules)._manifests


def whole(sources: Sequence[SourceFile]) -> list[FileExtract]:
    return extracted_here(sources, RULES, outlines(None))


def of_extract(one: FileExtract) -> FileManifest:
    return build_file_manifest(one.chunks, one.language, one.report, one.scopes, one.skip)


async def of_index(db: Database, name: str) -> IndexRecord:
    return await new_index(db, name, f"/{name}".encode(), BuiltinEmbedder().fingerprint.dimension)


async def write(
    writer: GroupWriter[SourceFile], sources: Sequence[SourceFile], *, urgent: bool = False
) -> None:
    """All at once."""
    await asyncio.gather(*(writer.apply(one.path, one, urgent=urgent) for one in sources))


def edited(lines: Sequence[str], dice: random.Random) -> list[str]:
    """A module with definitions gone, new, moved, twice or changed."""
    found = list(lines)
    for _ in range(dice.randrange(1, 4)):
        place, name = dice.randrange(len(found) + 1), dice.choice(NAMES)
        what = dice.randrange(5)
        if what == 0 or not found:
            found.insert(place, python(name, dice.randrange(3)))
        elif what == 1:
            del found[place - 1]
        elif what == 2:
            found.insert(place, found.pop(dice.randrange(len(found))))
        elif what == 3:
            found.insert(place, dice.choice(found))
        else:
            found[place - 1] = found[place - 1].replace(
                "total", f"sum_{dice.randrange(3)}"
            ) + "# \0 nul\n" * (place % 2)
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_rows_are_those_that_are_made_as_a_whole(
    db: Database, cacheable: DiskCache, tmp_path: Path, seed: int
) -> None:
    """A history of edits, some of them taken back, by sheets and by none; then the vectors are the
    same as well.
    """
    dice, known = random.Random(seed), outlines(cacheable)
    record, plain = await of_index(db, "compared"), await of_index(db, "whole")
    by_sheets = GroupWriter(db, record, WorkPriority(), maker(known))
    by_none = GroupWriter(db, plain, WorkPriority(), maker(outlines(None)))
    modules: dict[str, list[list[str]]] = {
        f"src/{name}.py": [[python(name)]] for name in ("a", "b", "c")
    }
    for step in range(10):
        files = list[SourceFile]()
        for path, history in modules.items():
            history.append(edited(history[-1], dice) if step % 3 else dice.choice(history))
            files.append(source(path, "\n".join(history[-1]).encode(), tmp_path))
        await write(by_sheets, files)
        await write(by_none, files, urgent=True)
        assert await table_digest(db, record) == await table_digest(db, plain)
    assert await damaged_files(db, record) == ()
    assert known._counters.parsed < 30


async def test_what_is_not_looked_into_and_what_is_nothing(
    db: Database, cacheable: DiskCache, tmp_path: Path
) -> None:
    """Files of which there is no sheet, and whose rows go."""
    record, plain = await of_index(db, "compared"), await of_index(db, "whole")
    for data in (python("a").encode(), b"\0\1\2", python("b").encode(), b"", b"\n\n"):
        one = [source("a.py", data, tmp_path)]
        await write(GroupWriter(db, record, WorkPriority(), maker(outlines(cacheable))), one)
        await write(GroupWriter(db, plain, WorkPriority(), maker(outlines(None))), one, urgent=True)
        assert await table_digest(db, record) == await table_digest(db, plain)


def test_a_sheet_that_is_known_says_what_making_does(kept: DiskCache, tmp_path: Path) -> None:
    paths = [
        path for path in sorted(CASES.rglob("*")) if path.is_file() and path.stat().st_size < 60_000
    ]
    files = [source(f"cases/{path.name}", path.read_bytes(), tmp_path) for path in paths]
    files = [one for one in files if not skip_reason(one, "any", RULES.skip_rules)]
    rows, found = [NOTHING] * len(files), sheets_of(kept)
    first = differing_here(files, rows, RULES, outlines(None), found)
    assert [(one.chunks, one.language, one.report, one.scopes) for one in first] == [
        (one.chunks, one.language, one.report, one.scopes) for one in whole(files)
    ]
    kept.flush()
    known = [
        (one, row) for one, row, sheet in zip(files, first, found.get(files), strict=True) if sheet
    ]
    assert len(known) > len(files) * 0.9
    parsing = outlines(None)
    again = differing_here(
        [one for one, _ in known], rows[: len(known)], RULES, parsing, sheets_of(kept)
    )
    assert not parsing._counters.parsed, "a sheet is known of each"
    assert again == [row for _, row in known]


async def test_only_what_is_not_stored_is_made(
    db: Database, cacheable: DiskCache, tmp_path: Path
) -> None:
    record, make = await of_index(db, "code"), maker(outlines(cacheable))
    modules = [python(name) for name in NAMES[:5]]
    before = source("a.py", "\n".join(modules).encode(), tmp_path)
    await write(GroupWriter(db, record, WorkPriority(), make), [before])
    modules[2] = modules[2].replace("total", "sum")
    after = source("a.py", "\n".join(modules).encode(), tmp_path)
    (made,) = await make([after], await stored_files(db, record, ["a.py"]), urgent=False)
    assert isinstance(made, FileWrite)
    assert {chunk.text.count("sum") > 0 for chunk in made.chunks} == {True}
    assert len(made.chunks) == len(made.vectors) < (await counts(db, record)).chunks / 2
    (made,) = await make([before], await stored_files(db, record, ["a.py"]), urgent=False)
    assert isinstance(made, FileWrite)
    assert not made.chunks


@pytest.mark.parametrize(
    "damage", ["delete from {chunks}", "update {chunks} set chunk_hash = 'another one'"]
)
async def test_a_row_that_went_after_it_was_compared(
    db: Database, cacheable: DiskCache, tmp_path: Path, damage: str
) -> None:
    """The transaction sees that, and all files of it are made as a whole."""
    record, plain = await of_index(db, "code"), await of_index(db, "plain")
    make, asked = maker(outlines(cacheable)), list[bool]()

    async def disturbed(
        sources: Sequence[SourceFile], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> Sequence[FileWrite | Exception]:
        made = await make(sources, stored, urgent=urgent)
        asked.append(stored is not None)
        if stored is not None and stored[0].chunks:
            async with db.connection() as other:
                await other.execute(
                    compose(f"{damage} where filename = 'a.py' and chunk_number = 0", record)
                )
        return made

    writer = GroupWriter(db, record, WorkPriority(), disturbed)
    files = [
        source(path, "\n".join(map(python, NAMES)).encode(), tmp_path) for path in ("a.py", "b.py")
    ]
    await write(writer, files)
    changed = [source(one.path, one.data + b"# more\n", tmp_path) for one in files]
    await write(writer, changed)
    await write(GroupWriter(db, plain, WorkPriority(), maker(outlines(None))), changed, urgent=True)
    assert asked == [True, True, False]
    assert await table_digest(db, record) == await table_digest(db, plain)
    assert await damaged_files(db, record) == ()


def test_what_shapes_rows_is_part_of_the_key(
    kept: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = source("a.py", python("a").encode(), tmp_path)
    found = sheets_of(kept)
    found.put([(one, of_extract(whole([one])[0]))])
    assert found.get([one])[0]
    assert sheets_of(kept, replace(RULES, index=7)).get([one])[0], (
        "of another index by the same rules"
    )
    assert not found.get([replace(one, path="b.py")])[0]
    assert not found.get([source("a.py", python("b").encode(), tmp_path)])[0]
    for rules in (
        replace(RULES, limits=ChunkLimits()),
        replace(RULES, overrides=(("python", "; none"),)),
        replace(RULES, queries=(("query.python", "other"),)),
        replace(RULES, max_file_bytes=7),
        replace(RULES, index_secrets=True),
        replace(RULES, any_type=False),
    ):
        assert not sheets_of(kept, rules).get([one])[0]
    assert not sheets_of(kept, made=b"other code").get([one])[0]
    for version in ("ROW_VERSION", "HEADER_VERSION"):
        with monkeypatch.context() as other:
            other.setattr(manifest_cache, version, 99)
            assert not sheets_of(kept).get([one])[0]
    assert sheets_of(kept).get([one])[0]


def test_a_damaged_sheet_is_none(kept: DiskCache, tmp_path: Path) -> None:
    one = source("a.py", python("a").encode(), tmp_path)
    found, made = sheets_of(kept), of_extract(whole([one])[0])
    found.put([(one, made)])
    kept.flush()
    assert found.get([one]) == [made]
    with sqlite3.connect(tmp_path / "outlines.sqlite") as other:
        (raw,) = other.execute("select value from kept").fetchone()
        for damaged in (raw[:40] + b"\0\0\0\0" + raw[44:], raw[:-1], b"", raw[:7]):
            other.execute("update kept set value = ?", (damaged,))
            other.commit()
            assert found.get([one]) == [None]
            (again,) = differing_here([one], [NOTHING], RULES, outlines(None), found)
            assert again.chunks == whole([one])[0].chunks
            kept._fresh.clear()
    other.close()


def test_what_may_turn_out_otherwise_is_not_kept(kept: DiskCache, tmp_path: Path) -> None:
    """What could not be parsed, and what was not looked into."""
    found = sheets_of(kept)
    line = source("a.py", b"x = '" + b"a" * 1_000_000 + b"'\n", tmp_path)
    for one in (line, source("b.py", b"\0\1", tmp_path)):
        (made,) = whole([one])
        assert made.skip or made.report.status == "error"
        found.put([(one, of_extract(made))])
        assert found.get([one]) == [None]
