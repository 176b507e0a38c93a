"""Drops retained chunks (rows of previous contents) after a long time without use."""

from collections.abc import Sequence

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.row_changes import delete_words
from cocosearchd.store.connection.database import Database, fetch_row
from cocosearchd.store.connection.owned_transaction import write_transaction
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.words.words_table import read_words_state

# People go back to a branch within days, perhaps after a weekend. Until then retained chunks take as
# much room as the chunks that replaced them. Their number is limited to the number of other chunks
# of the index, or to the minimum below if that is larger.
RETENTION_S = 3 * 86_400.0
RETAINED_CHUNKS_MIN = 10_000
FILES_AT_ONCE = 200  # locked together, for a few milliseconds


async def drop_retained_chunks(
    db: Database,
    record: IndexRecord,
    age_s: float = RETENTION_S,
    minimum: int = RETAINED_CHUNKS_MIN,
) -> int:
    """Drop chunks that files have retained for `age_s`; return their number. No answer changes.

    If there are more retained chunks than other chunks, and more than `minimum`, the oldest are
    dropped as well.
    """
    async with db.connection() as connection:
        values = {"age_s": age_s, "minimum": minimum}
        rows = await (
            await connection.execute(statement("expired_retained_chunks", record), values)
        ).fetchall()
    paths = sorted(row[0] for row in rows)
    return sum(
        [
            await _drop(db, record, paths[n : n + FILES_AT_ONCE])
            for n in range(0, len(paths), FILES_AT_ONCE)
        ]
    )


async def _drop(db: Database, record: IndexRecord, paths: Sequence[str]) -> int:
    """Drop the retained chunks of files, under the locks that writes take.

    Chunks that a file has retained since the paths were read are dropped too: this costs time if the
    content comes back, but changes no answer.
    """
    values = {"filenames": list(paths)}
    async with write_transaction(db) as connection:
        await connection.execute(statement("lock_files", record), values)
        row = await fetch_row(connection, statement("drop_retained_chunks", record), values)
        if await read_words_state(connection, record) != "none":
            await delete_words(connection, record, paths)
    assert row, "an aggregate has a row"
    return int(row[0])
