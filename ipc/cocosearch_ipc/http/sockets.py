"""Binds what the daemon listens on, or takes it over from systemd or launchd. Standard library
only.

A lock file beside the socket is the truth about "running": the socket file itself survives a `kill
-9`. Either may be cleaned away while the daemon runs, the whole directory as well; `renewed` makes
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
from cocosearch_ipc.protocol import CONFLICT, REFUSED, Failure
from cocosearch_ipc.trust.ownership import private_directory
from cocosearch_ipc.trust.port_holder import describe_holder

BACKLOG = 128
FIRST_INHERITED_FD = 3  # sd_listen_fds(3)

Identity = tuple[int, int]  # st_dev, st_ino


class PortTaken(Failure):
    """Another program listens on the port that a setting names."""

    code = REFUSED


@dataclass(frozen=True, slots=True)
class BoundSockets:
    """Listening sockets. `tcp` is None where the loopback listener is switched off, or cannot be
    had: see `lacking`.
    """

    rpc: socket.socket
    bridge: socket.socket
    tcp: socket.socket | None
    lock: io.FileIO
    # the lock's, then those by which clients come; None: it was not there
    files: Mapping[Path, Identity | None]
    # socket files that `close` removes; those of a service manager are not ours
    owned: tuple[Path, ...]
    lacking: str = ""  # why there is no `tcp` although it is wanted
    tls: bool = False  # whether `tcp` is to be spoken to in TLS

    @property
    def port(self) -> int | None:
        """The loopback port really taken."""
        return None if self.tcp is None else int(self.tcp.getsockname()[1])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know of the sockets."""
        return (self.lacking,) if self.lacking else ()

    def urls(self) -> dict[str, str]:
        """What `status` says under `mcp`: addresses; nothing without a TCP listener, or the `error`
        that costs it.
        """
        if self.tcp is None:
            return {"error": self.lacking} if self.lacking else {}
        host = self.tcp.getsockname()[0]
        base = f"http{'s' if self.tls else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"
        return {"url": f"{base}/mcp", "sse_url": f"{base}/sse", "page_url": f"{base}/status"}

    def close(self) -> None:
        """Close the sockets, remove their files if they are still ours, give up the lock. May be
        called twice.
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
    """Bind both Unix sockets (0600 in a private directory) and loopback TCP; `port` None leaves TCP
    out.

    A port that another program holds is never replaced: clients would go on sending their token to
    that program. Without `port_needed` the TCP listener is left out and `BoundSockets.lacking` says
    so: a second instance must start. Raises `Failure`: `PortTaken`, CONFLICT when another daemon
    holds the lock, REFUSED for a directory that others can write.
    """
    given = dict(inherited or {})
    rpc_path.parent.parent.mkdir(parents=True, exist_ok=True)
    private_directory(rpc_path.parent)
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(_lock(_lock_path(rpc_path)))
        owned = tuple(
            path for name, path in (("rpc", rpc_path), ("bridge", bridge_path)) if name not in given
        )
        rpc = given.get("rpc") or stack.enter_context(_unix(rpc_path))
        bridge = given.get("bridge") or stack.enter_context(_unix(bridge_path))
        tcp = given.get("mcp")
        lacking = ""
        if tcp is None and port is not None:
            try:
                tcp = _tcp(host, port)
            except PortTaken as taken:
                if port_needed:
                    raise
                lacking = f"MCP over TCP is off, because {taken.message}; {taken.hint}"
        stack.pop_all()
    ours = [
        path
        for path, listening in ((rpc_path, rpc), (bridge_path, bridge))
        if _path(listening) == path
    ]
    files = {path: _identity(path) for path in (_lock_path(rpc_path), *ours)}
    return BoundSockets(rpc, bridge, tcp, lock, files, owned, lacking, tls)


def renewed(bound: BoundSockets) -> BoundSockets:
    """`bound` itself while its files are there; else one with new sockets, and a new lock, for
    those that are not.

    Its directory is made again, but none above it: those were not the daemon's. What is replaced is
    left open. Raises `Failure` when another daemon has taken the place, and as `bind` does;
    `OSError` where nothing can be made.
    """
    gone = {
        path for path, known in bound.files.items() if known is None or _identity(path) != known
    }
    if not gone:
        return bound
    lock_path, *_ = bound.files
    private_directory(lock_path.parent)
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(_lock(lock_path)) if lock_path in gone else bound.lock
        new = {path: stack.enter_context(_unix(path)) for path in gone - {lock_path}}
        stack.pop_all()
    files = {
        path: _identity(path) if path in gone else known for path, known in bound.files.items()
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
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def inherited(env: Mapping[str, str], pid: int) -> dict[str, socket.socket]:
    """Sockets that systemd opened for process `pid`, by name (rpc, bridge, mcp); none where there
    are none.

    LISTEN_FDS counts them from descriptor 3 on; LISTEN_FDNAMES names them. See sd_listen_fds(3).
    """
    count = env.get("LISTEN_FDS", "")
    if env.get("LISTEN_PID") != str(pid) or not count.isdecimal():
        return {}
    names = env.get("LISTEN_FDNAMES", "").split(":")
    found = dict[str, socket.socket]()
    for position, name in zip(range(int(count)), names, strict=False):
        descriptor = FIRST_INHERITED_FD + position
        os.set_inheritable(descriptor, False)
        found[name] = socket.socket(fileno=descriptor)
    return found


def lock(descriptor: int) -> bool:
    """Whether the lock of an open file is ours now. Who only looks whether it is held (`down`) has
    it for a moment.
    """
    for pause in (0.01, 0.02, 0.04, 0.0):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
        else:
            return True
    return False


def _lock(path: Path) -> io.FileIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    file = io.FileIO(descriptor, "r+")
    if not lock(descriptor):
        file.close()
        message = f"cocosearchd is already running ({path.parent})"
        raise Failure(message, "`cocosearchctl status` shows it", code=CONFLICT)
    return file


def _unix(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        hint = "set COCOSEARCH_RUNTIME_DIR to a shorter one"
        raise Failure(
            f"the socket path {path} is longer than {SOCKET_PATH_BYTES} bytes", hint, code=REFUSED
        )
    path.unlink(missing_ok=True)  # left by a kill: we hold the lock, so nobody listens on it
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind(str(path))
    path.chmod(0o600)  # nobody else can enter the directory; the umask is of all threads
    s.listen(BACKLOG)
    return s


def _tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return _listening(family, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and port != 0:
            message = f"port {port} of {host} is held by {describe_holder(host, port)}"
            hint = "stop that program and run `cocosearchctl restart`, or set server.port to a free port"
            raise PortTaken(message, hint) from None
        hint = "set server.host and server.port"
        raise Failure(
            f"cannot listen on {host}:{port}: {error.strerror}", hint, code=REFUSED
        ) from None


def _listening(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
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
    """Sockets that launchd opened for this process, by their key in the plist; none where there are
    none.

    launch_activate_socket(3) gives an array of descriptors to be freed by the caller, or an error
    number.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "launch_activate_socket"):
        return {}
    found = dict[str, socket.socket]()
    for name in names:
        descriptors = ctypes.POINTER(ctypes.c_int)()
        count = ctypes.c_size_t()
        failed = library.launch_activate_socket(
            name.encode(), ctypes.byref(descriptors), ctypes.byref(count)
        )
        if not failed and count.value:
            found[name] = socket.socket(fileno=descriptors[0])
            os.set_inheritable(found[name].fileno(), False)
            library.free(descriptors)
    return found
