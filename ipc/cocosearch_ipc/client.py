"""A client of the daemon: JSON-RPC over HTTP on its Unix socket.

    from cocosearch_ipc import address, client
    socket = address.rpc_socket(address.environment())
    reply = client.call(socket, "search", {"query": "where are retries decided"})

Send only parameters that differ from their default: an older daemon refuses unknown names. The
module uses only the standard library, so that other programs can copy it.
"""

from __future__ import annotations

import _socket  # the C part of `socket`, whose enumerations and selectors cost the hot path 3 ms
import json
import os
import struct
import sys

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    Params = dict[str, Any]

VERSION = "0.1.0"  # of the distribution; a constant, because reading its metadata costs 12 ms
SPEAKS = 1  # protocol.PROTOCOL_VERSION; not imported, because dataclasses cost the hot path 8 ms
# The same as in `error_codes`, so that a copy of this module works alone.
UNAVAILABLE = -32001
TIMED_OUT = -32006
NOT_RUNNING = "not running"
REFUSED_SOCKET = "socket refused"
MAX_REPLY_BYTES = 256 << 20
LIVENESS_CHECK_S = 2.0  # interval of the liveness check while the daemon is silent
SESSION_S = 365 * 86_400.0  # an editor may stay idle for any time
LINUX = sys.platform == "linux"


class CallFailed(Exception):
    """A call without a result: an error of the daemon, or an unreachable daemon (see `reason`).

    `exit_code` overrides the exit code of the command line.
    """

    exit_code: int | None = None

    def __init__(
        self, message: str, hint: str = "", *, code: int = UNAVAILABLE, reason: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.reason = reason


def call(
    path: str,
    method: str,
    params: Params | None = None,
    timeout_s: float = 60.0,
    on_other_version: Callable[[str], object] | None = None,
    on_silence: Callable[[], object] | None = None,
) -> Any:
    """Return the result of one call over the socket at `path`. Raises `CallFailed`.

    `on_other_version` receives the daemon's version if it differs from this client's. `on_silence` is called every
    two seconds without data; an exception from it ends the call.
    """
    with _open_connection(path, timeout_s) as s:
        try:
            _send(s, method, params or {}, timeout_s, b"application/json")
            if on_silence is not None:
                _wait_for_data(s, timeout_s, on_silence)
            head, _, payload = b"".join(_chunks(_receive(s, 1 << 18))).partition(b"\r\n\r\n")
        except TimeoutError:
            raise _timed_out(method, timeout_s) from None
        except OSError as error:
            raise _closed_error(error) from None
    if on_other_version is not None and (version := _header(head, b"x-cocosearch-version")) not in (
        "",
        VERSION,
    ):
        on_other_version(version)
    return _result(head, payload)


def stream(
    path: str, method: str, params: Params | None = None, idle_s: float = 60.0
) -> Generator[Any, None, None]:
    """Yield every progress value of a call; the last value is the result. Raises `CallFailed`.

    Closing the iterator closes the connection, which cancels the call.
    """
    with _open_connection(path, idle_s) as s:
        try:
            _send(s, method, params or {}, None, b"application/x-ndjson")
            lines = _lines(_receive(s, 1 << 16))
            head = b"".join(iter(lambda: next(lines, b"").rstrip(b"\r\n") + b"\n", b"\n"))
            if b"application/x-ndjson" not in head:
                yield _result(head, b"".join(lines))
                return
            last = None
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # the daemon was killed while it wrote the line
                message = json.loads(line)
                if "id" in message:
                    if (result := _result(head, line)) != last:
                        yield result
                    return
                last = message["params"]["value"]
                yield last
        except TimeoutError:
            raise _timed_out(method, idle_s) from None
        except OSError as error:
            raise _closed_error(error) from None
    raise _stopped_error()


def reachable(path: str) -> bool:
    """Return True if a daemon of this user accepts connections at `path`."""
    try:
        _open_connection(path, 1.0).close()
    except CallFailed:
        return False
    return True


class _ClientConnection(_socket.socket):
    """A socket that a `with` closes."""

    def __enter__(self) -> _ClientConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_connection(path: str, timeout_s: float) -> _ClientConnection:
    s = _ClientConnection(_socket.AF_UNIX, _socket.SOCK_STREAM)
    s.settimeout(timeout_s)
    try:
        s.connect(path)
    except OSError as error:
        s.close()
        raise _unreachable_error(path, error) from None
    require_own_peer(s, path)
    return s


def require_own_peer(s: _socket.socket, path: str) -> None:
    """Check that the process at the other end belongs to this user or to root.

    Closes the socket and raises `CallFailed` if it belongs to another user.
    """
    if peer_uid(s) not in (os.geteuid(), 0):
        s.close()
        message = f"the socket {path} belongs to another user"
        raise CallFailed(
            message, "set COCOSEARCH_RUNTIME_DIR to a directory of yours", reason=REFUSED_SOCKET
        )


def peer_uid(s: _socket.socket) -> int:
    """Return the user at the other end of a Unix socket (SO_PEERCRED, LOCAL_PEERCRED)."""
    if LINUX:
        return int(
            struct.unpack("3i", s.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))[1]
        )
    return int(struct.unpack_from("II", s.getsockopt(0, 1, 76))[1])


