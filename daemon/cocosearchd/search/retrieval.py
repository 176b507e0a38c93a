"""Runs one retrieval without caches: retrieve -> rank -> rerank -> select, from one generation.

Reads use several connections and, in `code`, memory, so a commit may happen between them. The last
read returns the generation and the states of the shown files. If these contradict the earlier
reads, everything is read again. The last attempt runs in one transaction. It is slower, because the
retrievers wait for each other, but always consistent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import anyio
import numpy as np
from numpy.typing import NDArray

from cocosearchd.errors import CocoSearchError
from cocosearchd.model import IndexRecord
from cocosearchd.search.classic.fusion import score_candidates
from cocosearchd.search.classic.rerankers.reranker_choice import Rerankers
from cocosearchd.search.classic.retrievers import retrieve
from cocosearchd.search.code.code_candidates import (
    RankedCandidates,
    add_related,
    code_candidates,
    join_warnings,
    read_frame_places,
)
from cocosearchd.search.code.code_profile import Weights
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.joint.joint_query import (
    JointIndex,
    JointScorer,
    ScoredIndex,
    is_joinable,
    is_small,
)
from cocosearchd.search.joint.scored_rows import RankedIndex, read_scored
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.listing.symbol_list import list_stored_symbols
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.places import ScoredResult, select_results
from cocosearchd.search.plan import MAX_DEPTH, Plan
from cocosearchd.search.scored_candidates import RetrievedCandidates, ScoredCandidate
from cocosearchd.search.trace import Trace
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.read_snapshot import open_snapshot
from cocosearchd.store.reads.file_states import FileState, FileStates, file_states
from cocosearchd.store.words.words_table import SplitTexts

# Attempts before the slow transaction. Few attempts fail: a writer commits some ten times a second,
# and an attempt takes some milliseconds.
ATTEMPTS = 2
# If the candidates of PostgreSQL give too few results, this many times more are retrieved, once.
# They come after the first candidates, which keep the documented order.
REFILL_FACTOR = 8

COLD_WARNING = (
    "ranked by simpler rules, as words are still being read into memory: ask again in a moment"
)

# The role of the lexical index in an answer. "behind" means that it has not applied the latest
# commits.
LexicalState = Literal["warm", "cold", "behind", "not used"]
FindLexicalIndex = Callable[[str], LexicalIndex | None]
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A plan, the vector of its words if there is one, the client's unsaved texts, and the history."""

    plan: Plan
    vector: Vector | None = None
    overlay: Overlay | None = None
    history: HistoryIndex | None = None


