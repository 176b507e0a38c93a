"""Runs both PostgreSQL retrievers concurrently. Each reads on its own connection.

`retrieval` checks that both results belong to one generation.
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
from cocosearchd.search.scored_candidates import RetrievedCandidates
from cocosearchd.store.chunks.rows import Candidate
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import chunk_reads
from cocosearchd.store.words.keyword_search import has_words, keyword_search, rank_texts
from cocosearchd.store.words.words_table import SplitTexts

# Names of a question whose definitions are read: each takes as long as a filter by name.
MAX_NAMES = 2
_GLOB_CHARACTERS = frozenset("*?[]{}\\!")


async def retrieve(
    db: Database,
    record: IndexRecord,
    plan: Plan,
    vector: NDArray[np.float32] | None,
    split: SplitTexts,
    *,
    keyword: bool,
    overlay: Overlay | None = None,
) -> RetrievedCandidates:
    """Retrieve candidates by vector and by keywords, if the plan has a vector and keywords.

    While the lexical index is cold, `code` searches by keywords only if PostgreSQL stores words, or
    if there is no vector. Otherwise PostgreSQL would have to read the texts, which takes longer
    than the lexical index needs to load. It has the names of definitions, so chunks that define a
    name of the question take the place of keyword matches. Raises `StoreUnavailable`.
    """
    if keyword and plan.profile == "code" and vector is not None:
        keyword = await has_words(db, record)
        if not keyword:
            return await _retrieve_without_words(db, record, plan, vector, overlay)
    stored = plan if overlay is None else replace(plan, where=overlay.exclude_overlaid(plan.where))
    vectors, (words, every_word) = await asyncio.gather(
        _search_vectors(db, record, plan, vector, overlay),
        _search_keywords(db, record, stored, split, enabled=keyword),
    )
    if keyword and overlay is not None:
        words, every_word = await _add_unsaved(db, plan, words, every_word, overlay)
    return RetrievedCandidates(vectors, words, every_word)


async def _retrieve_without_words(
    db: Database,
    record: IndexRecord,
    plan: Plan,
    vector: NDArray[np.float32],
    overlay: Overlay | None,
) -> RetrievedCandidates:
    """Retrieve by vector and by the names of definitions."""
    plans = (
        plan,
        *(
            replace(plan, where=replace(plan.where, symbol_name=name))
            for name in names_to_define(plan)
        ),
    )
    vectors, *by_name = await asyncio.gather(
        *(_search_vectors(db, record, item, vector, overlay) for item in plans)
    )
    definitions = tuple({entry.key: entry for entries in by_name for entry in entries}.values())
    nearest = {entry.key for entry in vectors}
    # behind the others, since they are less near; with their similarity, for their relevance
    vectors = (*vectors, *(entry for entry in definitions if entry.key not in nearest))
    # a question that is a name: those of the whole name, not those of its last part
    every_word = len(by_name[0]) if by_name and " " not in plan.text else 0
    return RetrievedCandidates(vectors, definitions, every_word)


def names_to_define(plan: Plan) -> tuple[str, ...]:
    """Return the names of a question whose definitions may answer it; () if a filter has a name."""
    if plan.where.symbol_name:
        return ()
    names = plan.identifiers[:MAX_NAMES]
    return names if all(map(_GLOB_CHARACTERS.isdisjoint, names)) else ()


async def _add_unsaved(
    db: Database,
    plan: Plan,
    stored: tuple[Candidate, ...],
    every_word: int,
    overlay: Overlay,
) -> tuple[tuple[Candidate, ...], int]:
    """Add the unsaved chunks that have every word, ranked by PostgreSQL like the stored ones.

    While the lexical index is cold, `code` also accepts stored chunks that have only a few of the
    words. Unsaved chunks that have only a few words are left to the vector retriever.
    """
    rows = [row for row, _ in overlay.matching_chunks(plan.where)]
    words = split_text(plan.text)
    if plan.profile != "classic":
        words = drop_stop_words(words)
    ranks = await rank_texts(
        db, words, [split_text(f"{row.header}\n{row.content}") for row in rows]
    )
    complete_lift = _choose_complete_lift(stored, every_word)
    phrases_only = bool(plan.where.phrases) and not words  # the query has phrases but no words
    unsaved = [
        row._replace(score=complete_lift + rank)
        for row, rank in zip(rows, ranks, strict=True)
        if rank or phrases_only
    ]
    merged = best_candidates((*stored, *unsaved), plan.depth)
    return merged, min(every_word + len(unsaved), len(merged))


def _choose_complete_lift(stored: tuple[Candidate, ...], every_word: int) -> float:
    """Return the score that is added to chunks with every word.

    It is 1 if the list also has chunks with only some words, so that complete chunks score above 1.
    """
    return 1.0 if every_word < len(stored) or (stored and stored[0].score >= 1) else 0.0


async def _search_vectors(
    db: Database,
    record: IndexRecord,
    plan: Plan,
    vector: NDArray[np.float32] | None,
    overlay: Overlay | None,
) -> tuple[Candidate, ...]:
    """Return the nearest chunks; those of an unsaved file take the place of the stored ones."""
    if vector is None:
        return ()
    if overlay is None:
        return await chunk_reads.vector_search(db, record, vector, plan.where, plan.depth)
    where = overlay.exclude_overlaid(plan.where)
    stored = await chunk_reads.vector_search(db, record, vector, where, plan.depth)
    return best_candidates((*stored, *overlay.compare_vectors(plan.where, vector)), plan.depth)


async def _search_keywords(
    db: Database, record: IndexRecord, plan: Plan, split: SplitTexts, *, enabled: bool
) -> tuple[tuple[Candidate, ...], int]:
    """Return candidates, and the number of candidates that have every word.

    `classic` requires every word of the query, as documented. `code` drops stop words, and adds
    chunks that have only a few of the rarer words. A query that has only phrases gets the chunks
    that contain them, ordered by path.
    """
    if not enabled:
        return (), 0
    words = split_text(plan.text)
    if not words and plan.where.phrases:
        matches = await chunk_reads.first_matches(db, record, plan.where, plan.depth)
        return matches, len(matches)
    if plan.profile == "classic":
        matches = await keyword_search(db, record, words, plan.where, plan.depth, split)
        return matches, len(matches)
    terms = drop_stop_words(words)
    candidates = await keyword_search(
        db, record, terms, plan.where, plan.depth, split, any_term=True
    )
    # the store scores chunks with every word at 1 or more
    complete = sum(candidate.score >= 1 for candidate in candidates)
    if not complete and candidates and has_every_word(terms, candidates[0]):
        # All candidates have every word: the store adds other chunks only if complete chunks are
        # too few.
        return candidates, len(candidates)
    return candidates, complete


def drop_stop_words(text: str) -> str:
    """Return the words of a split text without stop words.

    If all words are stop words, return them all.
    """
    return " ".join(word for word in text.split() if word not in STOP_WORDS) or text


def has_every_word(words: str, candidate: Candidate) -> bool:
    """Return True if the header and content of a chunk have all of the split words."""
    return set(words.split()) <= set(split_text(f"{candidate.header} {candidate.content}").split())
