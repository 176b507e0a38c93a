"""Reads candidates: the condition of a search as SQL, and the chunks that pass it."""

from dataclasses import dataclass
from typing import Any

from psycopg import sql

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.rows import Candidate, candidate_from_row
from cocosearchd.store.connection.database import Connection, fetch_row
from cocosearchd.store.connection.statements import compose, named_statements, statement
from cocosearchd.store.reads.text_scan import resolve_filter


@dataclass(frozen=True, slots=True)
class SearchCondition:
    """A filter as a condition on live rows of chunks, with its values.

    `has_words` is True if the words of all chunks are stored.
    """

    condition: sql.Composable
    values: dict[str, Any]
    has_words: bool


async def search_condition(
    connection: Connection, record: IndexRecord, where: Filter
) -> SearchCondition:
    """Compose the condition of a search.

    Retained chunks are excluded only if the index has some: checking each row costs more than one
    check for any. If words are stored, the words of phrases leave few texts to be read.
    """
    row = await fetch_row(connection, statement("search_state", record))
    assert row, "a select without from has a row"
    has_retained, has_words = row
    condition, values = await resolve_filter(connection, record, where, has_words=has_words)
    if has_retained:
        condition = compose(named_statements()["filter_live"], record, filter=condition)
    return SearchCondition(condition, values, has_words)


async def read_candidates(
    connection: Connection,
    record: IndexRecord,
    name: str,
    condition: sql.Composable,
    values: dict[str, Any],
) -> tuple[Candidate, ...]:
    """Run a statement that returns candidates with a score."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(statement(name, record, filter=condition), values)
        return tuple(candidate_from_row(row) for row in await cursor.fetchall())
