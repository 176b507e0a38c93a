"""Writes the differences of files: rows of chunks, of files and of retained chunks."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TypeVar

from psycopg import sql

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.arrays import EMPTY_ARRAY, array_literal
from cocosearchd.store.chunks.copied_rows import encode_copy
from cocosearchd.store.chunks.rows import (
    FILE_COLUMNS,
    PARSE_COLUMNS,
    FileChange,
    Row,
    chunk_columns,
    chunk_elements,
    chunk_parameters,
    to_columns,
)
from cocosearchd.store.connection.database import Connection
from cocosearchd.store.connection.statements import statement

# For statements that run with every change and have a single plan for tables of any size: planning
# took longer than executing.
PREPARE = True
TURN_ITEMS = 8  # files compared or blocks of rows sent before other tasks run: at most 2 ms
# New rows of chunks that are inserted one by one, in a pipeline with the rest of the change. More rows
# are copied, which takes round trips to the server of its own, but less time for each row.
PIPELINED_ROWS = 8
INSERTED_ROWS = 512  # rows of one statement, which has some two megabytes
T = TypeVar("T")
Query = sql.Composed | bytes


def fits_pipeline(connection: Connection, changed: Sequence[FileChange]) -> bool:
    """Return whether `write_chunks` may run in a pipeline: few rows are new, so none is copied.

    A node of a distributed schema has a statement of its own.
    """
    new_rows = sum(len(change.new) for change in changed)
    return new_rows <= PIPELINED_ROWS and not connection.is_distributed


async def write_chunks(
    connection: Connection, record: IndexRecord, changed: Sequence[FileChange], *, with_words: bool
) -> None:
    """Delete and add rows. Deletes come first: new rows may take the numbers of deleted ones."""
    if gone := [(change.path, number) for change in changed for number in change.gone]:
        filenames, numbers = zip(*gone, strict=True)
        values = {"filenames": array_literal(filenames), "chunk_numbers": array_literal(numbers)}
        await connection.execute(statement("delete_chunks", record), values)
        if with_words:
            await delete_words(connection, record, filenames)
    if new := [row for change in changed for row in change.new]:
        if fits_pipeline(connection, changed):
            await _insert_each(connection, record, new)
        else:
            add_rows = _insert if connection.is_distributed else _copy
            await add_rows(connection, record, new)
        if with_words:
            await _insert_words(connection, record, changed)


async def delete_words(connection: Connection, record: IndexRecord, paths: Iterable[str]) -> None:
    """Delete the words of chunks that are gone from these files."""
    values = {"filenames": array_literal(dict.fromkeys(paths))}
    await connection.execute(statement("delete_words", record), values)


async def _insert_words(
    connection: Connection, record: IndexRecord, changed: Sequence[FileChange]
) -> None:
    """Store the words of new chunks."""
    filenames = list[str]()
    numbers = list[int]()
    texts = list[str]()
    words = ((change.path, *row) for change in changed for row in change.words())
    async for path, number, text in cooperatively(words):
        filenames.append(path)
        numbers.append(number)
        texts.append(text)
    values = {
        "filenames": array_literal(filenames),
        "chunk_numbers": array_literal(numbers),
        "texts": array_literal(texts),
    }
    await connection.execute(_insert_statement(connection, record, "insert_words"), values)


def _insert_statement(connection: Connection, record: IndexRecord, name: str) -> Query:
    return statement(name, record, distributed=connection.is_distributed)


async def write_files(
    connection: Connection,
    record: IndexRecord,
    changed: Sequence[FileChange],
    retained: Mapping[str, str],
) -> None:
    """Write the rows about files, with the raised generation: positions of chunks, parse results,
    retained chunks. It reads nothing, so it may be part of a pipeline.

    `retained` has by path the retained chunks of deleted files that are not written yet.
    """
    if changed:
        await _write_files(connection, record, changed)
    await _write_retained(connection, record, changed, retained)


async def _write_files(
    connection: Connection, record: IndexRecord, changed: Sequence[FileChange]
) -> None:
    await connection.execute(
        _insert_statement(connection, record, "upsert_files"),
        to_columns([change.file for change in changed], FILE_COLUMNS),
        prepare=PREPARE,
    )
    if parses := [change.parse for change in changed if change.parse]:
        await connection.execute(
            _insert_statement(connection, record, "upsert_parses"),
            to_columns(parses, PARSE_COLUMNS),
            prepare=PREPARE,
        )
    if without := [change.path for change in changed if not change.parse]:
        await connection.execute(
            statement("delete_parses", record), {"filenames": array_literal(without)}
        )


async def _write_retained(
    connection: Connection,
    record: IndexRecord,
    changed: Sequence[FileChange],
    deleted: Mapping[str, str],
) -> None:
    retained = dict(deleted) | {
        change.path: change.retained
        for change in changed
        if change.retained is not None and change.retained != EMPTY_ARRAY
    }
    if retained:
        filenames, numbers = zip(*retained.items(), strict=True)
        values = {"filenames": array_literal(filenames), "chunk_numbers": array_literal(numbers)}
        await connection.execute(
            _insert_statement(connection, record, "upsert_retained_chunks"), values, prepare=PREPARE
        )
    if emptied := [change.path for change in changed if change.retained == EMPTY_ARRAY]:
        await connection.execute(
            statement("delete_retained_chunks", record), {"filenames": array_literal(emptied)}
        )


async def _copy(connection: Connection, record: IndexRecord, rows: Sequence[Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(statement("copy_chunks", record)) as copy:
        async for block in cooperatively(encode_copy(rows)):
            await copy.write(block)


async def _insert_each(connection: Connection, record: IndexRecord, rows: Sequence[Row]) -> None:
    for row in rows:
        await connection.execute(
            statement("insert_chunk", record), chunk_parameters(row), prepare=PREPARE
        )


async def _insert(connection: Connection, record: IndexRecord, rows: Sequence[Row]) -> None:
    """Insert rows into a distributed schema: a copy would be committed in two phases there."""
    for first in range(0, len(rows), INSERTED_ROWS):
        batch = rows[first : first + INSERTED_ROWS]
        elements = [chunk_elements(row) async for row in cooperatively(batch)]
        await connection.execute(statement("insert_chunks", record), chunk_columns(elements))


async def cooperatively(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, and let other tasks run in between.

    A group of files takes many milliseconds, and urgent work may be waiting.
    """
    for number, item in enumerate(items):
        yield item
        if number % TURN_ITEMS == 0:
            await asyncio.sleep(0)
