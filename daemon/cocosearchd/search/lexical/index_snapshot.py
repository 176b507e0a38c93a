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
    FieldSizes,
    FileHits,
    chunk_scores,
    field_scores,
    file_hits,
    file_scores,
    having_all,
)
from cocosearchd.search.lexical.scoring.candidate_selection import (
    CandidateFiles,
    compared,
    promising,
)
from cocosearchd.search.lexical.scoring.name_scores import (
    DefinedNames,
    chunk_cosines,
    chunk_names,
    defined,
)
from cocosearchd.search.lexical.scoring.nearest_vectors import near
from cocosearchd.search.lexical.segments.live_documents import (
    Choice,
    LiveDocuments,
    joined,
    living_files,
    of_living,
)
from cocosearchd.search.lexical.segments.path_names import (
    PathNames,
    best_name_match,
    names_asked,
    path_names,
    stem_coverage,
)
from cocosearchd.search.lexical.segments.segment import SegmentView
from cocosearchd.search.lexical.segments.segment_merge import MergePolicy, merges, replaced

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
SIGNALS = (
    "s3", "s_mean", "s_raw", "f_all", "f_def", "f_com", "f_path", "p_s", "symF", "symI", "sole", "stemeq",
    "test", "prose", "hub", "depth", "lsize",
)  # fmt: skip
_OF_FILES = ("f_all", "p_s", "symF", "symI", "whole", "stemeq")


@dataclass(frozen=True)
class IndexSnapshot:
    """Parts, the names of their files, and the sizes of what is alive in them."""

    parts: tuple[SegmentView, ...]
    names: tuple[PathNames, ...]
    generation: int
    sizes: FieldSizes

    @property
    def files(self) -> int:
        """How many files are alive."""
        return self.sizes.files

    @property
    def chunks(self) -> int:
        """How many chunks are alive."""
        return self.sizes.chunks

    @cached_property
    def common(self) -> tuple[str, ...]:
        """The names of the language that nearly all code is written in."""
        return features.common_language(sum(map(_spoken, self.parts, self.names), Counter[str]()))

    @cached_property
    def living(self) -> LiveDocuments:
        """Made by the first query after a commit, since many a commit is not followed by one."""
        return living_files(self.parts, self.names)


def _spoken(part: SegmentView, names: PathNames) -> Counter[str]:
    """How many living files are in each language."""
    if part.alive is None:
        return names.spoken
    dead = np.flatnonzero(~part.alive)
    if 2 * len(dead) < len(part.alive):
        return names.spoken - Counter(map(names.languages.__getitem__, dead.tolist()))
    return Counter(map(names.languages.__getitem__, np.flatnonzero(part.alive).tolist()))


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """What the compared files are measured against: all living ones."""

    named: float  # the largest share of a file's name that the question explains
    cosine: float  # the mean of the cosines of files, and their deviation
    deviation: float


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
    among: CorpusStatistics
    starts: Ints  # (F,): first chunk of each file
    chunk_files: Ints  # (C,): the file of each chunk
    keys: Ints  # (C, 2)
    compared: Sequence[CandidateFiles]  # by part of the state: where they are in it
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
class _Chunks:
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


def view(parts: Sequence[SegmentView], generation: int, *known: IndexSnapshot) -> IndexSnapshot:
    """A state over `parts`. The names of segments that one of the `known` has as well are taken
    from it.
    """
    read = {
        id(part.segment): names
        for one in known
        for part, names in zip(one.parts, one.names, strict=True)
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
        parts=tuple(parts),
        names=tuple(read.get(id(part.segment)) or path_names(part.segment) for part in parts),
        generation=generation,
        sizes=FieldSizes(
            files, chunks, chunk_sum / max(chunks, 1), tuple((file_sums / max(files, 1)).tolist())
        ),
    )


def merged(
    state: IndexSnapshot, order: MergePolicy
) -> Callable[[IndexSnapshot], IndexSnapshot] | None:
    """What merges of the parts of `state` make of a later view; None if there is nothing to
    merge.
    """
    made = merges(state.parts, order)
    if not made:
        return None
    names = view(
        [SegmentView(each.segment) for each in made if each.segment is not None], state.generation
    )
    return lambda now: view(replaced(state.parts, made, now.parts), now.generation, now, names)


