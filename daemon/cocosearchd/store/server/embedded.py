"""Runs a private PostgreSQL below the state directory: initialise, start, adopt, stop.

The state of the server is read from its socket and from the process that runs on its data, never
from the pid file. The process that started the server may die: the server goes on, and the next
`ensure` adopts it.
"""

import fcntl
import hashlib
import logging
import os
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
from cocosearchd.store.server import roles
from cocosearchd.store.server.accounts import (
    Account,
    initialising_account,
    is_shared,
    server_account,
)
from cocosearchd.store.server.binaries import Install, copy_install, find_install
from cocosearchd.store.server.directories import (
    ensure_owned,
    foreign_owner,
    owner,
    transfer_ownership,
)
from cocosearchd.store.server.processes import (
    Process,
    child_pids,
    identify,
    list_processes,
    listener_uid,
    open_process_handle,
    read_process,
    send_signal,
)
from cocosearchd.store.server.server_log import trim_log

log = logging.getLogger(__name__)

DATABASE = "postgres"
PORT = "5432"  # only part of the socket's name
SOCKET = f".s.PGSQL.{PORT}"
# A server for one user, idle most of the time. Measured on 18.4: 5 processes, 13 MB and 19 wakeups
# a minute when idle, against 9 processes, 17 MB and 430 with PostgreSQL's defaults.
# wal_writer_delay keeps its default: a longer delay makes a crash lose more. shared_buffers is a
# setting of the daemon (`database.shared_buffers`), which `service` passes.
DEFAULTS = {
    "max_connections": "50",
    "maintenance_work_mem": "512MB",  # holds the graph of ~500k vectors while it is built
    "dynamic_shared_memory_type": "posix",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "30min",
    # otherwise PostgreSQL keeps a gigabyte of used log for hours after a large index, for reuse
    "wal_recycle": "off",
    "bgwriter_delay": "10s",
    "autovacuum_naptime": "5min",
    "jit": "off",
    "random_page_cost": "1.1",
    "log_checkpoints": "off",
    "log_min_error_statement": "panic",  # statements hold source code; the log does not
    "log_line_prefix": "'%m [%p] '",
}
# Size of a segment of the write-ahead log, instead of 16 MB: an idle server keeps one or two.
WAL_SEGMENT_MB = 1
SOCKET_GONE_S = 5.0
STARTING_LIMIT_S = 900.0
NO_ANSWER_LIMIT_S = 60.0
# A checkpoint may take longer. A server that quits at once replays its log at its next start. The
# sum of both limits is below the limits of the callers: tests/service_files/test_units.py.
STOP_LIMIT_S = 20.0
QUIT_LIMIT_S = 5.0
# sun_path has ~104 bytes, and the directory is an element of a list in postgresql.conf.
PATH_SAFE = re.compile(rb"[\w/.+@-]{1,85}")


