"""Maintains the vector index of an index: builds, rebuilds or drops it, whichever costs less.

A build takes minutes of CPU for a million chunks, so callers run it when the daemon is idle.
Searches and writes go on meanwhile.
"""

from typing import Literal

from psycopg import sql

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.citus import read_catalogs
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.maintenance_lock import try_maintenance_lock
from cocosearchd.store.connection.owned_transaction import check_owner
from cocosearchd.store.connection.statements import statement

# In chunks. Comparing 20,000 rows of this width takes less than 20 ms of CPU, while the index costs
# 2 to 3 ms for each row written. The gap keeps an index near the limit from repeated builds.
BUILD_AT = 20_000
DROP_BELOW = 10_000
# Dead rows per live row. Vacuum repairs the graph at 5 to 6 ms per dead row, so above this share a
# new graph is cheaper. Autovacuum by itself would start at a fifth.
WORN = 0.1

_NEVER = 1 << 62  # in chunks: more than any index has

Outcome = Literal["none", "busy", "kept", "built", "rebuilt", "dropped"]


async def ensure_vector_index(
    db: Database, record: IndexRecord, build_at: int = BUILD_AT, drop_below: int = DROP_BELOW
) -> Outcome:
    """Build, rebuild or drop the vector index as the number of chunks demands.

    Idempotent; does nothing while another caller is at work. A cancelled call leaves an index that
    PostgreSQL marks as invalid and never uses; the next call removes that index. The owner of the
    registry is checked before, since an index cannot be built within a transaction; answers do not
    depend on it. Raises as `Database.session` and `check_owner` do.
    """
    async with (
        db.session({"statement_timeout": "0", "lock_timeout": "0"}) as connection,
        try_maintenance_lock(connection, record, "vectors") as is_locked,
    ):
        if not is_locked:
            return "busy"
        await check_owner(connection, db.owner)
        return await _maintain(connection, record, build_at, drop_below)


async def drop_vector_index(db: Database, record: IndexRecord) -> Outcome:
    """Drop the vector index, valid or not, as `ensure_vector_index` does. Idempotent."""
    return await ensure_vector_index(db, record, build_at=_NEVER, drop_below=_NEVER)


async def _dead_share(connection: Connection, record: IndexRecord) -> float:
    ((share,),) = await read_catalogs(connection, record, "chunks_name", "dead_share", {})
    return float(share)


async def _maintain(
    connection: Connection, record: IndexRecord, build_at: int, drop_below: int
) -> Outcome:
    row = await fetch_row(connection, statement("vector_index_state", record))
    assert row, "a select without from has a row"
    exists, invalid, chunks = row
    for name in invalid:  # left by a killed build; every write still updates it
        await connection.execute(statement("drop_index", index=sql.Identifier(name)))
    if exists and chunks < drop_below:
        await connection.execute(statement("drop_vector_index", record))
        return "dropped"
    if exists and await _dead_share(connection, record) > WORN:
        await connection.execute(statement("rebuild_vector_index", record))
        await connection.execute(statement("vacuum", record))
        return "rebuilt"
    if not exists and chunks >= build_at:
        await connection.execute(statement("build_vector_index", record))
        # The choice between an exact and an approximate search needs fresh statistics.
        await connection.execute(statement("analyze", record))
        return "built"
    return "kept" if exists else "none"
