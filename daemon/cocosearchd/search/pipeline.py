"""The only path from a query to an answer. Plain and explained queries both take it.

plan -> cache -> embed -> cache -> retrieve -> rank -> rerank -> select -> expand
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import anyio

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Vectors
from cocosearchd.errors import (
    CocoSearchError,
    EmbedderUnavailable,
    StoreUnavailable,
)
from cocosearchd.filters.filter_fields import make_relative
from cocosearchd.freshness import StaleReason, stale_reason
from cocosearchd.model import EmbedderPairs, Hit, IndexRecord
from cocosearchd.search.answers.context import (
    ExpandedHits,
    HitExpander,
    SourcedHits,
    add_sources,
)
from cocosearchd.search.answers.disk_files import FileContents, VerifiedFiles
from cocosearchd.search.answers.explain import describe_plan, describe_results
from cocosearchd.search.answers.ranked_answer import (
    Embed,
    PreparedQuery,
    QueryVector,
    RankedAnswer,
    SharedPlans,
    check_identity,
    make_ranked_hits,
)
from cocosearchd.search.answers.stored_contents import StoredContentReader, StoredContents
from cocosearchd.search.answers.why_not import why_not
from cocosearchd.search.classic.word_splitter import split_in_thread
from cocosearchd.search.code.code_profile import load_weights
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.joint.joint_ranking import JointRanking, Outcome
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Query, ViewOptions, fill_defaults
from cocosearchd.search.query_cache import (
    CacheStatistics,
    CacheUse,
    QueryCache,
    RankedHits,
)
from cocosearchd.search.retrieval import (
    COLD_WARNING,
    FindLexicalIndex,
    RetrievalRequest,
    Retriever,
)
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.words.words_table import SplitTexts

# Bytes of packed symbols of the files of an answer that are unpacked on the event loop: some 2 ms of
# CPU. A thread would cost each usual answer more than that.
UNPACKED_ON_LOOP = 100_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits of one index at one generation, best first.

    `changed_paths` are files of hits that have changed since they were indexed; these hits are
    marked `stale`. The answer's own `stale` is the reason why the whole answer may be older than
    the index, or None.
    """

    index: str
    hits: tuple[Hit, ...]
    generation: int
    cache: CacheUse = "miss"
    changed_paths: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    stale: StaleReason | None = None
    more: bool = False  # a list of symbols goes on after the last hit
    omitted: int = 0  # hits that did not fit into the budget

    @property
    def is_cold(self) -> bool:
        """True if the hits were ranked without the index in memory, which was not read yet."""
        return COLD_WARNING in self.warnings


FindEmbedder = Callable[[EmbedderPairs], Embedder]
FindHistory = Callable[[IndexRecord], HistoryIndex | None]


