"""Arrays in text format are read as if the driver had written them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.store.chunks.arrays import (
    EMPTY_ARRAY,
    array_literal,
    number_array_literal,
    parse_number_array,
)
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
            [array_literal(texts), array_literal(raw), array_literal(numbers), array_literal([])],
        )
        assert await cursor.fetchone() == (texts, raw, numbers, [])


@given(st.sets(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_come_back(numbers: set[int]) -> None:
    assert parse_number_array(number_array_literal(sorted(numbers))) == numbers
    assert number_array_literal(sorted(numbers)) == array_literal(sorted(numbers))
    assert (array_literal([]), parse_number_array(EMPTY_ARRAY)) == (EMPTY_ARRAY, frozenset())
