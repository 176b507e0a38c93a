"""A private PostgreSQL below the state directory: initialise, start, adopt, stop.

The truth about the server is what answers on its socket and which process runs on its data, never the pid file.
Whoever starts it may die: the server goes on and the next `ensure` adopts it.
"""

import fcntl
import hashlib
import logging
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.binaries import Install, copy_install, find_install
from cocosearchd.store.processes import Process, children, handle, process, processes
from cocosearchd.store.server_log import trim

log = logging.getLogger(__name__)

USER, DATABASE, PORT = "cocosearch", "postgres", "5432"  # the port is only part of the socket's name
SOCKET = f".s.PGSQL.{PORT}"
# A server for one user, idle most of the time. Measured on 18.4: 5 processes, 13 MB and 19 wakeups a minute when idle,
# against 9 processes, 17 MB and 430 with PostgreSQL's defaults. wal_writer_delay stays: it widens what a crash loses.
DEFAULTS = {
    "max_connections": "50",
    "shared_buffers": "128MB",
    "maintenance_work_mem": "512MB",  # holds the graph of ~500k vectors while it is built
    "dynamic_shared_memory_type": "posix",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "30min",
    "wal_recycle": "off",  # else a gigabyte of used log stays for hours after a large index, for more of it to come
    "bgwriter_delay": "10s",
    "autovacuum_naptime": "5min",
    "jit": "off",
    "random_page_cost": "1.1",
    "log_checkpoints": "off",
    "log_min_error_statement": "panic",  # statements hold source code; the log does not
    "log_line_prefix": "'%m [%p] '",
}
SOCKET_GONE_S, STARTING_LIMIT_S, SILENT_LIMIT_S, STOP_LIMIT_S = 5.0, 900.0, 60.0, 60.0
PATH_SAFE = re.compile(rb"[\w/.+@-]{1,85}")  # sun_path holds ~104 bytes, and the directory stands in a config list


