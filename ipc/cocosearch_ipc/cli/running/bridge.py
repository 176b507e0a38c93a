"""`mcp`: relays MCP between standard input and output and the daemon, line by line.

The bridge knows the framing (one JSON message per line) and the part of MCP that it needs to keep a
session across a restart of the daemon. After a restart it sends the first messages of the session
again, answers open requests with an error, and takes back the questions of the daemon that is gone. An
answer of the client reaches only the daemon that asked: the bridge replaces the ids of questions by
ones that no other daemon has. It relays all other messages unchanged. Before the client's first
message it neither starts a daemon nor connects to one. After a daemon has stopped, the client's next
message starts another one; a client that only listens to resources is connected again as soon as a
daemon runs. The first line to the daemon is not an MCP message: it has the client's directory, and
whether the user chose it.
"""

import argparse
import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.running import daemon_process, new_daemon
from cocosearch_ipc.error_codes import INVALID_REQUEST, UNAVAILABLE
from cocosearch_ipc.protocol import MAX_LINE_BYTES
from cocosearch_ipc.render import output

Env = Mapping[str, str]

LOST = {
    "code": UNAVAILABLE,
    "message": "cocosearchd restarted during the answer; send the request again",
}
TOO_LONG = {
    "code": INVALID_REQUEST,
    "message": f"a message has at most {MAX_LINE_BYTES >> 20} MiB; send smaller messages",
}
RECONNECT_S = 20.0
REPLAYED = "cocosearch-bridge-again"  # the id of an `initialize` that the client did not send
CANCELLED = "notifications/cancelled"
GONE = "cocosearchd restarted after the question"


def run(args: argparse.Namespace, env: Env) -> int:
    """Relay until standard input ends."""
    directory = (
        args.project or env.get("COCOSEARCH_PROJECT") or (_cwd() if args.project_from_cwd else "")
    )
    preamble = (
        {"cwd": os.path.abspath(os.path.expanduser(directory)), "said": True}
        if directory
        else {"cwd": _cwd()}
    )
    relay = SessionRelay(env, preamble, sys.stdin.buffer, sys.stdout.buffer)
    relay.run()
    return exits.OK


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


