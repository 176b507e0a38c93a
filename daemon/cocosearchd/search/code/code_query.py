"""A query in the profile `code` against one snapshot of a lexical index."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.search.code.code_profile import (
    INNERMOST_WEIGHT,
    RankedChunk,
    ScoredMatrix,
    Weights,
    rank_chunks,
    score_matrix,
)
from cocosearchd.search.code.file_masks import chunk_mask, file_mask
from cocosearchd.search.history.history_evidence import HEAD_FILES, HistoryEvidence
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.analysis.terms import QueryTerms
from cocosearchd.search.lexical.array_types import Floats, Mask
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    ReportSignals,
    SignalMatrix,
)
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.segments.live_documents import (
    FileFilter,
    LiveDocuments,
    files_with_chunks,
    join_arrays,
)
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.plan import Plan
from cocosearchd.search.reports.frame_places import NO_FRAMES, FramePlaces
from cocosearchd.search.reports.report_signals import ReportScorer, make_scorer
from cocosearchd.search.reports.report_terms import report_query_terms
from cocosearchd.store.reads.phrase_matches import Starts

# Chunks that are sorted on the event loop, in a millisecond: a thread would cost as much.
MAX_CHUNKS_ON_LOOP = 10_000

T = TypeVar("T")


def prepare_terms(lexical: LexicalIndex, plan: Plan) -> tuple[QueryTerms, ReportScorer | None]:
    """Return the terms of a plan's text, or of the parts of a report, and the scorer of a report.

    Call it in a thread for a report, whose text may be long.
    """
    report = plan.report
    if report is None:
        return lexical.make_query_terms(plan.text), None
    context = (report, lexical.terms, lexical.name, lexical.common_language)
    return report_query_terms(*context), make_scorer(*context)


@dataclass(frozen=True, slots=True)
class CodeQuery:
    """A query to one snapshot. In `snapshot`, the files of `overlay` replace the stored files.

    At most `limit` chunks are ranked. `needed`, the number of results, determines the number of
    compared files. An explained query has a larger `limit` and ranks more chunks of the same files.
    `incompleteness` is a sentence about files that the snapshot lacks, in whole or in part. The
    `history` of the index orders the files after the first ones.
    """

    record: IndexRecord
    lexical: LexicalIndex
    snapshot: IndexSnapshot
    plan: Plan
    terms: QueryTerms
    vector: NDArray[np.float32] | None
    weights: Weights
    limit: int
    needed: int
    overlay: Overlay | None = None
    report_signals: ReportSignals | None = None
    frame_places: FramePlaces = NO_FRAMES  # places that the question names by frames
    incompleteness: str | None = None
    history: HistoryIndex | None = None

    @property
    def evidence(self) -> HistoryEvidence | None:
        """The history as evidence for the question; None without one."""
        if self.history is None or not self.plan.uses_history or self.limit <= HEAD_FILES:
            return None
        return HistoryEvidence(self.history, self.terms.terms)

    async def evaluate(self, scorer: Callable[[SignalMatrix], T], choice: FileFilter) -> T:
        """Run `scorer` on the signal matrix in a thread, and return its result.

        `choice` computes the mask of the files that may be shown.
        """
        return await self.lexical.score(
            self.snapshot,
            scorer,
            self.terms,
            self.vector,
            choice,
            self.needed,
            self.report_signals,
        )

    async def rank(self, chunks: Starts) -> tuple[RankedChunk, ...]:
        """Rank the best of the given chunks."""
        return await self.evaluate(
            partial(self.rank_compared, chunks=chunks), partial(self.allowed_files, chunks=chunks)
        )

    async def rank_all(
        self, scored: ScoredMatrix | None
    ) -> tuple[tuple[RankedChunk, ...], ScoredMatrix]:
        """Rank the best chunks that pass the filter, and return them with the scored matrix.

        `scored` is the scored matrix of the same query for fewer results. It is used again if it
        has enough files.
        """
        if scored is not None and scored.matrix.covers_limit(self.needed):
            if len(scored.matrix.chunks.keys) <= MAX_CHUNKS_ON_LOOP:
                return self.rank_scored(scored), scored
            return await asyncio.to_thread(self.rank_scored, scored), scored

        def score_and_rank(matrix: SignalMatrix) -> tuple[tuple[RankedChunk, ...], ScoredMatrix]:
            computed = score_matrix(matrix, self.terms.is_name, self.weights)
            return self.rank_scored(computed), computed

        return await self.evaluate(score_and_rank, self.allowed_files)

    def rank_compared(self, matrix: SignalMatrix, chunks: Starts | None) -> tuple[RankedChunk, ...]:
        """Rank the best of `chunks`, from the signal matrix of the compared files."""
        return self.rank_scored(score_matrix(matrix, self.terms.is_name, self.weights), chunks)

    def rank_scored(
        self, scored: ScoredMatrix, chunks: Starts | None = None
    ) -> tuple[RankedChunk, ...]:
        """Rank the best chunks that pass the filter, or the best of the given chunks."""
        matrix = scored.matrix
        return rank_chunks(
            scored,
            self.limit,
            allowed_chunks=self.allowed_chunks(matrix)
            if chunks is None
            else chunk_mask(matrix, chunks),
            all_chunks=self.plan.all_chunks,
            holds_phrases=chunks is not None,
            frame_weights=self.weigh_frames(matrix),
            evidence=self.evidence,
        )

    def weigh_frames(self, matrix: SignalMatrix) -> Floats | None:
        """Return the weights of chunks that frames name, (C,), or None if they name none.

        The weight is `INNERMOST_WEIGHT` for the innermost frame of a file, and 1 for the others.
        """
        if not self.frame_places.places:
            return None
        weights = chunk_mask(matrix, self.frame_places.places).astype(np.float32)
        return np.where(chunk_mask(matrix, self.frame_places.innermost), INNERMOST_WEIGHT, weights)

    def allowed_files(self, living: LiveDocuments, chunks: Starts | None = None) -> Mask | None:
        """Return a mask (F,) of the files that pass the filter and have a chunk that passes.

        None stands for all files.
        """
        passing = file_mask(self.plan.where, living)
        symbol_masks = self.symbol_masks() if chunks is None else None
        if chunks is not None:
            with_chunks = np.fromiter(
                (path in chunks for path in living.paths), np.bool_, len(living.paths)
            )
        elif symbol_masks is not None:
            with_chunks = files_with_chunks(self.snapshot.views, symbol_masks)
        else:
            return passing
        return with_chunks if passing is None else with_chunks & passing

    def allowed_chunks(self, matrix: SignalMatrix) -> Mask | None:
        """Return a mask (C,) of the compared chunks that pass the filter on symbols; None for all."""
        masks = self.symbol_masks()
        if masks is None:
            return None
        return join_arrays(
            [mask[segment.chunks] for mask, segment in zip(masks, matrix.candidates, strict=True)]
        )

    def symbol_masks(self) -> list[Mask] | None:
        """Return the masks of the chunks that pass the filter on symbols.

        There is one mask (C,) per segment; None if all chunks pass. The masks are cached, so only
        the first call for a filter is slow.
        """
        where = self.plan.where
        if not where.has_symbols:
            return None
        find_mask = self.lexical.symbols.mask
        return [
            find_mask(segment_view.segment, where.symbol_types, where.symbol_name)
            for segment_view in self.snapshot.views
        ]
