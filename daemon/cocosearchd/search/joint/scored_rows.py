"""Reads the rows of the best chunks of several scored indexes in one round trip to PostgreSQL."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cocosearchd.search.code.code_candidates import (
    RankedCandidates,
    add_related,
    chunk_keys,
    deeper_query,
    lacks_results,
    make_candidates,
    merge_states,
)
from cocosearchd.search.code.code_query import CodeQuery
from cocosearchd.search.code.phrase_filter import PhraseMatches
from cocosearchd.search.joint.hit_order import HitRelevances
from cocosearchd.search.joint.joint_query import ScoredIndex, rank_indexes
from cocosearchd.search.places import ChosenFile, ScoredResult, choose_files, make_results
from cocosearchd.store.chunks.rows import Candidate, Key
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import chunk_reads


@dataclass(frozen=True, slots=True)
class RankedIndex:
    """A ranked index: it has the rows of its best places, and the files of its results are chosen.

    Complete results are made only for files that an answer shows.
    """

    code_query: CodeQuery
    candidates: RankedCandidates
    files: tuple[ChosenFile, ...]

    @property
    def relevances(self) -> HitRelevances:
        """The relevances of the hits of all files."""
        best = [file.best for file in self.files]
        return HitRelevances(
            tuple(entry.relevance for entry in best), any(entry.every_word for entry in best)
        )

    def compare(self, count: int) -> RankedCandidates:
        """Return the candidates, with results for the first `count` files.

        Each result has only the best place of its file. This is enough to compare hits of several
        indexes: only shown hits need their other places.
        """
        results = (ScoredResult(file.best, (), file.similar_paths) for file in self.files[:count])
        return replace(self.candidates, selected=tuple(results))

    def complete(self, ranks: Sequence[int]) -> RankedCandidates:
        """Return the candidates with complete results for these ranks, which count from 1."""
        shown_files = [self.files[rank - 1] for rank in ranks]
        plan = self.code_query.plan
        results = make_results(plan, self.candidates.scored, self.files, shown_files)
        return replace(self.candidates, selected=add_related(self.code_query, results))


async def read_scored(db: Database, indexes: Sequence[ScoredIndex]) -> list[RankedIndex]:
    """Rank the best chunks of each index, read their rows, and choose the files of its results.

    Raises an error if one of the indexes is gone or cannot be read.
    """
    ranked = await _read_rows(db, indexes, [None] * len(indexes))
    while incomplete := _incomplete_numbers(ranked):
        # Every file of a small index is compared, so its scores also serve a query for more
        # results.
        deeper = [
            replace(indexes[number], code_query=deeper_query(ranked[number].code_query))
            for number in incomplete
        ]
        more = await _read_rows(db, deeper, [ranked[number].candidates for number in incomplete])
        for number, index in zip(incomplete, more, strict=True):
            ranked[number] = index
    return ranked


def _incomplete_numbers(ranked: Sequence[RankedIndex]) -> list[int]:
    """Return the numbers of the indexes that lack results because alike files were collapsed."""
    return [
        number
        for number, index in enumerate(ranked)
        if lacks_results(
            index.code_query.plan, index.candidates, len(index.files), index.code_query.limit
        )
    ]


async def _read_rows(
    db: Database, indexes: Sequence[ScoredIndex], first: Sequence[RankedCandidates | None]
) -> list[RankedIndex]:
    """Rank chunks, read rows that are not in the `first` candidates, and choose the result files."""
    chunks = await asyncio.to_thread(rank_indexes, indexes)
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
        _choose(index.code_query, PhraseMatches(of_index), read_before, candidates, read)
        for index, of_index, read_before, candidates, read in zip(
            indexes, chunks, by_key, first, reads, strict=True
        )
    ]


def _choose(
    code_query: CodeQuery,
    matches: PhraseMatches,
    read_before: dict[Key, Candidate],
    first: RankedCandidates | None,
    read: chunk_reads.RowsWithFiles,
) -> RankedIndex:
    rows, states = read
    by_key = read_before | {row.key: row for row in rows}
    if first is not None and first.states is not None:
        states = merge_states(first.states, states)
    candidates = make_candidates(code_query.record, code_query, matches, by_key, states)
    files = choose_files(code_query.plan, candidates.scored)
    return RankedIndex(code_query, candidates, files)
