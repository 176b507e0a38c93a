"""One corpus of the live files of one index, or of several small indexes, with their statistics.

The files and chunks of all indexes have one numbering. Therefore a few operations on large arrays
score a question to many small indexes. Operations that compare files with each other work within
the group of an index.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.array_types import Floats, Ints, Mask, concatenate, join_ranges
from cocosearchd.search.lexical.ranking_signals import joined_stem
from cocosearchd.search.lexical.row_groups import Groups, make_groups
from cocosearchd.search.lexical.scoring.part_names import PartNames
from cocosearchd.search.lexical.scoring.vector_products import WidenedRows, widen_rows
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments, join_arrays
from cocosearchd.search.lexical.segments.path_names import FileStems, PathNames, make_file_stems
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """Counts and average lengths of the live documents of an index."""

    files: int
    chunks: int
    chunk_average: float  # mean number of terms of a chunk
    file_averages: tuple[float, ...]  # the same of a file: everything, defined, commented, path


@dataclass(frozen=True, slots=True)
class CandidateFiles:
    """The candidate files of one segment: f files, c chunks."""

    segment: Segment
    files: Ints  # (f,): numbers in the segment, ascending
    counts: Ints  # (f,): number of chunks of each file
    chunks: Ints  # (c,): numbers in the segment, ascending

    @property
    def are_all(self) -> bool:
        """True if every file of the segment is a candidate: then chunks keep their numbers."""
        return len(self.files) == self.segment.file_count


def locate_chunks(segment: Segment, files: Ints) -> CandidateFiles:
    """Locate the chunks of `files` of a segment."""
    starts = segment.chunk_starts[files]
    counts = segment.chunk_ends[files] - starts
    return CandidateFiles(segment, files, counts, join_ranges(starts, counts))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The candidate files of a corpus: f files, c chunks, in the order of the views."""

    by_view: tuple[CandidateFiles, ...]
    files: Ints  # (f,): numbers of live files, ascending
    file_groups: Groups  # of the files, by index
    counts: Ints  # (f,): number of chunks of each file
    starts: Ints  # (f,): the first chunk of each file
    chunk_files: Ints  # (c,): the file of each chunk
    chunk_groups: Groups  # of the chunks, by index
    chunk_starts: Ints  # (V,): the first chunk of each view
    keys: Ints  # (c, 2)
    lengths: Floats  # (c,): terms of text and header
    defines: Mask  # (c,): a definition begins in the chunk


@dataclass(frozen=True, eq=False)
class Corpus:
    """The live files of one index, or of several non-empty indexes: V views, F files.

    Corpora are compared by identity.
    """

    views: tuple[SegmentView, ...]
    path_names: tuple[PathNames, ...]
    definition_masks: tuple[Mask, ...]  # by view: the chunks in which a definition begins
    view_groups: Groups  # of the views, by index
    live: LiveDocuments
    statistics: tuple[FieldStatistics, ...]  # by index
    parts: tuple["Corpus", ...] = ()  # the corpora that are joined in this one

    @cached_property
    def file_groups(self) -> Groups:
        """The groups of the live files, by index."""
        return make_groups([statistics.files for statistics in self.statistics])

    @cached_property
    def file_counts(self) -> Ints:
        """The number of files of each index, (G,)."""
        return np.array([statistics.files for statistics in self.statistics], np.int64)

    @cached_property
    def chunk_counts(self) -> Ints:
        """The number of chunks of each index, (G,)."""
        return np.array([statistics.chunks for statistics in self.statistics], np.int64)

    @cached_property
    def chunk_averages(self) -> Floats:
        """The average length of a chunk of each index, (G,)."""
        return np.array([statistics.chunk_average for statistics in self.statistics], np.float32)

    @cached_property
    def file_averages(self) -> Floats:
        """The average lengths of a file of each index, (G, 4)."""
        return np.array(
            [statistics.file_averages for statistics in self.statistics], np.float32
        ).reshape(len(self.statistics), 4)

    @cached_property
    def file_lengths(self) -> Floats:
        """The lengths of each live file, (F, 4)."""
        lengths: Floats = concatenate(
            [view.segment.file_lengths[view.live_files] for view in self.views], np.float32
        ).reshape(-1, 4)
        return lengths

    @cached_property
    def file_stems(self) -> tuple[FileStems, ...]:
        """The names of all files, by view; for several indexes, one table with all names."""
        if not self.parts:
            return tuple(names.file_stems for names in self.path_names)
        return (make_file_stems([path for names in self.path_names for path in names.paths]),)

    @cached_property
    def live_files(self) -> Mask | None:
        """The mask of the live files among all files of the views; None if all are live."""
        if all(view.alive is None for view in self.views):
            return None
        alive = [
            np.ones(view.segment.file_count, np.bool_) if view.alive is None else view.alive
            for view in self.views
        ]
        return np.concatenate(alive)

    def score_names(self, score: Callable[[FileStems], Floats]) -> Floats:
        """Score the live files by their names, (F,)."""
        values: Floats = join_arrays([score(stems) for stems in self.file_stems])
        return values if self.live_files is None else values[self.live_files]

    def find_stem(self, stem: str) -> Iterator[int]:
        """Yield the live files of one index with a name without suffix, ascending.

        Case, `-`, `_` and `.` do not count.
        """
        key = joined_stem(stem.lower())
        for view, names in enumerate(self.path_names):
            number = names.file_stems.stem_numbers.get(key)
            if number is not None:
                files, _ = self.number_files(view, names.file_stems.files_of(number))
                yield from files.tolist()

    @cached_property
    def part_names(self) -> PartNames:
        """The names of the files of each joined corpus, made when a report first needs them."""
        return PartNames(part.live.paths for part in self.parts)

    @cached_property
    def defining_rows(self) -> tuple[Ints, ...]:
        """The rows of files with a definition that has the term in its name, by view, ascending.

        Computed by the first report after a commit.
        """
        return tuple(np.flatnonzero(view.segment.posting_defined) for view in self.views)

    @cached_property
    def sample_vectors(self) -> WidenedRows:
        """The mean vectors of the sample of files: 1 MB, widened by the first question to a large
        index after a commit.
        """
        selections = list(zip(self.views, self.live.by_segment(self.live.sample), strict=True))
        scales = [view.segment.file_scales.take(files) for view, files in selections]
        return widen_rows(
            [(view.segment.file_vectors, files) for view, files in selections],
            concatenate(scales, np.float32),
        )

    @cached_property
    def all_candidates(self) -> Candidates:
        """Every live file as a candidate."""
        return gather_candidates(self, np.arange(len(self.live.paths)))

    def number_files(self, view: int, files: NDArray[np.integer]) -> tuple[Ints, Mask | None]:
        """Convert files of a view to numbers of live files; return the mask of the live ones, too.

        If the mask is None, all `files` are live. Otherwise only live files have a number in the
        result.
        """
        start = self.live.starts[view]
        alive = self.views[view].alive
        if alive is None:
            return files.astype(np.int64) + start, None
        mask = alive.take(files)
        return np.searchsorted(self.live.segment_files[view], files[mask]) + start, mask


