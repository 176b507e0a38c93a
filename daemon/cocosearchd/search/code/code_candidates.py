"""Candidates of the profile `code`: chunks ranked by the lexical index, with their rows."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord, MatchType
from cocosearchd.search.answers.counterparts import can_have_counterparts, find_counterparts
from cocosearchd.search.code.code_profile import RankedChunk, ScoredMatrix, Weights
from cocosearchd.search.code.code_query import CodeQuery, prepare_terms
from cocosearchd.search.code.file_masks import unmet_filter
from cocosearchd.search.code.phrase_filter import PhraseMatches, rank_phrase_matches
from cocosearchd.search.code.symbol_files import find_symbol_files
from cocosearchd.search.history.history_evidence import describe_history
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.ranking_signals import asks_for_tests
from cocosearchd.search.listing.symbol_list import read_symbols, symbol_page
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.places import (
    ScoredResult,
    choose_files,
    is_relevant,
    make_results,
    select_results,
)
from cocosearchd.search.plan import Plan
from cocosearchd.search.reports.frame_places import NO_FRAMES, FramePlaces, find_frame_places
from cocosearchd.search.reports.mention_signals import find_mentioned_files
from cocosearchd.search.reports.part_findings import describe_frames, describe_parts
from cocosearchd.search.scored_candidates import RetrievedCandidates, ScoredCandidate
from cocosearchd.search.trace import Trace
from cocosearchd.store.chunks.rows import Candidate, Key
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import chunk_reads
from cocosearchd.store.reads.file_states import FileStates

# Wait for the commit hook of a generation that a query already sees; the hook takes 2 to 10 ms.
WAIT_S = 0.25
FULL_COVERAGE = 0.999  # below 1, because coverages are rounded sums of floats
# If collapsing alike results leaves too few, this many times more files are ranked, again and again
# up to the most. The least is for few results: a page may have twenty translations.
COLLAPSE_FACTOR = 4
MIN_COLLAPSED_DEPTH = 40
# Files that are compared at least, also for a single result: of alike files the best one is shown.
COMPARED_FILES = 10
MAX_COLLAPSED_DEPTH = 400


@dataclass(frozen=True, slots=True)
class RankedCandidates:
    """Candidates with their rows, best first, and the generation of the lexical index.

    `generation` is None if PostgreSQL retrieved the candidates; then `retrieved` has them.
    `complete` is True if every candidate still has its row. `states` are the states of the
    candidates' files, read with the rows; None if not read yet. `selected` are the results; None if
    a reranker has yet to choose them; then `code_query` is the query that `add_related` needs for
    these results. `warnings` are sentences for people. `cacheable` is False if the same question
    may get a better answer later. `file_count` is the number of files that were ranked, with those
    that the limits of the plan leave out.
    """

    scored: list[ScoredCandidate]
    generation: int | None = None
    complete: bool = True
    states: FileStates | None = None
    warnings: tuple[str, ...] = ()
    cacheable: bool = True
    retrieved: RetrievedCandidates | None = None
    selected: tuple[ScoredResult, ...] | None = None
    code_query: CodeQuery | None = None
    file_count: int = 0


async def code_candidates(
    db: Database,
    record: IndexRecord,
    lexical: LexicalIndex,
    plan: Plan,
    vector: NDArray[np.float32] | None,
    weights: Weights,
    generation: int,
    trace: Trace,
    overlay: Overlay | None,
    history: HistoryIndex | None,
) -> RankedCandidates | None:
    """Return the candidates of a plan as of `generation` or a later one.

    If the trace explains, there are more candidates, except with `all_chunks`. The result is None if
    the lexical index is cold or behind: then PostgreSQL has to answer.
    """
    if not await lexical.wait_for_generation(generation, WAIT_S):
        return None
    newest_generation = max(generation, lexical.generation)
    newest = (
        record
        if record.generation == newest_generation
        else replace(record, generation=newest_generation)
    )
    snapshot = await lexical.snapshot(overlay)
    if snapshot is None:
        return None
    incompleteness = lexical.incompleteness
    if plan.listing:
        listed = await _list_symbols(db, newest, lexical, snapshot, plan, overlay)
        return replace(listed, warnings=join_warnings(*listed.warnings, incompleteness))
    result_count = count_results(plan)
    terms, report_scorer = (
        prepare_terms(lexical, plan)
        if plan.report is None
        else await asyncio.to_thread(prepare_terms, lexical, plan)
    )
    code_query = CodeQuery(
        record=newest,
        lexical=lexical,
        snapshot=snapshot,
        plan=plan,
        terms=terms,
        vector=vector,
        weights=weights,
        # With `all_chunks`, more files would change which chunks are the most relevant ones.
        limit=max(result_count, plan.depth if trace.explain and not plan.all_chunks else 0),
        needed=result_count,
        overlay=overlay,
        report_signals=report_scorer,
        frame_places=await read_frame_places(db, newest, plan, snapshot, overlay),
        incompleteness=incompleteness,
        history=history,
    )
    await _explain_report(code_query, trace)
    candidates, matrix = await _rank(db, newest, code_query, trace)
    if plan.reranker != "disabled":
        return replace(candidates, code_query=code_query)
    if not plan.collapse:
        selected = select_results(plan, candidates.scored)
        return replace(candidates, selected=add_related(code_query, selected))
    return await _collapse_results(db, code_query, trace, candidates, matrix)


async def _collapse_results(
    db: Database,
    code_query: CodeQuery,
    trace: Trace,
    candidates: RankedCandidates,
    matrix: ScoredMatrix | None,
) -> RankedCandidates:
    """Collapse alike results, and rank more files while that leaves too few results."""
    plan = code_query.plan
    files = choose_files(plan, candidates.scored)
    while lacks_results(plan, candidates, len(files), code_query.limit):
        code_query = deeper_query(code_query)
        candidates, matrix = await _rank(
            db, code_query.record, code_query, trace, matrix, candidates
        )
        files = choose_files(plan, candidates.scored)
    selected = make_results(plan, candidates.scored, files, files)
    return replace(candidates, selected=add_related(code_query, selected))


def deeper_query(code_query: CodeQuery) -> CodeQuery:
    """Return a query for more files, for when collapsing alike results leaves too few."""
    more = max(MIN_COLLAPSED_DEPTH, COLLAPSE_FACTOR * code_query.limit)
    more = min(MAX_COLLAPSED_DEPTH, more)
    return replace(code_query, limit=more, needed=more)


def count_results(plan: Plan) -> int:
    """Return the number of files to rank: a reranker or a least relevance needs more files."""
    chooses = plan.reranker != "disabled" or plan.min_relevance or plan.min_evidence
    compared = COMPARED_FILES if plan.collapse else 0
    return max(plan.limit, compared, plan.depth if chooses else 0)


def add_related(code_query: CodeQuery, results: Sequence[ScoredResult]) -> tuple[ScoredResult, ...]:
    """Add to each result the counterparts of its file, and the lines of frames in it."""
    with_tests = asks_for_tests(code_query.terms.words)
    related = (_with_counterparts(result, code_query, with_tests=with_tests) for result in results)
    frame_lines = code_query.frame_places.lines
    return tuple(
        replace(result, frame_lines=frame_lines[result.best.candidate.path])
        if result.best.candidate.path in frame_lines
        else result
        for result in related
    )


def _with_counterparts(
    result: ScoredResult, code_query: CodeQuery, *, with_tests: bool
) -> ScoredResult:
    path = result.best.candidate.path
    if not can_have_counterparts(path, with_tests=with_tests):
        return result
    counterparts = find_counterparts(
        path,
        code_query.snapshot.live_documents.path_set,
        with_tests=with_tests,
        project=code_query.lexical.name,
    )
    return replace(result, counterparts=counterparts)


async def read_frame_places(
    db: Database,
    record: IndexRecord,
    plan: Plan,
    snapshot: IndexSnapshot,
    overlay: Overlay | None = None,
) -> FramePlaces:
    """Return the places that a report names by its frames."""
    if plan.report is None or not plan.report.mentions.frames:
        return NO_FRAMES
    mentioned_files = find_mentioned_files(snapshot.corpus)
    return await find_frame_places(db, record, plan.report, mentioned_files, overlay)


async def _explain_report(code_query: CodeQuery, trace: Trace) -> None:
    """Record what each part of a report finds by itself, and where its frames are."""
    report = code_query.plan.report
    if report is None or not trace.explain:
        return
    lexical = code_query.lexical
    parts = await asyncio.to_thread(
        describe_parts,
        report,
        code_query.snapshot.corpus,
        lexical.terms,
        lexical.name,
        lexical.common_language,
    )
    frames = describe_frames(report, code_query.frame_places.located)
    history = describe_history(code_query.evidence)
    trace.record("report", lambda: {"parts": parts, "frames": frames, "history": history})


async def _rank(
    db: Database,
    record: IndexRecord,
    code_query: CodeQuery,
    trace: Trace,
    matrix: ScoredMatrix | None = None,
    first: RankedCandidates | None = None,
) -> tuple[RankedCandidates, ScoredMatrix | None]:
    """Rank candidates; return them with the scored matrix, for a deeper query.

    `matrix` and `first` are the results of an earlier run for fewer results, if there was one.
    """
    if code_query.plan.where.phrases:
        matches = await rank_phrase_matches(db, record, code_query, code_query.needed, trace)
    else:
        chunks, matrix = await code_query.rank_all(matrix)
        matches = PhraseMatches(chunks)
    if code_query.plan.reranker == "disabled" and not trace.explain:
        return await _add_relevant_rows(db, record, code_query, matches, first), matrix
    return await _add_rows(db, record, code_query, matches, first), matrix


def lacks_results(plan: Plan, candidates: RankedCandidates, result_count: int, limit: int) -> bool:
    """Return True if collapsing alike results leaves too few, and more candidates may be ranked.

    `limit` is the number of files that the candidates were limited to.
    """
    if not plan.collapse or result_count >= plan.limit or limit >= MAX_COLLAPSED_DEPTH:
        return False
    return candidates.file_count >= limit


async def _list_symbols(
    db: Database,
    record: IndexRecord,
    lexical: LexicalIndex,
    snapshot: IndexSnapshot,
    plan: Plan,
    overlay: Overlay | None,
) -> RankedCandidates:
    """List symbols.

    Find the files with matching symbols in memory, and read the symbols from the store.
    """
    page = symbol_page(plan, record.name)
    if page is None:
        return RankedCandidates([], snapshot.generation)
    files = await asyncio.to_thread(find_symbol_files, lexical.symbols, snapshot, page)
    listing = await read_symbols(db, record, page, files, overlay, snapshot.generation)
    unmet = None if files else unmet_filter(plan.where, snapshot.live_documents, record.root)
    return RankedCandidates(
        listing.scored,
        snapshot.generation,
        listing.complete,
        warnings=join_warnings(unmet or listing.warning),
    )


async def _add_relevant_rows(
    db: Database,
    record: IndexRecord,
    code_query: CodeQuery,
    matches: PhraseMatches,
    first: RankedCandidates | None,
) -> RankedCandidates:
    """Make candidates as `_add_rows` does, of those chunks that pass the limits of the plan."""
    plan = code_query.plan
    if not (plan.min_relevance or plan.min_evidence):
        return await _add_rows(db, record, code_query, matches, first)
    chunks = tuple(chunk for chunk in matches.chunks if _passes_limits(plan, chunk))
    relevant = replace(matches, chunks=chunks)
    candidates = await _add_rows(db, record, code_query, relevant, first)
    return replace(candidates, file_count=_count_files(matches.chunks))


async def _add_rows(
    db: Database,
    record: IndexRecord,
    code_query: CodeQuery,
    matches: PhraseMatches,
    first: RankedCandidates | None,
) -> RankedCandidates:
    """Make candidates from the ranked chunks. Their rows come from the overlay or the store.

    The rows of the `first` candidates are not read again.
    """
    keys = chunk_keys(matches.chunks)
    by_key, states = await _read_rows(db, record, code_query, keys, first)
    return make_candidates(record, code_query, matches, by_key, states)


def make_candidates(
    record: IndexRecord,
    code_query: CodeQuery,
    matches: PhraseMatches,
    by_key: Mapping[Key, Candidate],
    states: FileStates,
) -> RankedCandidates:
    """Make candidates from the ranked chunks and their rows, with the states of their files."""
    plan = code_query.plan
    snapshot = code_query.snapshot
    keys = chunk_keys(matches.chunks)
    scored = [
        _make_candidate(by_key[key], chunk, plan)
        for key, chunk in zip(keys, matches.chunks, strict=True)
        if key in by_key
    ]
    complete = matches.complete and len(scored) == len(matches.chunks)
    warning = (
        matches.warning
        if matches.chunks
        else unmet_filter(plan.where, snapshot.live_documents, record.root) or matches.warning
    )
    warnings = join_warnings(warning, code_query.incompleteness)
    return RankedCandidates(
        scored,
        snapshot.generation,
        complete,
        states,
        warnings,
        matches.cacheable,
        file_count=_count_files(matches.chunks),
    )


def join_warnings(*warnings: str | None) -> tuple[str, ...]:
    """Return the warnings that are not None."""
    return tuple(filter(None, warnings))


def _count_files(chunks: Iterable[RankedChunk]) -> int:
    return len({chunk.path for chunk in chunks})


def chunk_keys(chunks: Sequence[RankedChunk]) -> list[Key]:
    """Return the keys of ranked chunks, in their order."""
    return [(chunk.path, chunk.start_byte, chunk.end_byte) for chunk in chunks]


async def _read_rows(
    db: Database,
    record: IndexRecord,
    code_query: CodeQuery,
    keys: Sequence[Key],
    first: RankedCandidates | None,
) -> tuple[dict[Key, Candidate], FileStates]:
    """Return rows by key, with the states of their saved files. Rows of `first` are not read again."""
    by_key = {entry.candidate.key: entry.candidate for entry in first.scored} if first else {}
    if code_query.overlay:
        by_key |= code_query.overlay.rows
    missing_keys = [key for key in keys if key not in by_key]
    states = first.states if first else None
    if states is not None and not missing_keys:
        return by_key, states
    rows, read_states = await chunk_reads.chunks_with_files(
        db, record, missing_keys, code_query.snapshot.chunk_count
    )
    by_key |= {row.key: row for row in rows}
    if states is not None:
        read_states = merge_states(states, read_states)
    return by_key, read_states


def merge_states(states: FileStates, later_states: FileStates) -> FileStates:
    """Merge states of files.

    The later state of a file wins: if the file has changed, its rows may have too.
    """
    return replace(later_states, files=states.files | later_states.files)


def _passes_limits(plan: Plan, chunk: RankedChunk) -> bool:
    """Return True if a chunk passes the limits of a plan on relevance and evidence."""
    return is_relevant(
        plan, _relevance(chunk, plan), every_word=_has_every_word(chunk), cosine=chunk.cosine
    )


def _relevance(chunk: RankedChunk, plan: Plan) -> float:
    """Return the relevance of a chunk: 1 if the question quotes phrases, which it then has."""
    return 1.0 if plan.where.phrases else chunk.relevance


def _has_every_word(chunk: RankedChunk) -> bool:
    return chunk.coverage >= FULL_COVERAGE


def _make_candidate(row: Candidate, chunk: RankedChunk, plan: Plan) -> ScoredCandidate:
    match_type: MatchType = "semantic"
    if chunk.lexical:
        match_type = "both" if chunk.cosine is not None and chunk.cosine > 0 else "keyword"
    return ScoredCandidate(
        row,
        chunk.score,
        match_type,
        cosine=chunk.cosine,
        every_word=_has_every_word(chunk),
        own_place_score=chunk.place_score,
        relevance=_relevance(chunk, plan),
        signals=(
            ("lexical", chunk.lexical),
            ("coverage", chunk.coverage),
            *chunk.signals,
        ),
        compared_places=chunk.compared_places,
    )
