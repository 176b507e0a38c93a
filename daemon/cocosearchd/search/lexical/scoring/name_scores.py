"""Scores files and chunks of a corpus for one query, by defined names and by vectors. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages.identifiers import fold_name
from cocosearchd.search.lexical.analysis.terms import QueryTerms, term_hash
from cocosearchd.search.lexical.array_types import (
    Array,
    Floats,
    Ints,
    Mask,
    concatenate,
    join_ranges,
)
from cocosearchd.search.lexical.scoring.corpus import CandidateFiles, Candidates, Corpus
from cocosearchd.search.lexical.scoring.vector_products import multiply_rows
from cocosearchd.search.lexical.segments.segment import SegmentView

_FOLDED_SHARE = 0.8  # share of a definition's value for a name that differs in case
# bonus for a chunk that defines the exact name, so that a constant ranks before its uses
_EXACT_LEAD = 1.0


@dataclass(frozen=True, slots=True)
class MatchingDefinitions:
    """The n definitions in a corpus that match names, view by view. A definition may occur twice."""

    views: Ints  # (n,)
    chunks: Ints  # (n,): numbers in the segment of the view
    values: Floats  # (n,)


@dataclass(frozen=True, slots=True)
class DefinitionMatches:
    """The definitions in a corpus that match names of the query."""

    exact: MatchingDefinitions
    folded: MatchingDefinitions
    # signal -> (F,): best value of a definition. `defined_exactly`: in the same case;
    # `defined_folded`: in any case; `whole`: of the full name
    of_files: dict[str, Floats]


def match_definitions(corpus: Corpus, query: QueryTerms) -> DefinitionMatches:
    """Find the definitions of the identifiers of the query, and of the full name as written."""
    folded_names = tuple(map(fold_name, query.identifiers))
    symbol = query.identifiers[:1] if query.is_name else ()
    exact = _find_definitions(corpus, "exact", query.identifiers)
    folded = _find_definitions(corpus, "folded", folded_names)
    full = _find_definitions(corpus, "exact", symbol)
    best = (_best_per_file(corpus, matches) for matches in (exact, folded, full))
    return DefinitionMatches(
        exact, folded, dict(zip(("defined_exactly", "defined_folded", "whole"), best, strict=True))
    )


def score_chunk_names(candidates: Candidates, definitions: DefinitionMatches) -> Floats:
    """Score the candidate chunks by their best matching definition, (c,).

    A definition in the same case gets a bonus.
    """
    scores = np.zeros(len(candidates.lengths), np.float32)
    for matches, share, lead in (
        (definitions.exact, 1.0, _EXACT_LEAD),
        (definitions.folded, _FOLDED_SHARE, 0.0),
    ):
        for view in np.unique(matches.views).tolist():
            of_view = matches.views == view
            positions, is_candidate = _locate(candidates.by_view[view], matches.chunks[of_view])
            np.maximum.at(
                scores,
                positions + candidates.chunk_starts[view],
                np.float32(share) * matches.values[of_view][is_candidate] + np.float32(lead),
            )
    return scores


def _locate(candidate: CandidateFiles, chunks: Ints) -> tuple[Ints, Mask]:
    """Return the positions of the chunks that are candidates, and the mask of these chunks."""
    if not len(candidate.chunks):
        return np.zeros(0, np.int64), np.zeros(len(chunks), np.bool_)
    positions = np.minimum(np.searchsorted(candidate.chunks, chunks), len(candidate.chunks) - 1)
    is_candidate: Mask = candidate.chunks[positions] == chunks
    return positions[is_candidate], is_candidate


def file_cosines(views: Sequence[SegmentView], files: Sequence[Ints], vector: Floats) -> Floats:
    """Compute the cosines of the mean vectors of `files`, by view: (f,).

    It is NaN for a file without vectors.
    """
    selections = list(zip(views, files, strict=True))
    return multiply_rows(
        [(view.segment.file_vectors, numbers) for view, numbers in selections],
        _concatenate([view.segment.file_scales.take(numbers) for view, numbers in selections]),
        vector,
    )


def chunk_cosines(candidates: Sequence[CandidateFiles], vector: Floats) -> Floats:
    """Return cosines of the candidate chunks of all views, (c,); NaN for a chunk without a vector."""
    return multiply_rows(
        [(candidate.segment.vectors, candidate.chunks) for candidate in candidates],
        _concatenate([candidate.segment.scales.take(candidate.chunks) for candidate in candidates]),
        vector,
    )


def _concatenate(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.float32)


def _find_definitions(corpus: Corpus, kind: str, names: Sequence[str]) -> MatchingDefinitions:
    """Find the chunks that define the names, and the value of each definition.

    `kind` is "exact" for names as written, or "folded" for folded names.
    """
    hashes = np.array([term_hash(name) for name in names], np.uint64)
    views, chunks, values = list[Ints](), list[Array](), list[Array]()
    for number, view in enumerate(corpus.views if names else ()):
        rows, _ = _match_names(getattr(view.segment, f"{kind}_names"), hashes)
        if len(rows):
            views.append(np.full(len(rows), number))
            chunks.append(getattr(view.segment, f"{kind}_chunks")[rows])
            values.append(getattr(view.segment, f"{kind}_values")[rows])
    return MatchingDefinitions(
        concatenate(views, np.int64), concatenate(chunks, np.int64), concatenate(values, np.float32)
    )


def _match_names(sorted_names: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Find the rows of the hashes, and for each row the number of its hash.

    The rows are in the order of `hashes`.
    """
    starts = sorted_names.searchsorted(hashes)
    counts = sorted_names.searchsorted(hashes, side="right") - starts
    if not counts.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return join_ranges(starts, counts), np.repeat(np.arange(len(hashes)), counts)


def _best_per_file(corpus: Corpus, matches: MatchingDefinitions) -> Floats:
    """Return the best value of the matches in each live file, (F,)."""
    best = np.zeros(len(corpus.live.paths), np.float32)
    for view in np.unique(matches.views).tolist():
        of_view = matches.views == view
        owners = corpus.views[view].segment.chunk_files[matches.chunks[of_view]]
        files, mask = corpus.number_files(view, owners)
        values = matches.values[of_view]
        np.maximum.at(best, files, values if mask is None else values[mask])
    return best


def find_defining_files(corpus: Corpus, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Find the live files that define names as written, as pairs (file, number of the name).

    Pairs are unique and sorted by file.
    """
    hashes = np.array([term_hash(name) for name in names], np.uint64)
    pairs = [np.zeros(0, np.int64)]
    for number, view in enumerate(corpus.views if names else ()):
        rows, numbers = _match_names(view.segment.exact_names, hashes)
        if len(rows):
            owners = view.segment.chunk_files[view.segment.exact_chunks[rows]]
            files, mask = corpus.number_files(number, owners)
            pairs.append(files * len(names) + (numbers if mask is None else numbers[mask]))
    unique = np.unique(np.concatenate(pairs))
    return unique // max(len(names), 1), unique % max(len(names), 1)