def join_corpora(corpora: Sequence[Corpus]) -> Corpus:
    """Join corpora of single indexes. Each index has files."""
    lives = [corpus.live for corpus in corpora]
    offsets = np.cumsum([0, *(len(live.paths) for live in lives)])[:-1]
    return Corpus(
        views=tuple(chain.from_iterable(corpus.views for corpus in corpora)),
        path_names=tuple(chain.from_iterable(corpus.path_names for corpus in corpora)),
        definition_masks=tuple(chain.from_iterable(corpus.definition_masks for corpus in corpora)),
        view_groups=make_groups([len(corpus.views) for corpus in corpora]),
        live=LiveDocuments(
            paths=tuple(chain.from_iterable(live.paths for live in lives)),
            languages=tuple(chain.from_iterable(live.languages for live in lives)),
            segment_files=tuple(chain.from_iterable(live.segment_files for live in lives)),
            ends=np.concatenate(
                [live.ends + offset for live, offset in zip(lives, offsets, strict=True)]
            ),
            sample=np.concatenate(
                [live.sample + offset for live, offset in zip(lives, offsets, strict=True)]
            ),
            file_signals={
                name: np.concatenate([live.file_signals[name] for live in lives])
                for name in lives[0].file_signals
            },
        ),
        statistics=tuple(chain.from_iterable(corpus.statistics for corpus in corpora)),
        parts=tuple(corpora),
    )


def gather_candidates(corpus: Corpus, files: Ints) -> Candidates:
    """Make candidates of live files, with their chunks. `files` are ascending numbers."""
    by_view = tuple(
        locate_chunks(view.segment, numbers)
        for view, numbers in zip(corpus.views, corpus.live.by_segment(files), strict=True)
    )
    counts = concatenate([candidate.counts for candidate in by_view], np.int64)
    sizes = np.array([len(candidate.chunks) for candidate in by_view], np.int64)
    keys = concatenate(
        [candidate.segment.keys.take(candidate.chunks, axis=0) for candidate in by_view], np.int64
    )
    numbers_of_groups = corpus.file_groups.numbers[files]
    sizes_of_groups = np.bincount(numbers_of_groups, minlength=len(corpus.statistics))
    return Candidates(
        by_view=by_view,
        files=files,
        file_groups=make_groups(sizes_of_groups),
        counts=counts,
        starts=np.cumsum(counts) - counts,
        chunk_files=np.repeat(np.arange(len(counts)), counts),
        chunk_groups=make_groups(
            np.bincount(numbers_of_groups, counts, len(corpus.statistics)).astype(np.int64)
        ),
        chunk_starts=np.cumsum(sizes) - sizes,
        keys=keys.reshape(-1, 2),
        lengths=concatenate(
            [candidate.segment.chunk_lengths.take(candidate.chunks) for candidate in by_view],
            np.float32,
        ),
        defines=concatenate(
            [
                mask.take(candidate.chunks)
                for mask, candidate in zip(corpus.definition_masks, by_view, strict=True)
            ],
            np.bool_,
        ),
    )
