"""The registry of indexes, and small reads outside the two flows: file records, statistics."""

import asyncio
import hashlib
import re
import shlex
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from cocosearchd.errors import Conflict, NotFound, StoreUnavailable
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.forms.path_forms import describe_root
from cocosearchd.model import FileRecord, Fingerprint, IndexIdentity, IndexRecord, SkipReason
from cocosearchd.store.connection.citus import has_distributed_tables
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.migrate import (
    drop_tables,
    registered_indexes,
    schema_change,
    upgrade_tables,
)
from cocosearchd.store.connection.owned_transaction import write_transaction
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.filter_sql import file_filter_sql
from cocosearchd.store.lineage import LINEAGE

# With this length, codeindex_{slug}__{slug}_chunks has 63 bytes: PostgreSQL cuts longer names.
SLUG_LENGTH = 22
# Rows that become objects, in a few milliseconds, before other tasks of the event loop run.
ROWS_AT_ONCE = 500
_FINGERPRINT = struct.Struct(">QQQqqQ")


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A file that did not parse completely or was skipped, with the reason in `error_message`."""

    path: str
    language: str
    status: str
    error_count: int
    error_message: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of files and chunks of an index. Skipped files count only under their reason."""

    files: int
    chunks: int
    skipped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """Counts of one index. `symbols` counts definitions.

    `size_bytes` is the size on disk, indexes included.
    """

    files: int  # without skipped ones
    chunks: int
    symbols: int
    size_bytes: int
    languages: tuple[tuple[str, int, int], ...]  # language, files, chunks; most files first
    parse_health: tuple[tuple[str, str, int], ...]  # language, status, files
    skipped: tuple[tuple[str, int], ...]  # reason, files
    last_change: datetime | None
    generation: int


def pack_fingerprint(fingerprint: Fingerprint | None) -> bytes | None:
    """Pack a fingerprint for the column `fingerprint` of the files table."""
    if fingerprint is None:
        return None
    f = fingerprint
    return _FINGERPRINT.pack(f.device, f.inode, f.size, f.mtime_ns, f.ctime_ns, f.mode)


def unpack_fingerprint(packed: bytes | None) -> Fingerprint | None:
    """Invert `pack_fingerprint`."""
    return None if packed is None else Fingerprint._make(_FINGERPRINT.unpack(packed))


def slug_candidates(name: str) -> Iterator[str]:
    """Yield candidates for the index's part of table names, best first, without end.

    The first is the name itself if it can be used unchanged. The others are the beginning of the
    name, which keeps them readable, and a hash of the name.
    """
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if plain == name and len(name) <= SLUG_LENGTH:
        yield name
    salt = 0
    while True:
        digest = hashlib.blake2b(f"{salt}:{name}".encode(), digest_size=3).hexdigest()
        yield f"{plain[: SLUG_LENGTH - 7].strip('_') or 'index'}_{digest}"
        salt += 1


def identity_digest(identity: IndexIdentity) -> bytes:
    """Digest an identity; a write enters an index only if its digest is equal."""
    return hashlib.blake2b(repr(identity).encode(), digest_size=16).digest()


async def read_incarnation(db: Database, record: IndexRecord | None = None) -> str:
    """Read the UUID of this database, or of the registry that a record is from.

    Side indexes and caches of another database never match it.
    """
    async with db.connection() as connection:
        row = await fetch_row(connection, statement("incarnation", record))
    assert row, "the registry has one row"
    return str(row[0])


async def create_index(
    db: Database,
    name: str,
    root: bytes,
    topics: tuple[str, ...],
    dimension: int,
    identity: IndexIdentity,
) -> IndexRecord:
    """Create an empty index and its tables. Raises `Conflict` if the name or the root is taken."""
    async with schema_change(db) as connection:
        cursor = await connection.execute(statement("index_conflict"), {"name": name, "root": root})
        for owner_name, owner_root in await cursor.fetchall():
            conflict = (
                f"the name {name}" if owner_name == name else f"the root {describe_root(root)}"
            )
            raise Conflict(
                f"{conflict} is taken by index {owner_name} of {describe_root(owner_root)}",
                f"choose another name, or forget it with `cocosearchctl clear {shlex.quote(owner_name)}`",
            )
        values = {"name": name, "root": root, "topics": list(topics), "role": "current"}
        return await insert_index(connection, values, dimension, identity)


