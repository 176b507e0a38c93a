"""A question in, an answer out: the one path, for plain queries and explained ones alike.

plan -> cache -> embed -> cache -> retrieve -> rank -> rerank -> select -> expand
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.base import Embedder, EmbedderFingerprint
from cocosearchd.errors import EmbedderUnavailable, IdentityMismatch, StoreUnavailable
from cocosearchd.model import Hit, IndexRecord
from cocosearchd.search.answers.context import Context
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.search.answers.explain import describe_plan, describe_results
from cocosearchd.search.answers.why_not import why_not
from cocosearchd.search.code.code_profile import load_weights
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import (
    Plan,
    Query,
    ViewOptions,
    language_names,
    make_plan,
    make_relative,
    make_view,
)
from cocosearchd.search.query_cache import CachedHits, CacheStatistics, QueryCache
from cocosearchd.search.ranking import to_hit
from cocosearchd.search.retrieval import FindLexicalIndex, RetrievalRequest, Retriever
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database

CacheUse = Literal["miss", "exact", "semantic"]


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits of one index, best first, from one generation of it.

    `changed_paths` are files of hits that are no longer as they were indexed; those hits are marked
    `stale`. `outdated` says why the whole answer may be older than the index, None when it is not.
    """

    index: str
    hits: tuple[Hit, ...]
    generation: int
    cache: CacheUse = "miss"
    changed_paths: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    outdated: str | None = None


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """What one index has for a question, ranked: not yet widened, as another index may have
    something better.
    """

    record: IndexRecord
    ranking: CachedHits
    cache: CacheUse
    view: ViewOptions
    overlay: Overlay | None = None
    outdated: str | None = None


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector, `(dimension,)` or None, and why there is none."""

    vector: NDArray[np.float32] | None
    warning: str | None = None
    # False: it may be there for the next question, so the answer is not worth keeping
    cacheable: bool = True


Embed = Callable[[str, Trace], Awaitable[QueryVector]]
FindEmbedder = Callable[[tuple[tuple[str, str], ...]], Embedder]


class Pipeline:
    """Answers questions. Holds the cache and what was read of files; one per daemon, in its event
    loop.
    """

    def __init__(
        self,
        db: Database,
        embedder: Embedder,
        settings: SearchSettings,
        lexical_of: FindLexicalIndex | None = None,
        embedder_of: FindEmbedder | None = None,
    ) -> None:
        """`lexical_of` gives the lexical index of an index by name; where there is none, PostgreSQL
        answers alone.

        `embedder_of` gives the embedder that an index was made by, where that may be another than
        `embedder`.
        """
        self._db = db
        self._settings = settings
        self._embedder_of = embedder_of or (lambda _: embedder)
        self._retriever = Retriever(db, lexical_of, load_weights(settings.weights_file))
        self._cache = QueryCache(settings.cache_bytes, settings.cache_ttl_s)
        self._context = Context(settings.context_lines, settings.line_width)
        self._languages = language_names()
        self._known: tuple[EmbedderFingerprint | None, tuple[tuple[str, str], ...]] = (None, ())

    async def run(
        self, record: IndexRecord, query: Query, trace: Trace, *, overlay: Overlay | None = None
    ) -> Answer:
        """The answer to a query, from the generation of `record` or a later one.

        `overlay` is what the client has not saved. Raises `InvalidInput`, `IdentityMismatch` and,
        with nothing in the cache, `StoreUnavailable`.
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
        """All of `run` but widening. `embed` takes the place of the method, for a question to
        several indexes.
        """
        with trace.stage("plan"):
            plan = make_plan(query, self._settings, self._languages)
            view = make_view(query)
            plan = replace(plan, where=make_relative(plan.where, record.root))
            lexical = self._retriever.lexical(record, plan)
            if lexical is not None and lexical.warm:
                plan = replace(plan, lexical=True)  # a warm answer is another one than a cold one
            if overlay is not None:
                plan = replace(plan, overlay=overlay.digest)
            trace.record("plan", lambda: describe_plan(plan))
        try:
            found, use = await self._rank(
                record,
                plan,
                query,
                trace,
                embed or partial(self.embed, record.identity.embedder),
                overlay,
            )
        except StoreUnavailable as error:
            kept = self._cache.latest(record.number, plan)
            if kept is None:
                raise
            return RankedAnswer(
                record, kept, "exact", view, overlay, f"{error.message}; this is an earlier answer"
            )
        return RankedAnswer(record, found, use, view, overlay)

    async def expand(self, finding: RankedAnswer, trace: Trace, count: int | None = None) -> Answer:
        """The first `count` hits with their context; None: all.

        Context is from files that are as they were indexed; hits of others show what was stored,
        and are marked stale.
        """
        found = finding.ranking
        if not found.hits or count == 0:
            return _make_answer(finding, (), ())
        with trace.stage("expand"):
            view = finding.view
            overlay = finding.overlay
            root = finding.record.root
            hits = found.hits
            files = found.files
            expand = partial(self._context.expand, root, hits, files, view, overlay, count)
            expanded = await self.disk.run_bounded(root, expand) or self._context.expand_stored(
                hits, view, overlay, count
            )
        return _make_answer(finding, expanded.hits, expanded.changed_paths)

    async def embed(
        self, made_by: tuple[tuple[str, str], ...], text: str, trace: Trace
    ) -> QueryVector:
        """The vector of a question, as the embedder makes it whose pairs are given.

        Why there is none is a note and no error: words are still found.
        """
        try:
            with trace.stage("embed"):
                vector = await self._embedder_of(made_by).embed_query(text)
        except EmbedderUnavailable as error:
            return QueryVector(None, f"found by words only: {error.message}", cacheable=False)
        return (
            QueryVector(vector)
            if vector.any()
            else QueryVector(None, "found by words only: the model knows none of them")
        )

    def effective_limit(self, query: Query) -> int:
        """How many results a query asks for."""
        return self._settings.limit if query.limit is None else query.limit

    @property
    def disk(self) -> VerifiedFiles:
        """What has been read of files, to be shared with whoever else shows them."""
        return self._context.disk

    def configure(self, settings: SearchSettings) -> None:
        """Other defaults from now on. The sizes of the cache stay what they were."""
        self._settings = settings
        self._context = Context(settings.context_lines, settings.line_width, self.disk)

    def cache_statistics(self) -> CacheStatistics:
        """Of all indexes together."""
        return self._cache.statistics()

    def forget(self, record: IndexRecord) -> None:
        """Free what is kept for an index that is gone."""
        self._cache.forget(record.number)
        self.disk.forget(record.root)
        self._context.forget()

    async def _rank(
        self,
        record: IndexRecord,
        plan: Plan,
        query: Query,
        trace: Trace,
        embed: Embed,
        overlay: Overlay | None,
    ) -> tuple[CachedHits, CacheUse]:
        """Ranked hits of one generation: kept ones, or found now. An explained run hears of kept
        ones, and finds.
        """
        lexical = self._retriever.lexical(record, plan)
        state = (record.generation, lexical.view_changes if lexical is not None else 0)
        found = self._cache.exact(record.number, state, plan) if query.use_cache else None
        trace.record("cache", lambda: {"exact": found is not None})
        if found is not None and not trace.explain:
            return found, "exact"
        embedded = QueryVector(None) if plan.listing else await embed(plan.text, trace)
        vector = embedded.vector
        if vector is not None:
            self._check_identity(record)
            if query.use_cache and not trace.explain:
                found = self._cache.similar(record.number, state, plan, vector)
                if found is not None:
                    return found, "semantic"
        self._cache.count_miss()
        look = await self._retriever.retrieve(
            record, RetrievalRequest(plan, vector, overlay), trace
        )
        hits = tuple(to_hit(record.name, one) for one in look.selected)
        notes = tuple(note for note in (embedded.warning, look.warning) if note)
        found = CachedHits(look.generation, hits, look.files, notes, state[1])
        if query.use_cache and embedded.cacheable and look.cacheable:
            self._cache.put(record.number, plan, vector, found)
        trace.record(
            "ranking", lambda: describe_results(plan, look.retrieved, look.scored, look.selected)
        )
        if query.why_not is not None:
            trace.details["why_not"] = await why_not(
                self._db,
                record,
                RetrievalRequest(plan, vector, overlay),
                query.why_not,
                look.scored,
            )
        return found, "miss"

    def _check_identity(self, record: IndexRecord) -> None:
        """Vectors of different models are never compared."""
        fingerprint = self._embedder_of(record.identity.embedder).fingerprint
        if self._known[0] is not fingerprint:
            self._known = (fingerprint, fingerprint.pairs())
        if self._known[1] != record.identity.embedder:
            made = dict(record.identity.embedder)
            raise IdentityMismatch(
                f"index {record.name} was made by {made.get('provider')}/{made.get('model')}, not by {fingerprint}",
                f"cocosearchctl reindex {record.name}, or configure the embedder it was made by",
            )


def _make_answer(
    finding: RankedAnswer, hits: tuple[Hit, ...], changed_paths: tuple[str, ...]
) -> Answer:
    found = finding.ranking
    return Answer(
        finding.record.name,
        hits,
        found.generation,
        finding.cache,
        changed_paths,
        found.warnings,
        finding.outdated,
    )
