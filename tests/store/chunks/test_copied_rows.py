"""Rows in PostgreSQL equal the rows that were encoded for COPY, or sent as parameters."""

from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.copied_rows import BLOCK_ROWS, encode_copy
from cocosearchd.store.chunks.rows import COPY_TYPES, Row, chunk_parameters
from cocosearchd.store.chunks.sent_vectors import decode_vectors, encode_vectors, sent_size
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.statements import compose, statement
from tests.store.support import DIMENSION, new_index

WriteRows = Callable[[Connection, IndexRecord, list[Row]], Awaitable[None]]

STORED = """
select filename, chunk_number, packed_texts, embedding, language_id, byte_count, line_count,
       symbol_kinds, symbol_names, chunk_hash
from {chunks} order by chunk_number
"""


def make_row(number: int, vector: bytes | None, names: list[str]) -> Row:
    kinds = ["function"] * len(names)
    texts = bytes([0, 255, number % 256])
    return ("ä\\b.py", number, texts, vector, "python", 2**31 - 1, 1, kinds, names, b"")


async def copy_rows(connection: Connection, record: IndexRecord, rows: list[Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(statement("copy_chunks", record)) as copy:
        for block in encode_copy(rows):
            await copy.write(block)


async def insert_rows(connection: Connection, record: IndexRecord, rows: list[Row]) -> None:
    async with connection.pipeline():
        for row in rows:
            await connection.execute(
                statement("insert_chunk", record), chunk_parameters(row), prepare=True
            )


@pytest.mark.parametrize("write_rows", [copy_rows, insert_rows])
async def test_rows_arrive_as_they_were_encoded(db: Database, write_rows: WriteRows) -> None:
    """Nulls, empty lists, characters that other formats escape, and numbers of all sizes."""
    record = await new_index(db)
    vectors = np.random.default_rng(1).standard_normal((2, DIMENSION)).astype(np.float16)
    vectors[1] = 0
    sent = encode_vectors(vectors)
    names = [[], ["a"], ['"{},\\\n\t\\N', "", "名前"]]
    rows = [
        make_row(number << 40, sent[number % 2], names[number % 3])
        for number in range(-1, 2 * BLOCK_ROWS)
    ]
    async with db.connection() as connection:
        await write_rows(connection, record, rows)
        stored = await (await connection.execute(compose(STORED, record))).fetchall()
    vector_column = COPY_TYPES.index("halfvec")
    for row, values in zip(rows, stored, strict=True):
        sent_vector, vector = row[vector_column], values[vector_column]
        other_columns = [*values]
        other_columns[vector_column] = sent_vector
        assert tuple(other_columns) == row
        assert (vector is None) == (sent_vector is None)
        assert vector is None or np.array_equal(vector.to_numpy(), vectors[0])


halves = st.floats(width=16, allow_nan=False)


@given(vectors=arrays(np.float16, st.tuples(st.integers(0, 5), st.just(3)), elements=halves))
def test_sent_vectors_come_back(vectors: np.ndarray) -> None:
    sent = encode_vectors(vectors)
    assert [vector is None for vector in sent] == [not row.any() for row in vectors]
    assert all(len(vector) == sent_size(3) for vector in sent if vector is not None)
    assert np.array_equal(decode_vectors(sent, 3), vectors.astype(np.float32))