async def insert_index(
    connection: Connection, values: dict[str, Any], dimension: int, identity: IndexIdentity
) -> IndexRecord:
    """Insert a row of the registry and create empty tables, within a schema change.

    `values` has name, root, topics and role.
    """
    used = {row[0] for row in await (await connection.execute(statement("taken_slugs"))).fetchall()}
    slug = next(slug for slug in slug_candidates(values["name"]) if slug not in used)
    row = values | identity_values(dimension, identity) | {"slug": slug}
    await connection.execute(statement("insert_index"), row)
    (record,) = await registered_indexes(connection, values["name"])
    await upgrade_tables(connection, record)
    return record


async def list_indexes(db: Database) -> tuple[IndexRecord, ...]:
    """List the current indexes, oldest first; see `index_roles` for next and retired ones."""
    async with db.connection() as connection:
        return await registered_indexes(connection, role="current")


async def index_numbers(db: Database) -> frozenset[int]:
    """Read the numbers of all indexes, whatever their role."""
    async with db.connection() as connection:
        return frozenset(record.number for record in await registered_indexes(connection))


async def drop_index(db: Database, record: IndexRecord) -> Counts:
    """Drop the tables of an index and its row; return its counts.

    Raises `NotFound`, and `StoreUnavailable` if nothing was dropped, or if nobody can tell.
    """
    dropped: Counts | None = None
    try:
        async with schema_change(db) as connection:
            await require_index(connection, record)
            counts = await _counts(connection, record)
            # Tables first, the registry's row last: the order in which a write locks them.
            await drop_tables(connection, record)
            await delete_index(connection, record)
            dropped = counts
    except StoreUnavailable:
        # The commit may have arrived, and its answer not.
        if dropped is None or record.number in await index_numbers(db):
            raise
    return dropped


async def delete_index(connection: Connection, record: IndexRecord) -> None:
    """Delete the row of an index whose tables are dropped, within a schema change.

    Later indexes begin with a higher generation.
    """
    row = await fetch_row(connection, statement("delete_index", record), {})
    if row is not None:
        values = {"generation": row[0]}
        await connection.execute(statement("raise_generation_floor"), values)


async def set_topics(db: Database, record: IndexRecord, topics: tuple[str, ...]) -> None:
    """Replace the topics of an index."""
    async with write_transaction(db) as connection:
        await connection.execute(statement("set_topics", record), {"topics": list(topics)})


async def read_generation(db: Database, record: IndexRecord) -> int:
    """Read the number of the last committed change. Raises `NotFound`."""
    async with db.connection() as connection:
        row = await fetch_row(connection, statement("generation", record))
    if row is None:
        raise index_not_found(record)
    return int(row[0])


async def raise_generation(db: Database, record: IndexRecord, lost: int) -> int:
    """Raise the generation of an index above one that PostgreSQL lost, to the next lineage.

    Raises `NotFound`.
    """
    values = {"lost": lost, "lineage": LINEAGE}
    async with write_transaction(db) as connection:
        row = await fetch_row(connection, statement("raise_generation", record), values)
    if row is None:
        raise index_not_found(record)
    return int(row[0])


class RowsState(NamedTuple):
    """The generation of an index, and which rows it counts.

    `table` is the identity of its table of files: restored rows are in another one. `incarnation` is
    that of the database, see `read_incarnation`.
    """

    generation: int
    table: int | None
    incarnation: str


