"""Reads for followers: the registry of another daemon, and the files of an index that changed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from cocosearchd.errors import NotFound, Refused
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.instance_lock import fetch_quoted_schema
from cocosearchd.store.connection.migrate import registered_indexes
from cocosearchd.store.connection.statements import migrations, statement
from cocosearchd.store.index_records import ROWS_AT_ONCE, index_not_found


@dataclass(frozen=True, slots=True)
class FollowedRegistry:
    """The registry of another daemon: its host, its database, and its indexes by number."""

    host: str  # "" until its daemon has started once in a version that stores its host
    incarnation: str  # of the database, see `index_records.read_incarnation`
    records: tuple[IndexRecord, ...]


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files of an index that changed after a generation, as of one moment."""

    generation: int
    file_count: int
    generations: dict[str, int]  # of each changed file


async def read_registry(db: Database, schema: str) -> FollowedRegistry:
    """Read the registry of a schema.

    Raises `NotFound` if there is none, `Refused` if it cannot be followed, and
    `StoreUnavailable`.
    """
    async with db.connection() as connection:
        if await quote_schema(connection, schema) == await fetch_quoted_schema(connection):
            raise Refused(
                f"schema {schema} is that of this daemon itself",
                "leave it out of database.follow",
            )
    await _check_versions(db, schema)
    async with db.connection() as connection:
        owner = await fetch_row(connection, statement("registry_owner", schema=schema))
        records = await registered_indexes(connection, role="current", schema=schema)
    assert owner, "the registry has one row"
    return FollowedRegistry(host=owner[1], incarnation=owner[0], records=records)


async def read_records(db: Database, schema: str) -> tuple[IndexRecord, ...]:
    """Read the current indexes of a schema that `read_registry` has accepted."""
    async with db.connection() as connection:
        return await registered_indexes(connection, role="current", schema=schema)


async def quote_schema(connection: Connection, schema: str) -> str:
    """Return a schema as SQL writes it: locks and channels are named after this form."""
    row = await fetch_row(connection, statement("quoted_schema"), {"schema": schema})
    assert row, "an expression has a row"
    return str(row[0])


async def _check_versions(db: Database, schema: str) -> None:
    """Raise `NotFound` without a registry, and `Refused` for one of another version."""
    try:
        async with db.connection() as connection:
            row = await fetch_row(connection, statement("schema_versions", schema=schema))
    except NotFound:
        row = None
    if row is None:
        raise NotFound(
            f"schema {schema} has no registry of a daemon",
            "start a daemon there, or correct database.follow",
        )
    registry, oldest, newest = row
    expected = (len(migrations("registry")), len(migrations("index")))
    if registry > expected[0] or (newest or 0) > expected[1]:
        raise Refused(
            f"schema {schema} was made by a newer cocosearchd", "upgrade this cocosearchd"
        )
    if registry < expected[0] or (oldest is not None and oldest < expected[1]):
        raise Refused(
            f"schema {schema} was made by an older cocosearchd",
            "upgrade the daemon that owns it",
        )


async def changed_files(db: Database, record: IndexRecord, generation: int) -> ChangedFiles:
    """Read the files that changed after a generation, -1 for all. Raises `NotFound`."""
    generations = dict[str, int]()
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("changed_files", record), {"generation": generation})
        head = None
        while rows := await cursor.fetchmany(ROWS_AT_ONCE):
            head = rows[0]
            generations.update((path, number) for _, _, path, number in rows if path is not None)
            await asyncio.sleep(0)
    if head is None:
        raise index_not_found(record)
    return ChangedFiles(generation=head[0], file_count=head[1], generations=generations)


async def count_path_lengths(db: Database, record: IndexRecord) -> dict[int, int]:
    """Count the files of an index by the length of their paths in characters."""
    async with db.connection() as connection:
        rows = await (await connection.execute(statement("path_lengths", record))).fetchall()
    return dict(rows)


async def paths_of_lengths(
    db: Database, record: IndexRecord, lengths: Sequence[int]
) -> frozenset[str]:
    """Read the paths of some lengths in characters."""
    paths = list[str]()
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("paths_of_lengths", record), {"lengths": list(lengths)})
        while rows := await cursor.fetchmany(ROWS_AT_ONCE):
            paths += [row[0] for row in rows]
            await asyncio.sleep(0)
    return frozenset(paths)
