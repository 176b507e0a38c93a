"""Writes the differences of files: rows of chunks, of files and of retained chunks."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TypeVar

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.arrays import EMPTY_ARRAY, array_literal
from cocosearchd.store.chunks.rows import (
    COPY_TYPES,
    FILE_COLUMNS,
    PARSE_COLUMNS,
    FileChange,
    Row,
    chunk_columns,
    to_columns,
)
from cocosearchd.store.connection.database import Connection
from cocosearchd.store.connection.statements import statement

# For statements of every change that have a single plan, however large the tables are: planning
# them took longer than executing them.
PREPARE = True
TURN_ITEMS = 8  # files compared or rows sent before other tasks run: at most 2 ms
INSERTED_ROWS = 128  # rows of one statement: 3 ms to compose, and half a megabyte
T = TypeVar("T")


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
        add_rows = _insert if connection.is_distributed else _copy
        await add_rows(connection, record, new)
        if with_words:
            await _insert_words(connection, record, changed)


async def delete_words(connection: Connection, record: IndexRecord, paths: Iterable[str]) -> None:
    """Delete the words of chunks of these files that are gone."""
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
    await connection.execute(statement("insert_words", record), values)


async def write_files(
    connection: Connection,
    record: IndexRecord,
    changed: Sequence[FileChange],
    retained: Mapping[str, str],
) -> None:
    """Write the rows about files: positions of chunks, parse results, retained chunks.

    `retained` has those of deleted files, by path.
    """
    if changed:
        await _write_files(connection, record, changed)
    await _write_retained(connection, record, changed, retained)


async def _write_files(
    connection: Connection, record: IndexRecord, changed: Sequence[FileChange]
) -> None:
    files = to_columns([change.file for change in changed], FILE_COLUMNS)
    await connection.execute(statement("upsert_files", record), files, prepare=PREPARE)
    if parses := [change.parse for change in changed if change.parse]:
        await connection.execute(
            statement("upsert_parses", record), to_columns(parses, PARSE_COLUMNS), prepare=PREPARE
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
            statement("upsert_retained_chunks", record), values, prepare=PREPARE
        )
    if emptied := [change.path for change in changed if change.retained == EMPTY_ARRAY]:
        await connection.execute(
            statement("delete_retained_chunks", record), {"filenames": array_literal(emptied)}
        )


async def _copy(connection: Connection, record: IndexRecord, rows: Sequence[Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(statement("copy_chunks", record)) as copy:
        copy.set_types(COPY_TYPES)
        async for row in cooperatively(rows):
            await copy.write_row(row)


async def _insert(connection: Connection, record: IndexRecord, rows: Sequence[Row]) -> None:
    """Insert rows into a distributed schema, where a copy would be committed in two phases."""
    for first in range(0, len(rows), INSERTED_ROWS):
        values = chunk_columns(rows[first : first + INSERTED_ROWS])
        await connection.execute(statement("insert_chunks", record), values)


async def cooperatively(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, and let other tasks run in between.

    A group of files takes many milliseconds, and urgent work may be waiting.
    """
    for number, item in enumerate(items):
        yield item
        if number % TURN_ITEMS == 0:
            await asyncio.sleep(0)
