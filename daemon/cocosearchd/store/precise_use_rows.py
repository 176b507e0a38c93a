"""Rows of precise uses: the uses of definitions in files, as a precise index states them."""

from collections.abc import Sequence
from typing import NamedTuple

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database, fetch_row
from cocosearchd.store.connection.owned_transaction import write_transaction
from cocosearchd.store.connection.statements import statement

# Files of one statement: their packed uses take about two megabytes.
_BATCH_ROWS = 500


class PreciseUseRow(NamedTuple):
    """The precise uses of a file, packed, and the hash of the content that they are valid for."""

    path: str
    content_hash: bytes
    uses: bytes


class PreciseUseCounts(NamedTuple):
    """Numbers of files with precise uses: all files, and the files that have changed since."""

    files: int = 0
    changed: int = 0


async def replace_precise_uses(
    db: Database, record: IndexRecord, rows: Sequence[PreciseUseRow]
) -> None:
    """Write rows in place of those of the same files, and delete those of changed files."""
    async with write_transaction(db) as connection:
        for first in range(0, len(rows), _BATCH_ROWS):
            paths, hashes, uses = zip(*rows[first : first + _BATCH_ROWS], strict=True)
            values = {"filenames": list(paths), "content_hashes": list(hashes), "uses": list(uses)}
            await connection.execute(statement("replace_precise_uses", record), values)
        await connection.execute(statement("delete_changed_precise_uses", record))


async def delete_precise_uses(db: Database, record: IndexRecord) -> int:
    """Delete all rows of an index; returns their number."""
    async with write_transaction(db) as connection:
        return (await connection.execute(statement("delete_precise_uses", record))).rowcount


async def precise_use_state(db: Database, record: IndexRecord) -> tuple[int, int]:
    """Read a value that differs after each import or removal of precise uses."""
    async with db.connection() as connection:
        row = await fetch_row(connection, statement("precise_use_state", record))
    assert row, "an aggregate has a row"
    return row[0], row[1]


async def count_precise_uses(db: Database, record: IndexRecord) -> PreciseUseCounts:
    """Count the files with precise uses."""
    async with db.connection() as connection:
        rows = await connection.execute(statement("count_precise_uses", record))
        row = await rows.fetchone()
    return PreciseUseCounts(*row) if row else PreciseUseCounts()