def peer_pid(s: _socket.socket) -> int:
    """Return the process at the other end of a Unix socket (SO_PEERCRED, LOCAL_PEERPID)."""
    if LINUX:
        return int(
            struct.unpack("3i", s.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))[0]
        )
    return int(struct.unpack("i", s.getsockopt(0, 2, 4))[0])


def _unreachable_error(path: str, error: OSError) -> CallFailed:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError | NotADirectoryError):
        return CallFailed(
            "cocosearchd is not running",
            "start it with `cocosearchctl up PATH`",
            reason=NOT_RUNNING,
        )
    if isinstance(error, TimeoutError | BlockingIOError):
        return CallFailed(
            "cocosearchd does not accept connections",
            "see `cocosearchctl logs`",
            code=TIMED_OUT,
        )
    message = f"cannot connect to {path}: {error.strerror or error}"
    return CallFailed(message, "run `cocosearchctl doctor`", reason=REFUSED_SOCKET)


def _closed_error(error: OSError) -> CallFailed:
    return _ended_error(f"cocosearchd stopped before the answer ({error.strerror or error})")


def _stopped_error() -> CallFailed:
    return _ended_error("cocosearchd stopped during the answer")


def _ended_error(message: str) -> CallFailed:
    """Return the error of a connection that ended: nobody knows here if a service starts it again."""
    hint = (
        "ask again; `cocosearchctl up PATH` starts it if it does not run, "
        "`cocosearchctl logs` says why it stopped"
    )
    return CallFailed(message, hint, reason=NOT_RUNNING)


def _timed_out(method: str, timeout_s: float) -> CallFailed:
    return CallFailed(
        f"no answer to {method} within {timeout_s:g} s",
        "see `cocosearchctl status`",
        code=TIMED_OUT,
    )


def _encode(message: Params) -> bytes:
    """Encode a message as JSON, in UTF-8: a body is limited, and escapes are three times as long.

    Names of files that are not valid UTF-8 have lone surrogates, which only escapes can carry.
    """
    try:
        return json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(message).encode()


def _send(
    s: _socket.socket, method: str, params: Params, timeout_s: float | None, accept: bytes
) -> None:
    body = _encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    deadline = (
        b"" if timeout_s is None else b"X-Cocosearch-Deadline-Ms: %d\r\n" % (timeout_s * 1000)
    )
    request = (
        b"POST /rpc HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: %s\r\n"
        b"X-Cocosearch-Protocol: %d\r\n%sContent-Length: %d\r\n\r\n"
        % (accept, SPEAKS, deadline, len(body))
        + body
    )
    try:
        s.sendall(request)
    except (BrokenPipeError, ConnectionResetError):
        # if there is data, the daemon refused the request after its headers, and the answer can be read
        if not s.recv(1, _socket.MSG_PEEK):
            raise


