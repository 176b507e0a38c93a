"""A standby of a server of the tests: a copy that follows its log, and can be promoted."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from cocosearchd.store.server.binaries import find_install
from cocosearchd.store.server.embedded import EmbeddedPostgres
from tests.store.remote import RemoteServer, free_port, wait_for

LIMIT_S = 30.0
NAME = "standby"  # in `synchronous_standby_names`
# Settings that a primary server needs, in addition to those of the embedded server.
PRIMARY = {"wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on"}


@dataclass(frozen=True)
class Standby:
    """`admin` is the superuser's conninfo. The primary server is `primary`, its data `primary_data`."""

    admin: str
    port: int
    primary: RemoteServer
    primary_data: Path

    def execute(self, *queries: str, admin: str = "") -> list[tuple[Any, ...]]:
        """Run queries here, or on `admin`; the rows of the last one, if it has some."""
        with psycopg.connect(admin or self.admin, autocommit=True) as connection:
            for query in queries:
                cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def make_synchronous(self) -> None:
        """From now on, a commit of the primary server waits until it is applied here."""
        self.execute(
            f"alter system set synchronous_standby_names = '{NAME}'",
            "select pg_reload_conf()",
            admin=self.primary.admin,
        )
        synchronous = "select bool_or(sync_state = 'sync') from pg_stat_replication"
        self._wait_until(synchronous, "the standby is not synchronous")

    def cut_off(self) -> None:
        """Receive nothing from now on: what the primary server commits is lost with it."""
        self.execute("alter system set primary_conninfo = ''", "select pg_reload_conf()")
        alone = "select count(*) = 0 from pg_stat_replication"
        self._wait_until(alone, "the standby is still connected")

    def crash_primary(self) -> None:
        """End the primary server at once; nothing is sent or written at its end."""
        process = psutil.Process(
            int((self.primary_data / "postmaster.pid").read_text().splitlines()[0])
        )
        process.send_signal(signal.SIGQUIT)
        process.wait(LIMIT_S)

    def promote(self) -> None:
        """Make this the primary server; returns once it takes writes."""
        self.execute("select pg_promote(wait => true)")

    def _wait_until(self, condition: str, reason: str) -> None:
        """Wait until a query on the primary server returns true."""
        end = time.monotonic() + LIMIT_S
        while self.execute(condition, admin=self.primary.admin) != [(True,)]:
            assert time.monotonic() < end, reason
            time.sleep(0.05)


@contextlib.contextmanager
def standby_of(primary: RemoteServer, home: Path) -> Iterator[Standby]:
    """Run a standby of a server that `remote_server` made in `home` with the settings `PRIMARY`."""
    _let_replicate(primary, home)
    server = EmbeddedPostgres(home, {})
    bin_folder = find_install().bin
    folder = home / "standby"
    account: dict[str, Any] = (
        {"user": server.uid, "group": server.account.gid, "extra_groups": []}
        if server.account
        else {}
    )
    folder.mkdir()
    if server.account:
        os.chown(folder, server.uid, server.account.gid)
    environment = {"LC_ALL": "C", "PATH": os.defpath}
    data = folder / "data"
    source = make_conninfo(primary.admin, application_name=NAME)
    subprocess.run(
        [
            bin_folder / "pg_basebackup",
            "-D",
            data,
            "-d",
            source,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
        ],
        check=True,
        env=environment,
        cwd="/",
        **account,
    )
    port = free_port()
    settings = {
        "config_file": str(server.conf),
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "hba_file": str(home / "remote_hba.conf"),
    } | PRIMARY
    command = [str(bin_folder / "postgres"), "-D", str(data)]
    command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (home / "standby.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, cwd="/", **account
        )
    admin = make_conninfo(primary.admin, port=str(port))
    try:
        wait_for(admin)
        yield Standby(admin, port, primary, server.data)
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(30)


def _let_replicate(primary: RemoteServer, home: Path) -> None:
    """Let the superuser of the server's socket read its log."""
    with (home / "remote_hba.conf").open("a") as rules:
        rules.write("local replication all trust\n")
    with psycopg.connect(primary.admin, autocommit=True) as connection:
        connection.execute("select pg_reload_conf()")
