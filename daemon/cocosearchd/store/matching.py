"""Which chunks pass a filter, by key alone: for a ranking that holds the rest in memory."""

from cocosearchd.model import Filter, IndexRecord
from cocosearchd.store.filters import filter_sql
from cocosearchd.store.pool import Database
from cocosearchd.store.rows import Key
from cocosearchd.store.statements import statement


async def matching_keys(db: Database, record: IndexRecord, where: Filter, limit: int) -> tuple[Key, ...]:
    """The keys of at most `limit` chunks, in no order."""
    condition, values = filter_sql(where)
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("matching_keys", record, filter=condition), values | {"limit": limit})
        return tuple(await cursor.fetchall())
