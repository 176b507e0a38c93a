"""Writes files and deletes them: one transaction, `replace_files`, for all rows of a batch."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from psycopg import AsyncCursor
from psycopg.types.json import Jsonb

from cocosearchd.errors import IdentityMismatch
from cocosearchd.model import Fingerprint, IndexRecord
from cocosearchd.store.chunks.arrays import EMPTY_ARRAY, array_literal
from cocosearchd.store.chunks.manifest import StoredFile, stored_file_from_row
from cocosearchd.store.chunks.row_changes import (
    PREPARE,
    cooperatively,
    delete_words,
    fits_pipeline,
    write_chunks,
    write_files,
)
from cocosearchd.store.chunks.rows import (
    FINGERPRINTS,
    FileChange,
    FileRows,
    FileWrite,
    to_columns,
)
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.owned_transaction import write_transaction
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import identity_digest, index_not_found, pack_fingerprint
from cocosearchd.store.words.words_table import ask_words_state, fetch_words_state

Cursor = AsyncCursor[tuple[Any, ...]]


async def replace_file(db: Database, record: IndexRecord, write: FileWrite) -> int:
    """Write one file; see `replace_files`."""
    return await replace_files(db, record, (write,))


async def delete_file(db: Database, record: IndexRecord, path: str) -> int:
    """Delete a file; return the generation after that. A path that is not stored is no error."""
    return await replace_files(db, record, (), (path,))


async def replace_files(
    db: Database, record: IndexRecord, writes: Sequence[FileWrite], deleted: Sequence[str] = ()
) -> int:
    """Write and delete files in one transaction; return the generation after that.

    No path may occur twice. Only chunks with changed content are written; the row of a file places
    its other chunks. If only fingerprints differ, the generation stays.

    Raises `NotFound` if the index is gone, `IdentityMismatch` if its rows are made by another
    embedder or other settings by now, `OutdatedManifest` if the state that a file was compared with
    is no longer stored and chunks are needed that were not built, and as `write_transaction` does;
    then nothing is written.
    """
    targets = await _build_file_rows(record, writes)
    paths = sorted([*(write.path for write in writes), *deleted])
    async with write_transaction(db) as connection:
        stored, with_words = await _lock_and_read(connection, record, paths, targets)
        changes = await _compare_with_stored(targets, stored)
        changed = [change for change in changes if change.differs]
        await _set_fingerprints(connection, record, changes)
        retained = await _delete_files(connection, record, deleted)
        if not changed and retained is None:
            return await _read_generation_by_rules(connection, record)
        if with_words and retained is not None:
            await delete_words(connection, record, deleted)
        raised = await _write_changes(
            connection, record, changed, retained or {}, with_words=with_words
        )
        return await _fetch_generation(connection, record, raised)


async def _write_changes(
    connection: Connection,
    record: IndexRecord,
    changed: Sequence[FileChange],
    retained: Mapping[str, str],
    *,
    with_words: bool,
) -> Cursor:
    """Write chunks, raise the generation, and write files. Return the cursor of the generation.

    A change with few new chunks, such as a save, goes to the server in one round trip.
    """
    async with AsyncExitStack() as pipeline:
        in_one_trip = fits_pipeline(connection, changed)
        if in_one_trip:
            await pipeline.enter_async_context(connection.pipeline())
        await write_chunks(connection, record, changed, with_words=with_words)
        if not in_one_trip:
            await pipeline.enter_async_context(connection.pipeline())
        # Raised after the chunks: from here on no other change of this index can be committed.
        raised = await _raise_generation(connection, record)
        await write_files(connection, record, changed, retained)
    return raised


async def _compare_with_stored(
    targets: Sequence[FileRows], stored: Sequence[StoredFile]
) -> list[FileChange]:
    """Compute the difference to the stored states, file by file."""
    pairs = zip(targets, stored, strict=True)
    return [change async for change in cooperatively(rows.change(state) for rows, state in pairs)]


async def _lock_and_read(
    connection: Connection, record: IndexRecord, paths: Sequence[str], targets: Sequence[FileRows]
) -> tuple[list[StoredFile], bool]:
    """Lock files; return the stored states of `targets`, and whether the index keeps words.

    One round trip to the server. The lock of words comes with the locks of the files.
    """
    async with connection.cursor(binary=True) as stored_rows:
        async with connection.pipeline():
            values = {"filenames": array_literal(paths)}
            await connection.execute(statement("lock_files", record), values, prepare=PREPARE)
            values = {"filenames": array_literal(rows.write.path for rows in targets)}
            await stored_rows.execute(statement("stored_files", record), values)
            words_state = await ask_words_state(connection, record)
        stored = [stored_file_from_row(row) for row in await stored_rows.fetchall()]
    return stored, await fetch_words_state(words_state) != "none"


async def _build_file_rows(record: IndexRecord, writes: Sequence[FileWrite]) -> list[FileRows]:
    rows = (FileRows(write, record.dimension) for write in writes)
    return [row async for row in cooperatively(rows)]


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
    """Delete files; return None if no file was stored.

    Otherwise, return by path the chunk numbers that the caller still has to store as retained. There
    are some in a distributed schema only.
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

    With this state, files can be compared before their rows are built.
    """
    async with db.connection() as connection:
        return await _read_stored_files(connection, record, paths)


async def refresh_fingerprints(
    db: Database,
    record: IndexRecord,
    checked: Sequence[tuple[str, bytes, Fingerprint]],
    rules_digest: bytes,
) -> frozenset[str]:
    """Store the fingerprints of files that are stored as they were read; return their paths.

    `checked` is (path, content hash, fingerprint). Rows that other rules than those of
    `rules_digest` made do not count. The generation stays. Raises as `write_transaction` does.
    """
    values = {
        "filenames": array_literal(path for path, _, _ in checked),
        "hashes": array_literal(content_hash for _, content_hash, _ in checked),
        "fingerprints": array_literal(
            pack_fingerprint(fingerprint) for _, _, fingerprint in checked
        ),
        "rules_digest": rules_digest,
    }
    async with write_transaction(db) as connection:
        rows = await (
            await connection.execute(statement("refresh_fingerprints", record), values)
        ).fetchall()
    return frozenset(row[0] for row in rows)


async def _read_stored_files(
    connection: Connection, record: IndexRecord, paths: Sequence[str]
) -> list[StoredFile]:
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("stored_files", record), {"filenames": array_literal(paths)})
        return [stored_file_from_row(row) for row in await cursor.fetchall()]


async def _raise_generation(connection: Connection, record: IndexRecord) -> Cursor:
    return await connection.execute(
        statement("bump_generation", record), _rules_values(record), prepare=PREPARE
    )


async def _read_generation_by_rules(connection: Connection, record: IndexRecord) -> int:
    query = statement("generation_by_rules", record)
    cursor = await connection.execute(query, _rules_values(record), prepare=PREPARE)
    return await _fetch_generation(connection, record, cursor)


async def _fetch_generation(connection: Connection, record: IndexRecord, cursor: Cursor) -> int:
    """Return the generation of a statement that no row passes if the index has other rules."""
    row = await cursor.fetchone()
    if row is not None:
        return int(row[0])
    if await fetch_row(connection, statement("generation", record), {}) is None:
        raise index_not_found(record)
    raise IdentityMismatch(
        f"index {record.name} was given another embedder or other settings meanwhile",
        "index the file again",
    )


def _rules_values(record: IndexRecord) -> dict[str, Any]:
    """Return the rules of a record, as the registry must have them still."""
    return {
        "identity": identity_digest(record.identity),
        "shaping_settings": Jsonb(dict(record.shaping_settings)),
    }
