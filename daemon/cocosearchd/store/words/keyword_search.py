"""Searches chunks by words: by the index of words if it is complete, else by reading texts.

Both ways give the same chunks in the same order. The time to read texts grows with the texts that
may match: reading only bridges the minutes until the words are filled.
"""

import heapq
import math
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from psycopg import sql

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.packed_texts import ChunkTexts
from cocosearchd.store.chunks.rows import Candidate, candidate_from_row
from cocosearchd.store.connection.citus import read_catalogs
from cocosearchd.store.connection.database import Connection, Database, fetch_row
from cocosearchd.store.connection.reading_transaction import reading_transaction
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.reads.candidate_reads import (
    SearchCondition,
    read_candidates,
    search_condition,
)
from cocosearchd.store.reads.text_scan import matching_texts, narrow_by_terms
from cocosearchd.store.words.words_table import SplitTexts, read_words_state

ENOUGH_HITS = 50  # with fewer hits for all terms, hits for any of the rare terms follow
# Ranking a row costs 2.5 to 5 microseconds, and more with each term.
ANY_TERM_ROWS = 2000
ANY_TERMS = 16
READING_S = 300.0  # limit of one read of texts: a million of them take a minute or two

# Sorts in the order of candidates: the negative score, the path, the chunk number.
RankedKey = tuple[float, str, int]


async def has_words(db: Database, record: IndexRecord) -> bool:
    """Return whether the words of all chunks of an index are stored."""
    async with db.connection() as connection:
        return await read_words_state(connection, record) == "complete"


async def keyword_search(
    db: Database,
    record: IndexRecord,
    text: str,
    where: Filter,
    limit: int,
    split: SplitTexts,
    *,
    any_term: bool = False,
) -> tuple[Candidate, ...]:
    """Find chunks that contain every term of `text`, by PostgreSQL's text rank.

    `text` is already split, as `split` does it. If there are few such chunks, chunks that contain
    any of the rarer terms follow, weighted by rarity, if `any_term` is set and the words of all
    chunks are stored. The followers score below 1, the others above.
    """
    text = text.replace("\0", "")
    async with db.connection() as connection:
        search = await search_condition(connection, record, where)
        if search.has_words:
            return await _search_index(connection, record, text, search, limit, any_term=any_term)
    async with db.long_connection() as connection:
        return await _read_and_rank(connection, record, text, search, limit, split)


async def _search_index(
    connection: Connection,
    record: IndexRecord,
    text: str,
    search: SearchCondition,
    limit: int,
    *,
    any_term: bool,
) -> tuple[Candidate, ...]:
    values = search.values | {"text": text, "limit": limit}
    hits = await read_candidates(connection, record, "keyword_all", search.condition, values)
    if not any_term or len(hits) >= min(limit, ENOUGH_HITS):
        return hits
    terms = await _rare_terms(connection, record, text)
    partial_hits = tuple[Candidate, ...]()
    if terms:
        partial_hits = await read_candidates(
            connection, record, "keyword_any", search.condition, values | terms
        )
    keys = {hit.key for hit in hits}
    raised = tuple(hit._replace(score=1 + hit.score) for hit in hits)
    return (raised + tuple(hit for hit in partial_hits if hit.key not in keys))[:limit]


async def rank_texts(db: Database, query: str, texts: Sequence[str]) -> tuple[float, ...]:
    """Compute the score that `keyword_search` would give each text; 0 if a term is missing.

    `query` and the texts are already split, as the words of chunks are.
    """
    if not texts:
        return ()
    async with db.connection() as connection:
        return await _rank(connection, query, texts)


async def _rank(connection: Connection, query: str, texts: Sequence[str]) -> tuple[float, ...]:
    values = {"query": query.replace("\0", ""), "texts": [text.replace("\0", "") for text in texts]}
    # In binary format: text would round a score, which would then differ from a candidate's score.
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("rank_texts"), values)
        return tuple(float(row[0]) for row in await cursor.fetchall())


async def _read_and_rank(
    connection: Connection,
    record: IndexRecord,
    text: str,
    search: SearchCondition,
    limit: int,
    split: SplitTexts,
) -> tuple[Candidate, ...]:
    """Find the same chunks as the statement keyword_all, without stored words.

    Texts are read in pages, so an index of any size takes little memory.
    """
    row = await fetch_row(connection, statement("query_terms"), {"text": text})
    terms = row[0] if row else []
    if not terms:
        return ()
    best = list[RankedKey]()
    with connection.answer_timeout(READING_S):
        async with reading_transaction(connection):
            limit_ms = sql.Literal(int(READING_S * 1000))
            await connection.execute(statement("set_text_scan", limit_ms=limit_ms))
            condition = narrow_by_terms(terms, (search.condition, search.values))
            pages = matching_texts(connection, record, condition, partial(_may_have_terms, terms))
            async with aclosing(pages):
                async for chunks in pages:
                    words = await split([chunk.texts.searched for chunk in chunks])
                    scores = await _rank(connection, text, words)
                    ranked = [
                        (-score, chunk.path, chunk.chunk_number)
                        for score, chunk in zip(scores, chunks, strict=True)
                        if score
                    ]
                    best = heapq.nsmallest(limit, [*best, *ranked])
            return await _ranked_chunks(connection, record, best)


def _may_have_terms(terms: Sequence[str], texts: ChunkTexts) -> bool:
    """Return False if a chunk lacks a term.

    In plain ASCII, the words of a text are parts of the text in lower case. Splitting into words may
    change other characters.
    """
    folded = texts.searched.lower()
    return not folded.isascii() or all(term in folded for term in terms)


async def _ranked_chunks(
    connection: Connection, record: IndexRecord, ranked: Sequence[RankedKey]
) -> tuple[Candidate, ...]:
    values = {
        "filenames": [path for _, path, _ in ranked],
        "chunk_numbers": [number for _, _, number in ranked],
        "scores": [-score for score, _, _ in ranked],
    }
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("ranked_chunks", record), values)
        return tuple(candidate_from_row(row) for row in await cursor.fetchall())


async def _rare_terms(connection: Connection, record: IndexRecord, text: str) -> dict[str, Any]:
    """Choose the rarest terms of `text`: parameters of the statement keyword_any, {} without terms.

    The rarest come first: as many terms as are expected to match at most `ANY_TERM_ROWS` rows, which
    can be ranked in time.
    """
    rows = await read_catalogs(connection, record, "words_name", "term_frequencies", {"text": text})
    chosen = list[str]()
    weights = list[float]()
    expected = 0.0
    for term, frequency, total in rows[:ANY_TERMS]:
        expected += frequency * total
        if chosen and expected > ANY_TERM_ROWS:
            break
        quoted = "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"
        chosen.append(quoted)
        # the inverse document frequency of BM25
        weights.append(math.log1p((total * (1 - frequency) + 0.5) / (total * frequency + 0.5)))
    scale = sum(weights)
    if not chosen:
        return {}
    return {
        "terms": chosen,
        "weights": [weight / scale for weight in weights],
        "query": " | ".join(chosen),
    }
