"""Starts and stops the daemon: through its installed service, else as a detached process."""

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, program
from cocosearch_ipc.cli.running import service_manager, termination
from cocosearch_ipc.cli.running.service_manager import STOP_S
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.trust import ownership

Env = Mapping[str, str]

# The first start creates a database; a stop drains and lets PostgreSQL write a checkpoint.
START_S = 180.0
# Time for a daemon to confirm its stop. A daemon younger than YOUNG_S may not listen yet.
ANSWER_S = 5.0
YOUNG_S = 10.0
DAEMON_POLL_S = 0.05
LONG_S = 1.0
NO_MESSAGE = "it wrote no message"  # instead of an error of a daemon
LOG_ROOM_BYTES = 1 << 20  # free bytes below which a disk may have no room for the log
LOCK_S = 10.0  # time for a new process to import its modules and take its lock


def ensure_running(env: Env, say: Callable[[str], object]) -> bool:
    """Start the daemon unless it runs; return True if it was started.

    Raises `client.CallFailed`.
    """
    running = _version(env, say)
    if running is not None:
        if running != client.VERSION:
            say(f"hint: {client.upgrade(running)}")
        return False
    first = not (Path(address.state_dir(env)) / "postgres").exists()
    say(f"starting cocosearchd{' (the first start creates its database)' if first else ''} ...")
    if service_manager.is_installed(env):
        service_manager.start(env)
        _wait(env, None, 0)
        return True
    log = Path(address.log_file(env))
    offset = _prepare(log)
    process: subprocess.Popen[bytes] | None = None
    try:
        with _postponed_interrupt():  # else a daemon could start that nobody knows of
            process = _launch(env, log)
        _wait(env, process, offset)
    except KeyboardInterrupt:
        if process is not None:
            say("cocosearchd continues to start in the background; `cocosearchctl down` stops it")
            _wait_until_locked(env, process)
        raise
    return True


