"""Both legs of a search, side by side. Each reads on a connection of its own; `pipeline` proves
that they agree.
"""

import asyncio
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages.identifiers import split_text
from cocosearchd.model import IndexRecord
from cocosearchd.search.lexical.analysis.terms import STOP_WORDS
from cocosearchd.search.overlay import Overlay, best_candidates
from cocosearchd.search.plan import Plan
from cocosearchd.search.ranking import RetrievedCandidates
from cocosearchd.store.chunks import queries
from cocosearchd.store.connection.database import Database


async def retrieve(
    db: Database,
    record: IndexRecord,
    plan: Plan,
    vector: NDArray[np.float32] | None,
    *,
    keyword: bool,
    overlay: Overlay | None = None,
) -> RetrievedCandidates:
    """Ask the legs that there is something to ask of; for a listing, the symbols. Raises
    `StoreUnavailable`.
    """
    stored = plan if overlay is None else replace(plan, where=overlay.exclude_overlaid(plan.where))
    if plan.listing:
        symbols = await queries.list_symbols(db, record, stored.where, plan.depth)
        if overlay is not None:
            symbols = tuple(
                sorted((*symbols, *overlay.matching_symbols(plan.where)), key=lambda row: row.key)[
                    : plan.depth
                ]
            )
        return RetrievedCandidates(keyword=symbols, every_word=len(symbols))
    vectors, (words, every_word) = await asyncio.gather(
        _search_vectors(db, record, stored, vector),
        _search_keywords(db, record, stored, wanted=keyword),
    )
    if overlay is None:
        return RetrievedCandidates(vectors, words, every_word)
    if vector is not None:
        vectors = best_candidates(
            (*vectors, *overlay.compare_vectors(plan.where, vector)), plan.depth
        )
    if keyword:
        words, every_word = await _add_unsaved(db, plan, words, every_word, overlay)
    return RetrievedCandidates(vectors, words, every_word)


async def _add_unsaved(
    db: Database,
    plan: Plan,
    stored: tuple[queries.Candidate, ...],
    every_word: int,
    overlay: Overlay,
) -> tuple[tuple[queries.Candidate, ...], int]:
    """The keyword leg with the unsaved chunks that have every word, ranked by PostgreSQL like the
    stored ones.

    Those that have some of the words only, which `code` adds while its lexical index is cold, are
    left to the vectors.
    """
    rows = [row for row, _ in overlay.matching_chunks(plan.where)]
    words = split_text(plan.text)
    if plan.profile != "classic":
        words = content_words(words)
    ranks = await queries.rank_texts(
        db, words, [split_text(f"{row.header}\n{row.content}") for row in rows]
    )
    # Those with every word are raised above 1 where others are in the list.
    lift = 1.0 if every_word < len(stored) or (stored and stored[0].score >= 1) else 0.0
    every = bool(plan.where.phrases) and not words  # what is quoted is all that is asked
    found = [
        replace(row, score=lift + rank)
        for row, rank in zip(rows, ranks, strict=True)
        if rank or every
    ]
    merged = best_candidates((*stored, *found), plan.depth)
    return merged, min(every_word + len(found), len(merged))


async def _search_vectors(
    db: Database, record: IndexRecord, plan: Plan, vector: NDArray[np.float32] | None
) -> tuple[queries.Candidate, ...]:
    if vector is None:
        return ()
    return await queries.vector_search(db, record, vector, plan.where, plan.depth)


async def _search_keywords(
    db: Database, record: IndexRecord, plan: Plan, *, wanted: bool
) -> tuple[tuple[queries.Candidate, ...], int]:
    """Candidates, and how many of them have every word.

    `classic` asks for every word of the query, as documented; `code` leaves stop words out and
    fills up with chunks that have some of the rarer words. Of phrases without any word it is the
    chunks that hold them, by path.
    """
    if not wanted:
        return (), 0
    text = split_text(plan.text)
    if not text and plan.where.phrases:
        holding = await queries.first_matches(db, record, plan.where, plan.depth)
        return holding, len(holding)
    if plan.profile == "classic":
        every = await queries.keyword_search(db, record, text, plan.where, plan.depth)
        return every, len(every)
    words = content_words(text)
    found = await queries.keyword_search(db, record, words, plan.where, plan.depth, any_term=True)
    # the store raises them above the others
    complete = sum(candidate.score >= 1 for candidate in found)
    if not complete and found and has_every_word(words, found[0]):
        return found, len(found)  # there were enough of them, so there are no others
    return found, complete


def content_words(text: str) -> str:
    """The words of a split text that are not stop words; all of them where nothing else is left."""
    return " ".join(word for word in text.split() if word not in STOP_WORDS) or text


def has_every_word(words: str, candidate: queries.Candidate) -> bool:
    """Whether header and content of a chunk hold all of some split words."""
    return set(words.split()) <= set(split_text(f"{candidate.header} {candidate.content}").split())
