"""The lock of maintenance: one caller at a time, and free as soon as it has ended."""

from contextlib import suppress

import pytest

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.maintenance_lock import try_maintenance_lock
from tests.store.support import new_index

pytestmark = pytest.mark.anyio


@pytest.fixture
async def record(db: Database) -> IndexRecord:
    return await new_index(db)


async def is_free(db: Database, record: IndexRecord, kind: str) -> bool:
    async with (
        db.session({}) as connection,
        try_maintenance_lock(connection, record, kind) as is_locked,
    ):
        return is_locked


@pytest.mark.parametrize("kind", ["vectors", "words"])
async def test_the_lock_is_free_after_an_error_while_its_session_is_open(
    db: Database, record: IndexRecord, kind: str
) -> None:
    async with db.session({}) as connection:
        with suppress(ZeroDivisionError):
            async with try_maintenance_lock(connection, record, kind) as is_locked:
                assert is_locked
                assert not await is_free(db, record, kind)
                raise ZeroDivisionError
        assert await is_free(db, record, kind)


async def test_vectors_and_words_are_maintained_beside_each_other(
    db: Database, record: IndexRecord
) -> None:
    async with (
        db.session({}) as connection,
        try_maintenance_lock(connection, record, "vectors") as is_locked,
    ):
        assert is_locked
        assert await is_free(db, record, "words")
