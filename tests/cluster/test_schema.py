"""Statements that a distributed schema takes and refuses, and reads of it through the coordinator."""

import psycopg
import pytest

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.store.chunks.file_writer import replace_files
from cocosearchd.store.chunks.vector_index import ensure_vector_index
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import statistics
from cocosearchd.store.reads.chunk_reads import vector_search
from tests.cluster.nodes import Cluster
from tests.cluster.refused import REFUSED, STORAGE, Refused
from tests.schemas import CITUS, distributed_schema
from tests.store.support import file_write, new_index, vector_of


@pytest.mark.parametrize("refused", [STORAGE, *REFUSED], ids=lambda refused: refused.pattern)
def test_statements_that_migrations_avoid_are_refused(dsn: str, refused: Refused) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table t (n integer primary key)")
        # Some of them have the code of an internal error.
        with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.InternalError_)):
            connection.execute(refused.example)


def test_a_foreign_key_within_the_schema_is_taken(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table t (n integer primary key)")
        connection.execute("create table s (n integer references t (n) on delete cascade)")
        connection.execute("insert into t values (1)")
        connection.execute("insert into s values (1)")
        connection.execute("delete from t")
        assert connection.execute("select count(*) from s").fetchone() == (0,)


async def test_settings_of_a_search_reach_the_node(db: Database) -> None:
    record = await new_index(db)
    await replace_files(db, record, [file_write(f"{n}.py", f"x = {n}") for n in range(300)])
    assert await ensure_vector_index(db, record, build_at=100, drop_below=50) == "built"
    node_settings = """
    select current_setting('hnsw.ef_search'), current_setting('hnsw.iterative_scan') from {indexes}
    """
    async with db.connection() as connection, connection.transaction():
        breadth = psycopg.sql.Literal(123)
        await connection.execute(statement("set_vector_scan", breadth=breadth))
        query = psycopg.sql.SQL(node_settings).format(
            indexes=psycopg.sql.Identifier("cocosearch_indexes")
        )
        rows = await (await connection.execute(query)).fetchall()
    assert rows == [("123", "relaxed_order")]
    hits = await vector_search(db, record, vector_of("x = 7"), Filter(), 5, exact_matches=10)
    assert hits[0].content == "x = 7"


async def test_sizes_are_those_of_the_node(db: Database) -> None:
    record = await new_index(db)
    empty = (await statistics(db, record)).size_bytes
    writes = [file_write(f"{n}.py", f"x = {n}" * 50) for n in range(200)]
    await replace_files(db, record, writes)
    assert (await statistics(db, record)).size_bytes > empty + 100_000


async def refusal(dsn: str) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable) as refused:
        async with Database.open(dsn, DatabaseSettings(url=dsn)):
            pass
    return refused.value


async def test_a_worker_is_refused_as_a_database(nodes: Cluster) -> None:
    with distributed_schema(CITUS) as dsn:
        port = str(nodes.coordinator.port)
        error = await refusal(dsn.replace(port, str(nodes.nodes[1].port)))
    assert "worker" in error.message
    assert error.hint is not None
    assert "coordinator" in error.hint


async def test_a_table_that_is_distributed_by_itself_is_refused() -> None:
    with psycopg.connect(CITUS, autocommit=True) as connection:
        connection.execute("create schema by_hash")
        try:
            connection.execute("create table by_hash.cocosearch_indexes (number integer)")
            connection.execute(
                "select create_distributed_table('by_hash.cocosearch_indexes', 'number')"
            )
            error = await refusal(f"{CITUS} options='-csearch_path=by_hash,public'")
        finally:
            connection.execute("drop schema by_hash cascade")
    assert "Citus distributes table cocosearch_indexes by itself" in error.message
    assert error.hint is not None
    assert "undistribute_table('by_hash.cocosearch_indexes')" in error.hint


async def test_a_schema_that_vanishes_is_named(db: Database, dsn: str) -> None:
    schema = dsn.split("search_path=")[1].split(",")[0]
    async with db.connection() as connection:
        await connection.execute(f"drop schema {schema} cascade")
    with pytest.raises(
        StoreUnavailable, match=f"schema {schema} of the daemon is not there any more"
    ):
        await db.ping()
    with pytest.raises(StoreUnavailable, match=f"schema {schema} .* is not there"):
        await db.reach(5)
    assert f"CREATE SCHEMA {schema}" in str((await refusal(dsn)).hint)
