"""The profile `code` for the pipeline: what the lexical index says, ranked, as candidates with
their rows.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord, MatchType
from cocosearchd.search.code.code_profile import RankedChunk, Weights
from cocosearchd.search.code.code_query import CodeQuery
from cocosearchd.search.code.file_masks import unmet_filter
from cocosearchd.search.code.phrase_filter import PhraseMatches, rank_phrase_matches
from cocosearchd.search.code.symbol_listing import list_symbols
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.search.ranking import ScoredCandidate
from cocosearchd.search.trace import Trace
from cocosearchd.store.chunks import queries
from cocosearchd.store.chunks.file_states import FileStates
from cocosearchd.store.connection.database import Database

WAIT_S = 0.25  # for the commit hook of a generation that a query already sees; it takes 2 to 10 ms
_FULL_COVERAGE = 0.999  # of the coverage: sums of floats
_SIGNALS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """Candidates best first with their rows, the generation they are of, and whether every one
    still had its row.

    `states`: their files, read with the rows; None: still to be read. `warning`: what a person should
    know, None for nothing; `cacheable` is False if the next time there may be more to say.
    """

    scored: list[ScoredCandidate]
    generation: int
    complete: bool
    states: FileStates | None
    warning: str | None = None
    cacheable: bool = True


async def code_candidates(
    db: Database,
    record: IndexRecord,
    lexical: LexicalIndex,
    plan: Plan,
    vector: NDArray[np.float32] | None,
    weights: Weights,
    generation: int,
    trace: Trace,
    overlay: Overlay | None = None,
) -> CodeAnswer | None:
    """The candidates of a plan as of `generation` or a later one, and more of them for a trace that
    explains.

    None where the lexical index cannot answer: cold or behind. PostgreSQL can.
    """
    if not await lexical.wait_for_generation(generation, WAIT_S):
        return None
    newest = replace(record, generation=max(generation, lexical.generation))
    state = await lexical.snapshot(overlay)
    if state is None:
        return None
    if plan.listing:
        listing, complete = await list_symbols(db, newest, lexical, state, plan, weights, overlay)
        why = None if listing else unmet_filter(plan.where, state.live_documents, record.root)
        return CodeAnswer(listing, state.generation, complete, None, why)
    # Enough for a reranker or a score limit to choose from.
    needed = max(plan.limit, plan.depth if plan.reranker != "disabled" or plan.min_score else 0)
    limit = max(needed, plan.depth if trace.explain else 0)
    ask = CodeQuery(
        lexical,
        state,
        plan,
        lexical.parse_query(plan.text),
        vector,
        weights,
        limit,
        needed,
        overlay,
    )
    if plan.where.phrases:
        held = await rank_phrase_matches(db, newest, ask, needed, trace)
    else:
        held = PhraseMatches(await ask.rank())
    unsaved = overlay.rows if overlay else {}
    asked_for = [
        key
        for one in held.chunks
        if (key := (one.path, one.start_byte, one.end_byte)) not in unsaved
    ]
    rows, states = await queries.chunks_with_files(db, record, asked_for, state.chunk_count)
    by_key = {row.key: row for row in rows} | dict(unsaved)
    scored = [
        _make_candidate(by_key[key], one)
        for one in held.chunks
        if (key := (one.path, one.start_byte, one.end_byte)) in by_key
    ]
    complete = held.complete and len(scored) == len(held.chunks)
    why = (
        held.warning
        if held.chunks
        else unmet_filter(plan.where, state.live_documents, record.root) or held.warning
    )
    return CodeAnswer(scored, state.generation, complete, states, why, held.cacheable)


def _make_candidate(row: queries.Candidate, one: RankedChunk) -> ScoredCandidate:
    kind: MatchType = "semantic"
    if one.lexical:
        kind = "both" if one.cosine is not None and one.cosine > 0 else "keyword"
    return ScoredCandidate(
        row,
        one.score,
        kind,
        cosine=one.cosine,
        every_word=one.coverage >= _FULL_COVERAGE,
        features=(
            ("lexical", one.lexical),
            ("coverage", one.coverage),
            *one.signals[:_SIGNALS_SHOWN],
        ),
    )
