"""A second cluster that another person runs: over TCP, with a password, its user neither superuser
nor owner.
"""

import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cocosearchd.store.server.binaries import find_install
from cocosearchd.store.server.embedded import EmbeddedPostgres
from tests.clusters import copy_cluster

USER, PASSWORD = "tester", "correct horse'\\ battery"


@dataclass(frozen=True)
class RemoteServer:
    """`dsn` is the user's, over TCP; `admin` the superuser's. `stop` ends the server."""

    dsn: str
    admin: str
    port: int
    stop: Callable[[], None]

    def make_database(self, name: str) -> None:
        """Make a database of the user, with the extension for vectors."""
        owner = sql.Identifier(USER)
        with psycopg.connect(self.admin, autocommit=True) as connection:
            database = sql.Identifier(name)
            connection.execute(sql.SQL("create database {} owner {}").format(database, owner))
        with psycopg.connect(self.admin, dbname=name, autocommit=True) as connection:
            connection.execute("create extension vector")


@contextlib.contextmanager
def remote_server(
    home: Path, settings: dict[str, str], cluster: Path | None = None
) -> Iterator[RemoteServer]:
    """Our wrapper initialises the cluster, or takes a copy of `cluster`; then it is run in another
    way.
    """
    if cluster is not None:
        copy_cluster(cluster, home)
    server = EmbeddedPostgres(home, settings)
    server.ensure()
    server.stop()
    rules = home / "remote_hba.conf"
    rules.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    rules.chmod(0o644)
    port = free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "hba_file": str(rules)}
    command = [
        str(find_install().bin / "postgres"),
        "-D",
        str(server.data),
        "-c",
        f"config_file={server.conf}",
    ]
    command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    account = (
        {"user": server.uid, "group": server.account.gid, "extra_groups": []}
        if server.account
        else {}
    )
    with (home / "remote.log").open("wb") as log:
        environment = {"LC_ALL": "C", "PATH": os.defpath}
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, cwd="/", **account
        )  # type: ignore[call-overload]
    admin = make_conninfo(server.superuser_dsn, port=str(port))
    try:
        wait_for(admin)
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(
                psycopg.sql.SQL("create role {} login createdb password {}").format(
                    psycopg.sql.Identifier(USER), psycopg.sql.Literal(PASSWORD)
                )
            )
        dsn = make_conninfo(
            host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres"
        )
        yield RemoteServer(dsn, admin, port, server.stop)
    finally:
        server.stop()
        process.wait(30)


def wait_for(dsn: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(dsn).close()
            return
        assert time.monotonic() < deadline, "the second server does not start"
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody has, for a server that is started later.

    Not one of those that the kernel gives to whoever asks for any (`ip_local_port_range`, 32768 to
    60999): another process would have got it by then.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
