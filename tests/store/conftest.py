"""Runs the store's tests twice: on the embedded server, and on somebody else's over TCP with a
password, there in a schema of its own beside the registry of another daemon in `public`. With a
cluster (see `tests.schemas`), they run there instead.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.conftest import QUICK, TEMPLATE, make_template
from tests.schemas import CITUS, migrate
from tests.store.remote import USER, RemoteServer, remote_server

SCHEMA = "own_schema"


@pytest.fixture(scope="session")
def remote(public_state: Path, cluster: Path) -> Iterator[RemoteServer]:
    with remote_server(public_state / "remote", QUICK, cluster) as running:
        yield running


@pytest.fixture(scope="session", params=["citus"] if CITUS else ["embedded", "remote"])
def server(request: pytest.FixtureRequest) -> str:
    if request.param == "citus":
        return CITUS
    if request.param == "embedded":
        return str(request.getfixturevalue("embedded_server"))
    remote = request.getfixturevalue("remote")
    return make_conninfo(remote.dsn, options=f"-csearch_path={SCHEMA},public")


@pytest.fixture(scope="session")
def template(server: str, request: pytest.FixtureRequest) -> str:
    if server == CITUS:
        return ""
    if f"user={USER}" in server:
        # Only a superuser may enable pgvector, as on any managed server.
        remote = request.getfixturevalue("remote")
        with psycopg.connect(remote.admin, autocommit=True) as connection:
            connection.execute(f"create database {TEMPLATE} owner {USER}")
        with psycopg.connect(remote.admin, dbname=TEMPLATE) as connection:
            connection.execute("create extension vector")
            connection.execute(f"create schema {SCHEMA} authorization {USER}")
            connection.execute(f"grant create on schema public to {USER}")
        asyncio.run(migrate(make_conninfo(remote.dsn, dbname=TEMPLATE)))
    return asyncio.run(make_template(server))
