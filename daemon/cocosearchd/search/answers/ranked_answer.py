"""The stages of a question to one index: prepared query, query vector, ranked hits."""

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.base import pairs_digest
from cocosearchd.errors import IdentityMismatch
from cocosearchd.filters.filter_fields import Filter, chunk_conditions
from cocosearchd.freshness import StaleReason
from cocosearchd.languages.symbol_table import NO_SYMBOLS, PackedSymbols
from cocosearchd.model import EmbedderPairs, IndexRecord
from cocosearchd.search.code.code_candidates import join_warnings
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.places import HeadingRules, query_words, to_hit, word_roots
from cocosearchd.search.plan import Plan, Query, ViewOptions, make_plan
from cocosearchd.search.query_cache import CacheUse, RankedHits, State
from cocosearchd.search.retrieval import RetrievalAttempt
from cocosearchd.search.trace import Trace


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """Ranked hits of one index, without context: hits of another index may still displace them."""

    record: IndexRecord
    ranked_hits: RankedHits
    cache: CacheUse
    view: ViewOptions
    overlay: Overlay | None = None
    stale: StaleReason | None = None


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector, shape `(dimension,)`, or a warning that says why there is none.

    `embedder` has the pairs of the fingerprint of the embedder that made the vector.
    """

    vector: NDArray[np.float32] | None
    warning: str | None = None
    embedder: EmbedderPairs = ()
    # False: the next question may get a vector, so this answer is not worth caching
    cacheable: bool = True


Embed = Callable[[str, Trace], Awaitable[QueryVector]]


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A question to one index, with its plan and the state of the index when the question arrived."""

    record: IndexRecord
    plan: Plan
    view: ViewOptions
    overlay: Overlay | None
    state: State
    history: HistoryIndex | None = None

    def answer(self, ranked_hits: RankedHits, cache: CacheUse) -> RankedAnswer:
        """Make the answer to this query from ranked hits."""
        return RankedAnswer(self.record, ranked_hits, cache, self.view, self.overlay)


class SharedPlans:
    """Plans of one question to several indexes.

    The question is analysed once; equal plans are shared.
    """

    def __init__(self, query: Query, settings: SearchSettings) -> None:
        """Analyse a question. Raises `InvalidInput`."""
        self.base = make_plan(query, settings)
        self._plans = dict[tuple[Filter, bool, str], Plan]()

    def plan(self, where: Filter, *, is_lexical_warm: bool, overlay: str) -> Plan:
        """Return the plan for an index with this filter.

        `is_lexical_warm` tells whether the lexical index of this index is in memory.
        """
        key = (where, is_lexical_warm, overlay)
        if key not in self._plans:
            self._plans[key] = replace(
                self.base, where=where, is_lexical_warm=is_lexical_warm, overlay=overlay
            )
        return self._plans[key]


def make_ranked_hits(
    record: IndexRecord,
    plan: Plan,
    attempt: RetrievalAttempt,
    query_vector: QueryVector,
    state: State,
) -> RankedHits:
    """Make ranked hits from a retrieval attempt. The query cache stores them."""
    symbol_filter, _ = chunk_conditions(plan.where)
    rules = HeadingRules(
        word_roots(query_words(plan)), symbol_filter.matcher() if symbol_filter.restricts else None
    )
    symbols = (
        {}
        if plan.listing
        else {file.path: PackedSymbols(file.symbols) for file in attempt.files if file.symbols}
    )
    return RankedHits(
        attempt.generation,
        tuple(
            to_hit(record.name, result, rules, symbols.get(result.best.candidate.path, NO_SYMBOLS))
            for result in attempt.selected
        ),
        tuple(file._replace(symbols=None) for file in attempt.files),
        join_warnings(query_vector.warning, *attempt.warnings),
        snapshot_count=state[1],
        history=state[2],
        more=plan.listing and len(attempt.scored) > len(attempt.selected),
    )


def check_identity(record: IndexRecord, query_vector: QueryVector) -> None:
    """Raise `IdentityMismatch` if the vectors of the index are from another model than the query's.

    Vectors of different models are never compared.
    """
    if query_vector.embedder != record.identity.embedder:
        raise IdentityMismatch(
            f"index {record.name} was made by {_describe_embedder(record.identity.embedder)}, "
            f"not by {_describe_embedder(query_vector.embedder)}",
            f"cocosearchctl reindex {shlex.quote(record.name)}, or configure the embedder it was made by",
        )


def _describe_embedder(embedder_pairs: EmbedderPairs) -> str:
    pairs = dict(embedder_pairs)
    digest = pairs_digest(embedder_pairs)[:8]
    return f"{pairs.get('provider')}/{pairs.get('model')} ({pairs.get('dimension')}-d, fp {digest})"
