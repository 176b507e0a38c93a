"""Maintains the words of an index: fills them from its chunks while saves go on, or drops them.

The states are `none`, `filling` and `complete` (`cocosearch_indexes.words`). From the moment an index
is `filling`, each write stores the words of its chunks. A fill then has to process the earlier chunks
only once. It stores no progress: after a crash it goes through all chunks again, and skips those that
have words.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from psycopg import AsyncCursor

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.packed_texts import unpack_texts
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.maintenance_lock import try_maintenance_lock
from cocosearchd.store.connection.owned_transaction import check_owner, owned_transaction
from cocosearchd.store.connection.statements import statement

WordsState = Literal["none", "filling", "complete"]
Outcome = Literal["busy", "kept", "filled", "none", "dropped"]
# Splits texts into words, as `languages.identifiers.split_text` does, outside of the event loop.
SplitTexts = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
# Chunks whose words are stored together: about 100 ms of work. Their rows are locked against deletion
# for a small part of that time.
PAGE_CHUNKS = 500
# The time from the end of the state `complete` until the words are dropped: searches that have read
# the state end in it.
GRACE_S = 30.0
PREPARE = True  # a single plan, however large the tables are


async def read_words_state(connection: Connection, record: IndexRecord) -> WordsState:
    """Read the state of the words of an index; `none` if the index is gone."""
    return await fetch_words_state(await ask_words_state(connection, record))


async def ask_words_state(
    connection: Connection, record: IndexRecord
) -> AsyncCursor[tuple[Any, ...]]:
    """Send the question of `read_words_state`. In a pipeline, its answer comes with the others."""
    return await connection.execute(statement("words_state", record), prepare=PREPARE)


async def fetch_words_state(cursor: AsyncCursor[tuple[Any, ...]]) -> WordsState:
    """Return the answer to `ask_words_state`."""
    row = await cursor.fetchone()
    return cast(WordsState, row[0]) if row else "none"


async def is_filling(db: Database, record: IndexRecord) -> bool:
    """Return whether a fill has begun and has not ended."""
    async with db.connection() as connection:
        return await read_words_state(connection, record) == "filling"


async def fill_words(db: Database, record: IndexRecord, split: SplitTexts) -> Outcome:
    """Store the words of all chunks of an index, and index them.

    Saves and searches go on meanwhile. Idempotent; does nothing while another caller is at work. The
    next call continues a call that was cancelled or failed. Raises as `Database.session` and
    `owned_transaction` do, and the errors of `split`.
    """
    async with _maintenance(db, record) as connection:
        if connection is None:
            return "busy"
        state = await read_words_state(connection, record)
        if state == "complete":
            return "kept"
        if state == "none":
            # No write stores words yet: these words are left by a cancelled drop.
            await _clear(connection, record, db.owner)
            await _set_state(connection, record, "filling", db.owner)
        await _fill_chunks(connection, record, split, db.owner)
        await _build_index(connection, record)
        async with owned_transaction(connection, db.owner):
            await connection.execute(statement("set_words_state", record), {"state": "complete"})
        return "filled"


async def drop_words(db: Database, record: IndexRecord, grace_s: float = GRACE_S) -> Outcome:
    """Drop the words of an index, `grace_s` seconds after new searches avoid them. Idempotent."""
    async with _maintenance(db, record) as connection:
        if connection is None:
            return "busy"
        if await read_words_state(connection, record) != "none":
            await _set_state(connection, record, "none", db.owner)
            await asyncio.sleep(grace_s)
        row = await fetch_row(connection, statement("has_stored_words", record))
        if not row or not row[0]:
            return "none"
        await _clear(connection, record, db.owner)
        return "dropped"


@asynccontextmanager
async def _maintenance(db: Database, record: IndexRecord) -> AsyncIterator[Connection | None]:
    """Open a session for long work on the words of an index; None while another has it."""
    async with (
        db.session({"statement_timeout": "0", "lock_timeout": "0"}) as connection,
        try_maintenance_lock(connection, record, "words") as is_locked,
    ):
        yield connection if is_locked else None


async def _set_state(
    connection: Connection, record: IndexRecord, state: WordsState, owner: str
) -> None:
    """Change whether writes store words, at a moment without a write under way."""
    async with owned_transaction(connection, owner):
        await connection.execute(statement("lock_words", record))
        await connection.execute(statement("set_words_state", record), {"state": state})


async def _clear(connection: Connection, record: IndexRecord, owner: str) -> None:
    await check_owner(connection, owner)  # an index is not dropped within a transaction
    await connection.execute(statement("drop_words_index", record))
    async with owned_transaction(connection, owner):
        await connection.execute(statement("truncate_words", record))


async def _fill_chunks(
    connection: Connection, record: IndexRecord, split: SplitTexts, owner: str
) -> None:
    """Go through all chunks in the order of their keys, and store the missing words."""
    page = {"filename": "", "chunk_number": 0, "limit": PAGE_CHUNKS}
    while rows := await _page(connection, record, page):
        missing = [row for row in rows if row[2] is not None]
        if missing:
            paths, numbers, texts = zip(*missing, strict=True)
            values = {
                "filenames": list(paths),
                "chunk_numbers": list(numbers),
                "texts": list(await split(texts)),
            }
            async with owned_transaction(connection, owner):
                await connection.execute(statement("fill_words", record), values)
        page |= {"filename": rows[-1][0], "chunk_number": rows[-1][1]}


async def _page(
    connection: Connection, record: IndexRecord, page: dict[str, object]
) -> list[tuple[str, int, str | None]]:
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("words_to_fill", record), page)
        rows = await cursor.fetchall()
    return [
        (path, number, None if packed is None else unpack_texts(path, packed).searched)
        for path, number, packed in rows
    ]


async def _build_index(connection: Connection, record: IndexRecord) -> None:
    """Build the index of words unless it exists; drop first what a killed build has left."""
    row = await fetch_row(connection, statement("words_index_state", record))
    assert row, "an aggregate has a row"
    exists, valid = row
    if exists and not valid:
        await connection.execute(statement("drop_words_index", record))
    if not valid:
        await connection.execute(statement("build_words_index", record))
    # The choice of rare terms needs statistics.
    await connection.execute(statement("analyze_words", record))
