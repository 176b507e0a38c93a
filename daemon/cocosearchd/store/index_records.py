"""The registry of indexes and small reads outside the two flows: records of files, statistics,
parse health.
"""

import asyncio
import hashlib
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from cocosearchd.errors import Conflict, NotFound
from cocosearchd.model import FileRecord, Fingerprint, IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.migrate import (
    drop_tables,
    registered_indexes,
    schema_change,
    upgrade_tables,
)
from cocosearchd.store.connection.statements import statement

# codeindex_{slug}__{slug}_chunks then has the 63 bytes at which PostgreSQL cuts names
SLUG_LENGTH = 22
# turned into objects, a few milliseconds, before others have their turn in the event loop
ROWS_AT_ONCE = 500
_FINGERPRINT = struct.Struct(">QQQqqQ")


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A file that did not parse completely, or was skipped: then `error_message` is the reason."""

    path: str
    language: str
    status: str
    error_count: int
    error_message: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What is stored of one index; skipped files are counted by reason, and nowhere else."""

    files: int
    chunks: int
    skipped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """Counts of one index. `symbols` counts definitions; `size_bytes` is on disk, indexes
    included.
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
    """As stored: see the column `fingerprint` of the files table."""
    if fingerprint is None:
        return None
    f = fingerprint
    return _FINGERPRINT.pack(f.device, f.inode, f.size, f.mtime_ns, f.ctime_ns, f.mode)


def unpack_fingerprint(packed: bytes | None) -> Fingerprint | None:
    """The inverse of `pack_fingerprint`."""
    return None if packed is None else Fingerprint._make(_FINGERPRINT.unpack(packed))


def slug_candidates(name: str) -> Iterator[str]:
    """Candidates for the part of table names that stands for an index, best first, without end.

    The name itself where it can be used as it is; else its beginning and a hash of it, so that it
    stays readable.
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
    """What a write must match to enter an index."""
    return hashlib.blake2b(repr(identity).encode(), digest_size=16).digest()


async def incarnation(db: Database) -> str:
    """The UUID of this database: other databases' side indexes and caches never match it."""
    async with db.connection() as connection:
        row = await (await connection.execute(statement("incarnation"))).fetchone()
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
    """A new, empty index and its tables. Raises `Conflict` if the name or the root is taken."""
    async with schema_change(db) as connection:
        cursor = await connection.execute(statement("index_conflict"), {"name": name, "root": root})
        for other_name, other_root in await cursor.fetchall():
            taken = f"the name {name}" if other_name == name else f"the root {_shown(root)}"
            raise Conflict(
                f"{taken} is taken by index {other_name} of {_shown(other_root)}",
                f"choose another name, or forget it with `cocosearchctl clear {other_name}`",
            )
        values = {"name": name, "root": root, "topics": list(topics), "standing": "current"}
        return await insert_index(connection, values, dimension, identity)


async def insert_index(
    connection: Connection, values: dict[str, Any], dimension: int, identity: IndexIdentity
) -> IndexRecord:
    """A row of the registry and empty tables, within a change of the schema; `values`: name, root,
    topics, standing.
    """
    used = {row[0] for row in await (await connection.execute(statement("taken_slugs"))).fetchall()}
    slug = next(slug for slug in slug_candidates(values["name"]) if slug not in used)
    row = values | identity_values(dimension, identity) | {"slug": slug}
    await connection.execute(statement("insert_index"), row)
    (record,) = await registered_indexes(connection, values["name"])
    await upgrade_tables(connection, record)
    return record


async def list_indexes(db: Database) -> tuple[IndexRecord, ...]:
    """All indexes that answer, oldest first; see `standing` for those that do not yet, or no
    more.
    """
    async with db.connection() as connection:
        return await registered_indexes(connection, role="current")


async def index_numbers(db: Database) -> frozenset[int]:
    """Of all indexes, whatever their standing."""
    async with db.connection() as connection:
        return frozenset(record.number for record in await registered_indexes(connection))


async def drop_index(db: Database, record: IndexRecord) -> Counts:
    """Forget an index, its tables and its row; how much is gone. Raises `NotFound`."""
    async with schema_change(db) as connection:
        await require_index(connection, record)
        counts = await _counts(connection, record)
        # Tables first, the registry's row last: the order in which a write locks them.
        await drop_tables(connection, record)
        await connection.execute(statement("delete_index"), {"number": record.number})
    return counts


async def set_topics(db: Database, record: IndexRecord, topics: tuple[str, ...]) -> None:
    """Replace the topics of an index."""
    async with db.connection() as connection:
        await connection.execute(
            statement("set_topics"), {"number": record.number, "topics": list(topics)}
        )


async def generation(db: Database, record: IndexRecord) -> int:
    """The number of the last committed change. Raises `NotFound`."""
    async with db.connection() as connection:
        row = await (
            await connection.execute(statement("generation"), {"number": record.number})
        ).fetchone()
    if row is None:
        raise index_not_found(record)
    return int(row[0])


