"""Finds the chunks that contain quoted phrases: among files, among chunks, or anywhere.

The texts have to be read, so pass few files or chunks.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from cocosearchd.errors import TIMED_OUT, CocoSearchError
from cocosearchd.filters.conditions import PhraseCondition
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.packed_texts import unpack_content
from cocosearchd.store.chunks.rows import Key, Row
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.filter_sql import Condition, chunk_filter_sql
from cocosearchd.store.reads.candidate_reads import search_condition
from cocosearchd.store.reads.text_scan import narrow_by_trigrams

# path -> first bytes of the chunks that contain the phrases, ascending
Starts = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class StoredPhraseMatches:
    """The chunks that contain all phrases, and the generation of each file that is stored."""

    starts: Starts
    generations: Mapping[str, int]


async def phrase_matches_in_files(
    db: Database, record: IndexRecord, where: Filter, paths: Sequence[str]
) -> StoredPhraseMatches:
    """Find the chunks of `paths` that contain the phrases of a filter and pass its symbols.

    The parts of the filter about files are ignored.
    """
    return await _read(db, record, "texts_in_files", where, {"filenames": list(paths)})


async def phrase_matches_in_chunks(
    db: Database, record: IndexRecord, where: Filter, keys: Sequence[Key]
) -> StoredPhraseMatches:
    """Find the chunks of `keys` that contain the phrases of a filter and pass its symbols.

    The parts of the filter about files are ignored.
    """
    values = {
        "filenames": [path for path, _, _ in keys],
        "starts": [start for _, start, _ in keys],
        "ends": [end for _, _, end in keys],
    }
    return await _read(db, record, "texts_in_chunks", where, values)


async def all_phrase_matches(
    db: Database, record: IndexRecord, where: Filter, limit_ms: int
) -> Starts | None:
    """Find all chunks that pass a filter; None if that takes longer than `limit_ms`."""
    try:
        async with db.connection() as connection, connection.transaction():
            limit = sql.Literal(limit_ms)
            await connection.execute(statement("set_phrase_scan", limit_ms=limit))
            search = await search_condition(connection, record, where)
            query = statement("phrases_anywhere", record, filter=search.condition)
            cursor = connection.cursor(binary=True)
            await cursor.execute(query, search.values)
            return {path: _starts_of(packed) for path, packed in await cursor.fetchall()}
    except CocoSearchError as error:
        if error.code == TIMED_OUT:
            return None
        raise


def _starts_of(packed: bytes) -> NDArray[np.int64]:
    """Decode the packed first bytes of chunks, ascending."""
    return np.sort(np.frombuffer(packed, ">i8").astype(np.int64))


async def _read(
    db: Database, record: IndexRecord, name: str, where: Filter, values: dict[str, Any]
) -> StoredPhraseMatches:
    condition = narrow_by_trigrams(where, chunk_filter_sql(where))
    rows = await _rows(db, record, name, condition, values)
    matches = PhraseCondition(where.phrases).matcher()
    starts = await asyncio.to_thread(_matching_starts, rows, matches)
    return StoredPhraseMatches(starts, {path: generation for path, generation, *_ in rows})


def _matching_starts(rows: Sequence[Row], matches: Callable[[str], bool]) -> Starts:
    """Return the first bytes of the chunks whose texts match, by path."""
    starts = dict[str, list[int]]()
    for path, _, start, packed in rows:
        if packed is not None and matches(unpack_content(path, packed)):
            starts.setdefault(path, []).append(start)
    return {path: np.array(sorted(numbers), np.int64) for path, numbers in starts.items()}


async def _rows(
    db: Database, record: IndexRecord, name: str, condition: Condition, values: dict[str, Any]
) -> Sequence[Row]:
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement(name, record, filter=condition[0]), condition[1] | values)
        return await cursor.fetchall()