class SessionRelay:
    """One MCP session between a client (`source`, `target`) and a sequence of daemons."""

    def __init__(
        self, env: Env, greeting: dict[str, Any], source: BinaryIO, target: BinaryIO
    ) -> None:
        self._env = env
        self._greeting = greeting
        self._source = source
        self._target = target
        self._connecting = threading.Lock()
        self._lock = threading.Lock()  # guards the fields below, and writes to `target`
        self._socket: socket.socket | None = None
        self._beginning: list[bytes] = []  # initialize, notifications/initialized; to be replayed
        # URI of a resource -> the client's subscription request, to be replayed
        self._subscribed: dict[str, bytes] = {}
        self._waiting: dict[str, Any] = {}  # ids of requests that the daemon has not answered
        # id that the client sees -> id of a question that the daemon of `_socket` asks
        self._questions: dict[str, Any] = {}
        self._down: threading.Thread | None = None
        # why the last daemon that was connected has ended the session
        self._end_reason: dict[str, Any] = LOST

    def run(self) -> None:
        """Relay lines until the client closes its side, then wait for the daemon's last answers."""
        for line in self._source:
            if line.strip():
                self._relay_up(line)
        self._subscribed = {}  # the client no longer listens
        with self._lock:
            connection = self._socket
            down = self._down
        if connection is not None and down is not None:
            with contextlib.suppress(OSError):
                end = time.monotonic() + RECONNECT_S
                while self._waiting and down.is_alive() and time.monotonic() < end:
                    time.sleep(0.01)
                connection.shutdown(socket.SHUT_RDWR)
            down.join(1.0)

    def _relay_up(self, line: bytes) -> None:
        """Relay a line of the client to the daemon, or answer it."""
        if not line.endswith(b"\n"):  # the client ended with it
            line += b"\n"
        message = _parse_line(line)
        rid = message.get("id")
        request = {json.dumps(rid): rid} if message.get("method") and _is_id(rid) else {}
        if len(line) > MAX_LINE_BYTES:  # the daemon would end the session
            self._refuse(request, TOO_LONG)
        elif "method" not in message and message.keys() & {"result", "error"}:
            self._pass_answer(message)
        else:
            self._pass_message(message, line, request)

    def _pass_message(self, message: dict[str, Any], line: bytes, request: dict[str, Any]) -> None:
        """Pass a message, or answer its request with an error; `request` is as for `_send`."""
        method = message.get("method")
        if method == "initialize":
            self._beginning = []
            self._subscribed = {}
        if method == CANCELLED:
            self._forget_request(message)
        try:
            is_settled = any(self._send(message, line, request) for _ in range(2))
        except client.CallFailed as failed:
            output.error(failed.message, failed.hint)
            hint = {"hint": failed.hint}
            error = {"code": failed.code, "message": failed.message, "data": hint}
            self._refuse(request, error)
            return
        if is_settled:
            return
        if self._down is not None:  # it may still read why the daemon ended the session
            self._down.join(1.0)
        self._refuse(request, self._end_reason)

    def _send(self, message: dict[str, Any], line: bytes, request: dict[str, Any]) -> bool:
        """Send a message; return False if the write shows that the daemon has just stopped.

        `request` maps the JSON text of the message's id to the id; it is empty for a notification.
        Raises `client.CallFailed`.
        """
        connection = self._get_connection()
        with self._lock:
            if connection is not self._socket:  # the other thread has noticed the end
                return False
            self._waiting |= request
        try:
            connection.sendall(line)
        except OSError:
            self._drop(connection, keep=request)
            with self._lock:
                # The other thread may have noticed the end first, and have answered.
                is_answered = bool(request) and not request.keys() & self._waiting.keys()
                for key in request:
                    self._waiting.pop(key, None)
            return is_answered
        self._remember(message, line)
        return True

    def _pass_answer(self, message: dict[str, Any]) -> None:
        """Pass an answer to the daemon that asked; drop it if that one is gone."""
        client_id = message.get("id")
        with self._lock:
            connection = self._socket
            if (
                connection is None
                or not isinstance(client_id, str)
                or client_id not in self._questions
            ):
                return
            message["id"] = self._questions.pop(client_id)
        # the other thread notices the end; nothing that a daemon asks has an answer so deep
        with contextlib.suppress(OSError, RecursionError):
            connection.sendall(_encode_line(message))

    def _forget_request(self, message: dict[str, Any]) -> None:
        """Forget a request that the client has cancelled: the daemon will not answer it."""
        rid = _cancelled_id(message)
        if _is_id(rid):
            with self._lock:
                self._waiting.pop(json.dumps(rid), None)

    def _remember(self, message: dict[str, Any], line: bytes) -> None:
        """Remember messages that the next daemon must receive again."""
        method = message.get("method")
        params = message.get("params")
        uri = str(params.get("uri")) if isinstance(params, dict) else ""
        with contextlib.suppress(RecursionError):  # no daemon reads a message so deep
            if method == "initialize":
                self._beginning.append(_with_replayed_id(message))
            elif method == "resources/subscribe":
                self._subscribed[uri] = _with_replayed_id(message)
        if method == "notifications/initialized":
            self._beginning.append(line)
        if method == "resources/unsubscribe":
            self._subscribed.pop(uri, None)

    def _get_connection(self, *, start: bool = True) -> socket.socket:
        """Return the connection, or open one; with `start`, start a daemon if none runs.

        Raises `client.CallFailed`.
        """
        with self._connecting:
            with self._lock:
                if self._socket is not None:
                    return self._socket
            return self._resume(self._open(start=start))

    def _resume(self, connection: socket.socket) -> socket.socket:
        """Bring a new connection to the state of the previous one."""
        try:
            connection.sendall(json.dumps({"cocosearch": self._greeting}).encode() + b"\n")
            if self._beginning:  # begin the session again on the client's behalf
                connection.sendall(b"".join(self._beginning))
                connection.sendall(b"".join(tuple(self._subscribed.values())))
        except OSError as error:
            connection.close()
            raise client.CallFailed(
                f"cocosearchd closed the connection: {error.strerror}", "cocosearchctl logs"
            ) from None
        down = threading.Thread(target=self._relay_down, args=(connection,), daemon=True)
        with self._lock:
            self._socket = connection
            self._down = down
            self._end_reason = LOST
        down.start()
        self._report_gap()
        return connection

    def _open(self, *, start: bool) -> socket.socket:
        path = address.bridge_socket(self._env)
        if start and not client.reachable(path):
            daemon_process.ensure_running(self._env, output.note)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError as error:
            connection.close()
            raise client.CallFailed(
                f"cannot connect to {path}: {error.strerror}", "cocosearchctl doctor"
            ) from None
        client.require_own_peer(connection, path)
        return connection

    def _relay_down(self, connection: socket.socket) -> None:
        """Relay the lines of a daemon to the client, until the connection ends."""
        mark = os.urandom(8).hex()  # of the questions of this connection
        reason = LOST
        with contextlib.suppress(OSError), connection.makefile("rb") as lines:
            for line in lines:
                message = _parse_line(line)
                if message.get("id") == REPLAYED and "method" not in message:
                    continue
                if error := _refusal(message):
                    reason = self._end_reason = error
                    continue
                with self._lock:
                    if connection is not self._socket:
                        return
                    self._target.write(self._translate(line, message, mark))
                    self._target.flush()
        self._drop(connection, reason=reason)

    def _translate(self, line: bytes, message: dict[str, Any], mark: str) -> bytes:
        """Return a line for the client, and note what it asks, answers or takes back."""
        rid = message.get("id")
        if "method" not in message:
            self._waiting.pop(json.dumps(rid), None)
        elif rid is not None:
            client_id = f"{mark}-{rid}"
            self._questions[client_id] = rid
            return _encode_line(message | {"id": client_id})
        elif message["method"] == CANCELLED:
            client_id = f"{mark}-{_cancelled_id(message)}"
            if client_id in self._questions:
                del self._questions[client_id]
                return _encode_line(
                    message | {"params": {**message["params"], "requestId": client_id}}
                )
        return line

    def _drop(
        self,
        connection: socket.socket,
        keep: Collection[str] = (),
        reason: dict[str, Any] = LOST,
    ) -> None:
        """Handle a lost connection: answer all open requests except `keep`, take back questions.

        The next message connects again.
        """
        with self._lock:
            if connection is not self._socket:
                return
            self._socket.close()
            self._socket = None
            open_requests = {key: rid for key, rid in self._waiting.items() if key not in keep}
            self._waiting = {key: rid for key, rid in self._waiting.items() if key in keep}
            questions = list(self._questions)
            self._questions = {}
        self._take_back(questions)
        self._refuse(open_requests, reason)
        if self._subscribed:
            threading.Thread(target=self._listen_again, daemon=True).start()

    def _listen_again(self) -> None:
        while True:
            new_daemon.await_socket(address.bridge_socket(self._env))
            with contextlib.suppress(client.CallFailed):
                self._get_connection(start=False)
                return

    def _report_gap(self) -> None:
        """Report every subscribed resource as changed: changes without a daemon were missed."""
        with self._lock, contextlib.suppress(OSError):
            for uri in tuple(self._subscribed):
                notification = {
                    "jsonrpc": "2.0",
                    "method": "notifications/resources/updated",
                    "params": {"uri": uri},
                }
                self._target.write(json.dumps(notification).encode() + b"\n")
            self._target.flush()

    def _take_back(self, questions: Collection[str]) -> None:
        with self._lock, contextlib.suppress(OSError):
            for client_id in questions:
                params = {"requestId": client_id, "reason": GONE}
                notification = {"jsonrpc": "2.0", "method": CANCELLED, "params": params}
                self._target.write(_encode_line(notification))
            self._target.flush()

    def _refuse(self, requests: dict[str, Any], error: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):
            for rid in requests.values():
                self._target.write(
                    json.dumps({"jsonrpc": "2.0", "id": rid, "error": error}).encode() + b"\n"
                )
            self._target.flush()


def _with_replayed_id(message: dict[str, Any]) -> bytes:
    return _encode_line(message | {"id": REPLAYED})


def _parse_line(line: bytes) -> dict[str, Any]:
    """Return the message of a line, or {} for an invalid line: the daemon will report it."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _encode_line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _is_id(rid: object) -> bool:
    return isinstance(rid, str | int | float)


def _cancelled_id(message: dict[str, Any]) -> Any:
    params = message.get("params")
    return params.get("requestId") if isinstance(params, dict) else None


def _refusal(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the error with which a daemon refuses a session, of no request, before it closes it."""
    error = message.get("error")
    is_refusal = isinstance(error, dict) and error.get("code") == UNAVAILABLE
    return error if is_refusal and message.get("id") is None else None
