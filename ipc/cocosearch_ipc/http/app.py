"""The ASGI application of both listeners.

Paths on the Unix socket, where directory, mode and peer authenticate the client: /rpc, /mcp,
/metrics, /healthz, /readyz. Paths on TCP, with checks of token, Host and Origin: /mcp, /sse,
/metrics, /healthz, and the page at /status. All other paths return 404.
"""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.lowlevel
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from cocosearch_ipc.failure import Failure
from cocosearch_ipc.http.guard import (
    App,
    Drainable,
    LimitedBody,
    Receive,
    Scope,
    Send,
    TcpGuard,
)
from cocosearch_ipc.http.metrics import CONTENT_TYPE, exposition
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.page import site
from cocosearch_ipc.protocol import PROTOCOL_VERSION, UNSCANNED_STATES, Empty, Engine
from cocosearch_ipc.request_id import REQUEST_ID
from cocosearch_ipc.rpc.dispatcher import DEFAULT_DEADLINE_S, Dispatcher
from cocosearch_ipc.trust.credentials import (
    CHALLENGE,
    CHALLENGED_PORT,
    MAX_CHALLENGE_BYTES,
    PROOF,
    PortProof,
    TokenFile,
)

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
NDJSON = "application/x-ndjson"
# Paths that need no token: liveness, and the files of the page.
OPEN_PATHS = frozenset({"/healthz"}) | site.PATHS

if TYPE_CHECKING:
    from cocosearch_ipc.mcp.server import McpServer

# Delay before the daemon loads MCP, if an assistant has used MCP before. Loading takes a second of
# CPU. The delay is long enough for the daemon to become ready and to scan small indexes first, and
# short enough that most assistants find MCP loaded. A client that comes earlier waits for the load.
# If no assistant has ever used MCP, the daemon does not load it, to save the CPU time and memory.
MCP_AFTER_S = 10.0
# Iterations of the event loop before a request is answered. If the client has already disconnected
# when the connection is accepted, the loop notices it in these iterations, and no answer is computed.
# 1,500 such requests took 4.9 s of CPU without this pause, and 0.5 s with it (measured).
HANGING_UP = 3
MAX_DIGITS = 20  # of a deadline: Python cannot divide an integer of 400 digits

Handler = Callable[[Request], Awaitable[Response]]