async def file_records(
    db: Database, record: IndexRecord, under: str = ""
) -> tuple[FileRecord, ...]:
    """What is stored of the files at or below `under`, a path inside the root; "" is the root.
    Ordered by path.
    """
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("file_records", record), {"under": under})
        files = list[FileRecord]()
        while rows := await cursor.fetchmany(ROWS_AT_ONCE):
            files += (
                FileRecord(
                    path,
                    content_hash,
                    unpack_fingerprint(packed),
                    number,
                    chunk_count,
                    language,
                    skip_reason,
                )
                for path, content_hash, packed, number, chunk_count, language, skip_reason in rows
            )
            await asyncio.sleep(0)
    return tuple(files)


async def devices(db: Database, record: IndexRecord) -> frozenset[int]:
    """The devices (`st_dev`) that files were on when they were read; those to be read again are
    left out.
    """
    async with db.connection() as connection:
        rows = await (await connection.execute(statement("devices", record))).fetchall()
    return frozenset(int.from_bytes(row[0]) for row in rows)


async def file_generations(db: Database, record: IndexRecord) -> dict[str, int]:
    """Path -> generation of every file with chunks: what a copy of the rows is compared with."""
    found = dict[str, int]()
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("file_generations", record))
        while rows := await cursor.fetchmany(ROWS_AT_ONCE):
            found.update(rows)
            await asyncio.sleep(0)
    return found


async def damaged_files(db: Database, record: IndexRecord) -> tuple[str, ...]:
    """Paths whose chunk rows do not match their file row: somebody else wrote here. Empty in a
    sound index.
    """
    async with db.connection() as connection:
        rows = await (await connection.execute(statement("damaged_files", record))).fetchall()
    return tuple(row[0] for row in rows)


async def counts(db: Database, record: IndexRecord) -> Counts:
    """What `statistics` counts, but cheap enough for a progress line."""
    async with db.connection() as connection:
        return await _counts(connection, record)


async def statistics(db: Database, record: IndexRecord) -> IndexStatistics:
    """Counts of an index, as of one moment for each of them."""
    async with db.connection() as connection:

        async def rows(name: str) -> list[tuple[Any, ...]]:
            return await (await connection.execute(statement(name, record))).fetchall()

        ((symbols, size_bytes, last_change, number),) = await rows("statistics_totals")
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
        size_bytes=size_bytes,
        languages=languages,
        parse_health=parses,
        skipped=skipped,
        last_change=last_change,
        generation=number,
    )


async def count_outdated_chunks(db: Database, record: IndexRecord) -> int:
    """How many chunks were written before their symbols were stored one by one: filters see only
    one of each.
    """
    async with db.connection() as connection:
        row = await (
            await connection.execute(statement("count_outdated_chunks", record))
        ).fetchone()
    return int(row[0]) if row else 0


async def parse_failures(
    db: Database, record: IndexRecord, limit: int = 100
) -> tuple[ParseFailure, ...]:
    """Files that did not parse completely, the worst first; then those that were skipped, with the
    reason.
    """
    async with db.connection() as connection:
        rows = await (
            await connection.execute(statement("parse_failures", record), {"limit": limit})
        ).fetchall()
    return tuple(ParseFailure(*row) for row in rows)


async def excluded_files(
    db: Database, record: IndexRecord, codes: Sequence[str], limit: int
) -> tuple[tuple[str, str], ...]:
    """Path and reason of files that are not searched; the reasons in the order of `codes`."""
    async with db.connection() as connection:
        values = {"codes": list(codes), "limit": limit}
        rows = await (
            await connection.execute(statement("excluded_files", record), values)
        ).fetchall()
    return tuple((path, reason) for path, reason in rows)


async def unparsed_files(
    db: Database, record: IndexRecord, mark: str, limit: int
) -> tuple[tuple[str, str], ...]:
    """Return path and parse message of files whose message begins with `mark`, which is left
    off.
    """
    async with db.connection() as connection:
        values = {"mark": mark, "limit": limit}
        rows = await (
            await connection.execute(statement("unparsed_files", record), values)
        ).fetchall()
    return tuple((path, message.removeprefix(mark)) for path, message in rows)


async def table_digest(db: Database, record: IndexRecord) -> tuple[int, str, str, str]:
    """The number of chunks, and digests of all chunks (vectors included), files and parse results.

    Two indexes of the same files under the same settings have equal ones.
    """
    async with db.connection() as connection:
        row = await (await connection.execute(statement("table_digest", record))).fetchone()
    assert row, "an aggregate has a row"
    return (row[0], row[1], row[2], row[3])


def identity_values(dimension: int, identity: IndexIdentity) -> dict[str, Any]:
    """Of the statements that write an identity, without the number."""
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
    """Raises `NotFound` for an index that somebody has dropped."""
    if not any(
        other.number == record.number for other in await registered_indexes(connection, record.name)
    ):
        raise index_not_found(record)


def index_not_found(record: IndexRecord) -> NotFound:
    """What to raise when an index is not in the registry any more."""
    return NotFound(f"there is no index {record.name} any more", "see `cocosearchctl list`")


def _shown(root: bytes) -> str:
    return root.decode("utf-8", "backslashreplace")
