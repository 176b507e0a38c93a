"""Drops spare rows, those of what files held before, when nobody has come back to them for long."""

from collections.abc import Sequence

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement

# Whoever changes branches comes back within days, a weekend between them. Until then they take as
# much room as what has replaced them: at most as much as the whole index, and what a small one may
# have.
RETENTION_S = 3 * 86_400.0
RETAINED_CHUNKS_MIN = 10_000
FILES_AT_ONCE = 200  # locked together, for some milliseconds


async def drop_retained_chunks(
    db: Database, record: IndexRecord, age_s: float = RETENTION_S, least: int = RETAINED_CHUNKS_MIN
) -> int:
    """Drop the spare rows of files that have had them for so long; how many there were. No answer
    changes by it.

    Of more than there are other rows, and than `least`, the oldest are dropped as well.
    """
    async with db.connection() as connection:
        values = {"age_s": age_s, "least": least}
        rows = await (
            await connection.execute(statement("expired_retained_chunks", record), values)
        ).fetchall()
    paths = sorted(row[0] for row in rows)
    return sum(
        [
            await _dropped(db, record, paths[n : n + FILES_AT_ONCE])
            for n in range(0, len(paths), FILES_AT_ONCE)
        ]
    )


async def _dropped(db: Database, record: IndexRecord, paths: Sequence[str]) -> int:
    """As writes do it. What files have come to by now is dropped as well: it costs time, and no
    answers.
    """
    values = {"filenames": list(paths)}
    async with db.connection() as connection, connection.transaction():
        await connection.execute(statement("lock_files", record), values)
        row = await (
            await connection.execute(statement("drop_retained_chunks", record), values)
        ).fetchone()
    assert row, "an aggregate has a row"
    return int(row[0])
