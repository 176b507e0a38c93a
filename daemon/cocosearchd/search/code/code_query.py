"""One question of the profile `code` to one state of a lexical index."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.code.code_profile import RankedChunk, Weights, rank_code
from cocosearchd.search.code.file_masks import chunk_mask, file_mask
from cocosearchd.search.lexical.analysis.terms import QueryTerms
from cocosearchd.search.lexical.index_snapshot import FeatureMatrix, IndexSnapshot
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.segments.live_documents import (
    FileFilter,
    LiveDocuments,
    concatenate,
    files_with_chunks,
)
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.store.chunks.phrase_matches import Starts

T = TypeVar("T")
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CodeQuery:
    """The question. `state` is that of the files with those of `overlay` in their place; at most
    `limit` are ranked.

    As many files are compared as `needed` results take: a question that is explained ranks more, of
    the same ones.
    """

    lexical: LexicalIndex
    state: IndexSnapshot
    plan: Plan
    terms: QueryTerms
    vector: NDArray[np.float32] | None
    weights: Weights
    limit: int
    needed: int
    overlay: Overlay | None = None

    async def evaluate(self, judge: Callable[[FeatureMatrix], T], choice: FileFilter) -> T:
        """What `judge` makes of the evidence, in a thread. `choice`: which files may be shown."""
        return await self.lexical.score(
            self.state, judge, self.terms, self.vector, choice, self.needed
        )

    async def rank(self, chunks: Starts | None = None) -> tuple[RankedChunk, ...]:
        """The best of the chunks that pass; None: of those that pass the filter on symbols, if
        there is one.
        """
        return await self.evaluate(
            partial(self.rank_compared, chunks=chunks), partial(self.allowed_files, chunks=chunks)
        )

    def rank_compared(self, found: FeatureMatrix, chunks: Starts | None) -> tuple[RankedChunk, ...]:
        """As `rank`, of what is known of the compared files."""
        return rank_code(
            found,
            self.terms.symbol,
            self.weights,
            self.limit,
            allowed_chunks=self.allowed_chunks(found)
            if chunks is None
            else chunk_mask(found, chunks),
            per_file=self.limit if self.plan.all_chunks else 1,
            held=chunks is not None,
        )

    def allowed_files(self, living: LiveDocuments, chunks: Starts | None = None) -> Mask | None:
        """(F,): the files that pass the filter and have chunks that do; None: all."""
        passing = file_mask(self.plan.where, living)
        symbols = self.symbol_masks() if chunks is None else None
        if chunks is not None:
            having = np.fromiter(
                (path in chunks for path in living.paths), np.bool_, len(living.paths)
            )
        elif symbols is not None:
            having = files_with_chunks(self.state.views, symbols)
        else:
            return passing
        return having if passing is None else having & passing

    def allowed_chunks(self, found: FeatureMatrix) -> Mask | None:
        """(C,): the compared chunks that pass the filter on symbols; None: all."""
        symbols = self.symbol_masks()
        if symbols is None:
            return None
        return concatenate(
            [mask[each.chunks] for mask, each in zip(symbols, found.candidates, strict=True)]
        )

    def symbol_masks(self) -> list[Mask] | None:
        """By part (C,): the chunks that pass the filter on symbols; None: all. The first time it
        takes a while.
        """
        where = self.plan.where
        if not (where.symbol_types or where.symbol_name):
            return None
        of = self.lexical.symbols.mask
        return [
            of(part.segment, where.symbol_types, where.symbol_name) for part in self.state.views
        ]