class EmbeddedPostgres:
    """One server with its data in `home`. Every method blocks: call it in a thread.

    `home` is the daemon's (lock, configuration, log, copied programs); `home/pg` and the socket's directory belong to
    the account the server runs as. PostgreSQL refuses to run as root, so root gives way to the owner of the data, to a
    system user `cocosearch`, else to `nobody`. As root, nothing inside a directory of that account is created or
    written by name, since the account could put a symbolic link there.

    `settings` are lines of postgresql.conf over `DEFAULTS`; `bin_dir` is a directory of PostgreSQL's programs.
    """

    def __init__(self, home: Path, settings: Mapping[str, str], bin_dir: str = "") -> None:
        home = home.parent.resolve() / home.name  # one name, however the directory is called: processes are known by it
        self.home, self.data, self.run = home, home / "pg" / "data", home / "run"
        self.conf, self.log, self.bin_dir = home / "postgresql.conf", home / "postgres.log", bin_dir
        self.account = _account(home / "pg")
        self.uid = self.account.pw_uid if self.account else os.geteuid()
        if not PATH_SAFE.fullmatch(os.fsencode(self.run)):
            digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
            self.run = Path("/tmp") / f"cocosearch-{self.uid}-{digest}"  # noqa: S108 - owner and mode are checked
        self.settings = DEFAULTS | dict(settings)
        self.dsn = make_conninfo(host=str(self.run), port=PORT, user=USER, dbname=DATABASE)
        self._child: subprocess.Popen[bytes] | None = None  # None also when the server was adopted
        self._seen: int | None = None  # the server's process when last looked for: spares a search

    def ensure(self) -> str:
        """Initialise, start or adopt the server; return its DSN once it answers. Idempotent, safe to race.

        Call it again whenever the server cannot be reached. Raises `StoreUnavailable`.
        """
        with self._locked():
            install = self._install()
            self._initialise(install)
            self._configure(install)
            trim(self.log)
            self._start(install)
        return self.dsn

    def stop(self) -> None:
        """Fast shutdown, waiting for it; a server that does not follow is told to stop at once. Idempotent."""
        server = self._postmaster()
        if server is None:
            return
        for order, patience_s in ((signal.SIGINT, STOP_LIMIT_S), (signal.SIGQUIT, 10.0)):
            deadline = time.monotonic() + patience_s
            _kill(server.pid, order)
            self._resume()
            while time.monotonic() < deadline:
                current = self._postmaster()
                if current is None or current.pid != server.pid:
                    return
                time.sleep(0.02)

    def _resume(self) -> None:
        """Who has stopped its processes does not keep it from being told anything."""
        for pid in self.pids():
            _kill(pid, signal.SIGCONT)

    def pids(self) -> tuple[int, ...]:
        """The server's processes, its first one in front; empty when it does not run."""
        server = self._postmaster()
        if server is None:
            return ()
        return (server.pid, *children(server.pid))

    def running(self) -> bool:
        """Whether there is a server, as `pids` says; cheap enough to ask every second."""
        return self._postmaster() is not None

    def reachable(self) -> bool:
        """Whether there is a server, and its socket: somebody may clean that away. As cheap as `running`."""
        return self.running() and (self.run / SOCKET).exists()

    def handle(self) -> int | None:
        """What becomes readable when the running server ends, as `processes.handle` has it."""
        server = self._postmaster()
        found = None if server is None else handle(server.pid)
        if found is not None and self._postmaster() != server:
            os.close(found)  # of whoever has its number now
            return None
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Prepares `home` and holds its lock, so that racing daemons take turns."""
        _own(self.home, os.geteuid(), 0o711 if self.account else 0o700)
        if not self._reachable(self.home):
            blocked = next(path for path in (*reversed(self.home.parents), self.home) if not self._reachable(path))
            name = self.account.pw_name if self.account else ""
            raise StoreUnavailable(
                f"PostgreSQL does not run as root, and user {name} cannot reach {self.home}",
                f"use a state directory such as /var/lib/cocosearch, or `chmod o+x {blocked}`, "
                "or set COCOSEARCH_DATABASE_URL",
            )
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until closed; the server does not inherit it
            _own(self.home / "pg", self.uid, 0o700)
            _own(self.run, self.uid, 0o700)
            yield

    def _install(self) -> Install:
        """The programs to run, as copies where the account cannot reach the originals."""
        version_file = self.data / "PG_VERSION"
        text = version_file.read_text("ascii", "replace").strip() if version_file.exists() else ""
        try:
            install = find_install(self.bin_dir, int(text) if text.isdigit() else None)
        except StoreUnavailable as error:
            if not text:
                raise
            hint = f"{error.hint}; or delete {self.home / 'pg'} and index again: an index is derived data"
            raise StoreUnavailable(error.message, hint) from None
        if self._reachable(install.bin / "postgres"):
            return install
        return copy_install(install, self.home / "install")

    def _initialise(self, install: Install) -> None:
        if self.data.exists():
            return
        if self.account and self.account.pw_name == "nobody":
            log.warning("database_account_shared", extra={"action": "initdb", "account": "nobody"})
        part = self.data.with_name("data.part")
        shutil.rmtree(part, ignore_errors=True)  # of an initialisation that was killed
        # --locale=C alone does not lower-case beyond ASCII; the builtin provider does, and sorts by code point.
        builtin = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        locale = builtin if install.major >= 17 else ("--locale=C.UTF-8",)
        made = self._call(install.bin / "initdb", "-D", part, "-U", USER, "-A", "trust", "-E", "UTF8", *locale)
        if made.returncode:
            raise _does_not_start("initdb failed", made.stdout, self.home)
        part.rename(self.data)

    def _configure(self, install: Install) -> None:
        """Writes the configuration; one that differs, or other programs, restart a running server."""
        fixed = {
            "listen_addresses": "''",
            "port": PORT,
            "unix_socket_permissions": "0700",
            "unix_socket_directories": f"'{self.run}'",
        }
        if install.major >= 18:
            fixed["io_method"] = "sync"  # saves three idle processes
        lines = (f"{name} = {value}\n" for name, value in sorted((self.settings | fixed).items()))
        conf = f"# {install.bin} {install.stamp}\n" + "".join(lines)
        if not self.conf.exists() or self.conf.read_text() != conf:
            self.stop()
            self.conf.write_text(conf)
            self.conf.chmod(0o644)

    def _start(self, install: Install) -> None:
        """Waits until the server answers, starting it where none runs."""
        begin, launched_at = time.monotonic(), None  # launched_at: length of the log at our last launch
        self._resume()
        while state := self._answer(install):
            waited = time.monotonic() - begin
            if self._postmaster() is None:
                self._check_launch(launched_at, waited)
                launched_at = self._launch(install)
            elif waited > SOCKET_GONE_S and not (self.run / SOCKET).exists():
                self.stop()  # somebody cleaned the socket away
                launched_at = None
            # 1: it is starting, which may be a long recovery; 2: nothing answers.
            if waited > (STARTING_LIMIT_S if state == 1 else SILENT_LIMIT_S):
                raise StoreUnavailable("PostgreSQL does not answer", f"see {self.log}")
            time.sleep(0.05)

    def _answer(self, install: Install) -> int:
        """pg_isready's exit code; 0 means that the server accepts connections."""
        ask = ("-q", "-t", "2", "-h", self.run, "-p", PORT, "-U", USER, "-d", DATABASE)
        return self._call(install.bin / "pg_isready", *ask).returncode

    def _launch(self, install: Install) -> int:
        for name in (SOCKET, f"{SOCKET}.lock"):
            (self.run / name).unlink(missing_ok=True)
        # A pid file without its server lies. Processes that a killed server left behind are still noticed, by the
        # key of their shared memory.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        with self.log.open("ab") as output:  # a file, never a pipe: a pipe's reader may die before the server
            length = output.tell()
            command = [str(install.bin / "postgres"), "-D", str(self.data), "-c", f"config_file={self.conf}"]
            self._child = subprocess.Popen(command, stdout=output, stderr=output, **self._options())
        return length

    def _check_launch(self, launched_at: int | None, waited: float) -> None:
        """Raises `StoreUnavailable` if our last launch ended by itself for good."""
        if launched_at is None:
            return
        with self.log.open("rb") as output:
            output.seek(launched_at)
            text = output.read().decode("utf-8", "replace")
        # Processes of a killed server still end their queries: try again.
        if "shared memory block" not in text or waited > SILENT_LIMIT_S:
            raise _does_not_start("PostgreSQL does not start", text, self.home)
        time.sleep(0.2)

    def _postmaster(self) -> Process | None:
        """The server's first process. Its children show the same command line until they have named themselves."""
        mark = f" -D {self.data} -c config_file="
        if self._seen and (same := process(self._seen)) and mark in same.command:
            return same
        found = [running for running in processes() if mark in running.command]
        pids = {running.pid for running in found}
        if self._child and self._child.pid not in pids:
            self._child.wait()  # it has ended, since its command line is gone
            self._child = None
        server = next((running for running in found if running.parent not in pids), None)
        self._seen = server.pid if server else None
        return server

    def _reachable(self, path: Path) -> bool:
        return self.account is None or self._call("/bin/sh", "-c", 'test -x "$0"', path).returncode == 0

    def _call(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Runs a program as the account; both outputs in `stdout`."""
        texts = [str(part) for part in command]
        options = self._options() | {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.run(texts, text=True, errors="replace", check=False, **options)

    def _options(self) -> dict[str, Any]:
        """How its programs are started: as the account, with no environment of ours (PGPORT would win over us)."""
        options: dict[str, Any] = {
            "env": {"LC_ALL": "C", "PATH": os.defpath},
            "cwd": "/",
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
        }
        if self.account:
            options |= {"user": self.uid, "group": self.account.pw_gid, "extra_groups": []}
        return options


def _account(owned: Path) -> pwd.struct_passwd | None:
    """Whom the server runs as; None: the caller. `nobody` shares its rights with every other service that uses it."""
    if os.geteuid() != 0:
        return None
    owner = owned.stat().st_uid if owned.exists() else 0
    users = {user.pw_name: user for user in pwd.getpwall()}
    known = next((user for user in users.values() if user.pw_uid == owner != 0), None)
    return known or users.get("cocosearch") or users.get("nobody")


def _own(path: Path, uid: int, mode: int) -> None:
    """Makes `path` a directory of `uid`. Refuses one of somebody else, and a symbolic link."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    owner = path.lstat().st_uid
    if path.is_symlink() or owner not in (uid, os.geteuid()):
        raise StoreUnavailable(f"{path} belongs to somebody else", "remove it, or use another state directory")
    if owner != uid:  # else not even asked: as a service of systemd, the daemon may not give files away
        os.chown(path, uid, -1, follow_symlinks=False)
    path.chmod(mode)


def _kill(pid: int, order: signal.Signals) -> None:
    try:
        os.kill(pid, order)
    except ProcessLookupError:
        return


def _does_not_start(what: str, output: str, home: Path) -> StoreUnavailable:
    """The error for `output`: the cause people can act on is in its FATAL, PANIC or error line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"FATAL|PANIC|error:", line)]
    cause = re.sub(r"^.*?(?=FATAL|PANIC|error:)", "", (causes or lines or ["no output"])[-1])[:500]
    hint = (
        f"see {home / 'postgres.log'}; if the data is damaged, delete {home / 'pg'} and index again: it is derived data"
    )
    if "No space left" in output:
        hint = f"free some space on the disk of {home}"
    return StoreUnavailable(f"{what}: {cause}", hint)
