"""A daemon on an external PostgreSQL, over TCP: its password stays hidden, its absence has an exit
code.
"""

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        server.make_database(DATABASE)
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


LOCK = (
    "select pid, classid::bigint << 32 | objid::bigint from pg_locks join pg_stat_activity using (pid)"
    " where locktype = 'advisory' and objsubid = 1 and application_name like 'cocosearchd-%'"
)


def test_a_daemon_whose_database_another_one_took_commits_nothing_and_ends(
    external: External, project: Path
) -> None:
    daemon = external.daemon
    daemon.index(project)
    with (
        psycopg.connect(external.server.admin, dbname=DATABASE, autocommit=True) as connection,
        psycopg.connect(external.server.admin, dbname=DATABASE, autocommit=True) as standby,
        ThreadPoolExecutor(1) as threads,
    ):
        holder, key = fetch_row(connection, LOCK)
        connection.execute("select pg_terminate_backend(%s)", [holder])
        (project / "saved.py").write_text("def quokka():\n    return 1\n")
        assert "saved.py" in until_fresh(daemon, "quokka"), "it holds the lock again, and commits"

        holder, _ = fetch_row(connection, LOCK)
        is_taken = threads.submit(standby.execute, "select pg_advisory_lock(%s)", [key])
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        while fetch_row(connection, waiting) != (1,):
            time.sleep(0.01)
        connection.execute("select pg_terminate_backend(%s)", [holder])
        is_taken.result(10)
        standby.execute("update cocosearch_registry set owner = 'standby'")
        generation = fetch_row(connection, "select generation from cocosearch_indexes")
        (project / "later.py").write_text("def numbat():\n    return 1\n")
        # not by a process, which takes longer to start on a busy machine than the daemon goes on
        reply = daemon.call("search", query="numbat", index=project.name, sync_timeout_ms=1000)
        assert not reply["fresh"]
        assert "later.py" not in {result["path"] for result in reply["results"]}
        assert daemon.process is not None
        assert daemon.process.wait(60) != 0
        assert "uses this database" in daemon.log
        assert fetch_row(connection, "select generation from cocosearch_indexes") == generation


def fetch_row(connection: psycopg.Connection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row


def until_fresh(daemon: Daemon, query: str) -> list[str]:
    """Ask until an answer is fresh; the paths of its results."""
    end = time.monotonic() + 60
    while not (reply := daemon.query(query))["fresh"]:
        assert time.monotonic() < end, reply["stale_reason"]
    return [result["path"] for result in reply["results"]]
