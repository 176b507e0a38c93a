"""Serves a `FrontEnd` on bound sockets until told to stop. Uses hooks inside uvicorn: its version
is pinned.

bound = sockets.bind(...)                       # early: a second daemon is refused before anything
else starts front = app.FrontEnd(engine, TokenFile(path)) await serve.serve(front, bound,
started=..., stopping=event)
"""

import asyncio
import contextlib
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
from cocosearch_ipc.http.app import FrontEnd
from cocosearch_ipc.http.connection_slots import PeerFinder, Slot, choose_victim
from cocosearch_ipc.http.guard import HAS_TOKEN
from cocosearch_ipc.http.sockets import BACKLOG, BoundSockets, renewed
from cocosearch_ipc.protocol import Failure

log = logging.getLogger(__name__)

# uvicorn itself never times out a client that sends no or half a request.
HEADER_TIMEOUT_S = 15.0
# Longer than clients keep a connection that they do not use: httpx, by which Python's MCP clients
# speak, 5 s, as uvicorn does. Of requests that came within 12 ms of that, 7 % were sent on what was
# just being closed (measured).
KEEP_ALIVE_S = 75
# Each of the Unix socket and of TCP; both below the usual 1,024 descriptors, with room for the
# database pool and files. The connection that idles longest makes room.
MAX_CONNECTIONS = 256
LOOK_FROM = 128
MAX_BRIDGES = 64
ACCEPT_AGAIN_S = 1.0  # as asyncio does for the other listeners
# Between two looks at the files of the sockets, which others may clean away. A path that is gone
# makes no event for who listens on it. Shorter than anybody waits for `up`.
LOOK_S = 10.0
# A second on top of guard.DRAIN_S, for what does not listen to cancellation.
GRACE_S = 3


