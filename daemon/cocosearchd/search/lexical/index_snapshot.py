"""One immutable state of the lexical index, and what it says of a query: a value per signal for
each compared file.

Statistics (N, document frequencies, average lengths, the largest value of a signal) are counted
over living documents at query time, so that the answer does not depend on the order in which files
came and went. In a large index only the promising files are compared chunk by chunk; see
`lexical_choice`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.scoring.bm25 import (
    FieldStatistics,
    FileHits,
    find_file_hits,
    mark_files_with_all_terms,
    score_chunks,
    score_fields,
    score_files,
)
from cocosearchd.search.lexical.scoring.candidate_selection import (
    CandidateFiles,
    locate_chunks,
    select_candidates,
)
from cocosearchd.search.lexical.scoring.name_scores import (
    DefinitionMatches,
    chunk_cosines,
    match_definitions,
    score_chunk_names,
)
from cocosearchd.search.lexical.scoring.nearest_vectors import compare_vectors
from cocosearchd.search.lexical.segments.live_documents import (
    FileFilter,
    LiveDocuments,
    collect_live_documents,
    concatenate,
    select_live,
)
from cocosearchd.search.lexical.segments.path_names import (
    PathNames,
    best_name_match,
    make_name_query,
    read_path_names,
    stem_coverage,
)
from cocosearchd.search.lexical.segments.segment import SegmentView
from cocosearchd.search.lexical.segments.segment_merge import (
    MergePolicy,
    apply_merges,
    perform_merges,
)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
SIGNALS = (
    "s3", "s_mean", "s_raw", "f_all", "f_def", "f_com", "f_path", "p_s", "symF", "symI", "sole", "stemeq",
    "test", "prose", "hub", "depth", "lsize",
)  # fmt: skip
_FILE_SIGNALS = ("f_all", "p_s", "symF", "symI", "whole", "stemeq")


@dataclass(frozen=True)
class IndexSnapshot:
    """Parts, the names of their files, and the sizes of what is alive in them."""

    views: tuple[SegmentView, ...]
    path_names: tuple[PathNames, ...]
    generation: int
    statistics: FieldStatistics

    @property
    def file_count(self) -> int:
        """How many files are alive."""
        return self.statistics.files

    @property
    def chunk_count(self) -> int:
        """How many chunks are alive."""
        return self.statistics.chunks

    @cached_property
    def common_language(self) -> tuple[str, ...]:
        """The names of the language that nearly all code is written in."""
        return features.common_language(
            sum(map(_count_languages, self.views, self.path_names), Counter[str]())
        )

    @cached_property
    def live_documents(self) -> LiveDocuments:
        """Made by the first query after a commit, since many a commit is not followed by one."""
        return collect_live_documents(self.views, self.path_names)


def _count_languages(part: SegmentView, names: PathNames) -> Counter[str]:
    """How many living files are in each language."""
    if part.alive is None:
        return names.language_counts
    dead = np.flatnonzero(~part.alive)
    if 2 * len(dead) < len(part.alive):
        return names.language_counts - Counter(map(names.languages.__getitem__, dead.tolist()))
    return Counter(map(names.languages.__getitem__, np.flatnonzero(part.alive).tolist()))


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """What the compared files are measured against: all living ones."""

    name_coverage: float  # the largest share of a file's name that the question explains
    cosine_mean: float  # the mean of the cosines of files, and their deviation
    cosine_deviation: float


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """What is known of each of F compared files and their C chunks for one query. Raw; the profile
    scales them.
    """

    generation: int
    paths: Sequence[str]  # (F,)
    languages: Sequence[str]  # (F,)
    allowed: Mask | None  # (F,): which of them may be shown; None: all
    values: dict[str, Floats]  # signal -> (F,)
    corpus: CorpusStatistics
    starts: Ints  # (F,): first chunk of each file
    chunk_files: Ints  # (C,): the file of each chunk
    keys: Ints  # (C, 2)
    candidates: Sequence[CandidateFiles]  # by part of the state: where they are in it
    chunk_scores: Floats  # (C,): text and header
    # (C,): best definition value for an identifier of the query, and a lead if its case agrees
    chunk_names: Floats
    cosines: Floats | None  # (C,); NaN where a chunk has no vector. None: no vector was asked
    # (F,): of the mean of the vectors of each file; NaN without vectors
    file_cosines: Floats | None
    best_cosines: Floats | None  # (F,): of a file's best chunk
    # (C,): share of the idf mass that the query asks which the chunk has, 0 to 1
    chunk_coverage: Floats


@dataclass(frozen=True, slots=True)
class _ChunkSignals:
    """Of f compared files and their c chunks."""

    starts: Ints  # (f,): the first chunk of each file
    files: Ints  # (c,): the file of each chunk
    keys: Ints  # (c, 2)
    scores: Floats  # (c,), as the next three
    covered: Floats
    names: Floats
    cosines: Floats | None
    nearest: Floats | None  # (f,): the best of the cosines
    of_files: dict[str, Floats]  # s3, s_mean, s_raw: (f,)


def make_snapshot(
    parts: Sequence[SegmentView], generation: int, *known: IndexSnapshot
) -> IndexSnapshot:
    """A state over `parts`. The names of segments that one of the `known` has as well are taken
    from it.
    """
    read = {
        id(part.segment): names
        for one in known
        for part, names in zip(one.views, one.path_names, strict=True)
    }
    lengths_of_chunks = [
        p.segment.chunk_lengths
        if p.alive_chunks is None
        else p.segment.chunk_lengths[p.alive_chunks]
        for p in parts
    ]
    lengths_of_files = [
        p.segment.file_lengths if p.alive is None else p.segment.file_lengths[p.alive]
        for p in parts
    ]
    chunks, files = sum(map(len, lengths_of_chunks)), sum(map(len, lengths_of_files))
    chunk_sum = float(sum(each.sum(dtype=np.float64) for each in lengths_of_chunks))
    file_sums = sum((each.sum(axis=0, dtype=np.float64) for each in lengths_of_files), np.zeros(4))
    return IndexSnapshot(
        views=tuple(parts),
        path_names=tuple(
            read.get(id(part.segment)) or read_path_names(part.segment) for part in parts
        ),
        generation=generation,
        statistics=FieldStatistics(
            files, chunks, chunk_sum / max(chunks, 1), tuple((file_sums / max(files, 1)).tolist())
        ),
    )


def plan_merge(
    state: IndexSnapshot, order: MergePolicy
) -> Callable[[IndexSnapshot], IndexSnapshot] | None:
    """What merges of the parts of `state` make of a later view; None if there is nothing to
    merge.
    """
    made = perform_merges(state.views, order)
    if not made:
        return None
    names = make_snapshot(
        [SegmentView(each.segment) for each in made if each.segment is not None], state.generation
    )
    return lambda now: make_snapshot(
        apply_merges(state.views, made, now.views), now.generation, now, names
    )


def compute_features(
    state: IndexSnapshot,
    query: QueryTerms,
    terms: TermCache,
    vector: Floats | None = None,
    choice: FileFilter | None = None,
    shown: int = 0,
) -> FeatureMatrix:
    """What is known of the compared files. `vector`: of the query, (dimension,). `choice`: which
    files may be shown.

    In a large index the promising files are compared: those of the whole, so that a choice does not
    change how files stand to each other, and those of the choice; `shown` is how many are going to
    be shown.
    """
    living = state.live_documents
    named = [match_definitions(part.segment, query) for part in state.views]
    hits = find_file_hits(state.views, query)
    values = _file_signals(state, query, terms, named, hits)
    close = None if vector is None else compare_vectors(state.views, living, vector)
    allowed = None if choice is None else choice(living)
    files = select_candidates(values, close, allowed, shown, living.paths)
    some = [
        locate_chunks(part.segment, each)
        for part, each in zip(state.views, living.by_segment(files), strict=True)
    ]
    mean, deviation = (
        (0.0, 1.0) if close is None else features.mean_and_deviation(close.means(living.sample))
    )
    fields = score_fields(hits, state.statistics, query, some)
    chunks = _chunk_signals(state, query, named, some, vector)
    cosines = None if close is None else close.means(files)
    return FeatureMatrix(
        generation=state.generation,
        paths=tuple(map(living.paths.__getitem__, files.tolist())),
        languages=tuple(map(living.languages.__getitem__, files.tolist())),
        allowed=None if allowed is None else allowed[files],
        values={name: each[files] for name, each in (values | living.path_signals).items()}
        | fields
        | chunks.of_files,
        corpus=CorpusStatistics(float(values["p_s"].max(initial=0)), mean, deviation),
        starts=chunks.starts,
        chunk_files=chunks.files,
        keys=chunks.keys,
        candidates=some,
        chunk_scores=chunks.scores,
        chunk_names=chunks.names,
        chunk_coverage=chunks.covered,
        cosines=chunks.cosines,
        file_cosines=cosines,
        best_cosines=None
        if chunks.nearest is None or cosines is None
        else np.fmax(chunks.nearest, cosines),
    )


def _file_signals(
    state: IndexSnapshot,
    query: QueryTerms,
    terms: TermCache,
    named: Sequence[DefinitionMatches],
    hits: Sequence[FileHits],
) -> dict[str, Floats]:
    """What words and names say of each living file: signal -> (F,)."""
    asked = make_name_query(query.words, [terms.stem(word) for word in query.words], query.shares)
    rows: list[dict[str, Floats]] = [
        {
            "f_all": words,
            **found.of_files,
            "p_s": stem_coverage(names, asked),
            "stemeq": best_name_match(names, query.identifiers),
        }
        for words, found, names in zip(
            score_files(hits, state.statistics, query), named, state.path_names, strict=True
        )
    ]
    values = {
        name: select_live(state.views, [each[name] for each in rows]) for name in _FILE_SIGNALS
    }
    # The name as asked goes before any part of it. What no file defines, in any case, is where its
    # words are.
    used = (
        select_live(state.views, mark_files_with_all_terms(hits))
        if query.symbol and not values["symI"].any()
        else None
    )
    values["sole"] = features.definition_shares(values.pop("whole"), values["symF"], used)
    return values


def _chunk_signals(
    state: IndexSnapshot,
    query: QueryTerms,
    named: Sequence[DefinitionMatches],
    some: Sequence[CandidateFiles],
    vector: Floats | None,
) -> _ChunkSignals:
    """What the chunks of the compared files say, parts in order."""
    scores, covered = score_chunks(state.views, state.statistics, query, some)
    cosines = None if vector is None else chunk_cosines(some, vector)
    counts = concatenate([each.counts for each in some]).astype(np.int64)
    starts, files = np.cumsum(counts) - counts, np.repeat(np.arange(len(counts)), counts)
    asked = sum(times for _, times in query.terms)
    s3 = features.best_three(scores, starts, files)
    nothing = not len(counts)
    return _ChunkSignals(
        starts=starts,
        files=files,
        keys=concatenate([each.segment.keys[each.chunks] for each in some])
        .astype(np.int64)
        .reshape(-1, 2),
        scores=scores,
        covered=covered,
        names=score_chunk_names(some, named),
        cosines=cosines,
        nearest=cosines if cosines is None or nothing else np.fmax.reduceat(cosines, starts),
        of_files={
            "s3": s3,
            "s_mean": scores
            if nothing
            else (np.add.reduceat(scores, starts) / counts).astype(np.float32),
            "s_raw": s3 / np.float32(asked or 1),
        },
    )
