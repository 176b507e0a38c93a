"""`doctor`: checks every dependency of the daemon and prints a fix for each problem."""

import argparse
import contextlib
import http.client
import os
import resource
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.running import service_manager
from cocosearch_ipc.cli.setup import listener
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.protocol import TROUBLED_STATES
from cocosearch_ipc.render import output, tables
from cocosearch_ipc.render.finding import Finding
from cocosearch_ipc.trust import ownership
from cocosearch_ipc.trust.credentials import TokenFile

Env = Mapping[str, str]

# With lower limits, a large repository cannot be watched file by file.
MIN_WATCHES = 65_536
BETTER_WATCHES = 524_288
MIN_INSTANCES = 128
MIN_FILES = 1_024
LOW_DISK_BYTES = 1 << 30
MAX_SKEW_S = 2.0
MOST_WATCHES_USED = 0.8
_WELL = ("", "ok", "up", "running", "ready")  # states of a part that works
_COLOURS = {"ok": output.GREEN, "warn": output.YELLOW, "fail": output.RED}


def run(args: argparse.Namespace, env: Env) -> int:
    """Print all findings; exit code 1 if one is a failure."""
    findings = [*machine(env), *_daemon(env)]
    if args.json:
        output.document({"findings": [asdict(finding) for finding in findings]})
    else:
        style = output.Style.of(sys.stdout, env)
        for finding in findings:
            state = style.paint(f"{finding.state:<4}", _COLOURS[finding.state])
            message = output.printable(finding.message, keep="")
            output.line(f"{state}  {finding.what}: {message}")
            if finding.fix:
                output.line(f"      {output.printable(finding.fix, keep='')}")
    return exits.FAILED if any(finding.state == "fail" for finding in findings) else exits.OK


def machine(env: Env) -> Iterator[Finding]:
    """Yield the findings that need no daemon."""
    state = Path(address.state_dir(env))
    run_dir = Path(address.rpc_socket(env)).parent
    yield _state(state)
    yield _directory("runtime directory", run_dir)
    yield _token(env)
    yield from _disk(state)
    if sys.platform == "linux":
        yield _limit("inotify watches", "max_user_watches", MIN_WATCHES)
        yield _limit("inotify instances", "max_user_instances", MIN_INSTANCES)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    enough = files >= MIN_FILES or files == resource.RLIM_INFINITY
    yield Finding(
        "open files",
        "ok" if enough else "warn",
        f"at most {files}",
        "" if enough else "ulimit -n 4096",
    )
    yield _service(env)


def _service(env: Env) -> Finding:
    if not service_manager.is_installed(env):
        return Finding("service", "ok", "none; `up` and the MCP bridge start the daemon")
    if differing := service_manager.outdated(env):
        return Finding(
            "service",
            "warn",
            f"{differing[0]} belongs to another version",
            "cocosearchctl service install",
        )
    if service_manager.state(env) == "failed":
        return Finding(
            "service",
            "fail",
            "it has failed",
            "cocosearchctl logs, then cocosearchctl service start",
        )
    return Finding("service", "ok", "installed")


def _writable(what: str, path: Path) -> Finding:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if os.access(existing, os.W_OK | os.X_OK):
        return Finding(what, "ok", str(path) if existing == path else f"{path} will be made")
    return Finding(
        what,
        "fail",
        f"{existing} cannot be written",
        "set COCOSEARCH_STATE_DIR to a directory of yours",
    )


def _state(path: Path) -> Finding:
    """Check the state directory as the daemon does, without creating it."""
    writable = _writable("state directory", path)
    if writable.state != "ok" or not path.exists():
        return writable
    try:
        ownership.state_directory(path)
    except Failure as failure:
        return Finding(writable.what, "fail", failure.message, failure.hint)
    return writable


def _directory(what: str, path: Path) -> Finding:
    try:
        status = path.lstat()
    except OSError:
        return Finding(what, "ok", f"{path} will be made")
    if not stat.S_ISDIR(status.st_mode):
        return Finding(what, "fail", f"{path} is not a directory", f"rm {path}")
    if status.st_uid != os.geteuid():
        return Finding(
            what, "fail", f"{path} belongs to another user", "set COCOSEARCH_RUNTIME_DIR"
        )
    if status.st_mode & 0o077:
        return Finding(what, "fail", f"others can enter {path}", f"chmod 700 {path}")
    return Finding(what, "ok", str(path))


def _token(env: Env) -> Finding:
    path = Path(address.token_file(env))
    if not path.exists():
        return Finding("token", "ok", f"{path} will be made")
    try:
        TokenFile(path).ensure()
    except (Failure, OSError) as error:
        return Finding(
            "token",
            "fail",
            str(error),
            getattr(error, "hint", "") or "cocosearchctl token --rotate",
        )
    return Finding("token", "ok", str(path))


