"""One question of the profile `code` to one state of a lexical index."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.code_filters import chunk_mask, files_shown
from cocosearchd.search.code_profile import Ranked, Weights, rank_code
from cocosearchd.search.lexical import LexicalIndex
from cocosearchd.search.lexical_living import Choice
from cocosearchd.search.lexical_terms import QueryTerms
from cocosearchd.search.lexical_view import Evidence, View
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.store.matching import Starts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """The question. `state` is that of the files with those of `overlay` in their place; at most `limit` are ranked."""

    lexical: LexicalIndex
    state: View
    plan: Plan
    terms: QueryTerms
    vector: NDArray[np.float32] | None
    weights: Weights
    limit: int
    overlay: Overlay | None = None

    async def judged(self, judge: Callable[[Evidence], T], choice: Choice) -> T:
        """What `judge` makes of the evidence, in a thread. `choice`: which files may be shown."""
        return await self.lexical.judged(self.state, judge, self.terms, self.vector, choice, self.limit)

    async def ranked(self, chunks: Starts | None) -> tuple[Ranked, ...]:
        """The best of the chunks that pass; None: of all."""
        return await self.judged(partial(self.best, chunks=chunks), partial(files_shown, self.plan.where, chunks))

    def best(self, found: Evidence, chunks: Starts | None) -> tuple[Ranked, ...]:
        """As `ranked`, of what is known of the compared files."""
        return rank_code(
            found,
            self.terms.symbol,
            self.weights,
            self.limit,
            allowed_chunks=None if chunks is None else chunk_mask(found, chunks),
            per_file=self.limit if self.plan.all_chunks else 1,
        )
