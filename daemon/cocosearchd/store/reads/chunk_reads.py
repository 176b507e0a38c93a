"""Reads chunks: the nearest to a vector, those of a filter, of keys or of files."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg import sql

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.arrays import array_literal, number_array_literal
from cocosearchd.store.chunks.rows import (
    Candidate,
    FileChunks,
    Key,
    Row,
    StoredChunk,
    candidate_from_row,
    stored_chunk_from_row,
)
from cocosearchd.store.connection.citus import planned_rows
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.reading_transaction import reading_transaction
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.filter_sql import filter_sql, select_match_count
from cocosearchd.store.index_records import index_not_found
from cocosearchd.store.reads.candidate_reads import read_candidates, search_condition
from cocosearchd.store.reads.file_states import FileState, FileStates

# Measured on 1M vectors of 256 dimensions: below this number of matches, an exact scan of the matches
# beats the vector index in time and in recall.
EXACT_MATCHES = 10_000
BREADTH = 100  # hnsw.ef_search: recall at 10 is .97 to .99 on 100k to 1M vectors
MAX_BREADTH = 1000  # pgvector's limit
# Planning a read of some chunks costs twice as much as the read. If an index has at least this many
# chunks, the plan is prepared once. For a smaller index the plan may be to read the whole table, and
# a prepared plan would stay while the index grows.
PLANNED_ONCE = 10_000
RowsWithFiles = tuple[tuple[Candidate, ...], FileStates]


async def vector_search(
    db: Database,
    record: IndexRecord,
    vector: NDArray[np.float32],
    where: Filter,
    limit: int,
    exact_matches: int = EXACT_MATCHES,
) -> tuple[Candidate, ...]:
    """Find the chunks nearest to `vector`, shape (dimension,), nearest first.

    `score` is the cosine similarity. The search is exact without a vector index, and if at most
    `exact_matches` chunks are expected to match; otherwise it uses the vector index. No chunk is
    near the zero vector.
    """
    if not np.any(vector):
        return ()
    async with db.connection() as connection:
        search = await search_condition(connection, record, where)
        values = search.values | {"vector": HalfVector(vector), "limit": limit}
        if await _use_vector_index(connection, record, where, exact_matches):
            async with connection.transaction():
                breadth = sql.Literal(min(max(BREADTH, 2 * limit), MAX_BREADTH))
                await connection.execute(statement("set_vector_scan", breadth=breadth))
                hits = await read_candidates(
                    connection, record, "vector_nearest", search.condition, values
                )
            if len(hits) >= limit:
                return hits
        return await read_candidates(connection, record, "vector_exact", search.condition, values)


async def first_matches(
    db: Database, record: IndexRecord, where: Filter, limit: int
) -> tuple[Candidate, ...]:
    """List the first chunks that pass a filter, by path and position; their score is 0."""
    async with db.connection() as connection:
        search = await search_condition(connection, record, where)
        values = search.values | {"limit": limit}
        return await read_candidates(connection, record, "first_matches", search.condition, values)


async def chunks_with_files(
    db: Database, record: IndexRecord, keys: Sequence[Key], size: int = 0
) -> RowsWithFiles:
    """Read the chunks of `keys`, in their order, and the states of their files, as of one moment.

    Chunks that are gone are left out. `size` is the approximate number of chunks of the index.
    Raises `NotFound` if the index is gone.
    """
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(
            statement("chunks_with_files", record), _key_columns(keys), prepare=size >= PLANNED_ONCE
        )
        return _chunks_with_files(record, await cursor.fetchall())


async def chunks_with_files_of_several(
    db: Database, requests: Sequence[tuple[IndexRecord, Sequence[Key]]]
) -> list[RowsWithFiles]:
    """Do as `chunks_with_files` for several small indexes, in one round trip to the server.

    Raises if any of them is gone or cannot be read.
    """
    async with db.connection() as connection, AsyncExitStack() as stack:
        cursors = [
            await stack.enter_async_context(connection.cursor(binary=True)) for _ in requests
        ]
        async with connection.pipeline():
            for cursor, (record, keys) in zip(cursors, requests, strict=True):
                await cursor.execute(
                    statement("chunks_with_files", record), _key_columns(keys), prepare=False
                )
        return [
            _chunks_with_files(record, await cursor.fetchall())
            for cursor, (record, _) in zip(cursors, requests, strict=True)
        ]


def _chunks_with_files(record: IndexRecord, rows: Sequence[Row]) -> RowsWithFiles:
    if not rows:
        raise index_not_found(record)
    hits = list[Candidate]()
    files = dict[str, FileState]()
    for *columns, content_hash, written, scopes, symbols in rows:
        path = columns[0]
        if path is not None:
            hits.append(candidate_from_row(columns[:-1]))
        if path not in files and written is not None:
            files[path] = FileState(path, content_hash, written, scopes, symbols)
    return tuple(hits), FileStates(rows[0][-5], files)


def _key_columns(keys: Sequence[Key]) -> dict[str, str]:
    return {
        "filenames": array_literal(path for path, _, _ in keys),
        "starts": number_array_literal([start for _, start, _ in keys]),
        "ends": number_array_literal([end for _, _, end in keys]),
    }


async def file_chunks(
    db: Database, record: IndexRecord, paths: Sequence[str] | None, batch: int = 2000
) -> AsyncIterator[FileChunks]:
    """Yield files with their chunks, by path, all as of one moment; `paths` None: every file.

    Missing files are left out. Rows come in batches of `batch`, so an index of any size takes little
    memory. A connection is held until the generator is exhausted or closed. A caller that needs the
    generation of the files reads it before it calls this.
    """
    values = {"filenames": None if paths is None else list(paths)}
    async with (
        db.connection() as connection,
        reading_transaction(connection),
        connection.cursor("file_chunks", binary=True) as cursor,
    ):
        cursor.itersize = batch
        await cursor.execute(statement("file_chunks", record), values)
        head = None
        chunks = list[StoredChunk]()
        async for row in cursor:
            if head is not None and head[0] != row[0]:
                yield FileChunks(*(*head, tuple(chunks)))
                chunks = []
            head = row[:3]
            if row[3] is not None:
                chunks.append(stored_chunk_from_row(row[0], row[3:]))
        if head is not None:
            yield FileChunks(*(*head, tuple(chunks)))


async def _use_vector_index(
    connection: Connection, record: IndexRecord, where: Filter, exact_matches: int
) -> bool:
    """Return whether enough chunks match for an approximate search to find the best of them."""
    row = await fetch_row(connection, statement("has_vector_index", record), {})
    if not row or not row[0]:
        return False
    if select_match_count(where, "unknown") != Filter():
        return False  # counting costs as much as comparing
    estimable = select_match_count(where, "estimated")
    expected = await _estimate_matches(connection, record, estimable)
    if expected is not None and expected <= exact_matches:
        return False
    countable = select_match_count(where, "counted")
    if countable != Filter():
        return await _count_path_matches(connection, record, countable) > exact_matches
    return True


async def _estimate_matches(
    connection: Connection, record: IndexRecord, where: Filter
) -> float | None:
    """Estimate the chunks that pass a filter, from PostgreSQL's statistics; None without one."""
    if where == Filter():
        return None
    condition, values = filter_sql(where)
    query = statement("estimate_matches", record, filter=condition)
    plan = await fetch_row(connection, query, values)
    return planned_rows(plan[0][0]) if plan else None


async def _count_path_matches(connection: Connection, record: IndexRecord, where: Filter) -> int:
    """Count the chunks of the files whose paths pass a filter."""
    condition, values = filter_sql(where)
    query = statement("count_path_matches", record, filter=condition)
    row = await fetch_row(connection, query, values)
    return int(row[0]) if row else 0
