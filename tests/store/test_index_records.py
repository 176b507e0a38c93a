"""The registry: names, slugs, identities, and remains after a drop."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.errors import Conflict, NotFound
from cocosearchd.model import Fingerprint
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.index_records import (
    Counts,
    counts,
    create_index,
    drop_index,
    list_indexes,
    pack_fingerprint,
    read_generation,
    read_incarnation,
    set_topics,
    slug_candidates,
    statistics,
    unpack_fingerprint,
)
from tests.store.support import DIMENSION, IDENTITY, file_write, new_index


async def test_created_index_is_listed_and_empty(db: Database) -> None:
    record = await new_index(db)
    assert await list_indexes(db) == (record,)
    assert (record.name, record.slug, record.root, record.topics) == (
        "code",
        "code",
        b"/code",
        ("work",),
    )
    assert (record.dimension, record.identity, record.generation) == (DIMENSION, IDENTITY, 0)
    assert await counts(db, record) == Counts(0, 0)
    assert (await statistics(db, record)).size_bytes > 0


async def test_name_and_root_are_unique(db: Database) -> None:
    await new_index(db, "code", b"/code")
    with pytest.raises(Conflict, match="the name code is taken by index code of /code"):
        await new_index(db, "code", b"/other")
    with pytest.raises(Conflict, match="the root /code is taken"):
        await new_index(db, "other", b"/code")


async def test_root_may_be_any_bytes_of_any_length(db: Database) -> None:
    root = b"/" + bytes(range(1, 256)) * 16
    record = await new_index(db, "odd", root)
    assert (await list_indexes(db))[0].root == record.root == root


async def test_names_that_are_alike_get_tables_of_their_own(db: Database) -> None:
    names = ["a_b", "a-b", "A_B", "a b", "x" * 60, "x" * 61, "索引", "a\"b'c;--"]
    records = [await new_index(db, name, name.encode()) for name in names]
    assert len({record.slug for record in records}) == len(names)
    assert records[0].slug == "a_b"
    assert [record.name for record in await list_indexes(db)] == names


async def test_dropped_index_is_gone_and_its_generations_are_not_used_again(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "one: 1"))
    assert await drop_index(db, record) == Counts(1, 1)
    assert await list_indexes(db) == ()
    with pytest.raises(NotFound, match="no index code"):
        await read_generation(db, record)
    with pytest.raises(NotFound):
        await drop_index(db, record)
    again = await new_index(db)
    assert again.generation == 1
    assert again.number != record.number


async def test_topics_can_be_replaced(db: Database) -> None:
    record = await new_index(db)
    await set_topics(db, record, ("a", "b"))
    assert (await list_indexes(db))[0].topics == ("a", "b")


async def test_incarnation_belongs_to_the_database(db: Database) -> None:
    first = await read_incarnation(db)
    await migrate_registry(db)
    assert await read_incarnation(db) == first
    assert len(first) == 36


async def test_dimension_out_of_bounds_is_an_error_and_leaves_nothing(db: Database) -> None:
    with pytest.raises(Exception, match="database reports"):
        await create_index(db, "big", b"/big", (), 4001, IDENTITY)
    assert await list_indexes(db) == ()


@given(st.text(min_size=1))
def test_slugs_are_valid_and_do_not_run_out(name: str) -> None:
    figures = list(islice(slug_candidates(name), 4))
    assert len(set(figures)) == 4
    assert all(
        slug.isascii() and len(slug) <= 22 and slug.replace("_", "a").isalnum() for slug in figures
    )
    assert figures == list(islice(slug_candidates(name), 4))


UNSIGNED, SIGNED = st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1)


@given(
    st.builds(Fingerprint, UNSIGNED, UNSIGNED, UNSIGNED, SIGNED, SIGNED, st.integers(0, 2**32 - 1))
)
def test_fingerprints_come_back(fingerprint: Fingerprint) -> None:
    assert unpack_fingerprint(pack_fingerprint(fingerprint)) == fingerprint
