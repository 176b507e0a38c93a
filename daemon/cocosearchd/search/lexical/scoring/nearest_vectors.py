"""Selects the files with the chunks that are nearest to the vector of a query. Pure.

The share of differing bits of two binary-quantised vectors estimates their angle (Charikar 2002).
The selection has three steps: the first bits of all chunks are compared, then all bits of the close
chunks; files at equal distances are compared by the cosines of their mean vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.array_types import Floats, Ints, Mask, mark_changes
from cocosearchd.search.lexical.scoring.candidate_selection import select_top
from cocosearchd.search.lexical.scoring.corpus import locate_chunks
from cocosearchd.search.lexical.scoring.name_scores import file_cosines
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments, join_arrays
from cocosearchd.search.lexical.segments.segment import SegmentView, quantise_to_bits

Distances = NDArray[np.uint8]
# First bits of a vector: enough to leave few chunks for a close comparison, and a byte can count
# them.
ROUGH_BITS = 128
_MAX_DISTANCE = 254  # differing bits
_NO_VECTOR = 255  # distance of a chunk that has no vector or is dead
# Close comparisons: so many chunks per file to select, but at least one in `_CHUNK_RATIO` of all
# chunks. Recall@10 is 0.96 at a million chunks and 0.98 at 100,000. NDCG@10 over 25 repositories is
# the same as with a comparison of every file.
_CHUNKS_PER_FILE = 8
_CHUNK_RATIO = 128
_GROWTH = 4  # factor for the number of chunks if they are in too few files
_SAMPLE_CHUNKS = 16384  # chunks from which the limit is estimated
# If a filter passes at most one file in so many, all chunks of these files are compared.
_NARROW_RATIO = 16


@dataclass(frozen=True, slots=True, eq=False)
class NearestVectors:
    """Distances of the vectors of live files to the vector of a query: a `VectorScores`."""

    views: Sequence[SegmentView]
    live_documents: LiveDocuments
    vector: Floats
    # by view, (C,): differing bits among the first `ROUGH_BITS` bits
    distances: Sequence[Distances]

    def nearest(self, among: Mask | None, count: int) -> Ints:
        """Select at most `count` files whose nearest chunks differ least from the query in bits.

        Files at equal distances are ordered by their mean vectors. Returns numbers of live files.
        `among`, (F,), marks the files to select from; None for all.
        """
        chunk_target = max(count * _CHUNKS_PER_FILE, sum(map(len, self.distances)) // _CHUNK_RATIO)
        while True:
            limit, chunks = self._find_close_chunks(among, chunk_target)
            files, distances = self._group_by_file(chunks)
            if len(files) >= count or limit >= _MAX_DISTANCE:
                break
            chunk_target *= _GROWTH
        if len(files) <= count:
            return files
        cutoff = np.partition(distances, count - 1)[count - 1]
        closer = files[distances < cutoff]
        ties = files[distances == cutoff]
        means = self.means(ties)
        means[np.isnan(means)] = 0
        return np.concatenate(
            [closer, select_top(ties, means, count - len(closer), self.live_documents.paths)]
        )

    def means(self, files: Ints) -> Floats:
        """Compute the cosines of the mean vectors of `files`, which are ascending: (f,).

        It is NaN for a file without vectors.
        """
        return file_cosines(self.views, self.live_documents.by_segment(files), self.vector)

    def _find_close_chunks(self, among: Mask | None, target: int) -> tuple[int, list[Ints]]:
        """Find a distance that about `target` chunks do not exceed, and these chunks by view."""
        if among is None:
            limit = self._estimate_limit(target)
            return limit, [(distances <= limit).nonzero()[0] for distances in self.distances]
        allowed = np.flatnonzero(among)
        files_by_segment = self.live_documents.by_segment(allowed)
        if len(allowed) * _NARROW_RATIO <= len(among):
            candidates = [
                locate_chunks(view.segment, files).chunks
                for view, files in zip(self.views, files_by_segment, strict=True)
            ]
            values = [
                distances.take(chunks)
                for distances, chunks in zip(self.distances, candidates, strict=True)
            ]
            limit = _quantile(join_arrays(values), target)
            return limit, [
                chunks[distances_of_view <= limit]
                for chunks, distances_of_view in zip(candidates, values, strict=True)
            ]
        limit = self._estimate_limit(target * len(among) // len(allowed))
        close = []
        for view, distances, files in zip(
            self.views, self.distances, files_by_segment, strict=True
        ):
            chunks = np.flatnonzero(distances <= limit)
            selected = np.zeros(view.segment.file_count, np.bool_)
            selected[files] = True
            close.append(chunks[selected.take(view.segment.chunk_files.take(chunks))])
        return limit, close

    def _estimate_limit(self, target: int) -> int:
        """Estimate the distance that about `target` of all chunks do not exceed."""
        total = sum(map(len, self.distances))
        step = max(1, total // _SAMPLE_CHUNKS)
        return _quantile(
            join_arrays([distances[::step] for distances in self.distances]), target // step
        )

    def _group_by_file(self, chunks: Sequence[Ints]) -> tuple[Ints, NDArray[np.int16]]:
        """Find the files of chunks, as ascending numbers of live files, and their least distances.

        Here the distances count all bits.
        """
        query_words = quantise_to_bits(self.vector[None])[:, 0]
        files = [np.zeros(0, np.int64)]
        least = [np.zeros(0, np.int16)]
        for view, segment_files, start, selected in zip(
            self.views,
            self.live_documents.segment_files,
            self.live_documents.starts,
            chunks,
            strict=True,
        ):
            if not len(selected):
                continue
            words = view.segment.binary_vectors.take(selected, axis=1)
            words ^= query_words[:, None]
            distances = np.bitwise_count(words).sum(axis=0, dtype=np.int16)
            owners = view.segment.chunk_files.take(selected)
            (firsts,) = mark_changes(owners).nonzero()
            numbers = owners[firsts].astype(np.int64)
            files.append(
                (numbers if view.alive is None else np.searchsorted(segment_files, numbers)) + start
            )
            least.append(np.minimum.reduceat(distances, firsts))
        return np.concatenate(files), np.concatenate(least)


def compare_vectors(
    views: Sequence[SegmentView], live: LiveDocuments, vector: Floats
) -> NearestVectors:
    """Compare the first bits of all live chunks of `views` with `vector`, (dimension,)."""
    query_words = quantise_to_bits(vector[None])[:, 0]
    return NearestVectors(
        views, live, vector, [_rough_distances(view, query_words, len(vector)) for view in views]
    )


def _rough_distances(
    view: SegmentView, query_words: NDArray[np.uint64], dimension: int
) -> Distances:
    """Count the differing bits among the first bits, (C,).

    It is `_NO_VECTOR` for dead chunks and chunks without a vector.
    """
    segment = view.segment
    if segment.vectors.shape[1] != dimension or not dimension:
        return np.full(segment.chunk_count, _NO_VECTOR, np.uint8)
    words = segment.binary_vectors[: ROUGH_BITS // 64]
    distances: Distances = np.bitwise_count(words[0] ^ query_words[0])
    for word, query_word in zip(words[1:], query_words[1:], strict=False):
        distances += np.bitwise_count(word ^ query_word)
    distances[segment.without_vector] = _NO_VECTOR
    if view.alive_chunks is not None:
        distances[~view.alive_chunks] = _NO_VECTOR
    return distances


def _quantile(values: Distances, rank: int) -> int:
    """Return the value that about `rank` of the values do not exceed; at most `_MAX_DISTANCE`."""
    if rank >= len(values):
        return _MAX_DISTANCE
    # counting 256 possible values takes a third of the time of a partition
    ranks = np.cumsum(np.bincount(values))
    return min(int(ranks.searchsorted(rank, side="right")), _MAX_DISTANCE)
