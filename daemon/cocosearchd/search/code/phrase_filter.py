"""Finds quoted phrases in the profile `code`: reads texts in rank order until enough match.

The lexical index knows which chunks have the words of a phrase, but not whether the words are
adjacent. Only PostgreSQL has the texts. There are four steps:

1. If few chunks can match, all of them are read.
2. Otherwise files are read in rank order.
3. If these have too few matches, all chunks that the index does not rule out are searched.
4. If these are too many, only chunks that have the words of the phrases as whole words are read,
   and the answer says so.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.search.code.code_profile import RankedChunk, rank_files
from cocosearchd.search.code.code_query import CodeQuery
from cocosearchd.search.code.file_masks import passing_files, replace_unsaved_chunks
from cocosearchd.search.lexical.index_snapshot import SignalMatrix
from cocosearchd.search.lexical.scoring.phrase_candidates import (
    PhraseCandidates,
    count_chunks,
    extract_phrase_words,
    find_phrase_candidates,
    list_chunk_keys,
)
from cocosearchd.search.lexical.segments.live_documents import files_with_chunks
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.phrase_matches import (
    Starts,
    StoredPhraseMatches,
    all_phrase_matches,
    phrase_matches_in_chunks,
    phrase_matches_in_files,
)

# Chunks that are read before ranking: each text costs PostgreSQL 3 to 6 microseconds.
FEW_CHUNKS = 1000
# Chunks that are read by key if the compared files have too few matches.
MAX_KEYED_CHUNKS = 20_000
# Share of all chunks above which a scan costs less than reads by key: a read by key takes about as
# long as scanning a text.
KEYED_SHARE = 0.5
# If at most so many chunks can contain the phrases, all texts are scanned for a complete answer.
MAX_SCANNED_TEXTS = 120_000
SCAN_MS = 2000  # time limit of a scan of all texts
_FIRST_BATCH = 2  # files of the first batch for each result
_GROWTH = 3  # factor from each batch to the next
PARTIAL_WARNING = (
    "more may hold the phrase as part of a longer word: "
    "there are too many texts to look through; a filter helps"
)
TIMEOUT_WARNING = (
    "not every text could be looked through for the phrase in time; "
    "a filter on paths or languages helps"
)


@dataclass(frozen=True, slots=True)
class PhraseMatches:
    """The best chunks that contain all phrases.

    See `RankedCandidates` for `warning` and `cacheable`. `complete` is True if no file that was
    read is newer than the snapshot.
    """

    chunks: tuple[RankedChunk, ...]
    complete: bool = True
    warning: str | None = None
    cacheable: bool = True


async def rank_phrase_matches(
    db: Database, newest: IndexRecord, code_query: CodeQuery, needed: int, trace: Trace
) -> PhraseMatches:
    """Rank the best chunks that contain all phrases of the plan and pass the rest of its filter.

    Stops at `needed` results. An explained plan ranks more. Raises `StoreUnavailable`.
    """
    search = _PhraseSearch(db, newest, code_query)
    candidates = await asyncio.to_thread(search.find_candidates)
    try:
        return await _find_matches(search, candidates, needed)
    finally:
        sure = count_chunks(candidates.chunks)
        likely = count_chunks(candidates.whole_word_chunks)
        trace.record(
            "phrases",
            lambda: {
                "chunks_that_can_hold": sure,
                "with_the_words": likely,
                "read": search.steps,
            },
        )


async def _find_matches(
    search: "_PhraseSearch", candidates: PhraseCandidates, needed: int
) -> PhraseMatches:
    code_query = search.query
    matches = await search.find_all(candidates, FEW_CHUNKS, FEW_CHUNKS)
    if matches is not None:
        return await search.rank(matches)
    if count_chunks(candidates.whole_word_chunks) <= FEW_CHUNKS:
        partial = await search.match_chunks(candidates.whole_word_chunks)
        if search.count_results(partial) >= needed:
            return await search.rank(partial)
    else:
        matrix, order = await code_query.evaluate(
            search.rank_files,
            lambda _: files_with_chunks(code_query.snapshot.views, candidates.whole_word_chunks),
        )
        partial = await search.read_by_rank(matrix, order)
        if (
            search.count_results(partial) >= needed
            or len(matrix.paths) == code_query.snapshot.file_count
        ):
            return PhraseMatches(
                await asyncio.to_thread(code_query.rank_compared, matrix, partial), search.complete
            )
    return await search.search_rest(candidates, partial)


@dataclass(slots=True)
class _PhraseSearch:
    """A search for the phrases of one query.

    `steps` lists the reads, for `explain`. `in_time` is False after a timeout. `complete` is False
    after a read of a file that is newer than the snapshot.
    """

    db: Database
    record: IndexRecord
    query: CodeQuery
    in_time: bool = True
    complete: bool = True
    steps: list[str] = field(default_factory=list)

    def find_candidates(self) -> PhraseCandidates:
        """Return the chunks that can contain the phrases, in files that may be shown."""
        snapshot = self.query.snapshot
        where = self.query.plan.where
        words = extract_phrase_words(where.phrases, self.query.lexical.terms)
        return find_phrase_candidates(
            snapshot.views,
            snapshot.live_documents,
            words,
            self.query.allowed_files(snapshot.live_documents),
            chunks=self.query.symbol_masks(),
        )

    def rank_files(self, matrix: SignalMatrix) -> tuple[SignalMatrix, list[int]]:
        """Rank the compared files that may be shown, best first.

        The words of the question may be in other chunks of the file than the phrase.
        """
        allowed = passing_files(self.query.plan.where, matrix.paths, matrix.languages)
        chunks = self.query.allowed_chunks(matrix)
        if chunks is not None:
            allowed &= np.logical_or.reduceat(chunks, matrix.chunks.starts)
        matrix = replace(matrix, allowed=allowed)
        return matrix, rank_files(matrix, self.query.terms.is_name, self.query.weights)

    def count_results(self, chunks: Starts) -> int:
        """Count the results that chunks make: the chunks with `all_chunks`, else their files."""
        return sum(map(len, chunks.values())) if self.query.plan.all_chunks else len(chunks)

    async def rank(
        self, chunks: Starts, warning: str | None = None, *, cacheable: bool = True
    ) -> PhraseMatches:
        """Rank the chunks that contain the phrases."""
        return PhraseMatches(await self.query.rank(chunks), self.complete, warning, cacheable)

    async def read_by_rank(self, matrix: SignalMatrix, order: list[int]) -> Starts:
        """Read files in rank order until there are enough results to rank."""
        where = self.query.plan.where
        overlay = self.query.overlay
        unsaved = replace_unsaved_chunks({}, overlay, where)
        chunks = dict[str, NDArray[np.int64]]()
        position = 0
        size = _FIRST_BATCH * self.query.limit
        while position < len(order) and self.count_results(chunks) < self.query.limit:
            paths = [matrix.paths[file] for file in order[position : position + size]]
            saved = [path for path in paths if overlay is None or path not in overlay.files]
            read = await phrase_matches_in_files(self.db, self.record, where, saved)
            self._check_generations(read, saved)
            chunks |= read.starts | {path: unsaved[path] for path in paths if path in unsaved}
            position = position + size
            size = size * _GROWTH
            self.steps.append(f"{len(paths)} files as they rank")
        return chunks

    async def search_rest(self, candidates: PhraseCandidates, partial: Starts) -> PhraseMatches:
        """Search the candidates that earlier steps have not searched.

        If all candidates are too many, search only those with the phrase as whole words.

        `partial` are the matches of earlier steps.
        """
        matches = await self.find_all(candidates, MAX_KEYED_CHUNKS, MAX_SCANNED_TEXTS)
        if matches is not None:
            return await self.rank(matches)
        if count_chunks(candidates.whole_word_chunks) <= MAX_KEYED_CHUNKS:
            partial = partial | await self.match_chunks(candidates.whole_word_chunks)
            if partial:
                return await self.rank(partial, PARTIAL_WARNING)
        matches = await self.scan()
        if matches is not None:
            return await self.rank(matches)
        return await self.rank(partial, TIMEOUT_WARNING, cacheable=False)

    async def find_all(self, candidates: PhraseCandidates, keys: int, texts: int) -> Starts | None:
        """Return all matches if the candidates are few enough, else None.

        At most `keys` candidates are read by key, if they are a small share of all chunks. With at
        most `texts` candidates, all texts are scanned for a limited time.
        """
        sure = count_chunks(candidates.chunks)
        few = max(FEW_CHUNKS, int(KEYED_SHARE * self.query.snapshot.chunk_count))
        if sure <= min(keys, few):
            return await self.match_chunks(candidates.chunks)
        return await self.scan() if sure <= texts else None

    async def match_chunks(self, chunks: Sequence[NDArray[np.bool_]]) -> Starts:
        """Return those of the given chunks that contain the phrases."""
        self.steps.append(f"{count_chunks(chunks)} chunks by their keys")
        keys = await asyncio.to_thread(
            list_chunk_keys, self.query.snapshot.views, self.query.snapshot.live_documents, chunks
        )
        unsaved = self.query.overlay.files if self.query.overlay else {}
        saved = [key for key in keys if key[0] not in unsaved]
        read = await phrase_matches_in_chunks(self.db, self.record, self.query.plan.where, saved)
        self._check_generations(read, {path for path, _, _ in saved})
        return self._apply_overlay(read.starts)

    async def scan(self) -> Starts | None:
        """Return all chunks that contain the phrases; None after a timeout."""
        if not self.in_time:
            return None
        self.steps.append("all texts")
        matches = await all_phrase_matches(self.db, self.record, self.query.plan.where, SCAN_MS)
        self.in_time = matches is not None
        return None if matches is None else self._apply_overlay(matches)

    def _check_generations(self, read: StoredPhraseMatches, paths: Iterable[str]) -> None:
        """Clear `complete` if a file is newer than the snapshot or gone.

        The old text of that file may have matched.
        """
        generation = self.query.snapshot.generation
        self.complete &= all(
            read.generations.get(path, generation + 1) <= generation for path in paths
        )

    def _apply_overlay(self, chunks: Starts) -> Starts:
        return replace_unsaved_chunks(chunks, self.query.overlay, self.query.plan.where)
