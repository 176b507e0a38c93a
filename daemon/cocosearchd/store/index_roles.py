"""Replaces an index by one of another embedder: the next index is filled, then gets the name.

Each step is one transaction, so a crash leaves one of three states: the current index and the
next one (filling goes on), the new index and a retired one (its tables are dropped at the next
start), or the new index alone.
"""

import secrets

from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import drop_tables, registered_indexes, schema_change
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import (
    delete_index,
    drop_index,
    insert_index,
    require_index,
)

# Roles, as the column `role` of the registry stores them. The third one is "current".
NEXT = "next"
RETIRED = "retired"


async def ensure_next_index(
    db: Database, current: IndexRecord, dimension: int, identity: IndexIdentity
) -> IndexRecord:
    """Return the next index of this identity, which is to replace `current`; create it if needed.

    A next index of another identity is dropped. Raises `NotFound`.
    """
    async with schema_change(db) as connection:
        await require_index(connection, current)
        for candidate in await registered_indexes(connection, role=NEXT):
            if candidate.root != current.root:
                continue
            if candidate.identity == identity:
                return candidate
            await drop_tables(connection, candidate)
            await delete_index(connection, candidate)
        name = f"{current.name}+{secrets.token_hex(4)}"
        values = {
            "name": name,
            "root": current.root,
            "topics": list(current.topics),
            "role": NEXT,
        }
        return await insert_index(connection, values, dimension, identity)


async def promote_index(
    db: Database, current: IndexRecord, replacement: IndexRecord
) -> IndexRecord:
    """Give the next index the name of the current one, which is retired. Raises `NotFound`.

    May be repeated: the answer to an earlier call may have been lost after its commit.
    """
    async with schema_change(db) as connection:
        for holder in await registered_indexes(connection, current.name):
            if holder.number == replacement.number:
                return holder
        await require_index(connection, current)
        await require_index(connection, replacement)
        values = {
            "old": current.number,
            "new": replacement.number,
            "name": current.name,
            "replacement": replacement.name,
        }
        await connection.execute(statement("move_precise_uses"), values)
        await connection.execute(statement("retire_index"), values)
        await connection.execute(statement("promote_index"), values)
        (promoted,) = await registered_indexes(connection, current.name)
        return promoted


async def list_indexes_by_role(db: Database, role: str) -> tuple[IndexRecord, ...]:
    """List the indexes of a role, oldest first."""
    async with db.connection() as connection:
        return await registered_indexes(connection, role=role)


async def drop_retired_indexes(db: Database) -> None:
    """Drop the indexes that have been replaced. Raises `StoreUnavailable`."""
    for record in await list_indexes_by_role(db, RETIRED):
        await drop_index(db, record)
