"""Drops spare rows, those of what files held before, when nobody has come back to them for long."""

from cocosearchd.model import IndexRecord
from cocosearchd.store.pool import Database
from cocosearchd.store.statements import statement

# Whoever changes branches comes back within days, a weekend between them. Until then they take as much room as what
# has replaced them: at most as much as the whole index, and what a small one may have.
KEPT_S = 3 * 86_400.0
LEAST_CHUNKS = 10_000
FILES_AT_ONCE = 200  # locked together, for some milliseconds


async def drop_spares(db: Database, record: IndexRecord, age_s: float = KEPT_S, least: int = LEAST_CHUNKS) -> int:
    """Drop the spare rows of files that have had them for so long; how many there were. No answer changes by it.

    Of more than there are other rows, and than `least`, the oldest are dropped as well.
    """
    dropped = 0
    while True:
        async with db.connection() as connection, connection.transaction():
            values = {"age_s": age_s, "least": least, "limit": FILES_AT_ONCE}
            cursor = await connection.execute(statement("old_spares", record), values)
            if not (paths := sorted(row[0] for row in await cursor.fetchall())):
                return dropped
            # As writes do it. What has changed by then is dropped as well: it costs time, and no answers.
            await connection.execute(statement("lock_files", record), {"filenames": paths})
            row = await (await connection.execute(statement("drop_spares", record), {"filenames": paths})).fetchone()
            assert row, "an aggregate has a row"
            dropped += row[0]
