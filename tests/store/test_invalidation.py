"""A change of settings forgets exactly the files that it affects, and the old rows stay until they
are replaced.
"""

from dataclasses import replace

import pytest

from cocosearchd.errors import IdentityMismatch, NotFound
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
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
        if file.fingerprint is None
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


async def test_an_index_that_is_gone(db: Database) -> None:
    record = await corpus(db)
    await index_records.drop_index(db, record)
    with pytest.raises(NotFound):
        await invalidate(db, record, IDENTITY, {}, AffectedFiles())
