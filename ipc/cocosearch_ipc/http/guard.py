"""ASGI layers in front of the apps: access control, size and time limits, drain at a stop.

Plain ASGI without a framework: each layer is a callable around another one.
"""

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

from cocosearch_ipc.error_codes import REFUSED, UNAVAILABLE
from cocosearch_ipc.request_id import REQUEST_ID, new_request_id
from cocosearch_ipc.trust.credentials import TokenFile

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_TIMEOUT_S = 30.0
WITHOUT_BODY = ("GET", "HEAD")  # methods whose body, if there is one, is not read
HAS_TOKEN = "cocosearch.has_token"  # noqa: S105 - key in the scope of a request with a valid token
# Time for running queries after a stop request; a complete stop should take at most 3 s.
DRAIN_S = 2.0


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first value of a header, by its lower-case name."""
    return next((value for key, value in scope["headers"] if key == name), None)


async def refuse(
    send: Send, status: int, message: str, hint: str = "", *, code: int = REFUSED
) -> None:
    """Send a short JSON error in JSON-RPC's shape, which all our clients can read."""
    error = {"code": code, "message": message, "data": {"hint": hint}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 405:
        headers.append((b"allow", b"GET"))
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="cocosearch"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class TcpGuard:
    """Protects the TCP listener from web pages and other users.

    It checks Host against a list, refuses a foreign Origin and requires a bearer token. A name that
    resolves to 127.0.0.1 (DNS rebinding) fails the Host check; browsers always send Origin with
    cross-site posts. `open_paths` need no token, as they reveal no indexed content, and take no body.
    """

    def __init__(
        self, app: App, token: TokenFile, hosts: frozenset[str], open_paths: frozenset[str]
    ) -> None:
        self.app = app
        self.token = token
        self.hosts = hosts
        self.open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = (header(scope, b"host") or b"").decode("latin-1").lower()
        is_open = scope["path"] in self.open_paths
        if host.rpartition(":")[0] not in self.hosts and host not in self.hosts:
            await refuse(send, 421, f"this listener is not {host!r}", "use 127.0.0.1 or localhost")
        elif (origin := header(scope, b"origin")) is not None and origin.decode(
            "latin-1"
        ) != f"{scope['scheme']}://{host}":
            await refuse(send, 403, "requests from web pages are refused", "omit the Origin header")
        elif is_open and scope["method"] not in WITHOUT_BODY:
            await refuse(send, 405, "this path can only be read", "use GET")
        elif not is_open and not self.token.accepts(_bearer(scope)):
            await refuse(send, 401, "a bearer token is required", "`cocosearchctl token` prints it")
        else:
            scope[HAS_TOKEN] = not is_open
            await self.app(scope, receive, send)


def _bearer(scope: Scope) -> bytes:
    scheme, _, token = (header(scope, b"authorization") or b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


class LimitedBody:
    """Reads a request body before the inner app sees it.

    The body has at most `max_bytes` and must arrive within `BODY_TIMEOUT_S`.
    """

    def __init__(self, app: App, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in WITHOUT_BODY:
            await self.app(scope, receive, send)
            return
        length = header(scope, b"content-length") or b"0"
        body: bytes | None = None
        if length.isdigit() and int(length) <= self.max_bytes:
            try:
                with anyio.fail_after(BODY_TIMEOUT_S):
                    body = await self._read(receive)
            except TimeoutError:
                await refuse(send, 408, "the body did not arrive in time")
                return
        if body is None:
            await refuse(
                send,
                413,
                f"a body has at most {self.max_bytes} bytes",
                "split the batch, or raise server.max_body_bytes",
            )
            return
        await self.app(scope, _replay_body(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        parts = list[bytes]()
        size = 0
        more = True
        while more:
            message = await receive()
            more = message["type"] == "http.request" and bool(message.get("more_body"))
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.max_bytes:
                return None
        return b"".join(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    first = True

    async def replay() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay


class Drainable:
    """Drains requests at a stop: ends streams at once, calls after `DRAIN_S`, refuses new ones."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.draining = False
        self._calls = set[anyio.CancelScope]()
        self._streams = set[anyio.CancelScope]()
        self._ended = anyio.Event()

    async def drain(self) -> None:
        """Refuse new requests, end streams, wait `DRAIN_S` for calls, then cancel them."""
        self.draining = True
        for scope in tuple(self._streams):
            scope.cancel()
        with anyio.move_on_after(DRAIN_S):
            await self._await_calls()
        for scope in tuple(self._calls | self._streams):
            scope.cancel()

    async def _await_calls(self) -> None:
        while self._calls:
            await self._ended.wait()
            self._ended = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif self.draining:
            await refuse(
                send,
                503,
                "cocosearchd is stopping",
                "start it with `cocosearchctl up PATH`",
                code=UNAVAILABLE,
            )
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = finished = False
        cancel = anyio.CancelScope()
        REQUEST_ID.set(new_request_id())

        async def watched(message: Message) -> None:
            nonlocal started, finished
            if message["type"] == "http.response.start":
                started = True
                if _is_stream(scope, message):
                    self._calls.discard(cancel)
                    self._streams.add(cancel)
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                finished = True
            await send(message)

        self._calls.add(cancel)
        try:
            with cancel:
                await self.app(scope, receive, watched)
        finally:
            self._calls.discard(cancel)
            self._streams.discard(cancel)
            self._ended.set()
        if cancel.cancelled_caught and not finished:
            await (
                _finish(send)
                if started
                else refuse(send, 503, "cocosearchd is stopping", code=UNAVAILABLE)
            )


def _is_stream(scope: Scope, start: Message) -> bool:
    """Return True if a response lasts until its client disconnects: MCP streams and progress."""
    kind = next(
        (value for key, value in start.get("headers", ()) if key.lower() == b"content-type"), b""
    )
    return kind.startswith(b"application/x-ndjson") or (
        kind.startswith(b"text/event-stream") and scope["method"] == "GET"
    )


async def _finish(send: Send) -> None:
    try:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    # uvicorn raises this if the body is shorter than announced: the drain has cut it
    except RuntimeError as error:
        log.info("answer_cut", extra={"reason": str(error)})
