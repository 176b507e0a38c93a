"""Nodes and their sessions end beside a writer: afterwards the rows equal those of a fresh index."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from tests.cluster.nodes import Cluster, Node
from tests.daemon import Daemon, passing_daemon
from tests.flows.test_crash import change, digest, in_sync, populate
from tests.schemas import distributed_schema

KILLS = 20
VICTIMS = (
    "worker sessions",
    "worker session killed",
    "coordinator sessions",
    "worker",
    "coordinator",
)
# Not those of PostgreSQL itself, nor of this test.
SESSIONS = """
select pid from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid() and datname = current_database()
"""


@pytest.fixture
def schema_dsn(nodes: Cluster) -> Iterator[str]:
    with distributed_schema(nodes.coordinator.dsn) as dsn:
        yield dsn


@pytest.fixture
def writer(schema_dsn: str) -> Iterator[Daemon]:
    """A daemon in a distributed schema."""
    with passing_daemon(COCOSEARCH_DATABASE_URL=schema_dsn) as daemon:
        daemon.start()
        yield daemon


def home_of(nodes: Cluster, dsn: str) -> Node:
    """The node that has the tables of a schema."""
    schema = dsn.split("search_path=")[1].split(",")[0]
    ((port,),) = nodes.coordinator.execute(
        f"select nodeport from citus_shards where table_name = '{schema}.cocosearch_registry'::regclass"
    )
    return next(node for node in nodes.nodes if node.port == port)


def strike(nodes: Cluster, worker: Node, victim: str) -> None:
    node = worker if victim.startswith("worker") else nodes.coordinator
    if victim.endswith("sessions"):
        node.execute(f"select pg_terminate_backend(pid) from ({SESSIONS}) as sessions")
    elif victim.endswith("killed"):
        for (pid,) in node.execute(f"{SESSIONS} limit 1"):
            os.kill(pid, signal.SIGKILL)  # the node ends all sessions, and recovers
    else:
        node.stop("immediate")
        time.sleep(0.3)
        node.start()


def rows_digest(dsn: str) -> tuple[Any, ...]:
    async def read() -> tuple[Any, ...]:
        async with Database.open(dsn, DatabaseSettings(url=dsn)) as db:
            (record,) = await index_records.list_indexes(db)
            return await index_records.table_digest(db, record)

    return asyncio.run(read())


def test_after_kills_the_rows_equal_a_fresh_index(
    nodes: Cluster, schema_dsn: str, writer: Daemon, shared: Daemon, tmp_path: Path
) -> None:
    rng = random.Random(26)
    root = tmp_path / "project"
    root.mkdir()
    populate(root, rng, 30)
    writer.index(root, "code")
    worker = home_of(nodes, schema_dsn)
    for number in range(KILLS):
        for _ in range(rng.randrange(1, 6)):
            change(root, rng)
        time.sleep(rng.uniform(0, 0.15))
        strike(nodes, worker, VICTIMS[number % len(VICTIMS)])
    in_sync(writer)
    shared.index(root, "fresh")
    in_sync(shared)
    assert rows_digest(schema_dsn) == digest(shared)
    ((prepared,),) = worker.execute("select count(*) from pg_prepared_xacts")
    assert prepared == 0
