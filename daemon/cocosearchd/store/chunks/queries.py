"""Runs the statements of both flows: one write transaction, `replace_files`, and the searches."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg import sql

from cocosearchd.errors import IdentityMismatch
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import Fingerprint, IndexRecord
from cocosearchd.store.chunks.arrays import EMPTY_ARRAY, array_literal
from cocosearchd.store.chunks.candidate_reads import read_candidates, search_condition
from cocosearchd.store.chunks.file_states import FileState, FileStates
from cocosearchd.store.chunks.manifest import StoredFile, stored_file_from_row
from cocosearchd.store.chunks.row_changes import (
    PREPARE,
    cooperatively,
    delete_words,
    write_chunks,
    write_files,
)
from cocosearchd.store.chunks.rows import (
    FINGERPRINTS,
    Candidate,
    FileChange,
    FileChunks,
    FileRows,
    FileWrite,
    Key,
    Row,
    StoredChunk,
    candidate_from_row,
    stored_chunk_from_row,
    to_columns,
)
from cocosearchd.store.connection.citus import planned_rows
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.filter_sql import filter_sql, select_match_count
from cocosearchd.store.index_records import identity_digest, index_not_found, pack_fingerprint
from cocosearchd.store.words.words_table import read_words_state

__all__ = [
    "Candidate",
    "FileChunks",
    "FileWrite",
    "Key",
    "StoredChunk",
    "chunks_with_files",
    "delete_file",
    "file_chunks",
    "refresh_fingerprints",
    "replace_file",
    "replace_files",
    "stored_files",
    "vector_search",
]

# Measured on 1M vectors of 256 dimensions: below this many matches an exact scan of them beats the
# vector index in time and in recall.
EXACT_MATCHES = 10_000
BREADTH = 100  # hnsw.ef_search: recall at 10 is .97 to .99 on 100k to 1M vectors
MAX_BREADTH = 1000  # pgvector's limit
# Planning a read of some chunks costs twice as much as the read. From this many chunks of an index
# on, the plan is prepared once. For a smaller index the plan may be to read the table whole, and
# would stay while the index grows.
PLANNED_ONCE = 10_000
RowsWithFiles = tuple[tuple[Candidate, ...], FileStates]


async def replace_file(db: Database, record: IndexRecord, write: FileWrite) -> int:
    """Write one file; see `replace_files`."""
    return await replace_files(db, record, (write,))


async def delete_file(db: Database, record: IndexRecord, path: str) -> int:
    """Delete a file and return the generation after it. A path that is not stored is no error."""
    return await replace_files(db, record, (), (path,))


async def replace_files(
    db: Database, record: IndexRecord, writes: Sequence[FileWrite], deleted: Sequence[str] = ()
) -> int:
    """Write and delete files in one transaction; return the generation after it.

    No path may occur twice. Only chunks whose content differs are written; the row of a file says
    where its other chunks are now. Where nothing differs but fingerprints, the generation stays.

    Raises `NotFound` if the index is gone, `IdentityMismatch` if it belongs to another embedder by
    now, and `OutdatedManifest` if the state that a file was compared with is no longer stored and
    chunks are needed that were not built; then nothing is written.
    """
    targets = [
        row async for row in cooperatively(FileRows(write, record.dimension) for write in writes)
    ]
    paths = sorted([*(write.path for write in writes), *deleted])
    async with db.connection() as connection, connection.transaction():
        await connection.execute(
            statement("lock_files", record), {"filenames": array_literal(paths)}, prepare=PREPARE
        )
        changes = await _changes(connection, record, targets)
        changed = [change for change in changes if change.differs]
        await _set_fingerprints(connection, record, changes)
        retained = await _delete_files(connection, record, deleted)
        if not changed and retained is None:
            return await _generation(connection, record)
        # Under the lock of words, which came with the locks of the files.
        with_words = await read_words_state(connection, record) != "none"
        if with_words and retained is not None:
            await delete_words(connection, record, deleted)
        await write_chunks(connection, record, changed, with_words=with_words)
        # As late as possible: from here on no other change of this index can be committed.
        generation = await _bump(connection, record)
        await write_files(connection, record, changed, retained or {}, generation)
    return generation


async def _set_fingerprints(
    connection: Connection, record: IndexRecord, changes: Sequence[FileChange]
) -> None:
    """Store the fingerprints of files in which nothing else differs."""
    same = [change.file for change in changes if not change.differs]
    if same:
        await connection.execute(
            statement("set_fingerprints", record), to_columns(same, FINGERPRINTS)
        )


async def _delete_files(
    connection: Connection, record: IndexRecord, paths: Sequence[str]
) -> dict[str, str] | None:
    """Delete files; return None if none of them was stored.

    Otherwise, return the chunks of each that are to be retained still, by path: those in a
    distributed schema.
    """
    if not paths:
        return None
    query = statement("delete_files", record, distributed=connection.is_distributed)
    cursor = await connection.execute(query, {"filenames": array_literal(paths)})
    rows = await cursor.fetchall()
    if not rows:
        return None
    if not connection.is_distributed:
        return {}
    return {path: numbers for path, numbers in rows if numbers not in (None, EMPTY_ARRAY)}


async def stored_files(db: Database, record: IndexRecord, paths: Sequence[str]) -> list[StoredFile]:
    """Read the stored state of files, in their order.

    With it they can be compared before their rows are built.
    """
    async with db.connection() as connection:
        return await _stored(connection, record, paths)


async def refresh_fingerprints(
    db: Database, record: IndexRecord, checked: Sequence[tuple[str, bytes, Fingerprint]]
) -> frozenset[str]:
    """Store the fingerprints of files whose stored content hash is unchanged; return their paths.

    `checked` is (path, content hash, fingerprint). The generation stays.
    """
    values = {
        "filenames": array_literal(path for path, _, _ in checked),
        "hashes": array_literal(content_hash for _, content_hash, _ in checked),
        "fingerprints": array_literal(
            pack_fingerprint(fingerprint) for _, _, fingerprint in checked
        ),
    }
    async with db.connection() as connection:
        rows = await (
            await connection.execute(statement("refresh_fingerprints", record), values)
        ).fetchall()
    return frozenset(row[0] for row in rows)


async def vector_search(
    db: Database,
    record: IndexRecord,
    vector: NDArray[np.float32],
    where: Filter,
    limit: int,
    exact_matches: int = EXACT_MATCHES,
) -> tuple[Candidate, ...]:
    """Find the chunks nearest to `vector`, shape (dimension,), nearest first.

    `score` is the cosine similarity. The search is exact without a vector index, and where no more
    than `exact_matches` chunks are expected to match; otherwise it uses the index. The zero vector
    is near to nothing.
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

    Chunks that are gone are left out. `size` is about how many chunks the index has. Raises
    `NotFound` if the index is gone.
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
        "starts": array_literal(start for _, start, _ in keys),
        "ends": array_literal(end for _, _, end in keys),
    }


