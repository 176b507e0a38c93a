"""Rows of the best chunks of several scored indexes, read in one round trip to PostgreSQL"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from cocosearchd.search.code.code_candidates import (
    RankedCandidates,
    chunk_keys,
    deeper_query,
    lacks_results,
    make_candidates,
    merge_states,
    select_candidate_results,
)
from cocosearchd.search.code.code_query import CodeQuery
from cocosearchd.search.code.phrase_filter import PhraseMatches
from cocosearchd.search.joint.joint_query import ScoredIndex
from cocosearchd.store.chunks.rows import Candidate, Key
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import chunk_reads


async def read_scored(db: Database, indexes: Sequence[ScoredIndex]) -> list[RankedCandidates]:
    """Rank the best chunks of each index, and return them with their rows and results.

    Raises if any of the indexes is gone or cannot be read.
    """
    candidates = await _read_results(db, indexes, [None] * len(indexes))
    incomplete = [
        number
        for number, index in enumerate(indexes)
        if lacks_results(index.code_query.plan, candidates[number], index.code_query.limit)
    ]
    if incomplete:
        # every file of a small index is compared, so its scores are those for more results as well
        deeper = [
            replace(indexes[number], code_query=deeper_query(indexes[number].code_query))
            for number in incomplete
        ]
        more = await _read_results(db, deeper, [candidates[number] for number in incomplete])
        for number, of_index in zip(incomplete, more, strict=True):
            candidates[number] = of_index
    return candidates


async def _read_results(
    db: Database, indexes: Sequence[ScoredIndex], first: Sequence[RankedCandidates | None]
) -> list[RankedCandidates]:
    """Rank, read the rows that the `first` candidates have not, and select the results."""
    chunks = await asyncio.to_thread(lambda: [index.rank() for index in indexes])
    by_key = [
        {entry.candidate.key: entry.candidate for entry in of_index.scored} if of_index else {}
        for of_index in first
    ]
    missing_keys = [
        [key for key in chunk_keys(of_index) if key not in read_before]
        for of_index, read_before in zip(chunks, by_key, strict=True)
    ]
    requests = [
        (index.code_query.record, keys) for index, keys in zip(indexes, missing_keys, strict=True)
    ]
    reads = await chunk_reads.chunks_with_files_of_several(db, requests)
    return [
        _select_results(index.code_query, PhraseMatches(of_index), read_before, candidates, read)
        for index, of_index, read_before, candidates, read in zip(
            indexes, chunks, by_key, first, reads, strict=True
        )
    ]


def _select_results(
    code_query: CodeQuery,
    matches: PhraseMatches,
    read_before: dict[Key, Candidate],
    first: RankedCandidates | None,
    read: chunk_reads.RowsWithFiles,
) -> RankedCandidates:
    rows, states = read
    by_key = read_before | {row.key: row for row in rows}
    if first is not None and first.states is not None:
        states = merge_states(first.states, states)
    candidates = make_candidates(code_query.record, code_query, matches, by_key, states)
    return select_candidate_results(code_query, candidates)
