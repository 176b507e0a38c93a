"""Distributed schemas of Citus: all tables of a daemon are on one node of a cluster.

A daemon works with such a schema through the coordinator, as with any other schema; few statements
differ. This module tells each new connection whether the daemon's schema is distributed
(`is_distributed`).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from psycopg import AsyncClientCursor, sql

from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.liveness_check import MonitoredConnection
from cocosearchd.store.connection.statements import compose, named_statements, statement

MIN_CITUS = (14, 0)  # the oldest that was tried
_NUMBER = re.compile(r"\d+")
# Beginnings of errors of the coordinator about a missing node. They have no error class of their own.
_FAILED_NODE = re.compile(
    r"^(?:connection to the remote node |failure on connection marked as essential: "
    r"|could not establish any connections to the node )(?:[^\s@]+@)?(\S+:\d+)"
)
_LOST_COMMIT = "could not commit transaction for shard"


async def check_citus(connection: MonitoredConnection) -> str:
    """Return the version of Citus in a usable database, "" without it.

    Raises `StoreUnavailable` if the tables of a daemon cannot be in its first schema.
    """
    (version,) = await _row(connection, "citus_version")
    if version is None:
        return ""
    await describe_schema(connection)
    if connection.is_distributed:
        await _check_cluster(connection, version)
    else:
        await _check_tables(connection)
    return str(version)


async def describe_schema(connection: MonitoredConnection) -> None:
    """Set on a connection whether the daemon's schema is distributed, in a database with Citus."""
    connection.has_citus = True
    connection.is_distributed = await _is_distributed(connection, "")


async def has_distributed_tables(connection: MonitoredConnection, record: IndexRecord) -> bool:
    """Return whether the tables of an index are on a node; the index may be another daemon's."""
    if not record.schema or not connection.has_citus:
        return connection.is_distributed
    return await _is_distributed(connection, record.schema)


async def _is_distributed(connection: MonitoredConnection, schema: str) -> bool:
    (answer,) = await _fetch_first_row(connection, statement("is_distributed"), {"schema": schema})
    return bool(answer)


async def read_catalogs(
    connection: MonitoredConnection,
    record: IndexRecord,
    table: str,
    name: str,
    values: Mapping[str, str],
) -> list[tuple[Any, ...]]:
    """Query the catalogs of the server that has the tables of an index.

    `table` is the part of the statement that names the table in question.
    """
    if not await has_distributed_tables(connection, record):
        return await (await connection.execute(statement(name, record), values)).fetchall()
    # Citus formats the query with the name of the table on its node. The driver turns two percent
    # signs of a statement into one, but leaves those of a value.
    text = compose(named_statements()[name], record, **{table: sql.Literal("%%1$s")})
    escaped = {key: value.replace("%", "%%") for key, value in values.items()}
    query = AsyncClientCursor(connection).mogrify(text, escaped)
    relation = compose(f"{{{table}}}", record)
    run = statement("run_on_node", relation=relation)
    succeeded, result = await _fetch_first_row(connection, run, {"query": query})
    if not succeeded:
        raise StoreUnavailable(
            f"the node of the schema cannot be asked: {result}",
            "wait for it, or see `cocosearchctl status`",
        )
    return [tuple(row.values()) for row in json.loads(result or "[]")]


def failed_node(message: str) -> str:
    """Return the node that an error of the coordinator is about, "" for another error."""
    match = _FAILED_NODE.search(message)
    if match:
        return f"node {match[1]}"
    return "the node" if message.startswith(_LOST_COMMIT) else ""


def planned_rows(explained: Any) -> float:
    """Read the expected number of rows from a plan of PostgreSQL as JSON.

    For a distributed schema, the number is in the plan of its node.
    """
    plan = explained["Plan"]
    if "Distributed Query" not in plan:
        return float(plan["Plan Rows"])
    tasks = plan["Distributed Query"]["Job"]["Tasks"]
    return sum(
        float(part["Plan"]["Plan Rows"])
        for task in tasks
        for plans in task["Remote Plan"]
        for part in plans
    )


async def _check_cluster(connection: MonitoredConnection, version: str) -> None:
    if tuple(int(part) for part in _NUMBER.findall(version)[:2]) < MIN_CITUS:
        raise StoreUnavailable(
            f"Citus {version} is too old for a daemon in a distributed schema: 14.0 or newer is needed",
            "upgrade Citus on every node, or name a schema that is not distributed in the "
            "search_path of COCOSEARCH_DATABASE_URL",
        )
    (is_coordinator,) = await _row(connection, "is_coordinator")
    if not is_coordinator:
        raise StoreUnavailable(
            "the database is a worker of a Citus cluster, where locks of other daemons are not seen",
            "name the coordinator of the cluster in COCOSEARCH_DATABASE_URL",
        )


async def _check_tables(connection: MonitoredConnection) -> None:
    """Refuse tables that Citus distributes one by one: rows of a write would be on several nodes."""
    table, schema = await _row(connection, "distributed_table")
    if table is not None:
        raise StoreUnavailable(
            f"Citus distributes table {table} by itself, and not the schema as a whole",
            f"run select undistribute_table('{schema}.{table}'), or drop schema {schema} and make it with "
            "citus.enable_schema_based_sharding = on",
        )


async def _row(connection: MonitoredConnection, name: str) -> tuple[Any, ...]:
    return await _fetch_first_row(connection, statement(name), {})


async def _fetch_first_row(
    connection: MonitoredConnection, query: sql.Composed | bytes, values: Mapping[str, Any]
) -> tuple[Any, ...]:
    row = await (await connection.execute(query, values)).fetchone()
    assert row, "the statement has a row"
    return row
