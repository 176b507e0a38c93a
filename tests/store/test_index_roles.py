"""A replaced index: its successor gets a generation that neither of the two ever had."""

from dataclasses import replace

import pytest

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.file_facts import file_code
from cocosearchd.store.index_records import drop_index, read_generation
from cocosearchd.store.index_roles import ensure_next_index, promote_index
from cocosearchd.store.precise_use_rows import (
    PreciseUseRow,
    count_precise_uses,
    replace_precise_uses,
)
from cocosearchd.store.reads.file_states import file_states
from tests.store.support import DIMENSION, IDENTITY, file_write, new_index

OTHER = replace(IDENTITY, embedder=(("dimension", str(DIMENSION)), ("model", "other")))


async def write_times(db: Database, record: IndexRecord, count: int) -> int:
    """The generation after that many commits."""
    for number in range(count):
        await replace_file(db, record, file_write("a.py", f"text {number}"))
    return await read_generation(db, record)


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
    assert await read_generation(db, promoted) == promoted.generation


async def test_precise_uses_follow_the_name_and_go_with_the_index(db: Database) -> None:
    current = await new_index(db)
    following = await ensure_next_index(db, current, DIMENSION, OTHER)
    for record in (current, following):
        await replace_file(db, record, file_write("a.py", "text"))
    content_hash = (await file_states(db, current, ["a.py"])).files["a.py"].content_hash
    rows = [PreciseUseRow("a.py", content_hash, b"uses"), PreciseUseRow("b.py", b"", b"")]
    await replace_precise_uses(db, current, rows)
    assert await count_precise_uses(db, current) == (1, 0)  # b.py is no file
    promoted = await promote_index(db, current, following)
    assert await count_precise_uses(db, promoted) == (1, 0)
    (code,) = await file_code(db, promoted, ["a.py"])
    assert (code.content_hash, code.precise_uses) == (content_hash, b"uses")
    await replace_file(db, promoted, file_write("a.py", "other text"))
    assert await count_precise_uses(db, promoted) == (1, 1)
    (code,) = await file_code(db, promoted, ["a.py"])
    assert code.precise_uses == b""
    await drop_index(db, promoted)
    assert await count_precise_uses(db, await new_index(db)) == (0, 0)