async def serve(
    front: FrontEnd,
    bound: BoundSockets,
    *,
    started: Callable[[], object],
    stopping: anyio.Event,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer until `stopping` is set, then drain within 3 s. Calls `started` once clients are
    served.

    `tls` is for the TCP listener. Does not touch signals. Closes `bound` at the end.
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
            server.leave()  # listeners close, idle connections too; requests in flight go on
            await front.drain()
            await server.ended.wait()
            group.cancel_scope.cancel()


class _Listening:
    """The Unix sockets of one server, of which the files may be cleaned away while it runs."""

    def __init__(
        self, front: FrontEnd, bound: BoundSockets, server: "_Server", group: anyio.abc.TaskGroup
    ) -> None:
        self.bound = bound
        self._front = front
        self._server = server
        self._group = group
        self._sessions = list[_BridgeSession]()
        self._looking = anyio.CancelScope()
        self._accepting = anyio.CancelScope()

    def leave(self) -> None:
        """Look no longer."""
        self._looking.cancel()

    def close(self) -> None:
        """Close the sockets of now, and remove their files."""
        self.bound.close()

    async def keep(self) -> None:
        """Accept on the sockets, and on new ones when a client would not find these any more."""
        await self._server.ready.wait()
        self._group.start_soon(self._bridges, self.bound.bridge, self._accepting)
        said = ""
        with self._looking:
            while True:
                try:
                    found = await anyio.to_thread.run_sync(renewed, self.bound)
                except (Failure, OSError) as error:
                    if str(error) != said:
                        log.error(
                            "sockets_gone",
                            extra={"error": str(error), "hint": getattr(error, "hint", "")},
                        )
                    said = str(error)
                else:
                    await self._move(found)
                await anyio.sleep(LOOK_S)

    async def _move(self, bound: BoundSockets) -> None:
        """Go on with other sockets. Who is connected stays."""
        former = self.bound
        self.bound = bound
        if bound is not former:
            log.warning("sockets_made_again", extra={"files": [str(path) for path in bound.files]})
        if bound.lock is not former.lock:
            former.lock.close()
        if bound.bridge is not former.bridge:
            self._accepting.cancel()
            self._accepting = anyio.CancelScope()
            self._group.start_soon(self._bridges, bound.bridge, self._accepting)
        if bound.rpc is not former.rpc:
            await self._server.move(bound.rpc)

    async def _bridges(self, listening: socket.socket, accepting: anyio.CancelScope) -> None:
        """Accept stdio bridges, at most `MAX_BRIDGES` at a time; more are turned away. What ends
        one ends no other.
        """
        listening.setblocking(False)
        listener = await anyio.abc.SocketListener.from_socket(listening)
        with accepting:
            async with listener:
                while True:
                    try:
                        stream = await listener.accept()
                    # no handles are left: it waits in the kernel's queue
                    except anyio.BrokenResourceError as error:
                        log.warning("bridge_not_accepted", extra={"reason": str(error.__cause__)})
                        await anyio.sleep(ACCEPT_AGAIN_S)
                    else:
                        self._group.start_soon(self._one, stream)

    async def _one(self, stream: anyio.abc.SocketStream) -> None:
        try:
            await self._bridge(stream)
        except Exception:
            log.exception("bridge_failed")

    async def _bridge(self, stream: anyio.abc.SocketStream) -> None:
        raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610 - not Django
        session = _BridgeSession(peer_pid(getattr(raw, "_sock", raw))) if _trusted(raw) else None
        if session is None or not self._has_room(session.peer):
            log.warning("bridge_refused", extra={"bridges": len(self._sessions)})
            await stream.aclose()
            return
        self._sessions.append(session)
        try:
            with session.scope:
                await self._front.bridge(stream)
        finally:
            self._sessions.remove(session)
            await anyio.aclose_forcefully(stream)

    def _has_room(self, peer: int) -> bool:
        """Whether a client may begin a session; of too many, the last one of the client that has
        most ends for it.
        """
        live = [session for session in self._sessions if not session.scope.cancel_called]
        if len(live) < MAX_BRIDGES:
            return True
        counts = Counter(session.peer for session in live)
        greedy, most = counts.most_common(1)[0]
        if counts[peer] + 1 >= most:
            return False
        log.warning("bridge_ended", extra={"pid": greedy, "bridges": most})
        next(session for session in reversed(live) if session.peer == greedy).scope.cancel()
        return True


@dataclass(slots=True, eq=False)
class _BridgeSession:
    """A session of a stdio bridge: the process that holds the other end."""

    peer: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


def _trusted(s: Any) -> bool:
    return peer_uid(getattr(s, "_sock", s)) in (os.geteuid(), 0)


class _Server(uvicorn.Server):
    """Leaves signals to the daemon, and says when it has started and ended."""

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
        """Sleep until `leave`. uvicorn's own loop wakes ten times a second, for a date header that
        nobody reads.
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
            self.servers.append(await self._listen(self._tcp, self._tls))
        self.ready.set()
        self._on_start()

    async def move(self, rpc: socket.socket) -> None:
        """Listen on another Unix socket in place of the one before."""
        former = self.servers[0]
        self.servers[0] = await self._listen(rpc, None)
        former.close()

    async def _listen(self, sock: socket.socket, secure: ssl.SSLContext | None) -> asyncio.Server:
        """As uvicorn does, which would speak TLS on all sockets or on none."""
        loop = asyncio.get_running_loop()

        def connected() -> asyncio.Protocol:
            return _Connection(
                peers=self._peers,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        patience_s = HEADER_TIMEOUT_S if secure else None
        return await loop.create_server(
            connected, sock=sock, ssl=secure, ssl_handshake_timeout=patience_s, backlog=BACKLOG
        )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self.ended.set()


class _Connection(H11Protocol):
    """An HTTP connection whose peer is of our user, that asks in time, and makes room when there
    are too many.
    """

    _refused = False
    _waiting: asyncio.TimerHandle | None = None
    _known_peer: Hashable = None

    def __init__(self, *, peers: PeerFinder, **options: Any) -> None:
        super().__init__(**options)
        self.peers = peers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        s = transport.get_extra_info("socket")
        if s.family == socket.AF_UNIX and not _trusted(s):
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
        """Half a request after others is waited for as long as a first one."""
        super().data_received(data)
        if (
            self._waiting is not None
            and self._is_idle()
            and self._waiting.when() < self.loop.time()
        ):
            self._waiting = self.loop.call_later(HEADER_TIMEOUT_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """One that has sent nothing, or half a request. What waits for its next one has another
        end: see above.
        """
        if self._is_idle() and self.timeout_keep_alive_task is None:
            self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _idle_since(self) -> float:
        """When its last answer ended, or else when it was made, by the loop's clock."""
        if self.timeout_keep_alive_task is not None:
            return self.timeout_keep_alive_task.when() - KEEP_ALIVE_S
        return self._waiting.when() - HEADER_TIMEOUT_S if self._waiting else 0.0

    def _make_room(self) -> None:
        """Of too many of its kind, end one: of a stranger, or of the client that has most."""
        mine = self._is_tcp()
        is_open = [
            c for c in self.connections if isinstance(c, _Connection) and c._is_tcp() == mine
        ]
        is_open = [c for c in is_open if not c.transport.is_closing()]
        if len(is_open) > LOOK_FROM:  # before it is full: processes are found while this goes on
            self._peer()
        if len(is_open) > MAX_CONNECTIONS:
            slots = [c._slot() for c in is_open]
            is_open[choose_victim(slots, is_open.index(self))].transport.abort()

    def _slot(self) -> Slot:
        has_token = not self._is_tcp() or bool(self.scope is not None and self.scope.get(HAS_TOKEN))
        return Slot(self._peer(), self._is_idle(), has_token, self._idle_since())

    def _peer(self) -> Hashable:
        """The client: its process, or its host."""
        if self._known_peer is None:
            s = self.transport.get_extra_info("socket")
            if self._is_tcp():
                return self.peers.peer_of(self.client or ("", 0))
            self._known_peer = peer_pid(getattr(s, "_sock", s))
        return self._known_peer

    def _is_tcp(self) -> bool:
        return bool(self.server) and self.server is not None and self.server[1] is not None
