"""A whole daemon for tests and benchmarks: the real programs with directories and sockets of their
own.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cocosearch_ipc import address, client
from tests.clusters import copy_cluster, keep_cluster

BIN = Path(sys.executable).parent
START_S = 120.0
# The time that a question waits for freshness, ten times the default: other parts of the tests use
# the same processors. A test of late answers sends a time of its own.
SYNC_MS = 20_000


@dataclass
class Daemon:
    """One `cocosearchd` with directories of its own. `ctl` runs `cocosearchctl` against it, `call`
    asks it from here.

    `cluster` is a directory of PostgreSQL that `initdb` has made, by the account that the server
    runs as: `start` begins with a copy of it, which costs a fraction of `initdb`. None: the daemon
    makes its own.
    """

    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    cluster: Path | None = None
    bin: Path = BIN
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith(("COCOSEARCH_", "XDG_", "PG"))
        }
        return inherited | {
            "COCOSEARCH_STATE_DIR": str(self.home / "state"),
            "COCOSEARCH_RUNTIME_DIR": str(self.home / "run"),
            "COCOSEARCH_CONFIG": str(self.home / "config.yaml"),
            "COCOSEARCH_SERVER_PORT": "0",
            "COCOSEARCH_SEARCH_SYNC_TIMEOUT_MS": str(SYNC_MS),
            "COCOSEARCH_SERVER_ALLOWED_ROOTS": tempfile.gettempdir(),
            "COCOSEARCH_LOG_FORMAT": "json",
            **self.variables,
        }

    @property
    def log(self) -> str:
        return (
            (self.home / "log").read_text("utf-8", "replace")
            if (self.home / "log").exists()
            else ""
        )

    def launch(self) -> subprocess.Popen[bytes]:
        with (self.home / "log").open("ab") as log:
            return subprocess.Popen(
                [self.bin / "cocosearchd"],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run(self, limit_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run one that ends by itself, as a daemon does that refuses to start."""
        return subprocess.run(
            [self.bin / "cocosearchd"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )

    def start(self) -> None:
        """Start and wait until it answers; fails with the log when it does not."""
        self._copy_cluster()
        self.process = self.launch()
        self.await_answers()

    def await_answers(self) -> None:
        """Wait until one that was launched answers."""
        assert self.process is not None
        end = time.monotonic() + START_S
        while not self.answers():
            assert self.process.poll() is None, f"the daemon ended: {self.log[-4000:]}"
            assert time.monotonic() < end, f"the daemon does not answer: {self.log[-4000:]}"
            time.sleep(0.05)

    def _copy_cluster(self) -> None:
        home = self.home / "state" / "postgres"
        if self.cluster and not home.exists() and "COCOSEARCH_DATABASE_URL" not in self.variables:
            copy_cluster(self.cluster, home)

    def answers(self) -> bool:
        """Return whether the daemon answers, without starting a process."""
        try:
            self.call("status")
        except client.CallFailed:
            return False
        return True

    def call(self, method: str, **parameters: Any) -> Any:
        """One call over its socket. Raises `CallFailed`."""
        return client.call(address.rpc_socket(self.environment), method, parameters)

    def index(self, root: Path, name: str | None = None) -> None:
        """Index a directory and wait until it is searchable, like `up ROOT --wait` without a
        process.
        """
        index = self.call(
            "index_codebase", path=os.fspath(root), **({"name": name} if name else {})
        )["index"]
        for progress in client.stream(
            address.rpc_socket(self.environment), "follow", {"index": index}
        ):
            assert progress["state"] != "refused", progress
        self.call("sync", index=index)

    def clear(self) -> None:
        """Forget every index."""
        for index in self.call("list_indexes")["indexes"]:
            self.call("clear_index", index=index["name"])

    def ctl(
        self, *arguments: str, check: bool = True, cwd: Path | None = None, limit_s: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.bin / "cocosearchctl", *arguments],
            env=self.environment,
            cwd=cwd or self.home,
            capture_output=True,
            text=True,
            timeout=limit_s,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stderr}\n{self.log[-4000:]}"
        return done

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        """A command of `cocosearchctl` that goes on."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [self.bin / "cocosearchctl", *arguments],
            env=self.environment,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def json(self, *arguments: str, cwd: Path | None = None) -> Any:
        return json.loads(self.ctl(*arguments, "--json", cwd=cwd).stdout)

    def query(self, text: str, *arguments: str) -> Any:
        return self.json("query", text, *arguments)

    def paths(self, text: str, *arguments: str) -> list[str]:
        return [result["path"] for result in self.query(text, *arguments)["results"]]

    def children(self, module: str) -> list[psutil.Process]:
        """Return the processes below the daemon that run a module; one may end at any time."""
        assert self.process is not None
        matching = list[psutil.Process]()
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if module in child.cmdline():
                    matching.append(child)
        return matching

    def postgres(self) -> list[psutil.Process]:
        """The postmaster that runs below this daemon's state, and its children."""
        matching = {
            process.pid: process
            for process in psutil.process_iter(["cmdline"])
            if str(self.home) in " ".join(process.info["cmdline"] or [])
            and "postgres" in (process.info["cmdline"][0])
        }
        programs = list[psutil.Process]()
        for process in matching.values():
            with contextlib.suppress(psutil.NoSuchProcess):  # it ends just now
                if process.ppid() not in matching:  # a new child has the arguments of its parent
                    programs += [process, *process.children(recursive=True)]
        return programs

    def freezing_postgres(self) -> contextlib.AbstractContextManager[None]:
        """Stop the postmaster and its children for a while."""
        return freezing_with_children(self.postgres()[0])

    def kill(self) -> None:
        """kill -9 of the daemon alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill_postgres(self) -> None:
        """kill -9 of the postmaster alone; its children notice by themselves."""
        for process in self.postgres()[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def stop(self) -> int:
        """SIGTERM, wait, and make sure that nothing is left."""
        code = 0
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            code = self.process.wait(60)
        return code

    def sweep(self) -> None:
        """After a test: end what is left, whatever state the test left it in."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(client.CallFailed):  # one that `up` started
            os.kill(
                client.call(address.rpc_socket(self.environment), "status", timeout_s=5)["pid"],
                signal.SIGKILL,
            )
        servers = self.postgres()
        for process in servers[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):  # it ends just now
                # it gives its shared memory back, which a kill would leave behind
                process.send_signal(signal.SIGQUIT)
        _, alive = psutil.wait_procs(servers, 5)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):  # a child goes with its postmaster
                process.kill()


