"""Small reads of the search flow: the state of files in the index at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.filters import filter_sql
from cocosearchd.store.index_records import index_not_found


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as indexed.

    `generation` is that of its last change; `scopes` are packed by `languages.scopes`, None if not
    known.
    """

    path: str
    content_hash: bytes
    generation: int
    scopes: bytes | None = None


@dataclass(frozen=True, slots=True)
class FileStates:
    """File states by path, all of one generation; unknown paths are left out."""

    generation: int
    files: dict[str, FileState]


async def file_states(db: Database, record: IndexRecord, paths: Sequence[str]) -> FileStates:
    """Read the generation of an index and the states of files, in one snapshot.

    Raises `NotFound` if the index is gone.
    """
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("file_states", record), {"filenames": list(paths)})
        row = await cursor.fetchone()
    if row is None:
        raise index_not_found(record)
    generation, *columns = row
    return FileStates(
        generation, {values[0]: FileState(*values) for values in zip(*columns, strict=True)}
    )


async def count_matching_chunks(db: Database, record: IndexRecord, path: str, where: Filter) -> int:
    """Count the chunks of one file that pass a filter."""
    condition, values = filter_sql(where)
    async with db.connection() as connection:
        query = statement("count_matching_chunks", record, filter=condition)
        row = await (await connection.execute(query, values | {"filename": path})).fetchone()
    assert row, "an aggregate has a row"
    return int(row[0])