async def rows_state(db: Database, record: IndexRecord) -> RowsState:
    """Read the state of the rows of an index. Raises `NotFound`."""
    async with db.connection() as connection:
        table = None
        if connection.has_citus:
            table = await fetch_row(connection, statement("files_table", record))
        row = await fetch_row(connection, statement("rows_state", record))
    if row is None:
        raise index_not_found(record)
    return RowsState(row[0], table[0] if table else row[1], row[2])


async def file_records(
    db: Database, record: IndexRecord, under: str = ""
) -> tuple[FileRecord, ...]:
    """Read the records of the files at or below `under`, ordered by path.

    `under` is a path inside the root; "" is the root.
    """
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("file_records", record), {"under": under})
        files = list[FileRecord]()
        while rows := await cursor.fetchmany(ROWS_AT_ONCE):
            files += (
                FileRecord(
                    path=path,
                    content_hash=content_hash,
                    fingerprint=unpack_fingerprint(packed),
                    generation=number,
                    chunk_count=chunk_count,
                    language=language,
                    skip_reason=skip_reason,
                )
                for path, content_hash, packed, number, chunk_count, language, skip_reason in rows
            )
            await asyncio.sleep(0)
    return tuple(files)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a list. `skip_reason` says why its text is not searched; None: it is searched."""

    path: str
    language: str
    chunk_count: int
    skip_reason: SkipReason | None


async def file_page(
    db: Database,
    record: IndexRecord,
    where: Filter,
    *,
    under: str,
    skipped: bool,
    after: str,
    limit: int,
) -> tuple[tuple[ListedFile, ...], int]:
    """Read at most `limit` files that pass a filter, by path, and the number of all such files.

    The files lie at or below `under`, as in `file_records`, and come after the path `after`.
    `skipped` adds files that are not searched.
    """
    condition, values = file_filter_sql(where)
    values |= {"under": under, "skipped": skipped, "after": after, "limit": limit}
    async with db.connection() as connection:
        query = statement("file_page", record, filter=condition)
        rows = await (await connection.execute(query, values)).fetchall()
    files = tuple(ListedFile(*columns) for _, *columns in rows if columns[0] is not None)
    return files, int(rows[0][0])


async def devices(db: Database, record: IndexRecord) -> frozenset[int]:
    """Read the devices (`st_dev`) that files were on when they were read."""
    async with db.connection() as connection:
        rows = await (await connection.execute(statement("devices", record))).fetchall()
    return frozenset(int.from_bytes(row[0]) for row in rows)


async def file_generations(db: Database, record: IndexRecord) -> dict[str, int]:
    """Read path -> generation of every file with chunks, to check a copy of the rows."""
    generations = dict[str, int]()
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("file_generations", record))
        while rows := await cursor.fetchmany(ROWS_AT_ONCE):
            generations.update(rows)
            await asyncio.sleep(0)
    return generations


async def damaged_files(db: Database, record: IndexRecord) -> tuple[str, ...]:
    """List the paths whose chunk rows do not match their file row: another program wrote them.

    Empty in a sound index.
    """
    async with db.connection() as connection:
        rows = await (await connection.execute(statement("damaged_files", record))).fetchall()
    return tuple(row[0] for row in rows)


async def counts(db: Database, record: IndexRecord) -> Counts:
    """Count files and chunks as `statistics` does, but cheaply enough for a progress line."""
    async with db.connection() as connection:
        return await _counts(connection, record)


async def statistics(db: Database, record: IndexRecord) -> IndexStatistics:
    """Compute the statistics of an index. Each query sees the rows of a different moment."""
    async with db.connection() as connection:

        async def rows(name: str) -> list[tuple[Any, ...]]:
            return await (await connection.execute(statement(name, record))).fetchall()

        ((symbols, last_change, number),) = await rows("statistics_totals")
        is_distributed = await has_distributed_tables(connection, record)
        ((size_bytes,),) = await rows(
            "distributed_table_sizes" if is_distributed else "table_sizes"
        )
        languages = tuple(
            (language, files, int(chunks))
            for language, files, chunks in await rows("statistics_languages")
        )
        parses = tuple(
            (language, status, files) for language, status, files in await rows("statistics_parses")
        )
        skipped = tuple((reason, files) for reason, files in await rows("statistics_skipped"))
    return IndexStatistics(
        files=sum(files for _, files, _ in languages),
        chunks=sum(chunks for _, _, chunks in languages),
        symbols=int(symbols),
        size_bytes=int(size_bytes),
        languages=languages,
        parse_health=parses,
        skipped=skipped,
        last_change=last_change,
        generation=number,
    )


async def count_outdated_chunks(db: Database, record: IndexRecord) -> int:
    """Count the chunks that were written before there were columns for all symbols of a chunk.

    Filters see only one symbol of each such chunk.
    """
    async with db.connection() as connection:
        row = await fetch_row(connection, statement("count_outdated_chunks", record))
    return int(row[0]) if row else 0


async def parse_failures(
    db: Database, record: IndexRecord, limit: int = 100
) -> tuple[ParseFailure, ...]:
    """List files that did not parse completely, the worst first, then skipped files."""
    async with db.connection() as connection:
        rows = await (
            await connection.execute(statement("parse_failures", record), {"limit": limit})
        ).fetchall()
    return tuple(ParseFailure(*row) for row in rows)


async def excluded_files(
    db: Database, record: IndexRecord, codes: Sequence[str], limit: int
) -> tuple[tuple[str, str], ...]:
    """List path and reason of files that are not searched, in the order of `codes`."""
    async with db.connection() as connection:
        values = {"codes": list(codes), "limit": limit}
        rows = await (
            await connection.execute(statement("excluded_files", record), values)
        ).fetchall()
    return tuple((path, reason) for path, reason in rows)


async def unparsed_files(
    db: Database, record: IndexRecord, mark: str, limit: int
) -> tuple[tuple[str, str], ...]:
    """List path and parse message of files whose message begins with `mark`, without the mark."""
    async with db.connection() as connection:
        values = {"mark": mark, "limit": limit}
        rows = await (
            await connection.execute(statement("unparsed_files", record), values)
        ).fetchall()
    return tuple((path, message.removeprefix(mark)) for path, message in rows)


async def table_digest(db: Database, record: IndexRecord) -> tuple[int, str, str, str]:
    """Return the number of chunks, and digests of chunks with vectors, files and parse results.

    They are equal for two indexes of the same files under the same settings.
    """
    async with db.connection() as connection:
        row = await fetch_row(connection, statement("table_digest", record))
    assert row, "an aggregate has a row"
    return (row[0], row[1], row[2], row[3])


def identity_values(dimension: int, identity: IndexIdentity) -> dict[str, Any]:
    """Return the parameters of statements that write an identity, without the number."""
    return {
        "dimension": dimension,
        "embedder": Jsonb(dict(identity.embedder)),
        "chunker": identity.chunker,
        "header_version": identity.header_version,
        "identity": identity_digest(identity),
    }


async def _counts(connection: Connection, record: IndexRecord) -> Counts:
    rows = await (await connection.execute(statement("counts", record))).fetchall()
    return Counts(
        files=sum(files for reason, files, _ in rows if reason is None),
        chunks=sum(int(chunks) for _, _, chunks in rows),
        skipped=tuple((reason, files) for reason, files, _ in rows if reason is not None),
    )


async def require_index(connection: Connection, record: IndexRecord) -> None:
    """Raise `NotFound` for an index that has been dropped."""
    candidates = await registered_indexes(connection, record.name)
    if not any(candidate.number == record.number for candidate in candidates):
        raise index_not_found(record)


def index_not_found(record: IndexRecord) -> NotFound:
    """Build the error for an index that is not in the registry any more."""
    return NotFound(f"there is no index {record.name} any more", "see `cocosearchctl list`")
