"""Runs the tests of the store on an external server over TCP with a password, in its own schema
beside the registry of another daemon in `public`. With a cluster (see `tests.schemas`), they run
there.

On the embedded server, too, run those of connections by default, and all by `make slow`. No other
code of the store behaves differently there, and the tests of searching, indexing and whole daemons
execute its statements there.
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
CONNECTIONS = Path(__file__).parent / "connection"


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make slow` what runs on both servers and is not about connections."""
    for item in items:
        if is_repeated(item) and CONNECTIONS not in item.path.parents:
            item.add_marker(pytest.mark.slow)


def is_repeated(item: pytest.Item) -> bool:
    """Tell whether a test runs on the embedded server after another one, and not there alone."""
    servers = (mark.args[0] for mark in item.iter_markers("parametrize"))
    callspec = getattr(item, "callspec", None)
    return (
        callspec is not None
        and callspec.params.get("server") == "embedded"
        and "server" not in servers
    )


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
        remote.make_database(TEMPLATE)
        with psycopg.connect(remote.admin, dbname=TEMPLATE) as connection:
            connection.execute(f"create schema {SCHEMA} authorization {USER}")
            connection.execute(f"grant create on schema public to {USER}")
        asyncio.run(migrate(make_conninfo(remote.dsn, dbname=TEMPLATE)))
    return asyncio.run(make_template(server))
