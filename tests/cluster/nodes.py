"""Starts a cluster of Citus on this machine, a coordinator and two workers, and runs a command on it.

    python -m tests.cluster.nodes BINARIES [COMMAND...]

`BINARIES` is a directory of PostgreSQL with `bin/postgres`, Citus and pgvector. The command finds
the cluster in `COCOSEARCH_TEST_CITUS`, and its directory in `COCOSEARCH_TEST_CITUS_HOME`; without a
command, the cluster runs until it is interrupted. It is gone afterwards.
"""

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg.conninfo import make_conninfo

from tests.schemas import CITUS_VARIABLE, HOME_VARIABLE
from tests.store.remote import free_port

# Tests have databases that share the nodes, and every move of a schema takes workers.
SETTINGS = {
    "shared_preload_libraries": "citus",
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_worker_processes": "64",
    "max_prepared_transactions": "400",
    "wal_level": "logical",
    "shared_buffers": "64MB",
    "fsync": "off",
    "autovacuum": "off",  # the statistics that weigh words would change within a test
}
USER = "postgres"
ENDING = (signal.SIGINT, signal.SIGTERM)
RUNNER = "nobody"  # PostgreSQL refuses to run as root


@dataclass(frozen=True)
class Node:
    """A server of the cluster."""

    binaries: Path
    libraries: str  # LD_LIBRARY_PATH
    data: Path
    port: int

    @property
    def dsn(self) -> str:
        """The superuser's, over TCP."""
        return make_conninfo(host="127.0.0.1", port=self.port, user=USER, dbname="postgres")

    def initialise(self) -> None:
        self._run(
            "initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "--locale", "C.UTF-8", "-N"
        )
        lines = [f"{name} = '{value}'\n" for name, value in SETTINGS.items()]
        lines += [f"port = {self.port}\n", f"unix_socket_directories = '{self.data.parent}'\n"]
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(lines)

    def start(self) -> None:
        log = self.data.parent / f"{self.data.name}.log"
        self._run("pg_ctl", "-D", str(self.data), "-l", str(log), "-w", "start")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """End the server; `immediate` is like a crash."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def execute(self, *queries: str) -> list[tuple[Any, ...]]:
        """Run queries; the rows of the last one, if it has some."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for query in queries:
                cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        account = pwd.getpwnam(RUNNER)
        owner: dict[str, Any] = (
            {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            if os.geteuid() == 0
            else {}
        )
        subprocess.run(
            [str(self.binaries / "bin" / program), *arguments],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": os.defpath, "LD_LIBRARY_PATH": self.libraries},
            **owner,
        )


@dataclass(frozen=True)
class Cluster:
    """A coordinator and its workers, in one directory."""

    nodes: tuple[Node, ...]

    @property
    def coordinator(self) -> Node:
        return self.nodes[0]

    @classmethod
    def create(cls, home: Path, binaries: Path, workers: int = 2) -> "Cluster":
        """Initialise and start the nodes."""
        ports = [free_port() for _ in range(workers + 1)]
        state = {
            "binaries": str(binaries),
            "libraries": os.environ.get("LD_LIBRARY_PATH", ""),
            "ports": ports,
        }
        (home / "cluster.json").write_text(json.dumps(state))
        cluster = cls.open(home)
        for node in cluster.nodes:
            node.initialise()
            node.start()
            node.execute("create extension citus", "create extension vector")
        first = cluster.coordinator
        first.execute(f"select citus_set_coordinator_host('127.0.0.1', {first.port})")
        for node in cluster.nodes[1:]:
            first.execute(f"select citus_add_node('127.0.0.1', {node.port})")
        return cluster

    @classmethod
    def open(cls, home: Path) -> "Cluster":
        """The cluster that was created in a directory."""
        state = json.loads((home / "cluster.json").read_text())
        return cls(
            tuple(
                Node(Path(state["binaries"]), state["libraries"], home / f"n{number}", port)
                for number, port in enumerate(state["ports"])
            )
        )

    def stop(self) -> None:
        for node in self.nodes:
            if (node.data / "postmaster.pid").exists():
                node.stop()


def main(arguments: Sequence[str]) -> int:
    binaries, *command = arguments
    home = Path(tempfile.mkdtemp(prefix="cocosearch-cluster-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(home, RUNNER)
    home.chmod(0o711)
    try:
        cluster = Cluster.create(home, Path(binaries).resolve())
        variables = {CITUS_VARIABLE: cluster.coordinator.dsn, HOME_VARIABLE: str(home)}
        if command:
            return subprocess.run(command, env={**os.environ, **variables}).returncode
        print(
            "\n".join(f"export {name}='{value}'" for name, value in variables.items()), flush=True
        )
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        signal.sigwait(ENDING)
        return 0
    finally:
        with contextlib.suppress(FileNotFoundError):
            Cluster.open(home).stop()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
