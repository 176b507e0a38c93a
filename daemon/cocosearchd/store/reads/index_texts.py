"""Reads the contents of an index in memory: texts, names and vectors of files, and nothing else."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter, xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.packed_texts import unpack_texts
from cocosearchd.store.chunks.rows import Row
from cocosearchd.store.chunks.sent_vectors import decode_vectors, sent_size
from cocosearchd.store.connection.citus import has_distributed_tables
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.reading_transaction import reading_transaction
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.file_groups import file_groups

# In files. The rows of up to this many files are fetched at once: one exchange with the server
# instead of five.
_FEW_FILES = 128
_DIGEST = -2  # its column in a row
_64_BITS = (1 << 64) - 1
IndexedChunk = tuple[int, int, str, list[str], str, list[str], list[str]]


@dataclass(frozen=True, slots=True)
class FileTexts:
    """A file with its chunks in order; `generation` is the one that last changed it.

    A chunk is (start byte, end byte, text, names defined in it, header, kinds of its symbols, their
    names).
    """

    path: str
    generation: int
    language: str
    chunks: tuple[IndexedChunk, ...]
    # Shape (chunks, dimension); a zero row if the model knows no word of the text.
    vectors: NDArray[np.float32]
    # 64 bits over all chunks: files of one path and language with equal digests have equal chunks.
    digest: int


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The identity of a file's contents, with the fields of `FileTexts`."""

    path: str
    generation: int
    language: str
    digest: int


@dataclass(frozen=True, slots=True)
class FileVectors:
    """The vectors of a file's chunks, with the fields of `FileTexts`."""

    path: str
    generation: int
    vectors: NDArray[np.float32]


async def file_texts(
    db: Database, record: IndexRecord, paths: Sequence[str] | None, batch: int = 2000
) -> AsyncGenerator[FileTexts, None]:
    """Yield files that have chunks, by path, all as of one moment; `paths` None: every file.

    Other files are left out. The rows of many files come in batches of `batch`, so an index of any
    size takes little memory; a connection is held until the generator is exhausted or closed. A
    caller that needs the generation of the files reads it before it calls this.
    """
    values = {"filenames": None if paths is None else list(paths)}
    if paths is not None and len(paths) <= _FEW_FILES:
        async with db.connection() as connection, connection.cursor(binary=True) as few:
            await few.execute(statement("few_texts", record), values)
            fetched = await few.fetchall()
        for _, rows in groupby(fetched, itemgetter(0)):
            yield _file(list(rows), record.dimension)
        return
    async with db.long_connection() as connection, AsyncExitStack() as stack:
        in_groups = paths is None and await has_distributed_tables(connection, record)
        await stack.enter_async_context(reading_transaction(connection))
        read = _texts_in_groups if in_groups else partial(_texts_by_cursor, values=values)
        async with aclosing(read(connection, record, batch)) as files:
            async for file_rows in files:
                yield _file(file_rows, record.dimension)


async def _texts_by_cursor(
    connection: Connection, record: IndexRecord, batch: int, values: Mapping[str, Any]
) -> AsyncGenerator[list[Row], None]:
    """Yield the rows of each file, which come in batches."""
    async with connection.cursor("file_texts", binary=True) as cursor:
        cursor.itersize = batch
        await cursor.execute(statement("file_texts", record), values)
        file_rows = list[Row]()
        async for row in cursor:
            if file_rows and file_rows[0][0] != row[0]:
                yield file_rows
                file_rows = []
            file_rows.append(row)
        if file_rows:
            yield file_rows


async def _texts_in_groups(
    connection: Connection, record: IndexRecord, batch: int
) -> AsyncGenerator[list[Row], None]:
    """Yield the rows of each file of a distributed schema: see `file_groups`."""
    await connection.execute(statement("set_one_snapshot"))
    async with aclosing(file_groups(connection, record, batch)) as groups:
        async for group in groups:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(statement("few_texts", record), {"filenames": group})
                fetched = await cursor.fetchall()
            for _, rows in groupby(fetched, itemgetter(0)):
                yield list(rows)


async def file_vectors(
    db: Database, record: IndexRecord, paths: Sequence[str]
) -> list[FileVectors]:
    """Read the vectors of files that have chunks, in no order, all as of one moment."""
    values = {"filenames": list(paths), "missing": bytes(sent_size(record.dimension))}
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("file_vectors", record), values)
        rows = await cursor.fetchall()
    return [
        FileVectors(path, generation, decode_vectors([sent], record.dimension))
        for path, generation, sent in rows
        if sent is not None  # a damaged file has lost its rows
    ]


async def file_digests(db: Database, record: IndexRecord, paths: Sequence[str]) -> list[FileDigest]:
    """Read the digests of files that have chunks, in no order, all as of one moment."""
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("file_digests", record), {"filenames": list(paths)})
        rows = await cursor.fetchall()
    return [
        FileDigest(path, generation, language, digest & _64_BITS)
        for path, generation, language, digest in rows
    ]


def _file(rows: Sequence[Row], dimension: int) -> FileTexts:
    path, generation, language = rows[0][:3]
    digest = reduce(xor, [row[_DIGEST] for row in rows]) & _64_BITS
    return FileTexts(
        path,
        generation,
        language,
        tuple(_chunk(path, *row[3:_DIGEST]) for row in rows),
        decode_vectors([row[-1] for row in rows], dimension),
        digest,
    )


def _chunk(
    path: str, start: int, end: int, packed: bytes, kinds: list[str], names: list[str]
) -> IndexedChunk:
    texts = unpack_texts(path, packed)
    return (start, end, texts.content, list(texts.definitions), texts.header, kinds, names)