def _disk(state: Path) -> Iterator[Finding]:
    """Yield findings about disk space and the file system's clock.

    The clock of a network mount may differ from this machine's.
    """
    existing = next(path for path in (state, *state.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    low = free < LOW_DISK_BYTES
    fix = f"free some space on {existing}" if low else ""
    usage = f", which holds {tables.size(_disk_usage(state))}" if existing == state else ""
    yield Finding(
        "disk", "warn" if low else "ok", f"{tables.size(free)} free for {state}{usage}", fix
    )
    if existing == state and os.access(state, os.W_OK):
        with tempfile.NamedTemporaryFile(dir=state, prefix="doctor-") as file:
            skew = abs(os.fstat(file.fileno()).st_mtime - time.time())
        is_skewed = skew > MAX_SKEW_S
        fix = "keep COCOSEARCH_STATE_DIR on a local disk" if is_skewed else ""
        yield Finding(
            "clock",
            "warn" if is_skewed else "ok",
            f"the file system's differs by {skew:.1f} s",
            fix,
        )


def _disk_usage(folder: Path) -> int:
    """Return the disk usage of a directory in bytes; unreadable and deleted files count as 0."""
    used = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                used += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return used


def _limit(what: str, name: str, minimum: int) -> Finding:
    try:
        value = int(Path(f"/proc/sys/fs/inotify/{name}").read_text("ascii"))
    except (OSError, ValueError) as error:
        return Finding(
            what, "warn", f"cannot be read: {error}", "changes are found by scanning only"
        )
    if value >= minimum:
        return Finding(what, "ok", f"{value:,}")
    better = BETTER_WATCHES if minimum == MIN_WATCHES else minimum
    return Finding(what, "warn", f"only {value:,}", f"sudo sysctl fs.inotify.{name}={better}")


def _daemon(env: Env) -> Iterator[Finding]:
    try:
        status = client.call(address.rpc_socket(env), "status", timeout_s=10.0)
    except client.CallFailed as failed:
        yield Finding("daemon", "fail", failed.message, failed.hint)
        return
    yield Finding("daemon", "ok", f"version {status['version']}, pid {status['pid']}")
    if status["version"] != client.VERSION:
        yield Finding("version", "warn", f"this is {client.VERSION}", "cocosearchctl restart")
    yield _bridge(env)
    yield _loopback(env, status["mcp"])
    yield from _watches(int(status["pid"]))
    for part in ("store", "embedder", "worker"):
        yield _part(part, status[part])
    for warning in status.get("warnings") or ():
        if warning == status["mcp"].get("error"):
            continue  # the finding `mcp` reports it
        waits = warning == status["worker"].get("paused")
        fix = "it continues by itself" if waits else "cocosearchctl restart"
        yield Finding("warning", "warn", warning, f"{fix}, after its cause is fixed")
    for index in status["indexes"]:
        yield from _index(index)


def _bridge(env: Env) -> Finding:
    path = address.bridge_socket(env)
    if client.reachable(path):
        return Finding("bridge socket", "ok", path)
    return Finding("bridge socket", "fail", f"{path} is missing", "cocosearchctl restart")


def _loopback(env: Env, mcp: dict[str, str]) -> Finding:
    """Check the TCP listener: it must be the daemon's, answer, and accept the token."""
    url = mcp.get("url", "")
    if mcp.get("error"):
        fix = (
            "stop that program and run `cocosearchctl restart`, or set server.port, "
            "or server.enabled: false"
        )
        return Finding("mcp", "fail", mcp["error"], fix)
    if not url:
        return Finding(
            "mcp", "ok", "the TCP listener is disabled; `cocosearchctl mcp` works without it"
        )
    try:
        listener.require_own_listener(env, url)
        token = TokenFile(Path(address.token_file(env))).ensure()
        code = _metrics_code(url, token)
    except client.CallFailed as failed:
        return Finding("mcp", "fail", failed.message, failed.hint)
    except (OSError, http.client.HTTPException, Failure) as error:
        return Finding("mcp", "fail", f"{url} does not answer: {error}", "cocosearchctl restart")
    if code != http.HTTPStatus.OK:
        return Finding("mcp", "fail", f"{url} refuses the token ({code})", "cocosearchctl restart")
    return Finding("mcp", "ok", f"{url} accepts the token")


def _metrics_code(url: str, token: str) -> int:
    connection = listener.connect(url)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def _watches(pid: int) -> Iterator[Finding]:
    """Compare the daemon's inotify watches with the limit.

    Other programs of the user need some watches too.
    """
    try:
        limit = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text("ascii"))
        used = sum(
            path.read_text("ascii").count("inotify wd:")
            for path in Path(f"/proc/{pid}/fdinfo").iterdir()
        )
    except (OSError, ValueError):  # no Linux, or not our process: `machine` has checked the limit
        return
    if used > limit * MOST_WATCHES_USED:
        fix = f"sudo sysctl fs.inotify.max_user_watches={limit * 2}"
        yield Finding("watches", "warn", f"{used:,} of {limit:,} are in use", fix)
    else:
        yield Finding("watches", "ok", f"{used:,} of {limit:,} are in use")


def _trouble(value: dict[str, Any]) -> str:
    return str(value.get("error") or value.get("reason") or "")


def _part(name: str, value: dict[str, Any]) -> Finding:
    state = str(value.get("state", ""))
    trouble = _trouble(value)
    if not trouble and state == "starting":
        return Finding(name, "warn", state, "wait: it takes a few seconds")
    if not trouble and state in _WELL:
        return Finding(name, "ok", state or "ok")
    # `trouble` is then the end of the previous process, possibly days ago
    if name == "worker" and state == "running":
        message = f"running; {value.get('deaths', 1)} earlier ones ended, the last by {trouble}"
        return Finding(name, "ok", message)
    fix = value.get("hint") or "see cocosearchctl logs"
    return Finding(name, "fail", trouble or state, fix)


def _index(index: dict[str, Any]) -> Iterator[Finding]:
    name = f"index {index['name']}"
    state = index["state"]
    if state in TROUBLED_STATES:
        yield Finding(
            name,
            TROUBLED_STATES[state],
            f"{state}: {index.get('reason') or ''}",
            f"cocosearchctl reindex {shlex.quote(index['name'])}",
        )
    else:
        yield Finding(
            name, "ok", f"{state}, {index['files']:,} files, {index['watcher'] or 'no watcher'}"
        )
    if index.get("failed"):
        first = index["failed"][0]
        count = index.get("failed_count", len(index["failed"]))
        message = f"{count:,} files were not indexed, e.g. {first['path']}: {first['error']}"
        yield Finding(name, "warn", message, "the daemon retries them by itself")
