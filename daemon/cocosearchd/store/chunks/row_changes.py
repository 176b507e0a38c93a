"""What a write transaction does once it is known what differs: rows of chunks, of files, and which
rows are spare.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.arrays import EMPTY_ARRAY, array_literal
from cocosearchd.store.chunks.rows import (
    COPY_TYPES,
    FILE_COLUMNS,
    PARSE_COLUMNS,
    FileChange,
    Row,
    to_columns,
)
from cocosearchd.store.connection.database import Connection
from cocosearchd.store.connection.statements import statement

# To `prepare` what each change asks and has one plan only, however large tables are: planning took
# longer than doing.
PREPARE = True
TURN_ITEMS = 8  # files compared or rows sent, before others have their turn: at most 2 ms
T = TypeVar("T")


async def write_chunks(
    connection: Connection, record: IndexRecord, changed: Sequence[FileChange]
) -> None:
    """Rows go and come, those that go first: new ones may have their ordinals."""
    if gone := [(change.path, ordinal) for change in changed for ordinal in change.gone]:
        filenames, ordinals = zip(*gone, strict=True)
        values = {"filenames": array_literal(filenames), "ordinals": array_literal(ordinals)}
        await connection.execute(statement("delete_chunks", record), values)
    if new := [row for change in changed for row in change.new]:
        await _copy(connection, record, new)


async def write_files(
    connection: Connection, record: IndexRecord, changed: Sequence[FileChange], generation: int
) -> None:
    """What is said of the files: where their chunks are, how they were parsed, which rows are spare
    from now on.
    """
    if not changed:
        return
    files = to_columns([change.file for change in changed], FILE_COLUMNS)
    await connection.execute(
        statement("upsert_files", record), files | {"generation": generation}, prepare=PREPARE
    )
    if parses := [change.parse for change in changed if change.parse]:
        await connection.execute(
            statement("upsert_parses", record), to_columns(parses, PARSE_COLUMNS), prepare=PREPARE
        )
    if without := [change.path for change in changed if not change.parse]:
        await connection.execute(
            statement("delete_parses", record), {"filenames": array_literal(without)}
        )
    await _write_spares(connection, record, changed)


async def _write_spares(
    connection: Connection, record: IndexRecord, changed: Sequence[FileChange]
) -> None:
    if spare := [
        (change.path, change.retained)
        for change in changed
        if change.retained not in (None, EMPTY_ARRAY)
    ]:
        filenames, ordinals = zip(*spare, strict=True)
        values = {"filenames": array_literal(filenames), "ordinals": array_literal(ordinals)}
        await connection.execute(
            statement("upsert_retained_chunks", record), values, prepare=PREPARE
        )
    if none := [change.path for change in changed if change.retained == EMPTY_ARRAY]:
        await connection.execute(
            statement("delete_retained_chunks", record), {"filenames": array_literal(none)}
        )


async def _copy(connection: Connection, record: IndexRecord, rows: Sequence[Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(statement("copy_chunks", record)) as copy:
        copy.set_types(COPY_TYPES)
        async for row in cooperatively(rows):
            await copy.write_row(row)


async def cooperatively(items: Iterable[T]) -> AsyncIterator[T]:
    """The items as they are, or are made. A group of files is many milliseconds, and what is urgent
    may be waiting.
    """
    for number, item in enumerate(items):
        yield item
        if number % TURN_ITEMS == 0:
            await asyncio.sleep(0)
