"""Quoted phrases in the profile `code`: texts are read as they rank, until enough of them hold the
phrases.

The lexical index knows which chunks have the words of a phrase, not whether they stand together:
PostgreSQL has the texts. Where few chunks can hold the phrases, these are read. Otherwise files are
read in the order of their rank. Only when they hold less than is wanted is everything looked
through that is not ruled out; and where that is too much, what has the words of the phrases as
whole words: then the answer says so.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.search.code.code_profile import RankedChunk, rank_files
from cocosearchd.search.code.code_query import CodeQuery
from cocosearchd.search.code.file_masks import apply_overlay, passing_files
from cocosearchd.search.lexical.index_snapshot import FeatureMatrix
from cocosearchd.search.lexical.scoring.phrase_candidates import (
    PhraseCandidates,
    count_chunks,
    extract_phrase_words,
    find_phrase_candidates,
    list_chunk_keys,
)
from cocosearchd.search.lexical.segments.live_documents import files_with_chunks
from cocosearchd.search.trace import Trace
from cocosearchd.store.chunks.phrase_matches import (
    Starts,
    StoredPhraseMatches,
    all_phrase_matches,
    estimate_phrase_matches,
    phrase_matches_in_chunks,
    phrase_matches_in_files,
)
from cocosearchd.store.connection.database import Database

# texts that are read before anything is ranked: one costs PostgreSQL 3 to 6 microseconds
FEW_CHUNKS = 1000
# chunks that are read by their keys, when the files that are compared hold too little
MAX_KEYED_CHUNKS = 20_000
MAX_SCANNED_TEXTS = (
    120_000  # texts, as PostgreSQL expects, that it looks through for a whole answer
)
SCAN_MS = 2000  # for what is beyond, if nothing is found otherwise
# files of the first lot for each that is wanted; and how many times as many are in the next
_FIRST_LOT = 2
_GROWTH = 3
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
    """The best chunks. `complete`: no file was newer than the state that was asked. See
    `CodeAnswer` for the others.
    """

    chunks: tuple[RankedChunk, ...]
    complete: bool = True
    warning: str | None = None
    cacheable: bool = True


async def rank_phrase_matches(
    db: Database, newest: IndexRecord, ask: CodeQuery, needed: int, trace: Trace
) -> PhraseMatches:
    """The best chunks that hold all phrases of the plan, and pass the rest of its filter. Raises
    `StoreUnavailable`.

    `needed` results are looked for; a plan that is explained ranks more of them.
    """
    look = _PhraseSearch(db, newest, ask)
    possible = await asyncio.to_thread(look.possible)
    try:
        return await _find_matches(look, possible, needed)
    finally:
        can = count_chunks(possible.chunks)
        likely = count_chunks(possible.whole_word_chunks)
        trace.record(
            "phrases",
            lambda: {"chunks_that_can_hold": can, "with_the_words": likely, "read": look.steps},
        )


async def _find_matches(
    look: "_PhraseSearch", possible: PhraseCandidates, needed: int
) -> PhraseMatches:
    ask = look.ask
    whole = await look.wholly(possible, FEW_CHUNKS, FEW_CHUNKS)
    if whole is not None:
        return await look.held(whole)
    if count_chunks(possible.whole_word_chunks) <= FEW_CHUNKS:
        known = await look.among(possible.whole_word_chunks)
        if look.results(known) >= needed:
            return await look.held(known)
    else:
        found, order = await ask.evaluate(
            look.in_order, lambda _: files_with_chunks(ask.state.views, possible.whole_word_chunks)
        )
        known = await look.best_first(found, order)
        if look.results(known) >= needed or len(found.paths) == ask.state.file_count:
            return PhraseMatches(
                await asyncio.to_thread(ask.rank_compared, found, known), look.complete
            )
    return await look.everywhere(possible, known)


@dataclass(slots=True)
class _PhraseSearch:
    """Looks for the phrases of one question.

    `steps`: what was read. `in_time`: nothing has taken too long yet. `complete`: no file that was
    read is newer than the state that is asked.
    """

    db: Database
    newest: IndexRecord
    ask: CodeQuery
    in_time: bool = True
    complete: bool = True
    steps: list[str] = field(default_factory=list)

    def possible(self) -> PhraseCandidates:
        """What can hold the phrases, of what may be shown."""
        state = self.ask.state
        where = self.ask.plan.where
        words = extract_phrase_words(where.phrases, self.ask.lexical.terms)
        return find_phrase_candidates(
            state.views,
            state.live_documents,
            words,
            self.ask.allowed_files(state.live_documents),
            chunks=self.ask.symbol_masks(),
        )

    def in_order(self, found: FeatureMatrix) -> tuple[FeatureMatrix, list[int]]:
        """The compared files that may be shown, best first, wherever they have the words."""
        allowed = passing_files(self.ask.plan.where, found.paths, found.languages)
        chunks = self.ask.allowed_chunks(found)
        if chunks is not None:
            allowed &= np.logical_or.reduceat(chunks, found.starts)
        found = replace(found, allowed=allowed)
        return found, rank_files(found, self.ask.terms.symbol, self.ask.weights)

    def results(self, chunks: Starts) -> int:
        """How many results some chunks give."""
        return sum(map(len, chunks.values())) if self.ask.plan.all_chunks else len(chunks)

    async def held(
        self, chunks: Starts, warning: str | None = None, *, cacheable: bool = True
    ) -> PhraseMatches:
        """The best of the chunks that hold the phrases."""
        return PhraseMatches(await self.ask.rank(chunks), self.complete, warning, cacheable)

    async def best_first(self, found: FeatureMatrix, order: list[int]) -> Starts:
        """Read the files in their order, until there are as many results as are ranked."""
        where = self.ask.plan.where
        overlay = self.ask.overlay
        unsaved = apply_overlay({}, overlay, where)
        chunks = dict[str, NDArray[np.int64]]()
        at = 0
        size = _FIRST_LOT * self.ask.limit
        while at < len(order) and self.results(chunks) < self.ask.limit:
            lot = [found.paths[file] for file in order[at : at + size]]
            saved = [path for path in lot if overlay is None or path not in overlay.files]
            read = await phrase_matches_in_files(self.db, self.newest, where, saved)
            self._compare(read, saved)
            chunks |= read.starts | {path: unsaved[path] for path in lot if path in unsaved}
            at = at + size
            size = size * _GROWTH
            self.steps.append(f"{len(lot)} files as they rank")
        return chunks

    async def everywhere(self, possible: PhraseCandidates, known: Starts) -> PhraseMatches:
        """Of all that can hold the phrases, if that is not too much; else of what is likely to, and
        what is `known`.
        """
        whole = await self.wholly(possible, MAX_KEYED_CHUNKS, MAX_SCANNED_TEXTS)
        if whole is not None:
            return await self.held(whole)
        if count_chunks(possible.whole_word_chunks) <= MAX_KEYED_CHUNKS:
            known = known | await self.among(possible.whole_word_chunks)
            if known:
                return await self.held(known, PARTIAL_WARNING)
        whole = await self.scanned()
        if whole is not None:
            return await self.held(whole)
        return await self.held(known, TIMEOUT_WARNING, cacheable=False)

    async def wholly(self, possible: PhraseCandidates, keys: int, texts: int) -> Starts | None:
        """All chunks that hold the phrases, if it takes no more than so many keys or texts to know;
        else None.

        By their keys or by PostgreSQL's index of words, whichever leaves less to be read.
        """
        sure = count_chunks(possible.chunks)
        if sure <= min(keys, FEW_CHUNKS):
            return await self.among(possible.chunks)
        named = min(
            await estimate_phrase_matches(self.db, self.newest, self.ask.plan.where),
            self.ask.state.chunk_count,
        )
        if sure <= min(keys, named):
            return await self.among(possible.chunks)
        return await self.scanned() if named <= texts else None

    async def among(self, chunks: Sequence[NDArray[np.bool_]]) -> Starts:
        """Those of some chunks that hold the phrases."""
        self.steps.append(f"{count_chunks(chunks)} chunks by their keys")
        keys = await asyncio.to_thread(
            list_chunk_keys, self.ask.state.views, self.ask.state.live_documents, chunks
        )
        unsaved = self.ask.overlay.files if self.ask.overlay else {}
        saved = [key for key in keys if key[0] not in unsaved]
        read = await phrase_matches_in_chunks(self.db, self.newest, self.ask.plan.where, saved)
        self._compare(read, {path for path, _, _ in saved})
        return self._shown(read.starts)

    async def scanned(self) -> Starts | None:
        """All chunks that hold the phrases; None: there is no time for it."""
        if not self.in_time:
            return None
        self.steps.append("what the index of words leaves, by PostgreSQL")
        found = await all_phrase_matches(self.db, self.newest, self.ask.plan.where, SCAN_MS)
        self.in_time = found is not None
        return None if found is None else self._shown(found)

    def _compare(self, read: StoredPhraseMatches, paths: Iterable[str]) -> None:
        """A file that is newer, or gone, may have held the phrases in the state that is asked."""
        seen = self.ask.state.generation
        self.complete &= all(read.generations.get(path, seen + 1) <= seen for path in paths)

    def _shown(self, chunks: Starts) -> Starts:
        return apply_overlay(chunks, self.ask.overlay, self.ask.plan.where)