def _launch(env: Env, log: Path) -> subprocess.Popen[bytes]:
    """Start the daemon as a detached process that appends to a log."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o600), "ab") as stream:
        return subprocess.Popen(
            program.command(env),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd="/",
            env=dict(env),
            start_new_session=True,
        )


@contextmanager
def _postponed_interrupt() -> Iterator[None]:
    """Raise the KeyboardInterrupt of a SIGINT that comes within the context at its end."""
    former = signal.getsignal(signal.SIGINT)
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or not callable(former):  # no other thread is interrupted
        yield
        return
    interrupts = list[int]()
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if interrupts:
        signal.raise_signal(signal.SIGINT)


def _version(env: Env, say: Callable[[str], object]) -> str | None:
    """Return the version of the running daemon, or None.

    Wait for a daemon that has its socket but not yet its database, until it answers or ends. Raises
    `client.CallFailed` if it stays silent: a second daemon could not start beside it.
    """
    began = time.monotonic()
    is_quiet = True
    while client.reachable(address.rpc_socket(env)):
        try:
            return str(client.call(address.rpc_socket(env), "status", timeout_s=5.0)["version"])
        except client.CallFailed as failed:
            reason = failed
        service_manager.require_healthy(env)
        if time.monotonic() - began > START_S:
            raise _unresponsive(reason)
        if is_quiet and time.monotonic() - began > LONG_S:
            say("waiting for cocosearchd, which runs but does not answer yet ...")
            is_quiet = False
        time.sleep(DAEMON_POLL_S)
    return None


def _unresponsive(reason: client.CallFailed) -> client.CallFailed:
    message = f"cocosearchd did not answer within {START_S:g} s: {reason.message}"
    return client.CallFailed(message, "see `cocosearchctl logs`", reason=client.NOT_RUNNING)


def stop(env: Env, say: Callable[[str], object]) -> int | None:
    """Stop the daemon and wait for the end of its process; return its pid, or None if none runs.

    Report long waits through `say`. A daemon that does not answer is killed at once; a daemon that
    answers but does not end is killed after `STOP_S`. See `termination.force_stop`.
    """
    path = address.rpc_socket(env)
    # first, because a connection makes the service manager start the daemon
    service_manager.require_healthy(env)
    _wait_until_reachable(env, say)
    if not client.reachable(path) and termination.holder(env) is None:
        if termination.cancel_restart(env):
            say("cocosearchd froze; its restart has been cancelled")
        return None
    termination.forbid_restart(env)
    pid = _ask_to_stop(env)
    if pid is None:
        frozen = termination.holder(env)
        if frozen is not None:
            termination.force_stop(frozen.pid, env, say)
        return frozen and frozen.pid
    try:
        _wait_until_gone(pid, env, say)
    except KeyboardInterrupt:
        say(
            f"cocosearchd (pid {pid}) continues to stop in the background; `cocosearchctl "
            "restart` starts it again"
        )
        raise
    return pid


def _ask_to_stop(env: Env) -> int | None:
    """Request a stop; return the pid of the daemon, or None if it does not answer."""
    holder = termination.holder(env)
    young_s = YOUNG_S - (time.time() - holder.since) if holder else 0.0
    try:
        answer = client.call(address.rpc_socket(env), "shutdown", timeout_s=max(ANSWER_S, young_s))
    except client.CallFailed as failed:
        if holder is not None and failed.reason == client.NOT_RUNNING:
            return holder.pid  # it is already stopping, or its watchdog has killed it
        if holder is None or failed.code != client.TIMED_OUT:
            raise  # it belongs to another state directory, or it has answered
        return None
    return int(answer["pid"])


def _wait_until_gone(pid: int, env: Env, say: Callable[[str], object]) -> None:
    lock = Path(address.rpc_socket(env)).with_suffix(".lock")
    began = time.monotonic()
    end = time.monotonic() + STOP_S
    is_quiet = True
    while termination.is_alive(pid) or termination.is_locked(lock):
        if is_quiet and time.monotonic() - began > LONG_S:
            say(f"stopping cocosearchd (pid {pid}) ...")
            is_quiet = False
        if time.monotonic() > end:
            termination.force_stop(pid, env, say)
            return
        time.sleep(DAEMON_POLL_S)


def _wait_until_locked(env: Env, process: subprocess.Popen[bytes]) -> None:
    """Wait until the daemon has locked its state: from then on, `stop` can find it."""
    end = time.monotonic() + LOCK_S
    while (
        process.poll() is None
        and not termination.is_locked(termination.state_lock(env))
        and time.monotonic() < end
    ):
        time.sleep(DAEMON_POLL_S)


def _wait_until_reachable(env: Env, say: Callable[[str], object]) -> None:
    """Wait for the socket of a daemon that holds its lock: it is starting or stopping."""
    began = time.monotonic()
    is_quiet = True
    end = began + START_S
    lock = termination.state_lock(env)
    path = address.rpc_socket(env)
    while termination.is_locked(lock) and not client.reachable(path) and time.monotonic() < end:
        _require_own_socket(env, began)
        if os.path.exists(path) and time.monotonic() - began > ANSWER_S:
            return  # its socket exists but accepts no connection: it is frozen
        if is_quiet:
            say("waiting for cocosearchd, which is starting or stopping ...")
            is_quiet = False
        time.sleep(DAEMON_POLL_S)


def _require_own_socket(env: Env, since: float) -> None:
    """Raise `client.CallFailed` if the daemon of this state listens elsewhere, or nowhere.

    If its socket has been missing `since` for longer than a stop takes, it listens nowhere: another
    program has removed the socket.
    """
    holder = termination.holder(env)
    if holder is None:
        return
    pid = holder.pid
    actual = holder.socket
    directory = os.path.dirname(actual)
    expected = address.rpc_socket(env)
    if actual != expected:
        message = (
            f"cocosearchd (pid {pid}) is running, with its sockets in {directory} "
            f"and not in {os.path.dirname(expected)}"
        )
        raise client.CallFailed(
            message, f"COCOSEARCH_RUNTIME_DIR={shlex.quote(directory)}", reason=client.NOT_RUNNING
        )
    if not os.path.exists(actual) and time.monotonic() - since > STOP_S:
        message = f"cocosearchd (pid {pid}) is running, but its socket {actual} is gone"
        raise client.CallFailed(
            message,
            f"`kill {pid}` loses no data; then start it again",
            reason=client.NOT_RUNNING,
        )


def last_error(text: str) -> tuple[str, str]:
    """Return the last error of a log and its hint.

    An error is a line `error: ... — hint: ...`, or a JSON record.
    """
    for line in reversed(text.splitlines()):
        if line.startswith("error: "):
            message, _, hint = line.removeprefix("error: ").partition(" — hint: ")
            return message, hint
        if line.startswith("{"):
            record = _record(line)
            if record:
                return record
    return next((line for line in reversed(text.splitlines()) if line.strip()), NO_MESSAGE), ""


def _record(line: str) -> tuple[str, str] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if record.get("level") not in ("error", "critical"):
        return None
    return str(record.get("error") or record.get("event") or ""), str(record.get("hint") or "")


def _prepare(log: Path) -> int:
    """Create the log's directory, and return the offset of new records.

    Raises `client.CallFailed` if other users can write to the directory.
    """
    try:
        ownership.state_directory(log.parent)
    except Failure as failure:
        failed = client.CallFailed(failure.message, failure.hint, code=failure.code)
        failed.exit_code = exits.NOT_RUNNING
        raise failed from None
    return log.stat().st_size if log.exists() else 0


def _wait(env: Env, process: subprocess.Popen[bytes] | None, offset: int) -> None:
    """Wait until the daemon answers `status`.

    Raises `client.CallFailed` with the daemon's last error if it ends instead.
    """
    path = address.rpc_socket(env)
    end = time.monotonic() + START_S
    ended = None
    while True:
        try:
            client.call(path, "status", timeout_s=5.0)
            return
        except client.CallFailed as failed:
            reason = failed
        if process is not None and process.poll() not in (None, exits.ALREADY_RUNNING):
            raise _start_failed(env, process.returncode, offset)
        if process is not None and process.poll() == exits.ALREADY_RUNNING:
            ended = ended or time.monotonic()
            _require_own_socket(env, ended)
        if process is None:
            service_manager.require_healthy(env)
        if time.monotonic() > end:
            raise _unresponsive(reason)
        time.sleep(DAEMON_POLL_S)


def _start_failed(env: Env, code: int, offset: int) -> client.CallFailed:
    log = Path(address.log_file(env))
    with log.open("rb") as stream:
        is_rotated = os.fstat(stream.fileno()).st_size < offset
        stream.seek(0 if is_rotated else offset)
        message, hint = last_error(stream.read().decode("utf-8", "replace"))
    disk = os.statvfs(log.parent)
    if message == NO_MESSAGE and disk.f_bavail * disk.f_frsize < LOG_ROOM_BYTES:
        message = "the disk of its state directory is full"
        hint = f"free some space for {log.parent}"
    failed = client.CallFailed(f"cocosearchd did not start: {message}", hint or f"its log is {log}")
    failed.exit_code = (
        code if code in (exits.ALREADY_RUNNING, exits.BAD_SETTINGS) else exits.NOT_RUNNING
    )
    return failed


def warn_of_trouble(status: dict[str, Any], say: Callable[[str], object]) -> None:
    """Warn if the daemon runs without its TCP listener although it is configured."""
    if error := status["mcp"].get("error"):
        say(f"warning: {error}; clients that use this port send their token to it")