class EmbeddedPostgres:
    """A server with its data in `home`. Every method blocks: call them in a thread.

    The daemon owns `home` (lock, configuration, log, copied programs). `home/pg` and the socket's
    directory belong to the account that the server runs as (`accounts`). A root daemon creates and
    writes nothing by name inside a directory of that account: the account could put a symbolic link
    there.

    `settings` are lines of postgresql.conf over `DEFAULTS`; `bin_dir` is a directory of
    PostgreSQL's programs.
    """

    def __init__(self, home: Path, settings: Mapping[str, str], bin_dir: str = "") -> None:
        # Links are resolved, because processes are recognised by the path of their data.
        home = home.parent.resolve() / home.name
        self.home = home
        self.data = home / "pg" / "data"
        self.run = home / "run"
        self.conf = home / "postgresql.conf"
        self.log = home / "postgres.log"
        self.bin_dir = bin_dir
        if not PATH_SAFE.fullmatch(os.fsencode(self.run)):
            digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
            self.run = Path("/tmp") / f"cocosearch-{os.geteuid()}-{digest}"  # noqa: S108 - owner and mode are checked
        self.settings = DEFAULTS | dict(settings)
        self.dsn = make_conninfo(host=str(self.run), port=PORT, user=roles.DAEMON, dbname=DATABASE)
        self.superuser_dsn = make_conninfo(self.dsn, user=roles.SUPERUSER)
        self._child: subprocess.Popen[bytes] | None = None  # None also when the server was adopted
        # Cached, to avoid a search through all processes.
        self._last_seen: Process | None = None
        self._choose_account()

    def _choose_account(self) -> None:
        """Set the account of the server, and the users that a running one may have."""
        data_owner = owner(self.home / "pg")
        self.account = server_account(self.home, data_owner)
        self.uid = self.account.uid if self.account else os.geteuid()
        self._uids = {self.uid} if data_owner is None else {self.uid, data_owner}

    def ensure(self) -> str:
        """Initialise, start or adopt the server; return its DSN as soon as it answers.

        Idempotent, and safe to race. Call it again whenever the server cannot be reached. Raises
        `StoreUnavailable`.
        """
        with self._hold_lock():
            install = self._install()
            self._initialise(install)
            self._configure(install)
            trim_log(self.log)
            self._start(install)
            roles.prepare_roles(self.superuser_dsn)
        return self.dsn

    def stop(self) -> None:
        """Shut the server down fast and wait for its end; if it does not end, make it quit at once.

        Idempotent.
        """
        server = self._postmaster()
        if server is None:
            return
        for order, limit_s in ((signal.SIGINT, STOP_LIMIT_S), (signal.SIGQUIT, QUIT_LIMIT_S)):
            deadline = time.monotonic() + limit_s
            send_signal(server, order)
            self._resume()
            while time.monotonic() < deadline:
                current = self._postmaster()
                if current is None or current.pid != server.pid:
                    return
                time.sleep(0.02)

    def _resume(self) -> None:
        """Continue stopped processes, which would not receive other signals."""
        for pid in self.pids():
            if running := read_process(pid):
                send_signal(running, signal.SIGCONT)

    def pids(self) -> tuple[int, ...]:
        """List the server's processes, the first process in front; empty if it does not run."""
        server = self._postmaster()
        if server is None:
            return ()
        return (server.pid, *child_pids(server.pid))

    def running(self) -> bool:
        """Return whether the server runs; cheap enough to call every second."""
        return self._postmaster() is not None

    def reachable(self) -> bool:
        """Return whether the server runs and its socket exists: a cleaner may have removed it.

        As cheap as `running`.
        """
        return self.running() and self.has_socket()

    def has_socket(self) -> bool:
        """Return whether the socket of the server exists."""
        return (self.run / SOCKET).exists()

    def handle(self) -> int | None:
        """Open a descriptor that becomes readable when the server ends, or None."""
        server = self._postmaster()
        descriptor = None if server is None else open_process_handle(server.pid)
        if descriptor is not None and self._postmaster() != server:
            os.close(descriptor)  # another process has the id now
            return None
        return descriptor

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Prepare `home` and hold its lock, so that racing daemons take turns."""
        ensure_owned(self.home, os.geteuid(), 0o711 if self.account else 0o700)
        self._check_reach()
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until closed; the server does not inherit it
            self._choose_account()  # again: another daemon may have transferred the data
            self._take_over()
            ensure_owned(self.home / "pg", self.uid, 0o700)
            ensure_owned(self.run, self.uid, 0o700)
            yield

    def _check_reach(self) -> None:
        """Raise `StoreUnavailable` if the account may not enter `home`."""
        if self.account is None or self._is_reachable(self.home):
            return
        blocked = next(
            path
            for path in (*reversed(self.home.parents), self.home)
            if not self._is_reachable(path)
        )
        raise StoreUnavailable(
            f"PostgreSQL does not run as root, and {self.account.label} cannot reach {self.home}",
            f"use a state directory such as /var/lib/cocosearch, or `chmod o+x {blocked}`, "
            "or set COCOSEARCH_DATABASE_URL",
        )

    def _take_over(self) -> None:
        """Transfer data of a shared account, or half-transferred data, to the server's account.

        A crash at any point is repaired by the next call: the directory is root's, and closed,
        until everything below it has its new owner.
        """
        folder = self.home / "pg"
        previous_owner = owner(folder)
        if self.account is None or previous_owner is None or previous_owner == self.uid:
            return
        if self.data.is_symlink() or (
            previous_owner != os.geteuid() and not is_shared(previous_owner)
        ):
            raise foreign_owner(folder)
        self.stop()
        if self.running():
            raise StoreUnavailable(
                "PostgreSQL runs as another user, and does not stop", f"see {self.log}"
            )
        ensure_owned(folder, os.geteuid(), 0o700, previous_owner=previous_owner)
        if is_shared(previous_owner):
            hint = f"if other programs run as it, delete {folder} and index again"
            log.warning(
                "database_was_shared",
                extra={"uid": previous_owner, "now": self.account.label, "hint": hint},
            )
        shutil.rmtree(folder / "data.part", ignore_errors=True)
        # ALTER SYSTEM by another user of that account
        (self.data / "postgresql.auto.conf").unlink(missing_ok=True)
        if (run_owner := owner(self.run)) is not None and is_shared(run_owner):
            shutil.rmtree(self.run)
        transfer_ownership(folder, self.account)

    def _install(self) -> Install:
        """Find the programs to run; copy them if the account cannot reach the originals."""
        version_file = self.data / "PG_VERSION"
        text = version_file.read_text("ascii", "replace").strip() if version_file.exists() else ""
        try:
            install = find_install(self.bin_dir, int(text) if text.isdigit() else None)
        except StoreUnavailable as error:
            if not text:
                raise
            hint = (
                f"{error.hint}; or delete {self.home / 'pg'} and index again: "
                "an index is derived data"
            )
            raise StoreUnavailable(error.message, hint) from None
        if self._is_reachable(install.bin / "postgres"):
            return install
        return copy_install(install, self.home / "install")

    def _initialise(self, install: Install) -> None:
        if self.data.exists():
            return
        part = self.data.with_name("data.part")
        shutil.rmtree(part, ignore_errors=True)  # left by a killed initialisation
        # --locale=C alone does not lower-case letters beyond ASCII. The builtin provider does, and
        # sorts by code point.
        builtin = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        locale = builtin if install.major >= 17 else ("--locale=C.UTF-8",)
        # Shared memory is then in files below `part`, where other processes of a lent account cannot
        # open it. No used log is kept for later.
        settings = ("dynamic_shared_memory_type=mmap", "wal_recycle=off")
        options = [f"--set={setting}" for setting in settings] if install.major >= 16 else []
        command = (
            install.bin / "initdb",
            "-D",
            part,
            "-U",
            roles.SUPERUSER,
            "-A",
            "peer",
            "-E",
            "UTF8",
            f"--wal-segsize={WAL_SEGMENT_MB}",
        )
        with self._lend_account(part) as account:
            result = self._call(*command, *locale, *options, account=account)
        if result.returncode:
            raise _does_not_start("initdb failed", result.stdout, self.home)
        part.rename(self.data)

    @contextmanager
    def _lend_account(self, part: Path) -> Iterator[Account | None]:
        """Lend the account that `initdb` runs as.

        Afterwards everything in `part` belongs to the server's account.
        """
        if self.account is None or self.account.name:
            yield self.account
            return
        account = initialising_account(self.account)
        folder = part.parent
        os.chown(folder, os.geteuid(), account.gid)
        folder.chmod(0o710)  # only the group may enter: other processes of the lent user stay out
        part.mkdir(0o700)
        os.chown(part, account.uid, account.gid)
        yield account
        transfer_ownership(part, self.account)
        ensure_owned(folder, self.uid, 0o700)

    def _configure(self, install: Install) -> None:
        """Write the configuration. If it or the programs have changed, stop a running server."""
        files = {"hba_file": (self.home / "pg_hba.conf", roles.access_rules())}
        files["ident_file"] = (self.home / "pg_ident.conf", roles.user_map())
        fixed = {
            **{name: f"'{path}'" for name, (path, _) in files.items()},
            "listen_addresses": "''",
            "port": PORT,
            "unix_socket_permissions": "0700",
            "unix_socket_directories": f"'{self.run}'",
        }
        if install.major >= 18:
            fixed["io_method"] = "sync"  # saves three idle processes
        lines = (f"{name} = {value}\n" for name, value in sorted((self.settings | fixed).items()))
        conf = f"# {install.bin} {install.stamp}\n" + "".join(lines)
        texts = dict(files.values()) | {self.conf: conf}  # postgresql.conf last: it completes them
        if all(path.exists() and path.read_text() == text for path, text in texts.items()):
            return
        self.stop()
        for name in ("pg_hba.conf", "pg_ident.conf"):  # unused, and older ones let everybody in
            (self.data / name).unlink(missing_ok=True)
        for path, text in texts.items():
            path.write_text(text)
            path.chmod(0o644)

    def _start(self, install: Install) -> None:
        """Wait until the server answers; start it if it does not run."""
        begin = time.monotonic()
        launched_at = None  # length of the log at our last launch
        self._resume()
        self._check_listener()
        while state := self._answer(install):
            waited = time.monotonic() - begin
            if self._postmaster() is None:
                self._check_launch(launched_at, waited)
                launched_at = self._launch(install)
            elif waited > SOCKET_GONE_S and not (self.run / SOCKET).exists():
                self.stop()  # another program has removed the socket
                launched_at = None
            # 1: the server is starting, maybe with a long recovery; 2: nothing answers.
            if waited > (STARTING_LIMIT_S if state == 1 else NO_ANSWER_LIMIT_S):
                raise StoreUnavailable("PostgreSQL does not answer", f"see {self.log}")
            time.sleep(0.05)

    def _check_listener(self) -> None:
        """Raise `StoreUnavailable` if another user's process listens on the server's socket."""
        uid = listener_uid(self.run / SOCKET)
        if uid not in (None, self.uid):
            raise StoreUnavailable(
                f"user {uid} listens on {self.run / SOCKET}", f"end that program, remove {self.run}"
            )

    def _answer(self, install: Install) -> int:
        """Return pg_isready's exit code; 0 means that the server accepts connections.

        The program runs as the caller: the server would log that the account itself may not connect.
        """
        arguments = (
            "-q",
            "-t",
            "2",
            "-h",
            self.run,
            "-p",
            PORT,
            "-U",
            roles.SUPERUSER,
            "-d",
            DATABASE,
        )
        command = [str(part) for part in (install.bin / "pg_isready", *arguments)]
        return subprocess.run(
            command, capture_output=True, check=False, **self._options(None)
        ).returncode

    def _launch(self, install: Install) -> int:
        for name in (SOCKET, f"{SOCKET}.lock"):
            (self.run / name).unlink(missing_ok=True)
        # A pid file without its server is wrong. PostgreSQL still notices processes that a killed
        # server left behind, by the key of their shared memory.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        # A file, not a pipe: the reader of a pipe may die before the server.
        with self.log.open("ab") as output:
            length = output.tell()
            command = [
                str(install.bin / "postgres"),
                "-D",
                str(self.data),
                "-c",
                f"config_file={self.conf}",
            ]
            # The server changes to this directory itself, but must be recognisable by it before.
            options = self._options(self.account) | {"cwd": self.data}
            self._child = subprocess.Popen(command, stdout=output, stderr=output, **options)
        return length

    def _check_launch(self, launched_at: int | None, waited: float) -> None:
        """Raise `StoreUnavailable` if our last launch has failed for good."""
        if launched_at is None:
            return
        with self.log.open("rb") as output:
            output.seek(launched_at)
            text = output.read().decode("utf-8", "replace")
        # Processes of a killed server still end their queries: try again.
        if "shared memory block" not in text or waited > NO_ANSWER_LIMIT_S:
            raise _does_not_start("PostgreSQL does not start", text, self.home)
        time.sleep(0.2)

    def _postmaster(self) -> Process | None:
        """Find the server's first process.

        Its children show the same command line until they have set their own.
        """
        if self._child and self._child.poll() is not None:
            self._child = None
        if self._child:
            return read_process(self._child.pid) or Process(self._child.pid, os.getpid(), "")
        if self._last_seen and self._last_seen == read_process(self._last_seen.pid):
            return self._last_seen
        servers = [running for running in list_processes() if self._is_server(running)]
        pids = {running.pid for running in servers}
        self._last_seen = next((running for running in servers if running.parent not in pids), None)
        return self._last_seen

    def _is_server(self, candidate: Process) -> bool:
        """Distinguish a server of this data from a process that only has the same command line."""
        if f" -D {self.data} -c config_file=" not in candidate.command:
            return False
        identity = identify(candidate.pid)
        if identity is None or identity.uid not in self._uids:
            return False
        if identity.program or identity.directory:
            folder = identity.directory.removesuffix(" (deleted)")
            return "postgres" in Path(identity.program).name and folder in ("", str(self.data))
        return not is_shared(identity.uid) or str(candidate.pid) == _first_line(
            self.data / "postmaster.pid"
        )

    def _is_reachable(self, path: Path) -> bool:
        return (
            self.account is None
            or self._call("/bin/sh", "-c", 'test -x "$0"', path).returncode == 0
        )

    def _call(
        self, *command: object, account: Account | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as the account; `stdout` has both its outputs."""
        texts = [str(part) for part in command]
        options = self._options(account or self.account) | {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        return subprocess.run(texts, text=True, errors="replace", check=False, **options)

    def _options(self, account: Account | None) -> dict[str, Any]:
        """Return options that start a program of the server as the account, without our environment.

        PGPORT, for example, would override our settings.
        """
        options: dict[str, Any] = {
            "env": {"LC_ALL": "C", "PATH": os.defpath},
            "cwd": "/",
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
        }
        if account:
            options |= {"user": account.uid, "group": account.gid, "extra_groups": []}
        return options


def _first_line(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").partition("\n")[0]
    except OSError:
        return ""


def _does_not_start(summary: str, output: str, home: Path) -> StoreUnavailable:
    """Build the error for `output`; its last FATAL, PANIC or error line has the cause to act on."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"FATAL|PANIC|error:", line)]
    cause = re.sub(r"^.*?(?=FATAL|PANIC|error:)", "", (causes or lines or ["no output"])[-1])[:500]
    hint = (
        f"see {home / 'postgres.log'}; if the data is damaged, delete {home / 'pg'} "
        "and index again: it is derived data"
    )
    if "No space left" in output:
        hint = f"free some space on the disk of {home}"
    return StoreUnavailable(f"{summary}: {cause}", hint)
