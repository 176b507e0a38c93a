"""One look at an index, bypassing every cache: retrieve -> rank -> rerank -> select, all from one
generation.

Reads go over several connections and, in `code`, over memory, so a commit may fall between them.
What is read last is the generation and the state of the shown files; if they contradict what was
read before, all is read again, and at last in one transaction: slower, as the legs then wait for
each other, but of one state for certain.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio
import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.search.classic.rerankers.reranker_choice import Rerankers
from cocosearchd.search.classic.retrievers import retrieve
from cocosearchd.search.code.code_candidates import code_candidates
from cocosearchd.search.code.code_profile import Weights
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.search.ranking import (
    RetrievedCandidates,
    ScoredCandidate,
    score_candidates,
    select_results,
)
from cocosearchd.search.trace import Trace
from cocosearchd.store import index_records
from cocosearchd.store.chunks.file_states import FileState, FileStates, file_states
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.read_snapshot import open_snapshot

# Before a transaction is worth its price: a writer commits some ten times a second, a look takes
# some milliseconds.
ATTEMPTS = 2

COLD_WARNING = (
    "ranked by simpler rules, as words are still being read into memory: ask again in a moment"
)

FindLexicalIndex = Callable[[str], LexicalIndex | None]
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """What is looked for: a plan, the vector of its words if there is one, and what is unsaved."""

    plan: Plan
    vector: Vector | None = None
    overlay: Overlay | None = None


@dataclass(frozen=True, slots=True)
class RetrievalAttempt:
    """What one look gave: everything in order, what is shown of it, and the state of the shown
    files.

    `retrieved` is None when the lexical index answered. `cacheable` is False for an answer that is not
    worth keeping, `warning` is what a person should know of it.
    """

    retrieved: RetrievedCandidates | None
    scored: list[ScoredCandidate]
    selected: tuple[ScoredCandidate, ...]
    generation: int
    files: tuple[FileState, ...]
    cacheable: bool = True
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class _RankedCandidates:
    """Candidates in order. `generation` is that of the memory they came from, None for PostgreSQL's
    legs.
    """

    retrieved: RetrievedCandidates | None
    scored: list[ScoredCandidate]
    generation: int | None = None
    complete: bool = True  # every candidate still had its row
    cacheable: bool = True
    warning: str | None = None
    states: FileStates | None = None  # of the files of all candidates; None: still to be read


class Retriever:
    """Looks at indexes. `lexical_of` gives the lexical index of an index by name; None: PostgreSQL
    answers alone.
    """

    def __init__(self, db: Database, lexical_of: FindLexicalIndex | None, weights: Weights) -> None:
        self._db = db
        self._lexical_of = lexical_of
        self._weights = weights
        self._rerankers = Rerankers()

    def lexical(self, record: IndexRecord, plan: Plan) -> LexicalIndex | None:
        """The lexical index that is to answer a plan; None also where another index has taken the
        name meanwhile.
        """
        found = (
            self._lexical_of(record.name) if self._lexical_of and plan.profile == "code" else None
        )
        return found if found is not None and found.number == record.number else None

    async def retrieve(
        self, record: IndexRecord, asked: RetrievalRequest, trace: Trace
    ) -> RetrievalAttempt:
        """The answer as of `record.generation` or a later one. Raises `StoreUnavailable`,
        `NotFound`.
        """
        generation = record.generation
        for _ in range(ATTEMPTS):
            found = await self._ranked(record, asked, generation, trace)
            look = await self._judged(self._db, record, asked, found, generation, trace)
            if isinstance(look, RetrievalAttempt):
                return look
            generation = look
        trace.record("snapshot", lambda: True)
        async with open_snapshot(self._db) as still:
            generation = await index_records.generation(still, record)
            found = await self._legs(still, record, asked, trace)
            look = await self._judged(still, record, asked, found, generation, trace)
        assert isinstance(look, RetrievalAttempt), "a snapshot agrees with itself"
        # With the lexical index there, these are not the hits that the same question gets in a
        # quieter moment.
        return look if self.lexical(record, asked.plan) is None else replace(look, cacheable=False)

    async def _judged(
        self,
        db: Database,
        record: IndexRecord,
        asked: RetrievalRequest,
        found: _RankedCandidates,
        generation: int,
        trace: Trace,
    ) -> RetrievalAttempt | int:
        """What is shown, if all of it is of one generation; else the generation by now."""
        scored = await self._reranked(asked.plan, found.scored, trace)
        chosen = select_results(asked.plan, scored)
        unsaved = asked.overlay.states if asked.overlay else {}
        shown = dict.fromkeys(one.candidate.path for one in chosen)
        paths = [path for path in shown if path not in unsaved]
        states = found.states
        if states is None:
            with trace.stage("verify"):
                states = await file_states(db, record, paths)
        if not _is_consistent(found, states, generation, paths):
            return states.generation
        seen = states.generation if found.generation is None else found.generation
        files = (
            *(states.files[path] for path in paths if path in states.files),
            *(unsaved[path] for path in shown if path in unsaved),
        )
        return RetrievalAttempt(
            found.retrieved, scored, chosen, seen, files, found.cacheable, found.warning
        )

    async def _ranked(
        self, record: IndexRecord, asked: RetrievalRequest, generation: int, trace: Trace
    ) -> _RankedCandidates:
        """`code` from the lexical index, if it is there, warm and at `generation`; else the legs of
        PostgreSQL.
        """
        plan = asked.plan
        vector = asked.vector
        lexical = self.lexical(record, plan)
        behind = False
        if lexical is not None and (plan.keyword or vector is None):
            with trace.stage("score"):
                code = await code_candidates(
                    self._db,
                    record,
                    lexical,
                    plan,
                    vector,
                    self._weights,
                    generation,
                    trace,
                    asked.overlay,
                )
            behind = code is None and lexical.warm and lexical.generation < generation
            state = (
                "warm"
                if code
                else "cold"
                if not lexical.warm
                else "behind"
                if behind
                else "not used"
            )
            trace.record("lexical", lambda: {"state": state, "generation": lexical.generation})
            if code is not None:
                return _RankedCandidates(
                    None,
                    code.scored,
                    code.generation,
                    code.complete,
                    code.cacheable,
                    code.warning,
                    code.states,
                )
        ranked = await self._legs(self._db, record, asked, trace)
        return replace(ranked, cacheable=not behind)

    async def _legs(
        self, db: Database, record: IndexRecord, asked: RetrievalRequest, trace: Trace
    ) -> _RankedCandidates:
        """What PostgreSQL says by itself."""
        plan = asked.plan
        vector = asked.vector
        # Without a vector the words are all there is, whatever the profile would do with one.
        keyword = plan.keyword or vector is None
        with trace.stage("retrieve"):
            legs = await retrieve(db, record, plan, vector, keyword=keyword, overlay=asked.overlay)
        lexical = self.lexical(record, plan)
        note = COLD_WARNING if lexical is not None and not lexical.warm else None
        with trace.stage("rank"):
            scored = score_candidates(
                plan if plan.keyword == keyword else replace(plan, keyword=keyword), legs
            )
        return _RankedCandidates(legs, scored, warning=note)

    async def _reranked(
        self, plan: Plan, scored: list[ScoredCandidate], trace: Trace
    ) -> list[ScoredCandidate]:
        if plan.reranker == "disabled" or plan.listing:
            return scored
        with trace.stage("rerank"):
            return await anyio.to_thread.run_sync(
                self._rerankers.rerank, plan.reranker, plan.text, scored
            )


def _is_consistent(
    found: _RankedCandidates, states: FileStates, generation: int, paths: list[str]
) -> bool:
    """Whether all that was read is of one generation.

    Legs are, if the index has not moved at all. Candidates from memory are of that memory's
    generation; their rows are as well, if the files have not changed since, whatever else has.
    """
    if found.generation is None:
        return states.generation == generation
    known = states.files
    return found.complete and all(
        path in known and known[path].generation <= found.generation for path in paths
    )