class FrontEnd:
    """JSON-RPC and MCP over one engine. Serve it with `serve.serve`.

    `roots` limits the directories that assistants may index. `hosts` are host names of the daemon in
    addition to the loopback names. `answer_tokens` is the usual size of an answer over MCP.
    `mcp_mark` is a file that is created when MCP is used first; None: this is not recorded.
    """

    def __init__(
        self,
        engine: Engine,
        token: TokenFile,
        *,
        roots: RootPolicy,
        max_body_bytes: int,
        answer_tokens: int,
        version: str = "",
        hosts: Iterable[str] = (),
        mcp_mark: Path | None = None,
    ) -> None:
        self.engine = engine
        self.token = token
        self.version = version
        self._proof = PortProof()
        allowed = LOOPBACK_HOSTS | {f"[{host}]" if ":" in host else host.lower() for host in hosts}
        self.rpc = Dispatcher(engine)
        self._page_rpc = Dispatcher(engine, only=site.METHODS)
        load_mcp = partial(_import_mcp, engine, roots, version, allowed, answer_tokens)
        self._mcp = _LateMcp(load_mcp, mcp_mark)
        self._unix = Drainable(LimitedBody(self._unix_paths(), max_body_bytes))
        tcp = LimitedBody(self._tcp_paths(), max_body_bytes)
        self._tcp = Drainable(TcpGuard(tcp, token, allowed, OPEN_PATHS))

    def _unix_paths(self) -> "_Paths":
        return _Paths(
            {
                "/rpc": _handler("POST", partial(self._rpc, self.rpc)),
                "/mcp": self._mcp.http,
                "/metrics": _handler("GET", self._metrics),
                "/healthz": _handler("GET", self._health),
                "/readyz": _handler("GET", self._ready),
            }
        )

    def _tcp_paths(self) -> "_Paths":
        page = _handler("GET", _page)
        return _Paths(
            {
                "/mcp": self._mcp.http,
                "/sse": self._mcp.sse,
                "/messages": self._mcp.sse,
                "/metrics": _handler("GET", self._metrics),
                "/healthz": _handler("GET", self._health),
                site.PREFIX: _route_path(
                    site.RPC, _handler("POST", partial(self._rpc, self._page_rpc)), page
                ),
            }
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        # uvicorn: (path, None) for a Unix socket
        elif scope["server"] is not None and scope["server"][1] is None:
            await self._unix(scope, receive, send)
        else:
            await self._tcp(scope, receive, send)

    async def drain(self) -> None:
        """Refuse new requests and end running ones within `guard.DRAIN_S`."""
        self.rpc.draining = self._page_rpc.draining = True
        self._mcp.close()
        async with anyio.create_task_group() as group:
            group.start_soon(self._unix.drain)
            group.start_soon(self._tcp.drain)

    async def bridge(self, stream: anyio.abc.SocketStream) -> None:
        """Serve one MCP session in stdio framing until the peer disconnects."""
        async with stream:
            await (await self._mcp.loaded()).server.session(stream)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with anyio.create_task_group() as group:
            group.start_soon(self._mcp.run)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            if not self._mcp.stop():
                group.cancel_scope.cancel()
        await send({"type": "lifespan.shutdown.complete"})

    async def _rpc(self, dispatcher: Dispatcher, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return PlainTextResponse("send application/json\n", 415)
        body = await request.body()
        if NDJSON in request.headers.get("accept", ""):
            return StreamingResponse(
                _lines(dispatcher, body), media_type=NDJSON, headers=self._headers()
            )
        reply: bytes | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_disconnect, request, group.cancel_scope)
            for _ in range(HANGING_UP):
                await anyio.lowlevel.checkpoint()
            reply = await dispatcher.answer(body, _deadline_s(request))
            group.cancel_scope.cancel()
        if reply is None:
            return Response(status_code=204, headers=self._headers())
        return Response(reply, media_type="application/json", headers=self._headers())

    def _headers(self) -> dict[str, str]:
        """Return the headers that let clients of other versions detect the difference."""
        headers = {
            "X-Cocosearch-Protocol": str(PROTOCOL_VERSION),
            "X-Cocosearch-Version": self.version,
        }
        return headers | {"X-Request-Id": REQUEST_ID.get("")}

    async def _health(self, request: Request) -> Response:
        """Confirm liveness; answer a challenge with the proof of the Unix socket's daemon."""
        challenge = request.headers.get(CHALLENGE, "").encode("latin-1")
        port = _challenged_port(request)
        if port is None or not 0 < len(challenge) <= MAX_CHALLENGE_BYTES:
            return PlainTextResponse("ok\n")
        return PlainTextResponse("ok\n", headers={PROOF: self._proof.answer(challenge, port)})

    async def _metrics(self, _: Request) -> Response:
        return Response(exposition(await self.engine.status(Empty())), media_type=CONTENT_TYPE)

    async def _ready(self, _: Request) -> Response:
        try:
            status = await self.engine.status(Empty())
        except Failure as failure:
            return PlainTextResponse(f"{failure.message}\n", 503)
        waiting = [index.name for index in status.indexes if index.state in UNSCANNED_STATES]
        return PlainTextResponse(
            f"not scanned yet: {', '.join(waiting)}\n" if waiting else "ready\n"
        )


@dataclass(frozen=True, slots=True)
class _Mcp:
    """The loaded and started MCP server."""

    server: "McpServer"
    http: App
    sse: App


class _LateMcp:
    """Loads MCP for its first client, or soon after the start if MCP has been used before.

    The libraries of MCP cost 1.1 s of CPU. That is more than the rest of a start, and must not delay
    the first answer.
    """

    def __init__(self, load: Callable[[], "McpServer"], mark: Path | None) -> None:
        self._load = load
        self._mark = mark
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._stopping = anyio.Event()
        self._mcp: _Mcp | None = None

    async def run(self) -> None:
        """Load MCP after the delay or for the first client; run its apps until `stop`."""
        used_before = self._mark is not None and self._mark.exists()
        with anyio.move_on_after(MCP_AFTER_S if used_before else math.inf):
            await self._wanted.wait()
        if self._stopping.is_set():
            return
        server = await anyio.to_thread.run_sync(self._load, abandon_on_cancel=True)
        http = server.http_app("/mcp")
        sse = server.sse_app("/sse")
        async with AsyncExitStack() as stack:
            for app in (http, sse):
                await stack.enter_async_context(app.router.lifespan_context(app))
            group = await stack.enter_async_context(anyio.create_task_group())
            group.start_soon(server.notices.run)
            self._mcp = _Mcp(server, http, sse)
            self._ready.set()
            await self._stopping.wait()
            group.cancel_scope.cancel()

    def stop(self) -> bool:
        """End `run`; return False if it is still loading and must be cancelled."""
        self._stopping.set()
        self._wanted.set()
        return self._mcp is not None

    def close(self) -> None:
        """End the streams of listening clients, in the protocol's way."""
        if self._mcp is not None:
            self._mcp.server.notices.close()

    async def loaded(self) -> _Mcp:
        """Wait until MCP is loaded and return it. The next start loads it without a client."""
        if not self._wanted.is_set() and self._mark is not None:
            with suppress(
                OSError
            ):  # e.g. a full disk: the first client after a restart waits again
                self._mark.touch()
        self._wanted.set()
        await self._ready.wait()
        assert self._mcp is not None
        return self._mcp

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve streamable HTTP."""
        await (await self.loaded()).http(scope, receive, send)

    async def sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve SSE and its messages."""
        await (await self.loaded()).sse(scope, receive, send)


def _import_mcp(
    engine: Engine, roots: RootPolicy, version: str, hosts: frozenset[str], answer_tokens: int
) -> "McpServer":
    from cocosearch_ipc.mcp.server import McpServer

    return McpServer(engine, roots, answer_tokens, version, hosts)


class _Paths:
    """Dispatches on the first segment of the path; 404 for unknown ones. Cheaper than a router."""

    def __init__(self, apps: dict[str, App]) -> None:
        self.apps = apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        app = self.apps.get("/" + path[1:].partition("/")[0])
        if app is None:
            app = PlainTextResponse("not found\n", 404)
        await app(scope, receive, send)


def _handler(method: str, handle: Handler) -> App:
    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != method:
            response: Response = PlainTextResponse("method not allowed\n", 405, {"allow": method})
        else:
            response = await handle(Request(scope, receive, send))
        await response(scope, receive, send)

    return run


def _route_path(path: str, match: App, fallback: App) -> App:
    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        await (match if scope["path"] == path else fallback)(scope, receive, send)

    return run


async def _lines(dispatcher: Dispatcher, body: bytes) -> AsyncGenerator[bytes, None]:
    async with aclosing(dispatcher.stream(body)) as lines:
        async for line in lines:
            yield line


async def _page(request: Request) -> Response:
    asset = site.asset(request.url.path)
    if asset is None:
        return PlainTextResponse("not found\n", 404)
    return Response(asset.content, media_type=asset.kind, headers=site.HEADERS)


async def _cancel_on_disconnect(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _challenged_port(request: Request) -> int | None:
    """Return the port of a challenge.

    Over TCP this is the listener's own port, over the Unix socket the port in the request.
    """
    listener_port = request.scope["server"][1]
    if listener_port is not None:
        return int(listener_port)
    header = request.headers.get(CHALLENGED_PORT, "")
    return int(header) if header.isdecimal() and len(header) <= MAX_DIGITS else None


def _deadline_s(request: Request) -> float:
    header = request.headers.get("x-cocosearch-deadline-ms", "")
    is_valid = header.isdecimal() and len(header) <= MAX_DIGITS
    return min(int(header) / 1000, DEFAULT_DEADLINE_S) if is_valid else DEFAULT_DEADLINE_S
