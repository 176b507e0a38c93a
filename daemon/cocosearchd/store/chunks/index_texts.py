"""What an index in memory is made of: the texts, names and vectors of files, and no more than
these.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import itemgetter, xor

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.rows import Row
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement

# files: their rows are taken at once, which takes one exchange with the server in place of five
_FEW = 128
_DIGEST = -2  # the column of
_64_BITS = (1 << 64) - 1
# bytes: how many numbers follow, and a word that is not used; as pgvector sends it
_VECTOR_HEAD = 4


@dataclass(frozen=True, slots=True)
class FileTexts:
    """A file with its chunks in order; `generation` is the one that last changed it.

    A chunk is (start byte, end byte, first line, text, names defined in it, header, kinds of its
    symbols, their names).
    """

    path: str
    generation: int
    language: str
    chunks: tuple[tuple[int, int, int, str, list[str], str, list[str], list[str]], ...]
    # (chunks, dimension); a zero row where nothing is known of the text
    vectors: NDArray[np.float32]
    # 64 bits of all of the chunks: files of one path and language that agree in it have the same
    digest: int


@dataclass(frozen=True, slots=True)
class FileDigest:
    """What tells whether a file is as it once was: as `FileTexts` of it says."""

    path: str
    generation: int
    language: str
    digest: int


async def file_texts(
    db: Database, record: IndexRecord, paths: Sequence[str] | None, batch: int = 2000
) -> AsyncGenerator[FileTexts, None]:
    """Files that have chunks, by path, all as of one moment; `paths` None: every file. Others are
    left out.

    Rows of many files come in batches of `batch`, so an index of any size passes through little
    memory; a connection is held until they are exhausted or closed. Whoever wants to know how far
    it is reads the generation first.
    """
    values = {"filenames": None if paths is None else list(paths)}
    if paths is not None and len(paths) <= _FEW:
        async with db.connection() as connection, connection.cursor(binary=True) as few:
            await few.execute(statement("few_texts", record), values)
            found = await few.fetchall()
        for _, rows in groupby(found, itemgetter(0)):
            yield _file(list(rows), record.dimension)
        return
    async with (
        db.long_connection() as connection,
        connection.transaction(),
        connection.cursor("file_texts", binary=True) as cursor,
    ):
        cursor.itersize = batch
        await cursor.execute(statement("file_texts", record), values)
        kept = list[Row]()
        async for row in cursor:
            if kept and kept[0][0] != row[0]:
                yield _file(kept, record.dimension)
                kept = []
            kept.append(row)
        if kept:
            yield _file(kept, record.dimension)


async def file_digests(db: Database, record: IndexRecord, paths: Sequence[str]) -> list[FileDigest]:
    """Files that have chunks, in no order, all as of one moment. Others are left out."""
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
        tuple(row[3:_DIGEST] for row in rows),
        _vectors(rows, dimension),
        digest,
    )


def _vectors(rows: Iterable[Row], dimension: int) -> NDArray[np.float32]:
    """The last column, as PostgreSQL sends a vector: two 16-bit integers, then big-endian half
    floats.
    """
    size = _VECTOR_HEAD + 2 * dimension
    sent = np.frombuffer(b"".join([row[-1] or bytes(size) for row in rows]), np.uint8).reshape(
        -1, size
    )
    return np.ascontiguousarray(sent[:, _VECTOR_HEAD:]).view(">f2").astype(np.float32)
