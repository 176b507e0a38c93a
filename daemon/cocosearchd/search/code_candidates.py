"""The profile `code` for the pipeline: what the lexical index says, ranked, as candidates with their rows."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import Filter, IndexRecord, MatchType
from cocosearchd.search.code_profile import Ranked, Weights, rank_code
from cocosearchd.search.lexical import LexicalIndex
from cocosearchd.search.lexical_living import Living
from cocosearchd.search.lexical_view import Evidence
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.search.rank import Scored
from cocosearchd.store import queries
from cocosearchd.store.file_states import FileStates
from cocosearchd.store.globs import path_regex
from cocosearchd.store.matching import Matching, Starts
from cocosearchd.store.pool import Database

WAIT_S = 0.25  # for the commit hook of a generation that a query already sees; it takes 2 to 10 ms
_EVERY_WORD = 0.999  # of the coverage: sums of floats
_SIGNALS_SHOWN = 6
_MASKS = 8  # filters on files, kept for the next question: one costs half a microsecond a file
_START_BITS = 40  # of a first byte beside the number of a file, of which there are fewer than 2**23


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """Candidates best first with their rows, the generation they are of, and whether every one still had its row.

    `states`: their files, read with the rows.
    """

    scored: list[Scored]
    generation: int
    complete: bool
    states: FileStates


async def code_candidates(
    db: Database,
    record: IndexRecord,
    lexical: LexicalIndex,
    matching: Matching,
    plan: Plan,
    vector: NDArray[np.float32] | None,
    weights: Weights,
    generation: int,
    depth: int,
    overlay: Overlay | None = None,
) -> CodeAnswer | None:
    """At least `depth` candidates of `generation` or a later one, if there are as many.

    None where the lexical index cannot answer: cold or behind. PostgreSQL can.
    """
    if plan.listing or not await lexical.reach(generation, WAIT_S):
        return None
    passing = None
    if plan.where.symbol_types or plan.where.symbol_name or plan.where.phrases:
        newest = replace(record, generation=max(generation, lexical.generation))
        passing = await matching.chunks(newest, plan.where)
        passing = _with_unsaved(passing, overlay, plan.where) if overlay else passing
    asked = lexical.query(plan.text)
    # Enough for a reranker or a score limit to choose from.
    limit = max(plan.limit, depth, plan.depth if plan.reranker != "disabled" or plan.min_score else 0)
    judge = partial(_ranked, symbol=asked.symbol, weights=weights, plan=plan, passing=passing, limit=limit)
    found = await lexical.judged(judge, asked, vector, overlay, partial(_shown, plan.where, passing), limit)
    if found is None:
        return None
    seen, ranked = found
    unsaved = overlay.rows if overlay else {}
    asked_for = [key for one in ranked if (key := (one.path, one.start_byte, one.end_byte)) not in unsaved]
    rows, states = await queries.chunks_with_files(db, record, asked_for, lexical.sizes()["chunks"])
    by_key = {row.key: row for row in rows} | dict(unsaved)
    scored = [
        _scored(by_key[key], one) for one in ranked if (key := (one.path, one.start_byte, one.end_byte)) in by_key
    ]
    return CodeAnswer(scored, seen, len(scored) == len(ranked), states)


def file_mask(where: Filter, living: Living) -> NDArray[np.bool_] | None:
    """Which living files pass the part of a filter that is about files; None: all. Globs as the store reads them.

    Not to be written to: it is kept for the next question.
    """
    if not (where.languages or where.paths or where.not_paths):
        return None
    return _mask(where.languages, where.paths, where.not_paths, living)


@lru_cache(maxsize=_MASKS)
def _mask(
    spoken: tuple[str, ...], globs: tuple[str, ...], unwanted: tuple[str, ...], living: Living
) -> NDArray[np.bool_]:
    mask = np.ones(len(living.paths), np.bool_)
    if spoken:
        known = frozenset(spoken)
        mask &= np.fromiter((language in known for language in living.languages), np.bool_, len(mask))
    if globs:
        mask &= _matching(globs, living.paths)
    if unwanted:
        mask &= ~_matching(unwanted, living.paths)
    mask.flags.writeable = False
    return mask


def _matching(globs: tuple[str, ...], paths: tuple[str, ...]) -> NDArray[np.bool_]:
    """(F,): does any of the globs match."""
    search = re.compile("|".join(f"(?:{path_regex(glob)})" for glob in globs)).search
    return np.fromiter((found is not None for found in map(search, paths)), np.bool_, len(paths))


def _shown(where: Filter, chunks: Starts | None, living: Living) -> NDArray[np.bool_] | None:
    """Which files pass a filter: the part about files, and, given the chunks that pass, having one of these."""
    passing = file_mask(where, living)
    if chunks is None:
        return passing
    having = np.fromiter((path in chunks for path in living.paths), np.bool_, len(living.paths))
    return having if passing is None else having & passing


def _with_unsaved(chunks: Starts, overlay: Overlay, where: Filter) -> Starts:
    """The chunks that pass, those of files in an overlay as that has them."""
    found = {path: starts for path, starts in chunks.items() if path not in overlay.files}
    unsaved: dict[str, list[int]] = {}
    for row, _ in overlay.passing(where):
        unsaved.setdefault(row.path, []).append(row.start_byte)
    return found | {path: np.array(sorted(starts), np.int64) for path, starts in unsaved.items()}


def chunk_mask(found: Evidence, chunks: Starts) -> NDArray[np.bool_]:
    """Which chunks are among those that pass: files and first bytes as one number each, compared all at once."""
    numbers = [(number, chunks[path]) for number, path in enumerate(found.paths) if path in chunks]
    if not numbers:
        return np.zeros(len(found.keys), np.bool_)
    files = np.repeat([number for number, _ in numbers], [len(starts) for _, starts in numbers])
    wanted = files << _START_BITS | np.concatenate([starts for _, starts in numbers])
    return np.isin(found.chunk_files.astype(np.int64) << _START_BITS | found.keys[:, 0], wanted)


def _ranked(
    found: Evidence, symbol: bool, weights: Weights, plan: Plan, passing: Starts | None, limit: int
) -> tuple[int, tuple[Ranked, ...]]:
    """The pure part, for a thread: the generation, and the best of it."""
    return found.generation, rank_code(
        found,
        symbol,
        weights,
        limit,
        allowed_chunks=None if passing is None else chunk_mask(found, passing),
        per_file=limit if plan.all_chunks else 1,
    )


def _scored(row: queries.Candidate, one: Ranked) -> Scored:
    kind: MatchType = "semantic"
    if one.lexical:
        kind = "both" if one.cosine is not None and one.cosine > 0 else "keyword"
    return Scored(
        row,
        one.score,
        kind,
        cosine=one.cosine,
        every_word=one.coverage >= _EVERY_WORD,
        features=(("lexical", one.lexical), ("coverage", one.coverage), *one.signals[:_SIGNALS_SHOWN]),
    )
