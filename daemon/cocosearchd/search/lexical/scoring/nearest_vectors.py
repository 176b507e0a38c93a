"""Which files have the chunks that are nearest to the vector of a query. Pure.

The angle between two vectors shows in the share of signs that differ (Charikar 2002). So all chunks
are compared by half of their signs, what is close by all of them, and files that are equally near
by the cosines of their means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.scoring.candidate_selection import locate_chunks, select_top
from cocosearchd.search.lexical.scoring.name_scores import file_cosines
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments, concatenate
from cocosearchd.search.lexical.segments.segment import SegmentView, quantise_to_bits

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Distances = NDArray[np.uint8]
# of the numbers of a vector: enough to leave few chunks to look at closely; a byte can count them
ROUGH_BITS = 128
_MAX_DISTANCE = 254  # signs that differ
_NO_VECTOR = 255  # of what has no vector, or is dead
# Chunks looked at closely for each file that is wanted, and at least one of so many chunks:
# recall@10 is .96 at a million chunks, .98 at 100,000, and NDCG@10 over 25 repositories is that of
# comparing every file.
_CHUNKS_PER_FILE, _CHUNK_RATIO = 8, 128
_GROWTH = 4  # times as many, when they are in too few files
_SAMPLE_CHUNKS = 16384  # chunks that say which difference is close
_NARROW_RATIO = 16  # of a choice that leaves one file of so many, all chunks are looked up


@dataclass(frozen=True, slots=True, eq=False)
class NearestVectors:
    """The vectors of living files beside that of a query: `lexical_choice.VectorScores`."""

    views: Sequence[SegmentView]
    live_documents: LiveDocuments
    vector: Floats
    # by part (C,): how many of the first signs differ from those of the query
    distances: Sequence[Distances]

    def nearest(self, among: Mask | None, count: int) -> Ints:
        """At most `count` files whose nearest chunks share the most signs with the query; of equals
        the nearer means.

        Numbers of living files. `among` (F,): of which they are; None: of all.
        """
        wanted = max(count * _CHUNKS_PER_FILE, sum(map(len, self.distances)) // _CHUNK_RATIO)
        while True:
            limit, chunks = self._close(among, wanted)
            files, differ = self._of_files(chunks)
            if len(files) >= count or limit >= _MAX_DISTANCE:
                break
            wanted *= _GROWTH
        if len(files) <= count:
            return files
        last = np.partition(differ, count - 1)[count - 1]
        sure, equal = files[differ < last], files[differ == last]
        means = np.nan_to_num(self.means(equal))
        return np.concatenate(
            [sure, select_top(equal, means, count - len(sure), self.live_documents.paths)]
        )

    def means(self, files: Ints) -> Floats:
        """(f,): the cosines of the means of the vectors of some files, ascending; NaN where one has
        none.
        """
        return file_cosines(self.views, self.live_documents.by_segment(files), self.vector)

    def _close(self, among: Mask | None, wanted: int) -> tuple[int, list[Ints]]:
        """By part the chunks within the difference that about `wanted` chunks are within; that
        difference.
        """
        if among is None:
            limit = self._limit(wanted)
            return limit, [np.flatnonzero(differ <= limit) for differ in self.distances]
        allowed = np.flatnonzero(among)
        by_part = self.live_documents.by_segment(allowed)
        if len(allowed) * _NARROW_RATIO <= len(among):
            some = [
                locate_chunks(part.segment, files).chunks
                for part, files in zip(self.views, by_part, strict=True)
            ]
            values = [
                differ.take(chunks) for differ, chunks in zip(self.distances, some, strict=True)
            ]
            limit = _quantile(concatenate(values), wanted)
            return limit, [
                chunks[value <= limit] for chunks, value in zip(some, values, strict=True)
            ]
        limit = self._limit(wanted * len(among) // len(allowed))
        found = []
        for part, differ, files in zip(self.views, self.distances, by_part, strict=True):
            chunks, known = (
                np.flatnonzero(differ <= limit),
                np.zeros(part.segment.file_count, np.bool_),
            )
            known[files] = True
            found.append(chunks[known.take(part.segment.chunk_files.take(chunks))])
        return limit, found

    def _limit(self, wanted: int) -> int:
        """The difference that about `wanted` of all chunks are within."""
        total = sum(map(len, self.distances))
        step = max(1, total // _SAMPLE_CHUNKS)
        return _quantile(concatenate([differ[::step] for differ in self.distances]), wanted // step)

    def _of_files(self, chunks: Sequence[Ints]) -> tuple[Ints, NDArray[np.int16]]:
        """The files of some chunks, as ascending numbers of living ones; the least difference of
        all signs of each.
        """
        asked = quantise_to_bits(self.vector[None])[:, 0]
        files, least = [np.zeros(0, np.int64)], [np.zeros(0, np.int16)]
        for part, local, start, some in zip(
            self.views,
            self.live_documents.segment_files,
            self.live_documents.starts,
            chunks,
            strict=True,
        ):
            if not len(some):
                continue
            differ = np.zeros(len(some), np.int16)
            for word, one in zip(part.segment.binary_vectors, asked, strict=True):
                differ += np.bitwise_count(word.take(some) ^ one)
            owners = part.segment.chunk_files.take(some)
            firsts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
            numbers = owners[firsts].astype(np.int64)
            files.append(
                (numbers if part.alive is None else np.searchsorted(local, numbers)) + start
            )
            least.append(np.minimum.reduceat(differ, firsts))
        return np.concatenate(files), np.concatenate(least)


def compare_vectors(
    parts: Sequence[SegmentView], living: LiveDocuments, vector: Floats
) -> NearestVectors:
    """Compare all living chunks of `parts` roughly with `vector`, (dimension,)."""
    asked = quantise_to_bits(vector[None])[:, 0]
    return NearestVectors(
        parts, living, vector, [_rough_distances(part, asked, len(vector)) for part in parts]
    )


def _rough_distances(part: SegmentView, asked: NDArray[np.uint64], dimension: int) -> Distances:
    segment = part.segment
    if segment.vectors.shape[1] != dimension or not dimension:
        return np.full(segment.chunk_count, _NO_VECTOR, np.uint8)
    words = segment.binary_vectors[: ROUGH_BITS // 64]
    differ: Distances = np.bitwise_count(words[0] ^ asked[0])
    for word, one in zip(words[1:], asked[1:], strict=False):
        differ += np.bitwise_count(word ^ one)
    differ[segment.without_vector] = _NO_VECTOR
    if part.alive_chunks is not None:
        differ[~part.alive_chunks] = _NO_VECTOR
    return differ


def _quantile(values: Distances, place: int) -> int:
    """The value of which about `place` of the values are not above, at most `_MAX_DISTANCE`."""
    if place >= len(values):
        return _MAX_DISTANCE
    return min(int(np.partition(values, place)[place]), _MAX_DISTANCE)
