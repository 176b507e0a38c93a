"""Runs the store's tests twice: on the embedded server, and on somebody else's over TCP with a
password.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import QUICK, TEMPLATE, make_template
from tests.store.remote import USER, RemoteServer, remote_server


@pytest.fixture(scope="session")
def remote(public_state: Path, cluster: Path) -> Iterator[RemoteServer]:
    with remote_server(public_state / "remote", QUICK, cluster) as running:
        yield running


@pytest.fixture(scope="session", params=["embedded", "remote"])
def server(request: pytest.FixtureRequest) -> str:
    name = {"embedded": "embedded_server", "remote": "remote"}[request.param]
    server_fixture = request.getfixturevalue(name)
    return server_fixture.dsn if isinstance(server_fixture, RemoteServer) else server_fixture


@pytest.fixture(scope="session")
def template(server: str, request: pytest.FixtureRequest) -> str:
    if f"user={USER}" in server:
        # Only a superuser may enable pgvector, as on any managed server.
        remote = request.getfixturevalue("remote")
        with psycopg.connect(remote.admin, autocommit=True) as connection:
            connection.execute(f"create database {TEMPLATE} owner {USER}")
        with psycopg.connect(remote.admin, dbname=TEMPLATE) as connection:
            connection.execute("create extension vector")
    return asyncio.run(make_template(server))
