"""Serves a `FrontEnd` on bound sockets until a stop.

It uses internals of uvicorn, so the version of uvicorn is pinned.

    bound = sockets.bind(...)  # early, so that a second daemon is refused before anything starts
    front = app.FrontEnd(engine, TokenFile(path))
    await serve.serve(front, bound, started=..., stopping=event)
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.abc
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cocosearch_ipc.client import peer_pid, peer_uid
from cocosearch_ipc.error_codes import UNAVAILABLE
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.http.app import FrontEnd
from cocosearch_ipc.http.connection_slots import PeerFinder, Slot, choose_victim
from cocosearch_ipc.http.guard import HAS_TOKEN
from cocosearch_ipc.http.sockets import BACKLOG, BoundSockets, renew
from cocosearch_ipc.http.tls_listener import ACCEPT_RETRY_S, TlsListener

log = logging.getLogger(__name__)

# uvicorn has no timeout for a client that sends no request or half a request.
HEADER_TIMEOUT_S = 15.0
# Longer than clients keep an idle connection: httpx, which Python's MCP clients use, keeps it 5 s,
# like uvicorn. With 5 s, 7 % of requests within 12 ms of the timeout used a connection that was
# being closed (measured).
KEEP_ALIVE_S = 75
# The limit applies to the Unix socket and to TCP separately; TLS handshakes have their own limit. All
# together stay below the usual limit of 1,024 descriptors and leave room for the database pool and
# files. Above the limit, the connection that has been idle longest is closed.
MAX_CONNECTIONS = 256
PEER_LOOKUP_FROM = 128
MAX_BRIDGES = 64
REFUSAL_S = 1.0  # for a client to read why it is refused
_FULL = (
    json.dumps(
        {
            "jsonrpc": "2.0",
            "id": None,
            "error": {
                "code": UNAVAILABLE,
                "message": f"cocosearchd serves {MAX_BRIDGES} assistants already",
                "data": {"hint": "end a session that you do not need, then send the request again"},
            },
        }
    ).encode()
    + b"\n"
)
# Interval between checks of the socket files. Cleanup programs may remove these files, and the
# listener gets no event for a removed path. The interval is shorter than a person waits for `up`.
SOCKET_CHECK_S = 10.0
# One second longer than guard.DRAIN_S, for code that ignores cancellation.
GRACE_S = 3


async def serve(
    front: FrontEnd,
    bound: BoundSockets,
    *,
    started: Callable[[], object],
    stopping: anyio.Event,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer until `stopping` is set, then drain within 3 s.

    Calls `started` once clients are served. `tls` applies to the TCP listener. Does not touch
    signals. Closes `bound` at the end.
    """
    config = uvicorn.Config(
        front,
        http=partial(_Connection, peers=PeerFinder(time.monotonic)),  # type: ignore[arg-type]  # the Unix socket's
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        server_header=False,
        date_header=False,
    )
    server = _Server(config, started, bound.tcp, tls)
    with contextlib.ExitStack() as stack:
        async with anyio.create_task_group() as group:
            listening = _Listening(front, bound, server, group)
            stack.callback(listening.close)
            group.start_soon(server.serve, [bound.rpc])
            group.start_soon(listening.keep)
            await stopping.wait()
            listening.leave()
            server.leave()  # closes listeners and idle connections; running requests continue
            await front.drain()
            await server.ended.wait()
            group.cancel_scope.cancel()


