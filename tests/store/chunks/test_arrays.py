"""Arrays that are written by hand are read as what the driver would have written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.store.chunks.arrays import NONE, array, array_of_numbers, numbers_in
from cocosearchd.store.connection.database import Database

AWKWARD = [
    "",
    "NULL",
    "null",
    " ",
    "a,b",
    '"',
    "\\",
    '\\"',
    "{}",
    "{a}",
    "'",
    "%s",
    "\n\t\x01",
    "é 漢 🦊",
    "\\x00",
    "$1",
]


@pytest.mark.anyio
async def test_postgresql_reads_what_was_meant(db: Database) -> None:
    texts = [*AWKWARD, None, *(first + second for first in AWKWARD for second in AWKWARD)]
    raw = [b"", b"\0", b"\\", bytes(range(256)), None]
    numbers = [0, -1, 2**63 - 1, -(2**63), None]
    async with db.connection() as connection:
        cursor = await connection.execute(
            "select %s::text[], %s::bytea[], %s::int8[], %s::text[]",
            [array(texts), array(raw), array(numbers), array([])],
        )
        assert await cursor.fetchone() == (texts, raw, numbers, [])


@given(st.sets(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_come_back(numbers: set[int]) -> None:
    assert numbers_in(array_of_numbers(sorted(numbers))) == numbers
    assert array_of_numbers(sorted(numbers)) == array(sorted(numbers))
    assert (array([]), numbers_in(NONE)) == (NONE, frozenset())
