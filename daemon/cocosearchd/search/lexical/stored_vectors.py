"""Reads vectors from PostgreSQL for loaded segments whose files leave them out.

If a row has not changed since a segment was saved, it has the vector that the segment was built
from, and quantising this vector gives the unchanged_files numbers again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.search.lexical.analysis.documents import quantise_to_int8
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView, quantise_to_bits
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.index_texts import FileVectors, file_vectors

Number = TypeVar("Number", bound=np.generic)
# Chunks per query: 5 MB of rows with 256 dimensions.
_CHUNKS_PER_QUERY = 10_000


@dataclass(frozen=True, slots=True)
class _Location:
    """The position of a file in a segment, and the generation of the file there."""

    file: int
    generation: int
    chunks: slice


class _VectorFiller:
    """Collects the vectors of one segment while they are read."""

    def __init__(self, view: SegmentView) -> None:
        segment = view.segment
        self._view = view
        self._vectors = np.zeros(segment.vectors.shape, np.int8)
        self._is_filled = np.zeros(segment.file_count, np.bool_)
        self._alive = np.ones(segment.file_count, np.bool_) if view.alive is None else view.alive
        self.locations: Mapping[str, _Location] = {
            path: _Location(number, generation, slice(start, end))
            for number, (path, generation, start, end) in enumerate(
                zip(
                    segment.path_list(),
                    view.generations.tolist(),
                    segment.chunk_starts.tolist(),
                    segment.chunk_ends.tolist(),
                    strict=True,
                )
            )
            if self._alive[number]
        }

    def path_groups(self) -> Iterator[list[str]]:
        """Yield groups of live files with a bounded number of chunks; a larger file is a group."""
        group = list[str]()
        chunks = 0
        for path, location in self.locations.items():
            size = location.chunks.stop - location.chunks.start
            if group and chunks + size > _CHUNKS_PER_QUERY:
                yield group
                group = []
                chunks = 0
            group.append(path)
            chunks += size
        if group:
            yield group

    def fill(self, files: Iterable[FileVectors]) -> None:
        """Quantise and store the vectors of files that are unchanged since the segment was saved."""
        unchanged_files = [file for file in files if self._is_same(file)]
        if not unchanged_files:
            return
        vectors, scales = quantise_to_int8(
            np.concatenate([file.vectors for file in unchanged_files])
        )
        first = 0
        for file in unchanged_files:
            location = self.locations[file.path]
            last = first + len(file.vectors)
            self._vectors[location.chunks] = vectors[first:last]
            # Different scales prove that the vectors differ.
            self._is_filled[location.file] = np.array_equal(
                self._view.segment.scales[location.chunks], scales[first:last]
            )
            first = last

    def _is_same(self, file: FileVectors) -> bool:
        location = self.locations[file.path]
        size = location.chunks.stop - location.chunks.start
        return file.generation == location.generation and len(file.vectors) == size

    def view(self) -> SegmentView:
        """Return the view with vectors.

        Files that got no vectors are dead and can never be restored.
        """
        segment = replace(
            self._view.segment,
            vectors=_freeze(self._vectors),
            binary_vectors=_freeze(quantise_to_bits(self._vectors)),
            digests=_freeze(np.where(self._is_filled, self._view.segment.digests, 0)),
        )
        unfilled_files = np.flatnonzero(self._alive & ~self._is_filled).tolist()
        view = replace(self._view, segment=segment)
        return view.with_deleted(unfilled_files) if unfilled_files else view


async def restore_vectors(
    db: Database, record: IndexRecord, views: Sequence[SegmentView], without_vectors: Set[Segment]
) -> tuple[SegmentView, ...]:
    """Return the views; segments in `without_vectors` get their vectors from PostgreSQL.

    Files that have changed since the save are dead in these views. Raises `StoreUnavailable`.
    """
    return tuple(
        [
            await _restore_view(db, record, view) if view.segment in without_vectors else view
            for view in views
        ]
    )


async def _restore_view(db: Database, record: IndexRecord, view: SegmentView) -> SegmentView:
    filler = _VectorFiller(view)
    async for files in _read_vectors(db, record, filler):
        await asyncio.to_thread(filler.fill, files)
    return await asyncio.to_thread(filler.view)


async def _read_vectors(
    db: Database, record: IndexRecord, filler: _VectorFiller
) -> AsyncIterator[list[FileVectors]]:
    for paths in filler.path_groups():
        yield await file_vectors(db, record, paths)


def _freeze(array: NDArray[Number]) -> NDArray[Number]:
    array.flags.writeable = False
    return array
