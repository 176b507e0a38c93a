"""One question to several indexes: small ones are scored together, and ranked where they may add hits

The indexes that cannot add a hit are never ranked: neither their rows nor their files are read.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from cocosearchd.errors import CocoSearchError
from cocosearchd.model import IndexRecord
from cocosearchd.search.answers.ranked_answer import (
    Embed,
    PreparedQuery,
    QueryVector,
    RankedAnswer,
    make_ranked_hits,
)
from cocosearchd.search.code.file_masks import unmet_filter
from cocosearchd.search.joint.joint_query import JointIndex, ScoredIndex
from cocosearchd.search.plan import Query
from cocosearchd.search.query_cache import CacheUse, IndexKey, QueryCache, RankedHits, State
from cocosearchd.search.retrieval import RetrievalAttempt, Retriever
from cocosearchd.search.trace import Trace

Outcome = RankedAnswer | CocoSearchError


@dataclass(frozen=True, slots=True)
class IndexBound:
    """The most that an index can add that is not ranked yet. `number`: of the index."""

    number: int
    best_relevance: float
    has_every_word: bool


class JointRanking:
    """A question to several indexes on its way. One per question, in the event loop."""

    def __init__(
        self,
        retriever: Retriever,
        cache: QueryCache,
        query: Query,
        prepared: Sequence[PreparedQuery],
        rank_alone: Callable[[int], Awaitable[Outcome]],
    ) -> None:
        """`rank_alone` asks the index of a number by itself."""
        self._retriever = retriever
        self._cache = cache
        self._query = query
        self._prepared = prepared
        self._rank_alone = rank_alone
        self._outcomes: list[Outcome | None] = [None] * len(prepared)
        self._scored = dict[int, ScoredIndex]()
        self._query_vector = QueryVector(None)

    async def score(self, embed: Embed, check_identity: Callable[[IndexRecord], None]) -> None:
        """Answer from the cache, and score the files of the small indexes that are left together.

        `check_identity` raises `IdentityMismatch` for an index that the question's vector is not
        comparable with.
        """
        self._read_cache()
        joinable = self._find_joinable()
        if len(joinable) < 2:
            return
        self._query_vector = await embed(self._prepared[0].plan.text, Trace())
        vector = self._query_vector.vector
        if vector is not None:
            for number in list(joinable):
                try:
                    check_identity(self._prepared[number].record)
                except CocoSearchError as error:
                    self._outcomes[number] = error
                    del joinable[number]
            self._read_similar(joinable)
        if joinable:
            scored = await self._retriever.score_jointly(list(joinable.values()), vector)
            self._scored = dict(zip(joinable, scored, strict=True))

    async def rank_unscored(self) -> None:
        """Ask each index that is neither answered nor scored, side by side."""
        await self._rank_each(
            number
            for number, outcome in enumerate(self._outcomes)
            if outcome is None and number not in self._scored
        )

    def bounds(self) -> list[IndexBound]:
        """Return what the indexes can add that are scored and not ranked, the best ones first."""
        bounds = [
            IndexBound(number, scored.best_relevance, scored.has_every_word)
            for number, scored in self._scored.items()
            if scored.has_results
        ]
        return sorted(bounds, key=lambda bound: -bound.best_relevance)

    def answers(self) -> list[RankedAnswer]:
        """Return the answers so far."""
        return [outcome for outcome in self._outcomes if isinstance(outcome, RankedAnswer)]

    async def rank(self, numbers: Sequence[int]) -> None:
        """Rank scored indexes."""
        scored = [self._scored.pop(number) for number in numbers]
        attempts = await self._retriever.retrieve_scored(scored)
        for number, attempt in zip(numbers, attempts, strict=True):
            if attempt is not None:
                self._outcomes[number] = self._make_answer(number, attempt)
        await self._rank_each(number for number in numbers if self._outcomes[number] is None)

    def finish(self) -> list[Outcome]:
        """Return the outcome of each index. Those that are scored, and not ranked, add nothing."""
        if self._query.use_cache and self._query_vector.cacheable and self._scored:
            skipped = frozenset(self._prepared[number].record.key for number in self._scored)
            self._cache.put_skipped(self._prepared[0].plan, self._states(), skipped)
        self._skip(self._scored, "miss")
        outcomes = [outcome for outcome in self._outcomes if outcome is not None]
        assert len(outcomes) == len(self._prepared), "an index was forgotten"
        return outcomes

    def _read_cache(self) -> None:
        """Answer from equal questions; if all others are known to add nothing, all are answered."""
        if not self._query.use_cache:
            return
        for number, prepared in enumerate(self._prepared):
            ranked_hits = self._cache.exact(prepared.record.key, prepared.state, prepared.plan)
            if ranked_hits is not None:
                self._outcomes[number] = prepared.answer(ranked_hits, "exact")
        open_numbers = self._open_numbers()
        skipped = self._cache.skipped(self._prepared[0].plan, self._states())
        if skipped.issuperset(self._prepared[number].record.key for number in open_numbers):
            joinable = self._find_joinable()
            if len(joinable) == len(open_numbers):
                self._skip(joinable, "exact")

    def _read_similar(self, joinable: dict[int, JointIndex]) -> None:
        """Answer from nearly equal questions."""
        vector = self._query_vector.vector
        if not self._query.use_cache or vector is None:
            return
        for number in list(joinable):
            prepared = self._prepared[number]
            ranked_hits = self._cache.similar(
                prepared.record.key, prepared.state, prepared.plan, vector
            )
            if ranked_hits is not None:
                self._outcomes[number] = prepared.answer(ranked_hits, "semantic")
                del joinable[number]

    def _open_numbers(self) -> list[int]:
        return [number for number, outcome in enumerate(self._outcomes) if outcome is None]

    def _find_joinable(self) -> dict[int, JointIndex]:
        """Find the small indexes that are not answered yet."""
        joinable = dict[int, JointIndex]()
        for number in self._open_numbers():
            prepared = self._prepared[number]
            if prepared.overlay is None:
                index = self._retriever.find_joint_index(prepared.record, prepared.plan)
                if index is not None:
                    joinable[number] = index
        return joinable

    def _states(self) -> list[tuple[IndexKey, State]]:
        return [(prepared.record.key, prepared.state) for prepared in self._prepared]

    def _skip(self, indexes: Mapping[int, JointIndex | ScoredIndex], cache: CacheUse) -> None:
        """Answer without hits for indexes that add none."""
        for number, index in indexes.items():
            prepared = self._prepared[number]
            snapshot = (
                index.snapshot if isinstance(index, JointIndex) else index.code_query.snapshot
            )
            unmet = unmet_filter(prepared.plan.where, snapshot.live_documents, prepared.record.root)
            warnings = tuple(filter(None, (self._query_vector.warning, unmet)))
            ranked_hits = RankedHits(snapshot.generation, (), (), warnings, prepared.state[1])
            self._outcomes[number] = prepared.answer(ranked_hits, cache)

    async def _rank_each(self, numbers: Iterable[int]) -> None:
        async def rank(number: int) -> None:
            self._outcomes[number] = await self._rank_alone(number)

        async with anyio.create_task_group() as tasks:
            for number in numbers:
                tasks.start_soon(rank, number)

    def _make_answer(self, number: int, attempt: RetrievalAttempt) -> RankedAnswer:
        """Make the answer of a retrieval, and cache its hits."""
        prepared = self._prepared[number]
        record = prepared.record
        plan = prepared.plan
        query_vector = self._query_vector
        self._cache.count_miss()
        ranked_hits = make_ranked_hits(record, plan, attempt, query_vector, prepared.state)
        if self._query.use_cache and query_vector.cacheable and attempt.cacheable:
            self._cache.put(record.key, plan, query_vector.vector, ranked_hits)
        return prepared.answer(ranked_hits, "miss")