class Pipeline:
    """Answers queries, with caches of answers and files.

    There is one per daemon, in its event loop.
    """

    def __init__(
        self,
        db: Database,
        embedder: Embedder,
        settings: SearchSettings,
        find_lexical_index: FindLexicalIndex | None = None,
        find_embedder: FindEmbedder | None = None,
        split: SplitTexts = split_in_thread,
        note_classic: Callable[[str], None] | None = None,
        find_history: FindHistory = lambda _: None,
    ) -> None:
        """Create a pipeline. Without `find_embedder`, `embedder` serves every index.

        `find_lexical_index` returns the lexical index of an index by name; if it returns None,
        PostgreSQL alone answers. `find_embedder` returns the embedder for the pairs of an index's
        fingerprint. `split` splits texts of chunks into words. `note_classic` is called with the
        name of an index each time `classic` searches its words. `find_history` returns the history
        of an index, if there is one.
        """
        self._db = db
        self._split = split
        self._note_classic = note_classic
        self._find_history = find_history
        self._settings = settings
        self._find_embedder = find_embedder or (lambda _: embedder)
        weights = load_weights(settings.weights_file)
        self._retriever = Retriever(db, find_lexical_index, weights, split)
        self._cache = QueryCache(settings.cache_bytes, settings.cache_ttl_s)
        self._expander = HitExpander(settings.context_lines, settings.line_width)
        self.stored_contents = StoredContentReader(db)
        self._fingerprint: tuple[EmbedderFingerprint | None, EmbedderPairs] = (
            None,
            (),
        )

    async def run(
        self, record: IndexRecord, query: Query, trace: Trace, *, overlay: Overlay | None = None
    ) -> Answer:
        """Answer a query from the generation of `record` or a later one.

        `overlay` has the client's unsaved texts. Raises `InvalidInput`, `IdentityMismatch` and, if
        the cache has no earlier answer, `StoreUnavailable`.
        """
        return await self.expand(await self.rank(record, query, trace, overlay=overlay), trace)

    async def rank(
        self,
        record: IndexRecord,
        query: Query,
        trace: Trace,
        *,
        embed: Embed | None = None,
        overlay: Overlay | None = None,
    ) -> RankedAnswer:
        """Rank the hits of a query: all stages of `run` except adding context.

        `embed` replaces the method `embed`, so that a question to several indexes is embedded only
        once.
        """
        with trace.stage("plan"):
            prepared = self._prepare(record, query, overlay, SharedPlans(query, self._settings))
            plan = prepared.plan
            trace.record("plan", lambda: describe_plan(plan))
        if self._note_classic is not None and plan.profile == "classic" and plan.uses_keywords:
            self._note_classic(record.name)
        try:
            embed = embed or partial(self.embed, record.identity.embedder)
            ranked_hits, cache_use = await self._rank(prepared, query, trace, embed)
        except StoreUnavailable as error:
            cached = self._cache.latest(record.key, plan)
            if cached is None:
                raise
            return _answer_earlier(prepared, cached, error)
        return prepared.answer(ranked_hits, cache_use)

    async def begin_joint(
        self,
        records: Sequence[IndexRecord],
        query: Query,
        traces: Mapping[str, Trace],
        *,
        embed: Embed,
        overlays: Mapping[str, Overlay],
        own_index: str | None = None,
    ) -> JointRanking:
        """Begin a question to several indexes: rank each index that is not both small and warm.

        The files of the small and warm indexes are scored together. `JointRanking.rank_scored`
        later ranks those that may add hits. Of copies in several indexes, the one in `own_index` is
        shown.
        """
        plans = SharedPlans(query, self._settings)
        prepared = [
            self._prepare(record, query, overlays.get(record.name), plans) for record in records
        ]

        async def rank_alone(number: int) -> Outcome:
            record = records[number]
            trace = traces[record.name]
            try:
                return await self.rank(
                    record, query, trace, embed=embed, overlay=overlays.get(record.name)
                )
            except StoreUnavailable as error:
                cached = self._cache.latest_joint(record.key, prepared[number].plan)
                return _answer_earlier(prepared[number], cached, error) if cached else error
            except CocoSearchError as error:
                return error

        joint = JointRanking(self._retriever, self._cache, query, prepared, rank_alone, own_index)
        if query.why_not is None and not any(trace.explain for trace in traces.values()):
            await joint.score(embed)
        await joint.rank_unscored()
        return joint

    def _prepare(
        self, record: IndexRecord, query: Query, overlay: Overlay | None, plans: SharedPlans
    ) -> PreparedQuery:
        lexical_state = 0
        where = make_relative(plans.base.where, record.root)
        lexical = self._retriever.find_lexical(record, plans.base)
        if lexical is not None:
            lexical_state = lexical.snapshot_count
        plan = plans.plan(
            where,
            # warm and cold answers are cached separately
            is_lexical_warm=lexical is not None and lexical.warm,
            overlay=overlay.digest if overlay is not None else "",
        )
        # a listed symbol already has its own lines, so it needs no context
        view = replace(query.view, smart_context=False) if plan.listing else query.view
        is_ordered = plan.uses_history and lexical is not None and lexical.warm
        history = self._find_history(record) if is_ordered else None
        state = (record.generation, lexical_state, history.digest if history else "")
        return PreparedQuery(record, plan, view, overlay, state, history)

    async def expand(self, ranked: RankedAnswer, trace: Trace, count: int | None = None) -> Answer:
        """Add context to the first `count` hits, or to all hits with None.

        Context comes from files that are unchanged since they were indexed. Hits of other files
        show their stored text and are marked stale.
        """
        ranked_hits = ranked.ranked_hits
        if not ranked_hits.hits or count == 0:
            return make_answer(ranked, (), (), 0)
        with trace.stage("expand"):
            if ranked.record.is_followed:
                expanded = await self._expand_followed(ranked, count)
                omitted = len(ranked_hits.hits[:count]) - len(expanded.hits)
                return make_answer(ranked, expanded.hits, (), omitted)
            view = ranked.view
            overlay = ranked.overlay
            root = ranked.record.root
            hits = ranked_hits.hits
            files = ranked_hits.files
            expand = partial(self._expander.expand, root, hits, files, view, overlay, count)
            expanded = await self.disk.run_bounded(root, expand) or self._expander.expand_stored(
                hits, view, overlay, count
            )
        omitted = len(hits[:count]) - len(expanded.hits)
        return make_answer(ranked, expanded.hits, expanded.changed_paths, omitted)

    async def read_sources(self, ranked: RankedAnswer, trace: Trace, count: int) -> SourcedHits:
        """Read the files of the first `count` hits.

        `pack` later shows them with hits of other indexes.
        """
        hits = ranked.ranked_hits.hits[:count]
        if not hits:
            return SourcedHits((), ())
        files = ranked.ranked_hits.files
        with trace.stage("expand"):
            if ranked.record.is_followed:
                contents = await self._read_followed(ranked, count)
                texts = {hit.path: contents.get(hit.path) for hit in hits}
                sourced = add_sources(hits, {file.path: file for file in files}, texts, {})
                return SourcedHits(hits, sourced.sources)  # no hit is stale
            root, overlay = ranked.record.root, ranked.overlay
            read = partial(self._expander.read_sources, root, hits, files, overlay)
            return await self.disk.run_bounded(root, read) or self._expander.unsaved_sources(
                hits, files, overlay
            )

    async def pack(self, sourced: SourcedHits, view: ViewOptions) -> tuple[Hit, ...]:
        """Pack the hits of a report into the token budget of `view`; empty if no place fits."""
        return await anyio.to_thread.run_sync(self._expander.pack, sourced, view)

    async def _expand_followed(self, ranked: RankedAnswer, count: int | None) -> ExpandedHits:
        """Add context from stored contents that are unchanged since the hits were ranked."""
        contents = await self._read_followed(ranked, count)
        ranked_hits = ranked.ranked_hits
        return await anyio.to_thread.run_sync(
            self._expander.expand_followed,
            ranked_hits.hits,
            ranked_hits.files,
            ranked.view,
            contents,
            count,
        )

    async def _read_followed(
        self, ranked: RankedAnswer, count: int | None
    ) -> dict[str, FileContents]:
        """Read stored contents of a followed index that are unchanged since the hits were ranked."""
        paths = {hit.path for hit in ranked.ranked_hits.hits[:count]}
        hashes = {
            file.path: file.content_hash for file in ranked.ranked_hits.files if file.path in paths
        }
        stored: dict[str, StoredContents] = {}
        # Then this is an earlier, cached answer: its hits have their own texts
        with suppress(StoreUnavailable):
            stored = await self.stored_contents.read_versions(ranked.record, hashes)
        return {path: content.contents for path, content in stored.items() if content.has_places}

    async def embed(self, embedder_pairs: EmbedderPairs, text: str, trace: Trace) -> QueryVector:
        """Embed a question with the embedder that the pairs of a fingerprint identify.

        An unavailable embedder causes a warning, not an error: search by words still works.
        """
        try:
            with trace.stage("embed"):
                vector, embedder = await self._embed_with_one(embedder_pairs, text)
        except EmbedderUnavailable as error:
            return QueryVector(None, f"found by words only: {error.message}", cacheable=False)
        return (
            QueryVector(vector, embedder=embedder)
            if vector.any()
            else QueryVector(None, "found by words only: the model knows none of them")
        )

    async def _embed_with_one(
        self, embedder_pairs: EmbedderPairs, text: str
    ) -> tuple[Vectors, EmbedderPairs]:
        """Return a vector, and the pairs of the fingerprint of the embedder that made it.

        An embedder that was not open yet may turn out to be another one than the pairs identify:
        then the one that is found now makes the vector.
        """
        embedder = self._find_embedder(embedder_pairs)
        vector = await embedder.embed_query(text)
        if self._pairs(embedder.fingerprint) != embedder_pairs:
            successor = self._find_embedder(embedder_pairs)
            if successor is not embedder:
                vector = await successor.embed_query(text)
                embedder = successor
        return vector, self._pairs(embedder.fingerprint)

    def _pairs(self, fingerprint: EmbedderFingerprint) -> EmbedderPairs:
        if self._fingerprint[0] is not fingerprint:
            self._fingerprint = (fingerprint, fingerprint.pairs())
        return self._fingerprint[1]

    def with_defaults(self, query: Query) -> Query:
        """Return a query with the configured values of the ranking options that it leaves open."""
        return fill_defaults(query, self._settings)

    @property
    def disk(self) -> VerifiedFiles:
        """The verified reads of files; other parts that show files share them."""
        return self._expander.disk

    def configure(self, settings: SearchSettings) -> None:
        """Use other default settings from now on. The size of the cache does not change."""
        self._settings = settings
        self._expander = HitExpander(settings.context_lines, settings.line_width, self.disk)

    def cache_statistics(self) -> CacheStatistics:
        """Return the cache statistics for all indexes together."""
        return self._cache.statistics()

    def forget(self, record: IndexRecord) -> None:
        """Free the memory that an index used, after the index is gone."""
        self._cache.forget(record.key)
        self._retriever.forget_joint()
        self.disk.forget(record.root)
        self._expander.forget()

    async def _rank(
        self, prepared: PreparedQuery, query: Query, trace: Trace, embed: Embed
    ) -> tuple[RankedHits, CacheUse]:
        """Return ranked hits of one generation, from the cache or from a new retrieval.

        An explained run records whether the cache has an answer, but always retrieves.
        """
        record = prepared.record
        plan = prepared.plan
        state = prepared.state
        ranked_hits = self._cache.exact(record.key, state, plan) if query.use_cache else None
        trace.record("cache", lambda: {"exact": ranked_hits is not None})
        if ranked_hits is not None and not trace.explain:
            return ranked_hits, "exact"
        query_vector = QueryVector(None) if plan.listing else await embed(plan.text, trace)
        if query_vector.vector is not None:
            check_identity(record, query_vector)
            if query.use_cache and not trace.explain:
                ranked_hits = self._cache.similar(record.key, state, plan, query_vector.vector)
                if ranked_hits is not None:
                    return ranked_hits, "semantic"
        return await self._retrieve(prepared, query, query_vector, trace), "miss"

    async def _retrieve(
        self, prepared: PreparedQuery, query: Query, query_vector: QueryVector, trace: Trace
    ) -> RankedHits:
        """Retrieve, rank and cache the hits of a plan; record their ranking in the trace."""
        record, plan = prepared.record, prepared.plan
        self._cache.count_miss()
        request = RetrievalRequest(plan, query_vector.vector, prepared.overlay, prepared.history)
        attempt = await self._retriever.retrieve(record, request, trace)
        make = partial(make_ranked_hits, record, plan, attempt, query_vector, prepared.state)
        packed_bytes = sum(len(file.symbols or b"") for file in attempt.files)
        is_long = packed_bytes > UNPACKED_ON_LOOP
        ranked_hits = await anyio.to_thread.run_sync(make) if is_long else make()
        if query.use_cache and query_vector.cacheable and attempt.cacheable:
            self._cache.put(record.key, plan, query_vector.vector, ranked_hits)
        trace.record(
            "ranking",
            lambda: describe_results(plan, attempt.retrieved, attempt.scored, attempt.selected),
        )
        if query.why_not is not None:
            trace.details["why_not"] = await why_not(
                self._db,
                record,
                request,
                query.why_not,
                attempt,
                self._split,
                self.disk,
            )
        return ranked_hits


def _answer_earlier(
    prepared: PreparedQuery, earlier: RankedHits, error: StoreUnavailable
) -> RankedAnswer:
    """Make an answer from hits of an earlier state: PostgreSQL cannot be read."""
    stale = stale_reason("earlier_answer", error=error.message)
    return replace(prepared.answer(earlier, "exact"), stale=stale)


def make_answer(
    ranked: RankedAnswer, hits: tuple[Hit, ...], changed_paths: tuple[str, ...], omitted: int
) -> Answer:
    """Make the answer of one index from its ranked hits, with the shown `hits`."""
    ranked_hits = ranked.ranked_hits
    return Answer(
        index=ranked.record.name,
        hits=hits,
        generation=ranked_hits.generation,
        cache=ranked.cache,
        changed_paths=changed_paths,
        warnings=ranked_hits.warnings,
        stale=ranked.stale,
        more=ranked_hits.more or len(hits) < len(ranked_hits.hits),
        omitted=omitted,
    )
