"""A daemon on somebody else's PostgreSQL, over TCP: its password is shown nowhere, and its absence
has an exit code.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cocosearch_ipc.cli import exits
from tests.conftest import QUICK
from tests.daemon import Daemon, passing_daemon
from tests.store.remote import PASSWORD, USER, RemoteServer, remote_server

DATABASE = "external"


@dataclass(frozen=True)
class External:
    """A running daemon and the server behind it."""

    daemon: Daemon
    server: RemoteServer


@pytest.fixture
def external(public_state: Path, cluster: Path) -> Iterator[External]:
    """A daemon whose database is another server's; that one may be stopped."""
    home = public_state / "external"
    shutil.rmtree(home, ignore_errors=True)  # of the test before
    with remote_server(home, QUICK, cluster) as server:
        with psycopg.connect(server.admin, autocommit=True) as connection:
            connection.execute(f"create database {DATABASE} owner {USER}")
        with psycopg.connect(server.admin, dbname=DATABASE, autocommit=True) as connection:
            connection.execute("create extension vector")
        with passing_daemon(
            COCOSEARCH_DATABASE_URL=make_conninfo(server.dsn, dbname=DATABASE)
        ) as daemon:
            daemon.start()
            yield External(daemon, server)


def test_status_shows_where_the_database_is_and_no_password(
    external: External, project: Path
) -> None:
    daemon = external.daemon
    daemon.index(project)
    store = daemon.json("status")["store"]
    assert store["kind"] == "external"
    assert {f"user={USER}", f"port={external.server.port}", f"dbname={DATABASE}"} <= set(
        store["dsn"].split()
    )
    addresses = [
        daemon.ctl(*arguments, check=False)
        for arguments in (
            ("status",),
            ("status", "--json"),
            ("doctor",),
            ("doctor", "--json"),
            ("config", "show"),
        )
    ]
    texts = [
        daemon.log,
        json.dumps(daemon.call("status")),
        *(done.stdout + done.stderr for done in addresses),
    ]
    # whole, a part of it, and as it stands in a URL
    for secret in (PASSWORD, "correct horse", "correct%20horse"):
        assert not [text for text in texts if secret in text]


def test_commands_on_a_daemon_whose_store_is_away(external: External, project: Path) -> None:
    daemon = external.daemon
    daemon.index(project)
    external.server.stop()
    for arguments in (("stats", "project"), ("files",), ("clear", "project", "--yes")):
        done = daemon.ctl(*arguments, check=False, cwd=project)
        assert (done.returncode, done.stdout) == (exits.NOT_RUNNING, ""), arguments
        assert done.stderr.startswith("error: PostgreSQL"), done.stderr
        assert daemon.answers(), "it goes on without its store"
