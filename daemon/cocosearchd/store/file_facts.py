"""Reads for the code graph: the names of all files, and the packed code of some of them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.reading_transaction import reading_transaction
from cocosearchd.store.connection.statements import statement

# In files: one exchange with the server each. 2,000 files have some two megabytes of hashes.
_BATCH_NAMES = 2000


class StoredNames(NamedTuple):
    """Names of a searched file: `generation` is that of its last change."""

    path: str
    generation: int
    name_hashes: bytes  # packed by `languages.name_hashes`; empty if not known


class StoredCode(NamedTuple):
    """Definitions and facts of a searched file, packed; empty if not known."""

    path: str
    generation: int
    language: str
    symbols: bytes  # packed by `languages.symbol_table`
    facts: bytes  # packed by `languages.fact_table`
    content_hash: bytes = b""
    precise_uses: bytes = b""  # packed by `graph.scip.precise_uses`


async def file_names(
    db: Database, record: IndexRecord, paths: Sequence[str]
) -> tuple[StoredNames, ...]:
    """Read the names of files, in no order; files that are not searched are left out."""
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("file_names", record), {"filenames": list(paths)})
        return tuple(map(StoredNames._make, await cursor.fetchall()))


async def all_file_names(
    db: Database, record: IndexRecord
) -> AsyncGenerator[Sequence[StoredNames], None]:
    """Yield the names of all searched files in batches, in no order, all as of one moment.

    A connection is held until the generator is exhausted or closed.
    """
    async with (
        db.connection() as connection,
        reading_transaction(connection),
        connection.cursor("file_names", binary=True) as cursor,
    ):
        await cursor.execute(statement("file_names", record), {"filenames": None})
        while rows := await cursor.fetchmany(_BATCH_NAMES):
            yield tuple(map(StoredNames._make, rows))


async def searched_generations(db: Database, record: IndexRecord) -> dict[str, int]:
    """Read path -> generation of all searched files."""
    generations = dict[str, int]()
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("searched_generations", record))
        while rows := await cursor.fetchmany(_BATCH_NAMES):
            generations.update(rows)
            await asyncio.sleep(0)
    return generations


async def file_code(
    db: Database, record: IndexRecord, paths: Sequence[str]
) -> tuple[StoredCode, ...]:
    """Read the code of files, in no order; files that are not searched are left out."""
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("file_code", record), {"filenames": list(paths)})
        return tuple(map(StoredCode._make, await cursor.fetchall()))
