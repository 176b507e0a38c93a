"""Chunks of other files that are like the one at a place, by the stored vectors: no model is asked."""

import numpy as np

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.model import Filter, Hit, IndexRecord
from cocosearchd.search.plan import MAX_LIMIT
from cocosearchd.search.rank import Scored, to_hit
from cocosearchd.store import queries
from cocosearchd.store.pool import Database

CANDIDATES_PER_RESULT = 4  # chunks of one file crowd each other; four for each wanted file leave enough


async def find_related(db: Database, record: IndexRecord, path: str, line: int, limit: int = 10) -> tuple[Hit, ...]:
    """The best chunk of each of at most `limit` other files, most alike first; a score is a cosine similarity.

    Nothing is like a chunk without a vector. Raises `NotFound` if nothing is indexed of that file.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit is {limit}", f"use 1 to {MAX_LIMIT}")
    path = path.removeprefix("./")
    here = await _chunk_at(db, record, path, line)
    if here.vector is None:
        return ()
    vector = np.asarray(here.vector, dtype=np.float32)
    found = await queries.vector_search(db, record, vector, Filter(), CANDIDATES_PER_RESULT * (limit + 1))
    hits, files = list[Hit](), {path}
    for rank, candidate in enumerate(found, 1):
        if candidate.path not in files and len(hits) < limit:
            files.add(candidate.path)
            hits.append(
                to_hit(record.name, Scored(candidate, candidate.score, "semantic", rank, cosine=candidate.score))
            )
    return tuple(hits)


async def _chunk_at(db: Database, record: IndexRecord, path: str, line: int) -> queries.StoredChunk:
    """The chunk that holds a line, or the one before it: lines between chunks are blank."""
    async for file in queries.file_chunks(db, record, [path]):
        before = [chunk for chunk in file.chunks if chunk.start_line <= line]
        if before and line >= 1:
            return max(before, key=lambda chunk: chunk.start_line)
        if file.chunks:
            return file.chunks[0]
    raise NotFound(
        f"index {record.name} has nothing of {path} at line {line}", "`cocosearchctl files` lists what there is"
    )