def _wait_for_data(s: _socket.socket, timeout_s: float, on_silence: Callable[[], object]) -> None:
    """Wait for data. Call `on_silence` after every `LIVENESS_CHECK_S` without any."""
    while timeout_s > LIVENESS_CHECK_S:
        s.settimeout(LIVENESS_CHECK_S)
        try:
            s.recv(1, _socket.MSG_PEEK)
        except TimeoutError:
            on_silence()
            timeout_s -= LIVENESS_CHECK_S
        else:
            break
    s.settimeout(timeout_s)


def _receive(s: _socket.socket, max_bytes: int) -> Iterator[bytes]:
    """Yield data until the end of the stream.

    A reset after data counts as the end: it follows the answer to a request that the daemon has not
    read completely.
    """
    has_data = False
    try:
        while data := s.recv(max_bytes):
            has_data = True
            yield data
    except ConnectionResetError:
        if not has_data:
            raise


def _chunks(received: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for data in received:
        size += len(data)
        if size > MAX_REPLY_BYTES:
            raise CallFailed(
                f"an answer of more than {MAX_REPLY_BYTES >> 20} MiB", "lower the limit"
            )
        yield data


def _lines(received: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data line by line, including line ends."""
    rest = b""
    for data in received:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _result(head: bytes, payload: bytes) -> Any:
    if _is_cut(head, payload):
        raise _stopped_error()
    try:
        message = json.loads(payload)
        if "error" not in message:
            return message["result"]
        error = message["error"]
        code = error["code"]
        text = error["message"]
        hint = (error.get("data") or {}).get("hint", "")
    except (ValueError, KeyError, TypeError, AttributeError):
        status = head.split(b"\r\n", 1)[0].decode("latin-1")
        raise CallFailed(
            f"cocosearchd answered {status}", "does another program use its socket?"
        ) from None
    raise CallFailed(text, _with_upgrade(hint, head), code=code)


def _is_cut(head: bytes, payload: bytes) -> bool:
    """Return True if the connection ended before the answer did, as when the daemon is killed."""
    length = _header(head, b"content-length")
    return not head or (length.isdecimal() and len(payload) < int(length))


def _with_upgrade(hint: str, head: bytes) -> str:
    """Add a hint about different versions: after an upgrade they are a likely cause of an error."""
    version = _header(head, b"x-cocosearch-version")
    speaks = _header(head, b"x-cocosearch-protocol")
    if version in ("", VERSION) and speaks in ("", str(SPEAKS)):
        return hint
    advice = upgrade(version or "another version")
    return f"{hint}; {advice}" if hint else advice


def upgrade(version: str) -> str:
    """Return the hint about a daemon of another version."""
    return f"the daemon is {version}, this is {VERSION}: run `cocosearchctl restart`"


def _header(head: bytes, name: bytes) -> str:
    for line in head.splitlines():
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip().decode("latin-1")
    return ""


class Session:
    """An editor's session: its calls search unsaved text instead of the content on disk.

        with client.Session(address.rpc_socket(address.environment())) as session:
            session.put("/home/me/project/app.py", buffer)  # at each pause in typing
            session.call("search", {"query": "retries", "cwd": "/home/me/project"})
            session.clear("/home/me/project/app.py")  # when it is saved or closed

    The session holds one connection. When the connection ends, the daemon forgets all unsaved text.
    Raises `CallFailed`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._open = stream(path, "overlay.open", idle_s=SESSION_S)
        self.name = str(next(self._open)["session"])

    def put(self, path: str, text: str, index: str | None = None) -> Any:
        """Store the text of a file. `path` is absolute, or relative to the root of `index`."""
        return self.call(
            "overlay.put", {"path": path, "text": text} | ({"index": index} if index else {})
        )

    def clear(self, path: str | None = None, index: str | None = None) -> Any:
        """Forget the unsaved text of one file, or of all files."""
        return self.call(
            "overlay.clear", ({"path": path} if path else {}) | ({"index": index} if index else {})
        )

    def call(self, method: str, params: Params, timeout_s: float = 60.0) -> Any:
        """Call search, get_file or find_related with the unsaved text."""
        return call(self._path, method, params | {"session": self.name}, timeout_s)

    def close(self) -> None:
        """End the session. Idempotent."""
        self._open.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