class _Listening:
    """The Unix sockets of one server. Other programs may remove their files while it runs."""

    def __init__(
        self, front: FrontEnd, bound: BoundSockets, server: "_Server", group: anyio.abc.TaskGroup
    ) -> None:
        self.bound = bound
        self._front = front
        self._server = server
        self._group = group
        self._sessions = list[_BridgeSession]()
        self._renewing = anyio.CancelScope()
        self._accepting = anyio.CancelScope()

    def leave(self) -> None:
        """Stop the checks."""
        self._renewing.cancel()

    def close(self) -> None:
        """Close the current sockets and remove their files."""
        self.bound.close()

    async def keep(self) -> None:
        """Accept connections; replace each socket if its file has been removed."""
        await self._server.ready.wait()
        self._group.start_soon(self._bridges, self.bound.bridge, self._accepting)
        last_error = ""
        with self._renewing:
            while True:
                try:
                    bound = await anyio.to_thread.run_sync(renew, self.bound)
                except (Failure, OSError) as error:
                    if str(error) != last_error:
                        log.error(
                            "sockets_gone",
                            extra={"error": str(error), "hint": getattr(error, "hint", "")},
                        )
                    last_error = str(error)
                else:
                    await self._move(bound)
                await anyio.sleep(SOCKET_CHECK_S)

    async def _move(self, bound: BoundSockets) -> None:
        """Continue with other sockets. Existing connections stay open."""
        previous = self.bound
        self.bound = bound
        if bound is not previous:
            log.warning("sockets_made_again", extra={"files": [str(path) for path in bound.files]})
        if bound.lock is not previous.lock:
            previous.lock.close()
        if bound.bridge is not previous.bridge:
            self._accepting.cancel()
            self._accepting = anyio.CancelScope()
            self._group.start_soon(self._bridges, bound.bridge, self._accepting)
        if bound.rpc is not previous.rpc:
            await self._server.move(bound.rpc)

    async def _bridges(self, listening: socket.socket, accepting: anyio.CancelScope) -> None:
        """Accept at most `MAX_BRIDGES` stdio bridges at a time; refuse others.

        A failure of one bridge does not affect others.
        """
        listening.setblocking(False)
        listener = await anyio.abc.SocketListener.from_socket(listening)
        with accepting:
            async with listener:
                while True:
                    try:
                        stream = await listener.accept()
                    # no descriptors are left: the client waits in the kernel's queue
                    except anyio.BrokenResourceError as error:
                        log.warning("bridge_not_accepted", extra={"reason": str(error.__cause__)})
                        await anyio.sleep(ACCEPT_RETRY_S)
                    else:
                        self._group.start_soon(self._serve_bridge, stream)

    async def _serve_bridge(self, stream: anyio.abc.SocketStream) -> None:
        try:
            await self._bridge(stream)
        except Exception:
            log.exception("bridge_failed")

    async def _bridge(self, stream: anyio.abc.SocketStream) -> None:
        raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610 - not Django
        session = _BridgeSession(peer_pid(getattr(raw, "_sock", raw))) if _is_trusted(raw) else None
        if session is None or not self._has_room(session.peer):
            log.warning("bridge_refused", extra={"bridges": len(self._sessions)})
            await _turn_away(stream, says_why=session is not None)
            return
        self._sessions.append(session)
        try:
            with session.scope:
                await self._front.bridge(stream)
        finally:
            self._sessions.remove(session)
            await anyio.aclose_forcefully(stream)

    def _has_room(self, peer: int) -> bool:
        """Make room for a session of `peer`; return False if that is not possible.

        If necessary, end the newest session of the client that has most sessions.
        """
        live = [session for session in self._sessions if not session.scope.cancel_called]
        if len(live) < MAX_BRIDGES:
            return True
        counts = Counter(session.peer for session in live)
        largest_peer, count = counts.most_common(1)[0]
        if counts[peer] + 1 >= count:
            return False
        log.warning("bridge_ended", extra={"pid": largest_peer, "bridges": count})
        next(session for session in reversed(live) if session.peer == largest_peer).scope.cancel()
        return True


@dataclass(slots=True, eq=False)
class _BridgeSession:
    """A session of a stdio bridge, and the process at its other end."""

    peer: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


async def _turn_away(stream: anyio.abc.SocketStream, *, says_why: bool) -> None:
    """Close a stream; tell an own client why, and read until it has heard it."""
    gone = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
    async with stream:
        with anyio.move_on_after(REFUSAL_S), contextlib.suppress(*gone):
            if says_why:
                await stream.send(_FULL)
                await stream.send_eof()
                while True:
                    await stream.receive()


