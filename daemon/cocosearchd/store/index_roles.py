"""An index that changes its embedder: the next one is filled beside the current one, then takes its
place.

Each step is one transaction, so that a crash leaves one of three states: both rows (filling goes
on), the new one and a former one (its tables are dropped at the next start), or the new one alone.
"""

import secrets

from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import drop_tables, registered_indexes, schema_change
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import drop_index, insert_index, require_index


async def ensure_next_index(
    db: Database, current: IndexRecord, dimension: int, identity: IndexIdentity
) -> IndexRecord:
    """The empty index that is to take the place of `current`; the one that is there, if it has this
    identity.

    Raises `NotFound`.
    """
    async with schema_change(db) as connection:
        await require_index(connection, current)
        for other in await registered_indexes(connection, role="next"):
            if other.root == current.root and other.identity == identity:
                return other
            if other.root == current.root:
                await drop_tables(connection, other)
                await connection.execute(statement("delete_index"), {"number": other.number})
        name = f"{current.name}+{secrets.token_hex(4)}"
        values = {
            "name": name,
            "root": current.root,
            "topics": list(current.topics),
            "standing": "next",
        }
        return await insert_index(connection, values, dimension, identity)


async def promote_index(db: Database, current: IndexRecord, following: IndexRecord) -> IndexRecord:
    """Let the next index take the name of the current one, which becomes a former one. Raises
    `NotFound`.
    """
    async with schema_change(db) as connection:
        await require_index(connection, current)
        await require_index(connection, following)
        values = {
            "old": current.number,
            "new": following.number,
            "name": current.name,
            "away": following.name,
        }
        await connection.execute(statement("retire_index"), values)
        await connection.execute(statement("promote_index"), values)
        (promoted,) = await registered_indexes(connection, current.name)
        return promoted


async def list_indexes_by_role(db: Database, role: str) -> tuple[IndexRecord, ...]:
    """The `next` or `former` indexes, oldest first."""
    async with db.connection() as connection:
        return await registered_indexes(connection, role=role)


async def drop_retired_indexes(db: Database) -> None:
    """Drop what has been replaced. Raises `StoreUnavailable`."""
    for record in await list_indexes_by_role(db, "former"):
        await drop_index(db, record)
