"""Searches the packed texts of chunks for phrases and other strings."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from psycopg import sql

from cocosearchd.errors import TIMED_OUT, CocoSearchError
from cocosearchd.filters.conditions import PhraseCondition
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.forms.unicode_forms import spellings
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.packed_texts import (
    ChunkTexts,
    phrase_bits,
    unpack_content,
    unpack_texts,
)
from cocosearchd.store.connection.citus import has_distributed_tables
from cocosearchd.store.connection.database import Connection, fetch_row
from cocosearchd.store.connection.reading_transaction import reading_transaction
from cocosearchd.store.connection.statements import compose, named_statements, statement
from cocosearchd.store.file_groups import file_groups
from cocosearchd.store.filter_sql import Condition, filter_sql, phrase_words_sql

TEXTS_AT_ONCE = 500
# Bits of a phrase that are tested at most: this many leave a few texts in a thousand.
_MAX_BITS = 16
RawRow = tuple[str, int, bytes, bytes]  # path, chunk number, digest, packed texts


@dataclass(frozen=True, slots=True)
class MatchingChunk:
    """The texts of a chunk, and the number of the chunk in its file."""

    path: str
    chunk_number: int
    texts: ChunkTexts


async def matching_texts(
    connection: Connection,
    record: IndexRecord,
    condition: Condition,
    matches: Callable[[ChunkTexts], bool],
) -> AsyncGenerator[list[MatchingChunk], None]:
    """Yield pages of the chunks that pass a condition of SQL and have texts that match.

    An index of any size takes little memory. Call it in a transaction.
    """
    async with aclosing(_pages(connection, record, condition)) as pages:
        async for rows in pages:
            yield await asyncio.to_thread(_select_texts, rows, matches)


async def files_containing(connection: Connection, record: IndexRecord, part: str) -> list[str]:
    """List the files with a chunk whose text contains `part`. Call it in a transaction."""
    paths = dict[str, None]()
    async with aclosing(_pages(connection, record, filter_sql(Filter()))) as pages:
        async for rows in pages:
            selected = await asyncio.to_thread(_select_rows, rows, lambda text: part in text)
            paths |= dict.fromkeys(path for path, *_ in selected)
    return list(paths)


async def resolve_filter(
    connection: Connection,
    record: IndexRecord,
    where: Filter,
    *,
    has_words: bool = False,
    paths: Sequence[str] | None = None,
) -> Condition:
    """Compose a filter as a condition over the columns of a chunks table, with its values.

    The condition on phrases becomes a list of the chunks that contain them now; a chunk whose text
    changes meanwhile does not pass any more. `has_words`: the words of all chunks are stored, and
    leave few texts to be read. With `paths`, phrases are searched in these files only. Raises
    `CocoSearchError` (TIMED_OUT) if the search takes longer than a statement may.
    """
    without_phrases = replace(where, phrases=())
    if not where.phrases:
        return filter_sql(where)
    condition = narrow_by_trigrams(where, filter_sql(without_phrases))
    if paths is not None:
        condition = _restrict_to_files(record, condition, paths)
    if has_words:
        condition = _narrow_by_words(record, where, condition)
    chosen = list[RawRow]()
    matches = PhraseCondition(where.phrases).matcher()
    async with (
        reading_transaction(connection),
        aclosing(_pages(connection, record, condition)) as pages,
    ):
        check_time = await _start_clock(connection)
        async for rows in pages:
            check_time()
            chosen += await asyncio.to_thread(_select_rows, rows, matches)
    values = {
        "chosen_filenames": [path for path, *_ in chosen],
        "chosen_numbers": [number for _, number, *_ in chosen],
        "chosen_hashes": [digest for *_, digest, _ in chosen],
    }
    return sql.SQL(named_statements()["chosen_chunks"]), values


async def _start_clock(connection: Connection) -> Callable[[], None]:
    """Return a function that raises once more time has passed than a statement may take.

    PostgreSQL limits only the time of each page.
    """
    row = await fetch_row(connection, statement("time_limit"))
    limit_s = float(row[0]) if row else 0.0
    began = time.monotonic()

    def check_time() -> None:
        if 0 < limit_s < time.monotonic() - began:
            raise CocoSearchError(
                "there are too many texts to look through for the phrase",
                "narrow the query, or raise database.statement_timeout_ms",
                code=TIMED_OUT,
            )

    return check_time


def _restrict_to_files(
    record: IndexRecord, condition: Condition, paths: Sequence[str]
) -> Condition:
    """Restrict a condition to the chunks of some files."""
    grouped = compose(named_statements()["filter_group"], record, filter=condition[0])
    return grouped, condition[1] | {"group": list(paths)}


def narrow_by_trigrams(where: Filter, condition: Condition) -> Condition:
    """Add the weaker condition on a row that its texts have the trigrams of all phrases."""
    parts = [condition[0]]
    for phrase in where.phrases:
        choices = [phrase_bits(spelling.replace("\0", "")) for spelling in spellings(phrase)]
        if all(choices):
            any_spelling = sql.SQL(" or ").join(map(_has_bits, choices))
            parts.append(sql.SQL("(packed_texts is null or {})").format(any_spelling))
    return sql.SQL(" and ").join(parts), condition[1]


def narrow_by_terms(terms: Sequence[str], condition: Condition) -> Condition:
    """Add the weaker condition on a row that its texts have the trigrams of all terms.

    Texts that are not plain ASCII always pass (layout 2 of `packed_texts`): splitting into words may
    change their characters.
    """
    bits = sorted({bit for term in terms for bit in phrase_bits(term)})
    if not bits:
        return condition
    text = "{} and (packed_texts is null or get_byte(packed_texts, 0) = 2 or {})"
    return sql.SQL(text).format(condition[0], _has_bits(bits)), condition[1]


def _has_bits(bits: Sequence[int]) -> sql.Composed:
    """Compose a condition on packed texts that bits are set."""
    tests = (
        sql.SQL("get_bit(packed_texts, {}) = 1").format(sql.Literal(bit))
        for bit in bits[:_MAX_BITS]
    )
    return sql.SQL("({})").format(sql.SQL(" and ").join(tests))


def _narrow_by_words(record: IndexRecord, where: Filter, condition: Condition) -> Condition:
    """Add weaker conditions on the words of phrases, which use the index of words."""
    words_condition, words_values = phrase_words_sql(where)
    if not words_values:
        return condition
    text = named_statements()["filter_words"]
    narrowed = compose(text, record, filter=condition[0], words_filter=words_condition)
    return narrowed, condition[1] | words_values


async def _pages(
    connection: Connection, record: IndexRecord, condition: Condition
) -> AsyncGenerator[list[RawRow], None]:
    """Yield pages of rows that pass a condition. Call it in a transaction."""
    composable, values = condition
    is_restricted = "group" in values
    if not is_restricted and await has_distributed_tables(connection, record):
        async with aclosing(file_groups(connection, record, TEXTS_AT_ONCE)) as groups:
            async for group in groups:
                yield await _fetch(connection, record, _restrict_to_files(record, condition, group))
        return
    query = statement("chunk_texts", record, filter=composable)
    async with connection.cursor("chunk_texts", binary=True) as cursor:
        await cursor.execute(query, values)
        while rows := await cursor.fetchmany(TEXTS_AT_ONCE):
            yield rows


async def _fetch(connection: Connection, record: IndexRecord, condition: Condition) -> list[RawRow]:
    async with connection.cursor(binary=True) as cursor:
        query = statement("chunk_texts", record, filter=condition[0])
        await cursor.execute(query, condition[1])
        return await cursor.fetchall()


def _select_texts(
    rows: Sequence[RawRow], matches: Callable[[ChunkTexts], bool]
) -> list[MatchingChunk]:
    chunks = (
        MatchingChunk(path, number, unpack_texts(path, packed)) for path, number, _, packed in rows
    )
    return [chunk for chunk in chunks if matches(chunk.texts)]


def _select_rows(rows: Sequence[RawRow], matches: Callable[[str], bool]) -> list[RawRow]:
    """Return the rows with matching contents, without their texts."""
    return [
        (path, number, digest, b"")
        for path, number, digest, packed in rows
        if matches(unpack_content(path, packed))
    ]
