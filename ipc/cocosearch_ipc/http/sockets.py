"""Binds the daemon's sockets, or inherits them from systemd or launchd. Standard library only.

A lock file beside the socket shows if a daemon runs: the socket file itself survives `kill -9`.
Cleanup programs may remove either file, or the directory, while the daemon runs; `renew` creates
them again.
"""

import contextlib
import ctypes
import errno
import fcntl
import io
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cocosearch_ipc.address import SOCKET_PATH_BYTES
from cocosearch_ipc.error_codes import CONFLICT, REFUSED
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.trust.ownership import private_directory
from cocosearch_ipc.trust.port_holder import describe_holder

BACKLOG = 128
FIRST_INHERITED_FD = 3  # sd_listen_fds(3)
# Times to wait for a lock that other processes test, and for one that a daemon has.
TESTED_S, ENDING_S, LOCK_POLL_S = 10.0, 0.07, 0.01

Identity = tuple[int, int]  # st_dev, st_ino


class PortTaken(Failure):
    """Another program listens on the configured port."""

    code = REFUSED


@dataclass(frozen=True, slots=True)
class BoundSockets:
    """Listening sockets.

    `tcp` is None if the TCP listener is off or not available: see `tcp_error`.
    """

    rpc: socket.socket
    bridge: socket.socket
    tcp: socket.socket | None
    lock: io.FileIO
    # the lock file is first, then come the socket files; None: the file was missing
    files: Mapping[Path, Identity | None]
    # socket files that `close` removes; a service manager keeps its own
    owned: tuple[Path, ...]
    tcp_error: str = ""  # the reason why a configured TCP listener is missing
    tls: bool = False  # `tcp` speaks TLS

    @property
    def port(self) -> int | None:
        """The actual port of the TCP listener."""
        return None if self.tcp is None else int(self.tcp.getsockname()[1])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for people about the sockets."""
        return (self.tcp_error,) if self.tcp_error else ()

    def urls(self) -> dict[str, str]:
        """Return the field `mcp` of `status`: URLs, or the `error` of a missing TCP listener."""
        if self.tcp is None:
            return {"error": self.tcp_error} if self.tcp_error else {}
        host = self.tcp.getsockname()[0]
        base = f"http{'s' if self.tls else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"
        return {"url": f"{base}/mcp", "sse_url": f"{base}/sse", "page_url": f"{base}/status"}

    def close(self) -> None:
        """Close the sockets, remove their files, and release the lock. Idempotent.

        A file that another process has replaced stays.
        """
        for s in (self.rpc, self.bridge, self.tcp):
            if s is not None:
                s.close()
        for path in self.owned:
            if _identity(path) == self.files.get(path):
                path.unlink(missing_ok=True)
        self.lock.close()


def bind(
    rpc_path: Path,
    bridge_path: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = 8765,
    port_needed: bool = True,
    inherited: Mapping[str, socket.socket] | None = None,
    tls: bool = False,
) -> BoundSockets:
    """Bind both Unix sockets (0600 in a private directory) and the TCP listener.

    `port` None leaves TCP out. If another program holds the port, no other port is tried, because
    clients would still send their token to that program. With `port_needed`, this is an error.
    Otherwise the TCP listener is left out and `BoundSockets.tcp_error` has the reason, because a
    second instance must be able to start.
    Raises `Failure`: `PortTaken`, CONFLICT if another daemon holds the lock, REFUSED for a
    directory that others can write to.
    """
    inherited = inherited or {}
    paths = {"rpc": rpc_path, "bridge": bridge_path}
    rpc_path.parent.parent.mkdir(parents=True, exist_ok=True)
    private_directory(rpc_path.parent)
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(_lock(_lock_path(rpc_path)))
        sockets = {
            name: inherited.get(name) or stack.enter_context(_unix(path))
            for name, path in paths.items()
        }
        tcp = inherited.get("mcp")
        tcp_error = ""
        if tcp is None:
            tcp, tcp_error = _listener(host, port, is_needed=port_needed)
        stack.pop_all()
    own_paths = [path for name, path in paths.items() if _path(sockets[name]) == path]
    return BoundSockets(
        rpc=sockets["rpc"],
        bridge=sockets["bridge"],
        tcp=tcp,
        lock=lock,
        files={path: _identity(path) for path in (_lock_path(rpc_path), *own_paths)},
        owned=tuple(path for name, path in paths.items() if name not in inherited),
        tcp_error=tcp_error,
        tls=tls,
    )


def _listener(host: str, port: int | None, *, is_needed: bool) -> tuple[socket.socket | None, str]:
    """Return the TCP listener and "", or None and a sentence if another program has its port.

    A `port` of None means no listener. Raises `PortTaken` if the listener is needed.
    """
    if port is None:
        return None, ""
    try:
        return _tcp(host, port), ""
    except PortTaken as taken:
        if is_needed:
            raise
        return None, f"MCP over TCP is off, because {taken.message}; {taken.hint}"


def renew(bound: BoundSockets) -> BoundSockets:
    """Return `bound` if its files still exist, else a copy with new sockets and a new lock.

    Only missing files are created again. A missing directory is created again too, but not its
    parents, because they do not belong to the daemon. Replaced sockets stay open. Raises `Failure`
    as `bind` does, and if another daemon has taken over. Raises `OSError` if nothing can be created.
    """
    missing = {
        path
        for path, identity in bound.files.items()
        if identity is None or _identity(path) != identity
    }
    if not missing:
        return bound
    lock_path, *_ = bound.files
    private_directory(lock_path.parent)
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(_lock(lock_path)) if lock_path in missing else bound.lock
        new = {path: stack.enter_context(_unix(path)) for path in missing - {lock_path}}
        stack.pop_all()
    files = {
        path: _identity(path) if path in missing else identity
        for path, identity in bound.files.items()
    }
    rpc, bridge = (new.get(_path(s), s) for s in (bound.rpc, bound.bridge))
    return replace(
        bound, rpc=rpc, bridge=bridge, lock=lock, files=files, owned=(*{*bound.owned, *new},)
    )


def _lock_path(rpc: Path) -> Path:
    return rpc.with_suffix(".lock")


def _path(listening: socket.socket) -> Path:
    return Path(os.fsdecode(listening.getsockname()))


def _identity(path: Path) -> Identity | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def inherited(env: Mapping[str, str], pid: int) -> dict[str, socket.socket]:
    """Return the sockets that systemd opened for process `pid`, by name (rpc, bridge, mcp).

    LISTEN_FDS counts them from descriptor 3 on; LISTEN_FDNAMES names them. See sd_listen_fds(3).
    """
    count = env.get("LISTEN_FDS", "")
    if env.get("LISTEN_PID") != str(pid) or not count.isdecimal():
        return {}
    names = env.get("LISTEN_FDNAMES", "").split(":")
    sockets = dict[str, socket.socket]()
    for position, name in zip(range(int(count)), names, strict=False):
        descriptor = FIRST_INHERITED_FD + position
        os.set_inheritable(descriptor, False)
        sockets[name] = socket.socket(fileno=descriptor)
    return sockets


def lock(descriptor: int) -> bool:
    """Lock an open file; return True on success.

    Processes that only test the lock (`up`, `down`) share it for a moment, or for as long as a busy
    machine lets them wait between two system calls: wait for their end. A daemon shares it with
    nobody; one that is just ending gets `ENDING_S`.
    """
    began = time.monotonic()
    while not _try_lock(descriptor, fcntl.LOCK_EX):
        is_tested = _try_lock(descriptor, fcntl.LOCK_SH)
        if is_tested:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        if time.monotonic() - began > (TESTED_S if is_tested else ENDING_S):
            return False
        time.sleep(LOCK_POLL_S)
    return True


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock(path: Path) -> io.FileIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    file = io.FileIO(descriptor, "r+")
    if not lock(descriptor):
        file.close()
        message = f"cocosearchd is already running ({path.parent})"
        raise Failure(message, "see `cocosearchctl status`", code=CONFLICT)
    return file


def _unix(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        hint = "set COCOSEARCH_RUNTIME_DIR to a shorter one"
        raise Failure(
            f"the socket path {path} is longer than {SOCKET_PATH_BYTES} bytes", hint, code=REFUSED
        )
    path.unlink(missing_ok=True)  # left by a killed daemon: we hold the lock, so nobody listens
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind(str(path))
    path.chmod(0o600)  # not by umask, which all threads share; nobody else can enter the directory
    s.listen(BACKLOG)
    return s


def _tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return _open_listening_socket(family, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and port != 0:
            message = f"port {port} of {host} is held by {describe_holder(host, port)}"
            hint = (
                "stop that program and run `cocosearchctl restart`, "
                "or set server.port to a free port"
            )
            raise PortTaken(message, hint) from None
        hint = "set server.host and server.port"
        raise Failure(
            f"cannot listen on {host}:{port}: {error.strerror}", hint, code=REFUSED
        ) from None


def _open_listening_socket(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    s = socket.socket(family, socket.SOCK_STREAM)
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, port))
        s.listen(BACKLOG)
    except OSError:
        s.close()
        raise
    return s


def launchd(names: Sequence[str]) -> dict[str, socket.socket]:
    """Return the sockets that launchd opened for this process, by their key in the plist.

    launch_activate_socket(3) returns an array of descriptors, which the caller must free, or an
    error number.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "launch_activate_socket"):
        return {}
    sockets = dict[str, socket.socket]()
    for name in names:
        descriptors = ctypes.POINTER(ctypes.c_int)()
        count = ctypes.c_size_t()
        failed = library.launch_activate_socket(
            name.encode(), ctypes.byref(descriptors), ctypes.byref(count)
        )
        if not failed and count.value:
            sockets[name] = socket.socket(fileno=descriptors[0])
            os.set_inheritable(sockets[name].fileno(), False)
            library.free(descriptors)
    return sockets
