"""A change of settings invalidates exactly the affected files, and their old rows stay until they
are replaced.
"""

import asyncio
from dataclasses import replace

import pytest

from cocosearchd.errors import IdentityMismatch, NotFound
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.chunks.file_writer import refresh_fingerprints, replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose, statement
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from tests.store.support import IDENTITY, file_write, fingerprint, keyword_search, new_index

BIG = 5000
RECHUNKED = replace(IDENTITY, chunker="definitions-1:500")


async def corpus(db: Database) -> IndexRecord:
    record = await new_index(db)
    skipped = replace(file_write("key.txt", language="text"), skip_reason="secret")
    large = replace(
        file_write("big.go", "package big", language="go"),
        fingerprint=fingerprint()._replace(size=BIG),
    )
    key = file_write("test_tls.py", "KEY: -----BEGIN PRIVATE KEY-----")
    for write in (file_write("a.py", "a: alpha"), skipped, large, key):
        await replace_file(db, record, write)
    return record


async def forgotten(db: Database, record: IndexRecord) -> set[str]:
    return {
        file.path
        for file in await index_records.file_records(db, record)
        if file.fingerprint and not any(file.fingerprint[1:])
    }


@pytest.mark.parametrize(
    ("affected", "expected"),
    [
        (AffectedFiles(), set()),
        (AffectedFiles(everything=True), {"a.py", "key.txt", "big.go", "test_tls.py"}),
        (AffectedFiles(languages=("go", "zig")), {"big.go"}),
        (AffectedFiles(skipped=("secret",)), {"key.txt"}),
        (AffectedFiles(larger_than=BIG - 1), {"big.go"}),
        (AffectedFiles(larger_than=BIG), set()),
        (AffectedFiles(containing="PRIVATE KEY"), {"test_tls.py"}),
        (AffectedFiles(skipped=("secret",), languages=("go",)), {"key.txt", "big.go"}),
    ],
)
async def test_exactly_what_is_affected_is_forgotten(
    db: Database, affected: AffectedFiles, expected: set[str]
) -> None:
    record = await corpus(db)
    changed, files = await invalidate(db, record, IDENTITY, {"max_file_bytes": "9"}, affected)
    assert await forgotten(db, record) == expected
    assert files == len(expected)
    assert changed == replace(
        record, generation=changed.generation, shaping_settings=(("max_file_bytes", "9"),)
    )
    assert await index_records.list_indexes(db) == (changed,)
    assert await index_records.read_generation(db, changed) == changed.generation, (
        "no row has changed"
    )


async def test_another_chunker_keeps_the_rows_and_refuses_the_old_writers(db: Database) -> None:
    record = await corpus(db)
    changed, files = await invalidate(db, record, RECHUNKED, {}, AffectedFiles())
    assert (changed.identity, changed.generation, files) == (RECHUNKED, 4, 4)
    assert [hit.path for hit in await keyword_search(db, changed, "alpha", Filter(), 9)] == ["a.py"]
    with pytest.raises(IdentityMismatch):
        await replace_file(db, record, file_write("a.py", "a: written by the old rules"))
    await replace_file(db, changed, file_write("a.py", "a: beta"))
    assert await forgotten(db, changed) == {"key.txt", "big.go", "test_tls.py"}


async def test_forgotten_rows_are_of_no_rules(db: Database) -> None:
    """CocoIndex may remember them from an earlier time, under the very rules of now."""
    record = await corpus(db)
    write = replace(file_write("b.go", "b: 1", language="go"), rules_digest=b"now")
    await replace_file(db, record, write)
    checked = [(write.path, write.content_hash, fingerprint(7))]
    assert await refresh_fingerprints(db, record, checked, b"other") == frozenset()
    assert await refresh_fingerprints(db, record, checked, b"now") == {"b.go"}
    changed, _ = await invalidate(
        db, record, IDENTITY, {"max_file_bytes": "9"}, AffectedFiles(languages=("go",))
    )
    assert await refresh_fingerprints(db, record, checked, b"now") == frozenset()
    assert await forgotten(db, record) == {"b.go", "big.go"}
    generation = await replace_file(db, changed, write)
    assert generation == changed.generation, "the rows are equal"
    assert await refresh_fingerprints(db, changed, checked, b"now") == {"b.go"}


async def test_other_settings_refuse_the_old_writers(db: Database) -> None:
    """Also where they change no row: their fingerprint would say that the rows are right."""
    record = await corpus(db)
    changed, _ = await invalidate(
        db, record, IDENTITY, {"max_file_bytes": "9"}, AffectedFiles(languages=("python",))
    )
    for text in ("a: alpha", "a: written by the old rules"):
        with pytest.raises(IdentityMismatch, match="other settings"):
            await replace_file(db, record, file_write("a.py", text))
    assert await forgotten(db, record) == {"a.py", "test_tls.py"}
    assert await replace_file(db, changed, file_write("a.py", "a: beta")) == 5


async def test_a_write_under_way_ends_before_the_files_are_forgotten(db: Database) -> None:
    record = await corpus(db)
    async with (
        db.connection() as connection,
        asyncio.TaskGroup() as tasks,
        connection.transaction(),
    ):
        await connection.execute(statement("lock_files", record), {"filenames": "{a.py}"})
        change = invalidate(
            db, record, IDENTITY, {"max_file_bytes": "9"}, AffectedFiles(languages=("go",))
        )
        task = tasks.create_task(change)
        await asyncio.wait({task}, timeout=0.2)
        assert not task.done()
        await connection.execute(
            compose("update {files} set language_id = 'go' where filename = 'a.py'", record)
        )
    assert await forgotten(db, record) == {"a.py", "big.go"}


async def test_an_index_that_is_gone(db: Database) -> None:
    record = await corpus(db)
    await index_records.drop_index(db, record)
    with pytest.raises(NotFound):
        await invalidate(db, record, IDENTITY, {}, AffectedFiles())