def evidence(
    state: IndexSnapshot,
    query: QueryTerms,
    terms: TermCache,
    vector: Floats | None = None,
    choice: Choice | None = None,
    shown: int = 0,
) -> FeatureMatrix:
    """What is known of the compared files. `vector`: of the query, (dimension,). `choice`: which
    files may be shown.

    In a large index the promising files are compared: those of the whole, so that a choice does not
    change how files stand to each other, and those of the choice; `shown` is how many are going to
    be shown.
    """
    living = state.living
    named = [defined(part.segment, query) for part in state.parts]
    hits = file_hits(state.parts, query)
    values = _of_all_files(state, query, terms, named, hits)
    close = None if vector is None else near(state.parts, living, vector)
    allowed = None if choice is None else choice(living)
    files = promising(values, close, allowed, shown, living.paths)
    some = [
        compared(part.segment, each)
        for part, each in zip(state.parts, living.by_part(files), strict=True)
    ]
    mean, deviation = (0.0, 1.0) if close is None else features.spread(close.means(living.sample))
    fields = field_scores(hits, state.sizes, query, some)
    chunks = _of_chunks(state, query, named, some, vector)
    cosines = None if close is None else close.means(files)
    return FeatureMatrix(
        generation=state.generation,
        paths=tuple(map(living.paths.__getitem__, files.tolist())),
        languages=tuple(map(living.languages.__getitem__, files.tolist())),
        allowed=None if allowed is None else allowed[files],
        values={name: each[files] for name, each in (values | living.places).items()}
        | fields
        | chunks.of_files,
        among=CorpusStatistics(float(values["p_s"].max(initial=0)), mean, deviation),
        starts=chunks.starts,
        chunk_files=chunks.files,
        keys=chunks.keys,
        compared=some,
        chunk_scores=chunks.scores,
        chunk_names=chunks.names,
        chunk_coverage=chunks.covered,
        cosines=chunks.cosines,
        file_cosines=cosines,
        best_cosines=None
        if chunks.nearest is None or cosines is None
        else np.fmax(chunks.nearest, cosines),
    )


def _of_all_files(
    state: IndexSnapshot,
    query: QueryTerms,
    terms: TermCache,
    named: Sequence[DefinedNames],
    hits: Sequence[FileHits],
) -> dict[str, Floats]:
    """What words and names say of each living file: signal -> (F,)."""
    asked = names_asked(query.words, [terms.stem(word) for word in query.words], query.shares)
    rows: list[dict[str, Floats]] = [
        {
            "f_all": words,
            **found.of_files,
            "p_s": stem_coverage(names, asked),
            "stemeq": best_name_match(names, query.identifiers),
        }
        for words, found, names in zip(
            file_scores(hits, state.sizes, query), named, state.names, strict=True
        )
    ]
    values = {name: of_living(state.parts, [each[name] for each in rows]) for name in _OF_FILES}
    # The name as asked goes before any part of it. What no file defines, in any case, is where its
    # words are.
    used = (
        of_living(state.parts, having_all(hits))
        if query.symbol and not values["symI"].any()
        else None
    )
    values["sole"] = features.sole(values.pop("whole"), values["symF"], used)
    return values


def _of_chunks(
    state: IndexSnapshot,
    query: QueryTerms,
    named: Sequence[DefinedNames],
    some: Sequence[CandidateFiles],
    vector: Floats | None,
) -> _Chunks:
    """What the chunks of the compared files say, parts in order."""
    scores, covered = chunk_scores(state.parts, state.sizes, query, some)
    cosines = None if vector is None else chunk_cosines(some, vector)
    counts = joined([each.counts for each in some]).astype(np.int64)
    starts, files = np.cumsum(counts) - counts, np.repeat(np.arange(len(counts)), counts)
    asked = sum(times for _, times in query.terms)
    s3 = features.best_three(scores, starts, files)
    nothing = not len(counts)
    return _Chunks(
        starts=starts,
        files=files,
        keys=joined([each.segment.keys[each.chunks] for each in some])
        .astype(np.int64)
        .reshape(-1, 2),
        scores=scores,
        covered=covered,
        names=chunk_names(some, named),
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
