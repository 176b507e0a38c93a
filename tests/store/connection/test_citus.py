"""Plans and errors of a coordinator of Citus, as they were recorded; clusters are in `tests/cluster`."""

import json
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.connection.citus import failed_node, planned_rows
from cocosearchd.store.connection.database import Database

PLAN = Path(__file__).parents[1] / "fixtures" / "citus_plan.json"  # Citus 14.0.1, PostgreSQL 18.4

REMOTE = "connection to the remote node"


def test_the_expected_rows_of_a_distributed_plan_are_those_of_its_node() -> None:
    """The table had 5,000 rows, 500 of them in this language; the outer plan says 0."""
    (explained,) = json.loads(PLAN.read_text())
    assert explained["Plan"]["Plan Rows"] == 0
    assert planned_rows(explained) == pytest.approx(500, rel=0.1)


def test_a_plain_plan_has_its_rows_at_the_top() -> None:
    assert planned_rows({"Plan": {"Node Type": "Seq Scan", "Plan Rows": 42}}) == 42.0


@pytest.mark.parametrize(
    ("message", "node"),
    [
        (
            f"{REMOTE} postgres@10.0.0.7:5432 failed with the following error: x",
            "node 10.0.0.7:5432",
        ),
        (
            f"{REMOTE} db-1.example:5432 failed with the following error: x",
            "node db-1.example:5432",
        ),
        ("failure on connection marked as essential: 127.0.0.1:55402", "node 127.0.0.1:55402"),
        (
            "could not establish any connections to the node 127.0.0.1:55402 after 30000 ms",
            "node 127.0.0.1:55402",
        ),
        ("could not commit transaction for shard 102056 on at least one active node", "the node"),
        ('relation "codeindex" does not exist', ""),
    ],
)
def test_errors_name_the_node_that_is_away(message: str, node: str) -> None:
    assert failed_node(message) == node


async def test_a_first_schema_that_is_missing_is_refused(dsn: str) -> None:
    """With the next one of the search_path, the tables of another daemon would be used."""
    for path, name in (("nowhere,public", "nowhere"), ('"No\\ where",public', "No where")):
        with pytest.raises(
            StoreUnavailable, match=f"schema {name} of the search_path is not there"
        ):
            async with Database.open(
                make_conninfo(dsn, options=f"-c search_path={path}"), DatabaseSettings()
            ):
                pass


async def test_a_schema_that_vanishes_is_named(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema passing")
    path = make_conninfo(dsn, options="-csearch_path=passing,public")
    async with Database.open(path, DatabaseSettings(pool_min=1, pool_max=1)) as db:
        await db.ping()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("drop schema passing")
        for probe in (db.ping(), db.reach(5)):
            with pytest.raises(StoreUnavailable, match="schema passing of the daemon is not there"):
                await probe


async def test_without_citus_no_schema_is_distributed(db: Database) -> None:
    assert db.citus_version == ""
    async with db.connection() as connection:
        assert not connection.has_citus
        assert not connection.is_distributed