def _is_trusted(s: Any) -> bool:
    return peer_uid(getattr(s, "_sock", s)) in (os.geteuid(), 0)


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the daemon and reports its start and end."""

    def __init__(
        self,
        config: uvicorn.Config,
        started: Callable[[], object],
        tcp: socket.socket | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(config)
        self._tcp = tcp
        self._tls = tls
        self._peers = PeerFinder(time.monotonic)
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self._leaving = anyio.Event()
        self._on_start = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Sleep until `leave`.

        uvicorn's own loop wakes ten times a second to update a date header, which is off here.
        """
        await self.on_tick(0)
        await self._leaving.wait()

    def leave(self) -> None:
        """Begin the shutdown."""
        self.should_exit = True
        self._leaving.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._tcp is not None:
            self.servers.append(await self._listen_tcp(self._tcp))
        self.ready.set()
        self._on_start()

    async def move(self, rpc: socket.socket) -> None:
        """Listen on another Unix socket instead of the previous one."""
        previous = self.servers[0]
        self.servers[0] = await self._listen(rpc)
        previous.close()

    async def _listen_tcp(self, tcp: socket.socket) -> Any:
        """Create the listener of TCP, with TLS if there is a certificate."""
        if self._tls is None:
            return await self._listen(tcp)
        return TlsListener(tcp, self._tls, self._make_connection, self._peers, HEADER_TIMEOUT_S)

    async def _listen(self, sock: socket.socket) -> asyncio.Server:
        """Create a listener as uvicorn does."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._make_connection, sock=sock, backlog=BACKLOG)

    def _make_connection(self) -> asyncio.Protocol:
        return _Connection(
            peers=self._peers,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self.ended.set()


class _Connection(H11Protocol):
    """An HTTP connection of an allowed peer, with timeouts and a limit on their number."""

    _refused = False
    _waiting: asyncio.TimerHandle | None = None
    _known_peer: Hashable = None

    def __init__(self, *, peers: PeerFinder, **options: Any) -> None:
        super().__init__(**options)
        self.peers = peers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        s = transport.get_extra_info("socket")
        if s.family == socket.AF_UNIX and not _is_trusted(s):
            self._refused = True
            log.warning("peer_refused", extra={"uid": peer_uid(getattr(s, "_sock", s))})
            transport.abort()
            return
        super().connection_made(transport)
        self._waiting = self.loop.call_later(HEADER_TIMEOUT_S, self._close_if_idle)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._refused:
            if self._waiting is not None:
                self._waiting.cancel()
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Limit the time for an incomplete request, also on a connection that is in use already."""
        super().data_received(data)
        if (
            self._waiting is not None
            and self._is_idle()
            and self._waiting.when() < self.loop.time()
        ):
            self._waiting = self.loop.call_later(HEADER_TIMEOUT_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close the connection if it has sent no request, or an incomplete one.

        A connection that waits for its next request has the keep-alive timeout instead.
        """
        if self._is_idle() and self.timeout_keep_alive_task is None:
            self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _idle_since(self) -> float:
        """Return when the last answer ended, else when the connection began (loop time)."""
        if self.timeout_keep_alive_task is not None:
            return self.timeout_keep_alive_task.when() - KEEP_ALIVE_S
        return self._waiting.when() - HEADER_TIMEOUT_S if self._waiting else 0.0

    def _make_room(self) -> None:
        """Close one connection if there are too many; `choose_victim` chooses it."""
        is_tcp = self._is_tcp()
        open_connections = [
            c for c in self.connections if isinstance(c, _Connection) and c._is_tcp() == is_tcp
        ]
        open_connections = [c for c in open_connections if not c.transport.is_closing()]
        # before the limit is reached, because the scan of processes takes some time
        if len(open_connections) > PEER_LOOKUP_FROM:
            self._peer()
        if len(open_connections) > MAX_CONNECTIONS:
            slots = [c._slot() for c in open_connections]
            open_connections[choose_victim(slots, open_connections.index(self))].transport.abort()

    def _slot(self) -> Slot:
        has_token = not self._is_tcp() or bool(self.scope is not None and self.scope.get(HAS_TOKEN))
        return Slot(self._peer(), self._is_idle(), has_token, self._idle_since())

    def _peer(self) -> Hashable:
        """Return the client: its process, or its host."""
        if self._known_peer is None:
            s = self.transport.get_extra_info("socket")
            if self._is_tcp():
                return self.peers.peer_of(self.client or ("", 0))
            self._known_peer = peer_pid(getattr(s, "_sock", s))
        return self._known_peer

    def _is_tcp(self) -> bool:
        return bool(self.server) and self.server is not None and self.server[1] is not None