async def file_chunks(
    db: Database, record: IndexRecord, paths: Sequence[str] | None, batch: int = 2000
) -> AsyncIterator[FileChunks]:
    """Yield files with their chunks, by path, all as of one moment; `paths` None: every file.

    Missing files are left out. Rows come in batches of `batch`, so an index of any size passes
    through little memory. A connection is held until the generator is exhausted or closed. A caller
    that needs to know the generation of what it has read reads it first.
    """
    values = {"filenames": None if paths is None else list(paths)}
    async with (
        db.connection() as connection,
        connection.transaction(),
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
                chunks.append(stored_chunk_from_row(row[3:]))
        if head is not None:
            yield FileChunks(*(*head, tuple(chunks)))


async def _changes(
    connection: Connection, record: IndexRecord, targets: Sequence[FileRows]
) -> list[FileChange]:
    """Compute the difference to what is stored, file by file."""
    if not targets:
        return []
    stored = await _stored(connection, record, [rows.write.path for rows in targets])
    pairs = zip(targets, stored, strict=True)
    return [change async for change in cooperatively(rows.change(state) for rows, state in pairs)]


async def _stored(
    connection: Connection, record: IndexRecord, paths: Sequence[str]
) -> list[StoredFile]:
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("stored_files", record), {"filenames": array_literal(paths)})
        return [stored_file_from_row(row) for row in await cursor.fetchall()]


async def _bump(connection: Connection, record: IndexRecord) -> int:
    identity = {"identity": identity_digest(record.identity)}
    row = await _row(connection, statement("bump_generation", record), identity, prepare=PREPARE)
    if row is None:
        await _generation(connection, record)
        raise IdentityMismatch(
            f"index {record.name} was given another embedder meanwhile", "index the file again"
        )
    return int(row[0])


async def _generation(connection: Connection, record: IndexRecord) -> int:
    row = await _row(connection, statement("generation", record), {})
    if row is None:
        raise index_not_found(record)
    return int(row[0])


async def _use_vector_index(
    connection: Connection, record: IndexRecord, where: Filter, exact_matches: int
) -> bool:
    """Tell whether enough chunks match for an approximate search to find the best of them."""
    row = await _row(connection, statement("has_vector_index", record), {})
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
    plan = await _row(connection, query, values)
    return planned_rows(plan[0][0]) if plan else None


async def _count_path_matches(connection: Connection, record: IndexRecord, where: Filter) -> int:
    """Count the chunks of the files whose paths pass a filter."""
    condition, values = filter_sql(where)
    query = statement("count_path_matches", record, filter=condition)
    row = await _row(connection, query, values)
    return int(row[0]) if row else 0


async def _row(
    connection: Connection,
    query: sql.Composed | bytes,
    values: dict[str, Any],
    *,
    prepare: bool = False,
) -> Row | None:
    return await (await connection.execute(query, values, prepare=prepare)).fetchone()