def ensure_index(daemon: Daemon, root: Path, name: str) -> None:
    """Index a directory unless there is an index of that name: tests that only read share one."""
    if all(index["name"] != name for index in daemon.call("list_indexes")["indexes"]):
        daemon.index(root, name)


@contextlib.contextmanager
def freezing(processes: list[psutil.Process]) -> Iterator[None]:
    """Stop processes for a while. Those that end meanwhile are passed over: a postmaster's children
    come and go.
    """
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


@contextlib.contextmanager
def freezing_with_children(process: psutil.Process) -> Iterator[None]:
    """Stop a process, and then its children: those that it starts until it stands still as well."""
    with freezing([process]):
        while process.status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        with freezing(process.children(recursive=True)):
            yield


@contextlib.contextmanager
def passing_daemon(cluster: Path | None = None, **variables: str) -> Iterator[Daemon]:
    """Like `make_daemon`, but nothing of the daemon is left at the end."""
    daemon = make_daemon(**variables)
    daemon.cluster = cluster
    try:
        yield daemon
    finally:
        remove(daemon)


def remove(daemon: Daemon) -> None:
    """End what is left of a daemon, and remove its directories."""
    daemon.sweep()
    if daemon.cluster is not None:
        keep_cluster(daemon.home / "state" / "postgres" / "pg", daemon.cluster)
    shutil.rmtree(daemon.home, ignore_errors=True)


class DaemonPool:
    """Running daemons for tests of their own: what a test left running as it was is used again.

    To start a daemon and its indexing process costs 2 s of CPU.
    """

    def __init__(self, cluster: Path) -> None:
        self._cluster = cluster
        self._spares = list[Daemon]()

    @contextlib.contextmanager
    def daemon(self, count_failures: Callable[[], int]) -> Iterator[Daemon]:
        """A running daemon without indexes and with an empty log.

        It is removed if its test raises, or if `count_failures`, the number of failed tests, grows:
        nobody knows what a failed test left.
        """
        daemon = self._spares.pop() if self._spares else make_daemon()
        daemon.cluster = self._cluster
        failures = count_failures()
        with contextlib.ExitStack() as stack:
            stack.callback(remove, daemon)
            if daemon.process is None:
                daemon.start()
            os.truncate(daemon.home / "log", 0)
            yield daemon
            if count_failures() == failures and _is_reusable(daemon):
                stack.pop_all()
                self._spares.append(daemon)

    def close(self) -> None:
        """Stop the daemons that wait for a test."""
        try:
            assert [daemon.stop() for daemon in self._spares] == [0] * len(self._spares)
        finally:
            for daemon in self._spares:
                remove(daemon)


def _is_reusable(daemon: Daemon) -> bool:
    """Make a daemon as one that has just started, if it runs and was not configured; return
    whether it is.
    """
    process = daemon.process
    if process is None or process.poll() is not None or daemon.variables:
        return False
    if {path.name for path in daemon.home.iterdir()} != {"log", "run", "state"}:
        return False
    if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
        return False
    try:
        daemon.clear()
        status = daemon.call("status")
    except client.CallFailed:
        return False
    return (
        status["pid"] == process.pid
        and status["store"]["state"] == "up"
        and (status["worker"]["deaths"], status["worker"]["error"]) == (0, None)
        and not status["indexes"]
        and not status["warnings"]
    )


def make_daemon(**variables: str) -> Daemon:
    """A daemon with new directories, not started yet."""
    # Not pytest's tmp_path: it is 0700, and PostgreSQL, which never runs as root, must reach its
    # data when tests do.
    home = Path(tempfile.mkdtemp(prefix="cocosearch-test-"))
    home.chmod(0o711)
    return Daemon(home, variables)


def lasting_handles(pid: int) -> set[int]:
    """Return the file handles that stay open: one that is closed soon would be free again."""
    handles = set[int]()
    for look in range(20):
        names = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        handles = handles & names if look else names
        time.sleep(0.1)
    return handles


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=Test", "-c", "user.email=test@example.invalid", *arguments],
        cwd=root,
        check=True,
        capture_output=True,
    )
