"""Ranks the hits of several indexes for one question; small indexes are scored together.

A scored index that cannot add a hit is never ranked: neither its rows nor its files are read.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import anyio

from cocosearchd.errors import CocoSearchError
from cocosearchd.model import EmbedderPairs
from cocosearchd.search.answers.ranked_answer import (
    Embed,
    PreparedQuery,
    QueryVector,
    RankedAnswer,
    check_identity,
    make_ranked_hits,
)
from cocosearchd.search.code.code_candidates import RankedCandidates, join_warnings
from cocosearchd.search.code.file_masks import restricts_files, unmet_filter
from cocosearchd.search.joint.hit_order import (
    HitRelevances,
    RelevanceBounds,
    indexes_that_may_add,
    order_hits,
)
from cocosearchd.search.joint.joint_query import JointIndex, ScoredIndex
from cocosearchd.search.joint.scored_rows import RankedIndex
from cocosearchd.search.plan import Query
from cocosearchd.search.query_cache import (
    CacheUse,
    IndexKey,
    JointHits,
    JointState,
    QueryCache,
    RankedHits,
)
from cocosearchd.search.retrieval import Retriever, make_attempt
from cocosearchd.search.trace import Trace

Outcome = RankedAnswer | CocoSearchError
NO_HITS = HitRelevances((), has_every_word=False)


class JointRanking:
    """The progress of one question to several indexes. One object per question, in the event loop."""

    def __init__(
        self,
        retriever: Retriever,
        cache: QueryCache,
        query: Query,
        prepared: Sequence[PreparedQuery],
        rank_alone: Callable[[int], Awaitable[Outcome]],
        own_index: str | None = None,
    ) -> None:
        """`rank_alone` asks the index with a given number by itself.

        Of copies in several indexes, the one in `own_index` is shown.
        """
        self._own_index = own_index
        self._retriever = retriever
        self._cache = cache
        self._query = query
        self._prepared = prepared
        self._rank_alone = rank_alone
        self._outcomes: list[Outcome | None] = [None] * len(prepared)
        self._scored = dict[int, ScoredIndex]()
        self._ranked = dict[int, RankedIndex]()
        self._relevances = [NO_HITS] * len(prepared)
        self._query_vector = QueryVector(None)

    async def score(self, embed: Embed) -> None:
        """Answer from the cache, and score the files of the remaining small indexes together.

        The outcome of an index with vectors that are not comparable with the question's is an
        `IdentityMismatch`.
        """
        self._read_cache()
        joinable = self._find_joinable(self._open_numbers())
        if len(joinable) < 2:
            return
        self._query_vector = await embed(self._prepared[0].plan.text, Trace())
        vector = self._query_vector.vector
        if vector is not None:
            for number, error in self._find_incomparable(joinable):
                self._outcomes[number] = error
                del joinable[number]
            self._read_similar(joinable)
        if joinable:
            scored = await self._retriever.score_jointly(list(joinable.values()), vector)
            self._scored = dict(zip(joinable, scored, strict=True))

    async def rank_unscored(self) -> None:
        """Ask, concurrently, each index that has neither an outcome nor scores."""
        await self._rank_each(
            number
            for number, outcome in enumerate(self._outcomes)
            if outcome is None and number not in self._scored
        )

    async def rank_scored(self, compared: int | None) -> None:
        """Rank the scored indexes that may change the first `compared` hits.

        If `compared` is None, rank all indexes.
        """
        while numbers := self._choose_indexes(compared):
            scored = [self._scored.pop(number) for number in numbers]
            for number, ranked in zip(
                numbers, await self._retriever.read_places(scored), strict=True
            ):
                if ranked is not None:
                    self._ranked[number] = ranked
                    self._relevances[number] = ranked.relevances
            await self._rank_each(number for number in numbers if number not in self._ranked)

    async def finish(self, compared: int | None) -> list[Outcome]:
        """Return the outcome of each index, with its hits among the first `compared`.

        With None, all hits are in. Otherwise the hits are only for comparison: `complete` finishes
        the hits that are shown. Indexes that are scored but not ranked add no hits.
        """
        if compared is None:
            await anyio.to_thread.run_sync(self._complete_ranked)
        hit_counts = Counter(number for number, _ in order_hits(self._relevances)[:compared])
        for number, ranked in self._ranked.items():
            self._cache.count_miss()
            self._outcomes[number] = self._compare(number, ranked, hit_counts[number])
        self._skip(self._scored, "miss")
        outcomes = [outcome for outcome in self._outcomes if outcome is not None]
        assert len(outcomes) == len(self._prepared), "an index was forgotten"
        return outcomes

    async def complete(
        self, answers: Sequence[RankedAnswer], hits: Iterable[tuple[int, int]]
    ) -> tuple[RankedAnswer, ...]:
        """Return the answers of `finish` with complete hits where they are shown.

        `answers` has no failed outcomes. `hits` are pairs of position in `answers` and rank.
        """
        ranks = defaultdict[int, list[int]](list)
        for position, rank in hits:
            ranks[position].append(rank)
        completed = await anyio.to_thread.run_sync(self._complete_all, answers, ranks)
        self._cache_joint()
        return completed

    def _complete_all(
        self, answers: Sequence[RankedAnswer], ranks: Mapping[int, Sequence[int]]
    ) -> tuple[RankedAnswer, ...]:
        numbers = {self._prepared[number].record.key: number for number in self._ranked}
        completed = list(answers)
        for position, ranks_of_answer in ranks.items():
            number = numbers.get(answers[position].record.key)
            if number is not None:
                completed[position] = self._complete(number, answers[position], ranks_of_answer)
                self._outcomes[number] = completed[position]
        return tuple(completed)

    def _complete_ranked(self) -> None:
        """Set the outcome of each ranked index to an answer with all its hits."""
        for number, ranked in self._ranked.items():
            self._cache.count_miss()
            ranked_hits = self._make_hits(number, ranked.complete(range(1, len(ranked.files) + 1)))
            self._outcomes[number] = self._prepared[number].answer(ranked_hits, "miss")
        self._ranked.clear()

    def _compare(self, number: int, ranked: RankedIndex, count: int) -> RankedAnswer:
        """Make the answer of a ranked index with its first hits, as used for comparison."""
        ranked_hits = self._make_hits(number, ranked.compare(count))
        return self._prepared[number].answer(
            replace(ranked_hits, relevances=ranked.relevances), "miss"
        )

    def _complete(self, number: int, answer: RankedAnswer, ranks: Sequence[int]) -> RankedAnswer:
        """Replace the hits of an answer at these ranks by complete hits."""
        completed = self._make_hits(number, self._ranked[number].complete(ranks))
        hits = list(answer.ranked_hits.hits)
        for rank, hit in zip(ranks, completed.hits, strict=True):
            hits[rank - 1] = hit
        return replace(answer, ranked_hits=replace(answer.ranked_hits, hits=tuple(hits)))

    def _make_hits(self, number: int, candidates: RankedCandidates) -> RankedHits:
        prepared = self._prepared[number]
        return make_ranked_hits(
            prepared.record,
            prepared.plan,
            make_attempt(candidates),
            self._query_vector,
            prepared.state,
        )

    def _choose_indexes(self, compared: int | None) -> list[int]:
        bounds = [
            RelevanceBounds(number, scored.relevances, scored.has_every_word)
            for number, scored in self._scored.items()
            if scored.relevances
        ]
        if compared is None:
            return [bound.number for bound in bounds]
        return indexes_that_may_add(self._relevances, bounds, compared)

    def _answer(self, number: int, outcome: Outcome) -> None:
        """Store the outcome of an index."""
        self._outcomes[number] = outcome
        if isinstance(outcome, RankedAnswer):
            self._relevances[number] = outcome.ranked_hits.all_relevances

    def _read_cache(self) -> None:
        """Answer from cached equal questions."""
        if not self._query.use_cache:
            return
        for number, prepared in enumerate(self._prepared):
            ranked_hits = self._cache.exact(prepared.record.key, prepared.state, prepared.plan)
            if ranked_hits is not None:
                self._answer(number, prepared.answer(ranked_hits, "exact"))
        joint = self._cache.joint(self._states(), self._own_index)
        if joint is not None:
            self._read_joint(joint)

    def _read_joint(self, joint: JointHits) -> None:
        """Answer all open indexes from the cached answer to an equal question.

        That question must have been to the same indexes, and its answer must cover all of them.
        """
        keys = {number: self._prepared[number].record.key for number in self._open_numbers()}
        skipped = {number for number, key in keys.items() if key in joint.skipped}
        joinable = self._find_joinable(skipped)
        if len(joinable) < len(skipped) or not joint.indexes.issuperset(keys.values()):
            return
        self._skip(joinable, "exact")
        for number in keys.keys() - skipped:
            hits = joint.first_hits[keys[number]]
            self._answer(number, self._prepared[number].answer(hits, "exact"))

    def _find_incomparable(self, numbers: Iterable[int]) -> list[tuple[int, CocoSearchError]]:
        """Find the indexes with vectors that cannot be compared with the question's.

        Return their errors too.
        """
        comparable = set[EmbedderPairs]()
        errors = list[tuple[int, CocoSearchError]]()
        for number in numbers:
            record = self._prepared[number].record
            embedder = record.identity.embedder
            if embedder in comparable:
                continue  # most indexes have the same embedder
            try:
                check_identity(record, self._query_vector)
                comparable.add(embedder)
            except CocoSearchError as error:
                errors.append((number, error))
        return errors

    def _read_similar(self, joinable: dict[int, JointIndex]) -> None:
        """Answer from cached questions that are nearly equal."""
        vector = self._query_vector.vector
        if not self._query.use_cache or vector is None:
            return
        for number in list(joinable):
            prepared = self._prepared[number]
            ranked_hits = self._cache.similar(
                prepared.record.key, prepared.state, prepared.plan, vector
            )
            if ranked_hits is not None:
                self._answer(number, prepared.answer(ranked_hits, "semantic"))
                del joinable[number]

    def _open_numbers(self) -> list[int]:
        return [number for number, outcome in enumerate(self._outcomes) if outcome is None]

    def _find_joinable(self, numbers: Iterable[int]) -> dict[int, JointIndex]:
        """Find the small indexes among those with the given numbers."""
        joinable = dict[int, JointIndex]()
        for number in numbers:
            prepared = self._prepared[number]
            if prepared.overlay is None:
                index = self._retriever.find_joint_index(
                    prepared.record, prepared.plan, prepared.history
                )
                if index is not None:
                    joinable[number] = index
        return joinable

    def _states(self) -> JointState:
        return [(prepared.record.key, prepared.state, prepared.plan) for prepared in self._prepared]

    def _skip(self, indexes: Mapping[int, JointIndex | ScoredIndex], cache: CacheUse) -> None:
        """Set the outcomes of indexes that add no hits to answers without hits."""
        filters = {self._prepared[number].plan.where for number in indexes}
        is_filtered = any(map(restricts_files, filters))
        for number, index in indexes.items():
            prepared = self._prepared[number]
            source = index if isinstance(index, JointIndex) else index.code_query
            snapshot = source.snapshot
            unmet = (
                unmet_filter(prepared.plan.where, snapshot.live_documents, prepared.record.root)
                if is_filtered
                else None
            )
            warnings = join_warnings(self._query_vector.warning, unmet, source.incompleteness)
            ranked_hits = RankedHits(
                snapshot.generation,
                (),
                (),
                warnings,
                prepared.state[1],
                history=prepared.state[2],
            )
            self._outcomes[number] = prepared.answer(ranked_hits, cache)

    async def _rank_each(self, numbers: Iterable[int]) -> None:
        async def rank(number: int) -> None:
            self._answer(number, await self._rank_alone(number))

        async with anyio.create_task_group() as tasks:
            for number in numbers:
                tasks.start_soon(rank, number)

    def _cache_joint(self) -> None:
        """Cache the first hits of the ranked indexes, and the set of indexes that add no hits."""
        is_cacheable = self._query.use_cache and self._query_vector.cacheable
        if not is_cacheable or not self._scored.keys() | self._ranked.keys():
            return
        first_hits = dict[IndexKey, RankedHits]()
        for outcome in self._outcomes:
            if not isinstance(outcome, RankedAnswer) or outcome.stale is not None:
                return  # the same question may get another answer later
            if outcome.ranked_hits.relevances is not None:
                first_hits[outcome.record.key] = outcome.ranked_hits
        skipped = frozenset(self._prepared[number].record.key for number in self._scored)
        joint = JointHits(first_hits, skipped)
        self._cache.put_joint(self._states(), joint, self._own_index)
