"""Finds chunks of other files that are similar to the chunk at a line, by stored vectors alone."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cocosearchd.config.settings import MAX_RESULTS
from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import Chunk, Hit, IndexRecord
from cocosearchd.search.overlay import Overlay, best_candidates
from cocosearchd.search.places import ScoredResult, to_hit
from cocosearchd.search.request_limits import check_range
from cocosearchd.search.scored_candidates import ScoredCandidate
from cocosearchd.store.chunks.rows import Candidate, StoredChunk
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import chunk_reads

# Several chunks of one file often rank close together: four candidates for each result leave enough
# files.
CANDIDATES_PER_RESULT = 4


async def find_related(
    db: Database,
    record: IndexRecord,
    path: str,
    line: int,
    limit: int = 10,
    overlay: Overlay | None = None,
) -> tuple[Hit, ...]:
    """Return the best chunk of each of at most `limit` other files, by descending cosine.

    A chunk without a vector has no related chunks. Raises `NotFound` if the index has no text of
    that file, and `InvalidInput` if the line or the limit is out of range.
    """
    if line < 1:
        raise InvalidInput(f"line is {line}", "lines count from 1")
    check_range("limit", limit, 1, MAX_RESULTS)
    path = path.removeprefix("./")
    vector = await _vector_at(db, record, path, line, overlay)
    if vector is None:
        return ()
    count = CANDIDATES_PER_RESULT * (limit + 1)
    any_file = Filter()
    stored_filter = overlay.exclude_overlaid(any_file) if overlay else any_file
    candidates = await chunk_reads.vector_search(db, record, vector, stored_filter, count)
    if overlay is not None:
        candidates = best_candidates(
            (*candidates, *overlay.compare_vectors(any_file, vector)), count
        )
    hits = list[Hit]()
    files = {path}
    for rank, candidate in enumerate(candidates, 1):
        if candidate.path not in files and len(hits) < limit:
            files.add(candidate.path)
            hits.append(to_hit(record.name, ScoredResult(_score_by_cosine(candidate, rank))))
    return tuple(hits)


def _score_by_cosine(candidate: Candidate, rank: int) -> ScoredCandidate:
    """Return a candidate of a vector search with its cosine as score and as relevance."""
    return ScoredCandidate(
        candidate,
        candidate.score,
        "semantic",
        rank,
        cosine=candidate.score,
        relevance=max(0.0, candidate.score),
    )


async def _vector_at(
    db: Database, record: IndexRecord, path: str, line: int, overlay: Overlay | None
) -> NDArray[np.float32] | None:
    """Return the vector of the chunk at a line; None if that chunk has no vector."""
    unsaved = overlay.files.get(path) if overlay else None
    if unsaved is not None and unsaved.chunks:
        number = _chunk_at(path, unsaved.chunks, line)
        return unsaved.vectors[number] if unsaved.vectors[number].any() else None
    async for file in chunk_reads.file_chunks(db, record, [path]):
        if file.chunks and unsaved is None:
            vector = file.chunks[_chunk_at(path, file.chunks, line)].vector
            return None if vector is None else np.asarray(vector, dtype=np.float32)
    raise NotFound(
        f"index {record.name} has nothing of {path} at line {line}",
        "`cocosearchctl files` lists what is indexed",
    )


def _chunk_at(path: str, chunks: Sequence[Chunk] | Sequence[StoredChunk], line: int) -> int:
    """Return the number of the chunk that contains a line, else of the chunk before the line.

    Lines between chunks are blank. For a line above all chunks, the result is the first chunk.
    Raises `InvalidInput` for a line below all chunks: the caller may mean another file or another
    version of this file.
    """
    if line > (end := max(chunk.end_line for chunk in chunks)):
        raise InvalidInput(
            f"{path} has no text at line {line}, only up to line {end}", "name a line up to there"
        )
    return max(0, bisect_right([chunk.start_line for chunk in chunks], line) - 1)
