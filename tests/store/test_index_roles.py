"""A replaced index: the one that takes its name has a generation that neither of the two ever
had.
"""

from dataclasses import replace

import pytest

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.queries import replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import generation
from cocosearchd.store.index_roles import ensure_next_index, promote_index
from tests.store.support import DIMENSION, IDENTITY, file_write, new_index

OTHER = replace(IDENTITY, embedder=(("dimension", str(DIMENSION)), ("model", "other")))


async def write_times(db: Database, record: IndexRecord, count: int) -> int:
    """The generation after that many commits."""
    for number in range(count):
        await replace_file(db, record, file_write("a.py", f"text {number}"))
    return await generation(db, record)


@pytest.mark.parametrize(
    ("former_commits", "next_commits"), [(5, 1), (1, 5), (3, 3), (0, 0), (4, 0)]
)
async def test_a_promoted_index_lies_above_both(
    db: Database, former_commits: int, next_commits: int
) -> None:
    """A cache key holds name and generation: one that either index had would answer with the
    other's hits.
    """
    current = await new_index(db)
    following = await ensure_next_index(db, current, DIMENSION, OTHER)
    previous = (
        await write_times(db, current, former_commits),
        await write_times(db, following, next_commits),
    )
    promoted = await promote_index(db, current, following)
    assert (promoted.name, promoted.number) == (current.name, following.number)
    assert promoted.generation > max(previous)
    assert await generation(db, promoted) == promoted.generation
