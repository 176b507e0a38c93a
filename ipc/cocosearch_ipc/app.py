"""The one ASGI application of both listeners.

On the Unix socket (directory, mode and peer are the authentication): /rpc, /mcp, /metrics, /healthz, /readyz. On
loopback TCP (token, Host and Origin are checked): /mcp, /sse, /metrics, /healthz. Anything else is 404.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing

import anyio
import anyio.abc
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from cocosearch_ipc.credentials import TokenFile
from cocosearch_ipc.guard import REQUEST_ID, App, Drainable, LimitedBody, LoopbackGuard, Receive, Scope, Send
from cocosearch_ipc.mcp.server import McpServer
from cocosearch_ipc.metrics import CONTENT_TYPE, exposition
from cocosearch_ipc.protocol import PROTOCOL_VERSION, Empty, Engine, Failure
from cocosearch_ipc.rpc import DEFAULT_DEADLINE_S, Dispatcher

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
NDJSON = "application/x-ndjson"

Handler = Callable[[Request], Awaitable[Response]]


class FrontEnd:
    """JSON-RPC and MCP over one engine. Serve it with `serve.serve`."""

    def __init__(
        self,
        engine: Engine,
        token: TokenFile,
        *,
        version: str = "",
        max_body_bytes: int = 1 << 20,
        hosts: frozenset[str] = LOOPBACK_HOSTS,
    ) -> None:
        self.engine, self.token = engine, token
        self.rpc = Dispatcher(engine)
        self.mcp = McpServer(engine, version)
        self._http = self.mcp.http_app("/mcp")
        self._sse = self.mcp.sse_app("/sse")
        unix = _Paths(
            {
                "/rpc": _handler("POST", self._rpc),
                "/mcp": self._http,
                "/metrics": _handler("GET", self._metrics),
                "/healthz": _handler("GET", _health),
                "/readyz": _handler("GET", self._ready),
            }
        )
        loopback = _Paths(
            {
                "/mcp": self._http,
                "/sse": self._sse,
                "/messages": self._sse,
                "/metrics": _handler("GET", self._metrics),
                "/healthz": _handler("GET", _health),
            }
        )
        self._unix = Drainable(LimitedBody(unix, max_body_bytes))
        self._loopback = Drainable(LoopbackGuard(LimitedBody(loopback, max_body_bytes), token, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["server"] is not None and scope["server"][1] is None:  # uvicorn: (path, None) for a Unix socket
            await self._unix(scope, receive, send)
        else:
            await self._loopback(scope, receive, send)

    async def drain(self) -> None:
        """Refuse new requests and end those in flight, within `guard.DRAIN_S`."""
        self.rpc.draining = True
        async with anyio.create_task_group() as group:
            group.start_soon(self._unix.drain)
            group.start_soon(self._loopback.drain)

    async def bridge(self, stream: anyio.abc.SocketStream) -> None:
        """One MCP session in stdio framing, until the peer goes."""
        async with stream:
            await self.mcp.session(stream)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            for app in (self._http, self._sse):
                await stack.enter_async_context(app.router.lifespan_context(app))
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _rpc(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return PlainTextResponse("send application/json\n", 415)
        body = await request.body()
        if NDJSON in request.headers.get("accept", ""):
            return StreamingResponse(self._lines(body), media_type=NDJSON, headers=_headers())
        reply: bytes | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_disconnect, request, group.cancel_scope)
            reply = await self.rpc.answer(body, _deadline_s(request))
            group.cancel_scope.cancel()
        if reply is None:
            return Response(status_code=204, headers=_headers())
        return Response(reply, media_type="application/json", headers=_headers())

    async def _lines(self, body: bytes) -> AsyncIterator[bytes]:
        async with aclosing(self.rpc.stream(body)) as lines:
            async for line in lines:
                yield line

    async def _metrics(self, _: Request) -> Response:
        return Response(exposition(await self.engine.status(Empty())), media_type=CONTENT_TYPE)

    async def _ready(self, _: Request) -> Response:
        try:
            status = await self.engine.status(Empty())
        except Failure as failure:
            return PlainTextResponse(f"{failure.message}\n", 503)
        waiting = [index.name for index in status.indexes if index.state in ("cold", "scanning")]
        return PlainTextResponse(f"not scanned yet: {', '.join(waiting)}\n" if waiting else "ready\n")


class _Paths:
    """Chooses an app by the first segment of the path; 404 for the rest. Cheaper on the hot path than a router."""

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


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _cancel_on_disconnect(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _headers() -> dict[str, str]:
    return {"X-Cocosearch-Protocol": str(PROTOCOL_VERSION), "X-Request-Id": REQUEST_ID.get("")}


def _deadline_s(request: Request) -> float:
    given = request.headers.get("x-cocosearch-deadline-ms", "")
    return min(int(given) / 1000, DEFAULT_DEADLINE_S) if given.isdecimal() else DEFAULT_DEADLINE_S