@dataclass(frozen=True, slots=True)
class GenerationMoved:
    """The outcome of a retrieval during which the index got another generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class RetrievalAttempt:
    """One consistent retrieval: all candidates, best first, and the selected results.

    `files` has the states of the files of the selected results. `retrieved` is None if the lexical
    index answered. `cacheable` is False if the answer is not worth caching. `warnings` are
    for people.
    """

    retrieved: RetrievedCandidates | None
    scored: list[ScoredCandidate]
    selected: tuple[ScoredResult, ...]
    generation: int
    files: tuple[FileState, ...]
    cacheable: bool = True
    warnings: tuple[str, ...] = ()


class Retriever:
    """Retrieves candidates from an index.

    `find_lexical_index` returns the lexical index of an index by name; without it, PostgreSQL alone
    answers. `split` splits texts of chunks into words.
    """

    def __init__(
        self,
        db: Database,
        find_lexical_index: FindLexicalIndex | None,
        weights: Weights,
        split: SplitTexts,
    ) -> None:
        self._db = db
        self._split = split
        self._find_lexical_index = find_lexical_index
        self._weights = weights
        self._joint_scorer = JointScorer(weights)
        self._rerankers = Rerankers()

    def find_lexical(self, record: IndexRecord, plan: Plan) -> LexicalIndex | None:
        """Return the lexical index that answers a plan; None without one.

        The result is also None if another index has taken the name in the meantime.
        """
        index = (
            self._find_lexical_index(record.name)
            if self._find_lexical_index and plan.profile == "code"
            else None
        )
        return index if index is not None and index.key == record.key else None

    async def retrieve(
        self, record: IndexRecord, request: RetrievalRequest, trace: Trace
    ) -> RetrievalAttempt:
        """Retrieve from `record.generation` or a later one. Raises `StoreUnavailable`, `NotFound`."""
        generation = record.generation
        for _ in range(ATTEMPTS):
            ranked = await self._rank(record, request, generation, trace)
            outcome = await self._finish(self._db, record, request, ranked, generation, trace)
            if isinstance(outcome, RetrievalAttempt):
                return outcome
            generation = outcome.generation
        trace.record("snapshot", lambda: True)
        async with open_snapshot(self._db) as connection:
            generation = await index_records.read_generation(connection, record)
            ranked = await self._retrieve_stored(connection, record, request, trace)
            outcome = await self._finish(connection, record, request, ranked, generation, trace)
        assert isinstance(outcome, RetrievalAttempt), "a snapshot agrees with itself"
        # If a lexical index exists, the same question gets other hits when there are fewer commits.
        has_lexical = self.find_lexical(record, request.plan) is not None
        return replace(outcome, cacheable=False) if has_lexical else outcome

    def find_joint_index(
        self, record: IndexRecord, plan: Plan, history: HistoryIndex | None
    ) -> JointIndex | None:
        """Return an index as part of a joint question; None if it must be asked by itself.

        It must be asked by itself if it is large, empty, cold or behind its record, or if the plan
        needs more than the scores of files.
        """
        lexical = self.find_lexical(record, plan) if is_joinable(plan) else None
        if lexical is None or lexical.generation < record.generation:
            return None
        snapshot = lexical.current_snapshot
        if snapshot is None or not snapshot.file_count or not is_small(snapshot, plan):
            return None
        return JointIndex(record, lexical, snapshot, plan, lexical.incompleteness, history)

    async def score_jointly(
        self, indexes: Sequence[JointIndex], vector: Vector | None
    ) -> list[ScoredIndex]:
        """Score the files of all indexes together."""
        return await anyio.to_thread.run_sync(self._joint_scorer.score, indexes, vector)

    async def read_places(self, indexes: Sequence[ScoredIndex]) -> list[RankedIndex | None]:
        """Read the best places of scored indexes in one round trip to PostgreSQL.

        The result is None for an index that must be asked by itself, because something has changed
        in the meantime or a read has failed. If collapsing alike results leaves too few, more are
        ranked, with a second round trip.
        """
        try:
            placed = [await self._with_frame_places(index) for index in indexes]
            ranked = await read_scored(self._db, placed)
        except CocoSearchError:
            # Each index is then asked by itself, and reports its own error
            return [None] * len(indexes)
        return [index if _is_unchanged(index) else None for index in ranked]

    async def _with_frame_places(self, index: ScoredIndex) -> ScoredIndex:
        """Add the places that the frames of a report name."""
        if not index.is_named_by_frame:
            return index
        code_query = index.code_query
        places = await read_frame_places(
            self._db, code_query.record, code_query.plan, code_query.snapshot
        )
        return replace(index, code_query=replace(code_query, frame_places=places))

    def forget_joint(self) -> None:
        """Free the memory of joined indexes."""
        self._joint_scorer.forget()

    async def _finish(
        self,
        db: Database,
        record: IndexRecord,
        request: RetrievalRequest,
        ranked: RankedCandidates,
        generation: int,
        trace: Trace,
    ) -> RetrievalAttempt | GenerationMoved:
        """Rerank, select and verify: return the attempt if all reads belong to one generation."""
        scored = await self._rerank(request.plan, ranked.scored, trace)
        selected = ranked.selected
        if selected is None:
            selected = select_results(request.plan, scored)
            if ranked.code_query is not None:
                selected = add_related(ranked.code_query, selected)
        unsaved = request.overlay.states if request.overlay else {}
        selected_paths = list(dict.fromkeys(result.best.candidate.path for result in selected))
        saved_paths = [path for path in selected_paths if path not in unsaved]
        states = ranked.states
        if states is None:
            with trace.stage("verify"):
                states = await file_states(db, record, saved_paths, with_symbols=True)
        if not _is_consistent(ranked, states, generation, saved_paths):
            return GenerationMoved(states.generation)
        return RetrievalAttempt(
            retrieved=ranked.retrieved,
            scored=scored,
            selected=selected,
            generation=states.generation if ranked.generation is None else ranked.generation,
            files=(
                *_select_files(saved_paths, states.files),
                *_select_files(selected_paths, unsaved),
            ),
            cacheable=ranked.cacheable,
            warnings=ranked.warnings,
        )

    async def _rank(
        self, record: IndexRecord, request: RetrievalRequest, generation: int, trace: Trace
    ) -> RankedCandidates:
        """Rank with the lexical index for `code`, if it is warm and has reached `generation`.

        In all other cases, candidates of PostgreSQL are ranked.
        """
        plan = request.plan
        vector = request.vector
        lexical = self.find_lexical(record, plan)
        behind = False
        if lexical is not None and (plan.uses_keywords or vector is None):
            with trace.stage("score"):
                answer = await code_candidates(
                    db=self._db,
                    record=record,
                    lexical=lexical,
                    plan=plan,
                    vector=vector,
                    weights=self._weights,
                    generation=generation,
                    trace=trace,
                    overlay=request.overlay,
                    history=request.history,
                )
            state = _lexical_state(lexical, generation, is_used=answer is not None)
            trace.record("lexical", lambda: {"state": state, "generation": lexical.generation})
            behind = state == "behind"
            if answer is not None:
                return answer
        ranked = await self._retrieve_stored(self._db, record, request, trace)
        return replace(ranked, cacheable=not behind)

    async def _retrieve_stored(
        self, db: Database, record: IndexRecord, request: RetrievalRequest, trace: Trace
    ) -> RankedCandidates:
        """Retrieve and rank with PostgreSQL alone."""
        plan = request.plan
        if plan.listing:
            with trace.stage("retrieve"):
                listing = await list_stored_symbols(db, record, plan, request.overlay)
            return RankedCandidates(listing.scored, warnings=join_warnings(listing.warning))
        # Without a vector, only a search by words is possible, whatever the profile.
        plan = replace(plan, uses_keywords=plan.uses_keywords or request.vector is None)
        retrieved, scored = await self._retrieve_and_score(db, record, plan, request, trace)
        most = max(len(retrieved.vector), len(retrieved.keyword))
        # Each file is one result, so candidates from only a few files give too few results.
        if most >= plan.depth and len(select_results(plan, scored)) < plan.limit:
            deeper = replace(plan, depth=min(MAX_DEPTH, REFILL_FACTOR * plan.depth))
            _, more = await self._retrieve_and_score(db, record, deeper, request, trace)
            keys = {entry.candidate.key for entry in scored}
            scored += [entry for entry in more if entry.candidate.key not in keys]
        lexical = self.find_lexical(record, plan)
        is_cold = lexical is not None and not lexical.warm
        warnings = (COLD_WARNING,) if is_cold else ()
        return RankedCandidates(scored, warnings=warnings, retrieved=retrieved)

    async def _retrieve_and_score(
        self,
        db: Database,
        record: IndexRecord,
        plan: Plan,
        request: RetrievalRequest,
        trace: Trace,
    ) -> tuple[RetrievedCandidates, list[ScoredCandidate]]:
        """Return the candidates of each retriever of PostgreSQL, and all candidates with scores."""
        with trace.stage("retrieve"):
            retrieved = await retrieve(
                db,
                record,
                plan,
                request.vector,
                self._split,
                keyword=plan.uses_keywords,
                overlay=request.overlay,
            )
        with trace.stage("rank"):
            return retrieved, score_candidates(plan, retrieved)

    async def _rerank(
        self, plan: Plan, scored: list[ScoredCandidate], trace: Trace
    ) -> list[ScoredCandidate]:
        if plan.reranker == "disabled" or plan.listing:
            return scored
        with trace.stage("rerank"):
            return await anyio.to_thread.run_sync(
                self._rerankers.rerank, plan.reranker, plan.text, scored
            )


def make_attempt(candidates: RankedCandidates) -> RetrievalAttempt:
    """Make the attempt from candidates that a snapshot ranked. Their files have not changed."""
    states, selected, generation = candidates.states, candidates.selected, candidates.generation
    assert states is not None, "its rows are read"
    assert selected is not None, "its results are made"
    assert generation is not None, "a snapshot ranked it"
    paths = [result.best.candidate.path for result in selected]
    return RetrievalAttempt(
        retrieved=None,
        scored=candidates.scored,
        selected=selected,
        generation=generation,
        files=tuple(_select_files(paths, states.files)),
        cacheable=candidates.cacheable,
        warnings=candidates.warnings,
    )


def _is_unchanged(ranked: RankedIndex) -> bool:
    """Return True if the rows of an index belong to the snapshot that ranked them."""
    candidates = ranked.candidates
    assert candidates.states is not None
    paths = [file.best.candidate.path for file in ranked.files]
    generation = ranked.code_query.record.generation
    return _is_consistent(candidates, candidates.states, generation, paths)


def _select_files(paths: list[str], files: Mapping[str, FileState]) -> list[FileState]:
    return [files[path] for path in paths if path in files]


def _is_consistent(
    ranked: RankedCandidates, states: FileStates, generation: int, paths: list[str]
) -> bool:
    """Return True if everything that was read belongs to one generation.

    This is true for candidates of PostgreSQL if the index is still at `generation`. Candidates from
    the lexical index belong to its generation; their rows do too, if the files have not changed
    since then.
    """
    if ranked.generation is None:
        return states.generation == generation
    files = states.files
    return ranked.complete and all(
        path in files and files[path].generation <= ranked.generation for path in paths
    )


def _lexical_state(lexical: LexicalIndex, generation: int, *, is_used: bool) -> LexicalState:
    """Return the role of the lexical index in an answer from a generation."""
    if is_used:
        return "warm"
    if not lexical.warm:
        return "cold"
    return "behind" if lexical.generation < generation else "not used"
