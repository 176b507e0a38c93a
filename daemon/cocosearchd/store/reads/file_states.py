"""Small reads of the search flow: the state of files in the index at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database, fetch_row
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import index_not_found
from cocosearchd.store.reads.text_scan import resolve_filter


class FileState(NamedTuple):
    """A file as indexed.

    `generation` is the one of its last change. `scopes` are packed by `languages.definition_ranges`, `symbols`
    by `languages.symbol_table`; None: not known, or not read.
    """

    path: str
    content_hash: bytes
    generation: int
    scopes: bytes | None = None
    symbols: bytes | None = None


@dataclass(frozen=True, slots=True)
class FileStates:
    """File states by path, all of one generation; unknown paths are left out."""

    generation: int
    files: dict[str, FileState]


async def file_states(
    db: Database, record: IndexRecord, paths: Sequence[str], *, with_symbols: bool = False
) -> FileStates:
    """Read the generation of an index and the states of files, in one snapshot.

    Raises `NotFound` if the index is gone.
    """
    values = {"filenames": list(paths), "with_symbols": with_symbols}
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("file_states", record), values)
        row = await cursor.fetchone()
    if row is None:
        raise index_not_found(record)
    generation, *columns = row
    return FileStates(
        generation, {values[0]: FileState(*values) for values in zip(*columns, strict=True)}
    )


async def chunks_at_lines(
    db: Database, record: IndexRecord, lines: Sequence[tuple[str, int]]
) -> list[tuple[str, int, int]]:
    """Read the first byte of the chunk of each line (path, line from 1): path, line and byte.

    They keep their order. Lines without a chunk are left out.
    """
    values = {"filenames": [path for path, _ in lines], "lines": [line for _, line in lines]}
    async with db.connection() as connection:
        cursor = await connection.execute(statement("chunks_at_lines", record), values)
        return [(path, line, start) for path, line, start in await cursor.fetchall()]


async def count_matching_chunks(db: Database, record: IndexRecord, path: str, where: Filter) -> int:
    """Count the chunks of one file that pass a filter."""
    async with db.connection() as connection:
        condition, values = await resolve_filter(connection, record, where, paths=(path,))
        query = statement("count_matching_chunks", record, filter=condition)
        row = await fetch_row(connection, query, values | {"filename": path})
    assert row, "an aggregate has a row"
    return int(row[0])


async def files_without_chunks(db: Database, record: IndexRecord) -> list[tuple[str, str]]:
    """Read path and language of the searched files that have only blanks."""
    async with db.connection() as connection:
        cursor = await connection.execute(statement("files_without_chunks", record))
        return [(path, language) for path, language in await cursor.fetchall()]
